//! How much memory a walk may use, and how many blocks it may have pulled.

/// The limits of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks of metadata: the most that a wrong guess can have pulled.
    pub metadata_blocks: u64,
    /// Runs of metadata that inodes have (about 90 bytes each), and nodes of trees (about 110).
    pub metadata_runs: usize,
    /// Runs of regular files to keep (about 90 bytes each, and 55 for each file). Beyond this the runs of the smallest files are dropped.
    pub file_runs: usize,
}

impl Default for Limits {
    /// 16 GiB of metadata, and at most about 125 MB of memory besides the groups; 7 MB with 50,000 files of one run each.
    fn default() -> Self {
        Self { metadata_blocks: 1 << 22, metadata_runs: 1 << 19, file_runs: 1 << 18 }
    }
}
