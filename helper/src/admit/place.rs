//! The file systems on which a drive may be mounted: those that hold people's files.
//!
//! It is not enough that the user owns the directory. The kernel's own file systems have directories of users too: those of their processes
//! in proc, of the control groups delegated to them in cgroup, and of whatever the kernel adds next. Programs of root's look for the
//! kernel's word there, and would find what somebody has put on a drive. So this is a list of what is allowed, like fusermount3's
//! (CVE-2016-1572 is what happened without one): an unknown file system is refused.
//!
//! Source of the numbers: include/uapi/linux/magic.h, and the file systems' own headers.

/// On a disk of this computer. The owner of a directory there was written by somebody who had the right to.
const DISKS: [u32; 11] = [
    0xef53,      // ext2, ext3, ext4
    0x9123_683e, // btrfs
    0x5846_5342, // xfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x3153_464a, // jfs
    0x3434,      // nilfs2
    0x5265_4973, // reiserfs
    0x2405_1905, // ubifs
    0x7461_636f, // ocfs2
];

/// In memory: /run/user, /tmp, a live system. /dev has this number too, but users own directories only below /dev/shm.
const MEMORY: [u32; 1] = [
    0x0102_1994, // tmpfs
];

/// Over one of the others: a container's root, a live system, an encrypted home directory. Only root can put one over something else.
const LAYERS: [u32; 3] = [
    0x794c_7630, // overlay
    0xf15f,      // ecryptfs
    0x6175_6673, // aufs
];

/// On a removable medium, where every file counts as its user's. Nobody but that user relies on what is there.
const MEDIA: [u32; 5] = [
    0x4d44,      // vfat
    0x2011_bab0, // exfat
    0x5346_544e, // ntfs
    0x7366_746e, // ntfs3
    0x482b,      // hfsplus
];

/// On a server, or on the host of a virtual machine, as home directories are. Root mounted it, and so trusts what the server says about
/// owners.
const SERVERS: [u32; 7] = [
    0x6969,      // nfs
    0xff53_4d42, // cifs
    0xfe53_4d42, // smb2
    0x00c3_6400, // ceph
    0x5346_414f, // afs
    0x0102_1997, // 9p
    0x0116_1970, // gfs2
];

/// Made by a program: mergerfs, GlusterFS, virtiofs, NTFS by ntfs-3g. It shows its own files and nothing of the kernel's. A user's own
/// answers root only where an administrator has allowed that (`user_allow_other`); otherwise it is refused before this check.
const PROGRAMS: [u32; 1] = [
    0x6573_5546, // fuse
];

/// Whether a drive may be on a file system with this magic number.
pub(super) fn may_be_on(kind: u32) -> bool {
    let known: [&[u32]; 6] = [&DISKS, &MEMORY, &LAYERS, &MEDIA, &SERVERS, &PROGRAMS];
    known.iter().any(|kinds| kinds.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_for_files_are_allowed() {
        for kind in [
            libc::EXT4_SUPER_MAGIC as u32,
            libc::BTRFS_SUPER_MAGIC as u32,
            libc::XFS_SUPER_MAGIC as u32,
            libc::F2FS_SUPER_MAGIC as u32,
            libc::TMPFS_MAGIC as u32,
            libc::OVERLAYFS_SUPER_MAGIC as u32,
            libc::ECRYPTFS_SUPER_MAGIC as u32,
            libc::MSDOS_SUPER_MAGIC as u32,
            libc::NFS_SUPER_MAGIC as u32,
            libc::FUSE_SUPER_MAGIC as u32,
        ] {
            assert!(may_be_on(kind), "{kind:#x}");
        }
    }

    #[test]
    fn kernel_and_unknown_file_systems_are_refused() {
        for kind in [
            libc::PROC_SUPER_MAGIC as u32,
            libc::SYSFS_MAGIC as u32,
            libc::CGROUP_SUPER_MAGIC as u32,
            libc::CGROUP2_SUPER_MAGIC as u32,
            libc::DEVPTS_SUPER_MAGIC as u32,
            libc::DEBUGFS_MAGIC as u32,
            libc::TRACEFS_MAGIC as u32,
            libc::SECURITYFS_MAGIC as u32,
            libc::BPF_FS_MAGIC as u32,
            libc::NSFS_MAGIC as u32,
            libc::HUGETLBFS_MAGIC as u32,
            libc::SELINUX_MAGIC as u32,
            0x1980_0202, // mqueue
            0x6265_6570, // configfs
            0x4249_4e4d, // binfmt_misc
            0x8584_58f6, // ramfs
            0,
        ] {
            assert!(!may_be_on(kind), "{kind:#x}");
        }
    }
}
