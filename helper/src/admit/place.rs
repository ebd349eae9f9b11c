//! On which file systems a drive may be mounted: on those that hold people's files.
//!
//! That a directory is its user's is not enough. The kernel's own file systems have directories of users too: of their
//! processes in proc, of the control groups that are delegated to them in cgroup, and whatever it will have next. Programs of root's
//! look for the kernel's word there, and would find what somebody has put on a drive. So it is a list of what is allowed, as fusermount3 has
//! one (CVE-2016-1572 is what there was without): what is not known is refused.
//!
//! Source of the numbers: include/uapi/linux/magic.h, and the file systems' own headers.

/// On a disk of this computer. Who owns a directory there is what was written there, with the right to.
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

/// In memory: /run/user, /tmp, a live system. /dev has this number too, and no directory of a user's but those in /dev/shm.
const MEMORY: [u32; 1] = [
    0x0102_1994, // tmpfs
];

/// Over one of the others: a container's root, a live system, an encrypted home directory. Only root puts one over something else.
const LAYERS: [u32; 3] = [
    0x794c_7630, // overlay
    0xf15f,      // ecryptfs
    0x6175_6673, // aufs
];

/// On a medium that was plugged in, where all is said to be its user's. Nobody but that user relies on what is there.
const MEDIA: [u32; 5] = [
    0x4d44,      // vfat
    0x2011_bab0, // exfat
    0x5346_544e, // ntfs
    0x7366_746e, // ntfs3
    0x482b,      // hfsplus
];

/// On a server, or the host of a virtual machine: home directories are. What a server says of owners is believed by whoever mounted it.
const SERVERS: [u32; 7] = [
    0x6969,      // nfs
    0xff53_4d42, // cifs
    0xfe53_4d42, // smb2
    0x00c3_6400, // ceph
    0x5346_414f, // afs
    0x0102_1997, // 9p
    0x0116_1970, // gfs2
];

/// Made by a program: mergerfs, GlusterFS, virtiofs, NTFS by ntfs-3g. It shows its own files and nothing of the kernel's. That of a user
/// answers root only where an administrator has allowed that (`user_allow_other`), and is refused before it comes to this.
const PROGRAMS: [u32; 1] = [
    0x6573_5546, // fuse
];

/// Whether a file system with this magic number is one of them.
pub(super) fn may_be_on(kind: u32) -> bool {
    let known: [&[u32]; 6] = [&DISKS, &MEMORY, &LAYERS, &MEDIA, &SERVERS, &PROGRAMS];
    known.iter().any(|kinds| kinds.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_their_files_there() {
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
    fn the_kernels_own_are_refused_and_so_is_what_nobody_knows() {
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
