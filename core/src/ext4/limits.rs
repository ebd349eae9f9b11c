//! How much memory a walk may hold, and how much it may have pulled.

/// How much is taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks of metadata; what a wrong guess can have pulled at most.
    pub metadata_blocks: u64,
    /// Runs of metadata that inodes have (about 90 bytes each) and nodes of trees (about 110).
    pub metadata_runs: usize,
    /// Runs of regular files that are kept (about 90 bytes each, and 55 for each file). Beyond, the smallest files' go.
    pub file_runs: usize,
}

impl Default for Limits {
    /// 16 GiB of metadata, and at most about 100 MB of memory; 6 MB with 50,000 files of one run each.
    fn default() -> Self {
        Self { metadata_blocks: 1 << 22, metadata_runs: 1 << 19, file_runs: 1 << 18 }
    }
}
