//! How many files an ext4 is made for. Pure.
//!
//! The number of inodes is fixed when a file system is made, and grows only with it. On a small drive one inode for each 8 KiB is nearly
//! enough to fill it with files of 4 KiB each, and takes three per cent of it. On a large drive that would be tables of many gigabytes that
//! nobody fills. In between the density falls smoothly, so that no drive holds fewer files than a smaller one: ten times the size allows
//! five times the files, until at 1 TiB there is one inode for each 64 KiB.

/// How many bytes of a drive of this size get one inode.
pub(super) fn bytes_per_inode(size_bytes: u64) -> u64 {
    const DENSEST: f64 = 8192.0;
    const THINNEST: f64 = 65536.0;
    const DENSE_UP_TO: f64 = (1_u64 << 30) as f64;
    // Eight times as many bytes per inode at 1,024 times the size.
    const GROWTH: f64 = 0.3;
    let times = (size_bytes as f64 / DENSE_UP_TO).max(1.0);
    (DENSEST * times.powf(GROWTH)).clamp(DENSEST, THINNEST).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn drives_of_each_size_hold_enough_files() {
        for (size, least_files) in [
            (16 * MIB, 2_000),
            (100 * MIB, 12_000),
            (GIB, 131_000),
            (16 * GIB, 900_000),
            (63 * GIB, 2_300_000),
            (64 * GIB, 2_300_000),
            (100 * GIB, 3_200_000),
            (1024 * GIB, 16_700_000),
            (16 * 1024 * GIB, 268_000_000),
        ] {
            let files = size / bytes_per_inode(size);
            assert!(files >= least_files, "{size}: {files}");
        }
    }

    #[test]
    fn a_larger_drive_never_holds_fewer_files() {
        let mut size = 16 * MIB;
        let mut before = (0, 0);
        while size <= 16 * 1024 * GIB {
            let (per_inode, files) = (bytes_per_inode(size), size / bytes_per_inode(size));
            assert!(files >= before.1, "{size}: {files} after {}", before.1);
            // A drive that is one per cent larger has at most one per cent more bytes per inode.
            assert!(before.0 == 0 || per_inode <= before.0 + before.0 / 100 + 1, "{size}: {per_inode}");
            before = (per_inode, files);
            size += size / 100;
        }
    }

    #[test]
    fn inode_tables_stay_small() {
        const INODE_BYTES: u64 = 256;
        for size in [16 * MIB, GIB, 64 * GIB, 1024 * GIB, 16 * 1024 * GIB] {
            let tables = size / bytes_per_inode(size) * INODE_BYTES;
            assert!(tables * 100 <= size * 4, "{size}: {tables}");
        }
        assert_eq!(bytes_per_inode(1024 * GIB), 65536);
    }
}
