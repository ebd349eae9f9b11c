//! Kinds of file systems, and whether locks there reach every computer. Pure.
//!
//! On a local file system, flock and rename exclude every other process. On a network file system they may be local to the client (sshfs,
//! NFS with `nolock`, CIFS with `nobrl`), and a client may read an object from a cache (CIFS, a second old under a lock). So only the file
//! systems named here are trusted; all others, FUSE included, use claims instead.

/// Magic numbers of local file systems (linux/magic.h, and the file systems' own sources).
const LOCAL: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683e, "Btrfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0xca45_1a4e, "bcachefs"),
    (0xf2f5_2010, "F2FS"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x4d44, "FAT"),
    (0x2011_bab0, "exFAT"),
    (0x7366_746e, "NTFS"),
    (0x3153_464a, "JFS"),
    (0x3434, "NILFS2"),
    (0x482b, "HFS+"),
    (0x1501_3346, "UDF"),
    (0x794c_7630, "overlayfs"),
];

/// Magic numbers of file systems that other computers may change.
const SHARED: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];

/// Whether only this computer changes a file system with this magic number.
pub fn is_local(magic: u64) -> bool {
    LOCAL.iter().any(|(known, _)| *known == magic)
}

/// The file system's name, for people.
pub fn name(magic: u64) -> &'static str {
    let known = LOCAL.iter().chain(SHARED).find(|(known, _)| *known == magic);
    known.map_or("an unknown file system", |(_, name)| name)
}

/// The tool that keeps a directory in sync with other computers, if `name` is one of the files that such tools leave there.
pub fn sync_tool(name: &str) -> Option<&'static str> {
    let is_database = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(".db"));
    match name {
        ".stfolder" | ".stignore" => Some("Syncthing"),
        ".dropbox" | ".dropbox.cache" => Some("Dropbox"),
        ".owncloudsync.log" => Some("ownCloud"),
        ".nextcloudsync.log" => Some("Nextcloud"),
        _ if is_database(".sync_") || is_database("._sync_") => Some("Nextcloud or ownCloud"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_local_file_systems_are_trusted() {
        for (magic, name) in [(0xef53, "ext4"), (0x0102_1994, "tmpfs"), (0x5846_5342, "XFS")] {
            assert!(is_local(magic), "{name}");
            assert_eq!(super::name(magic), name);
        }
        for (magic, name) in [(0x6969, "NFS"), (0x6573_5546, "FUSE"), (1, "an unknown file system")] {
            assert!(!is_local(magic), "{name}");
            assert_eq!(super::name(magic), name);
        }
        assert!(SHARED.iter().all(|(magic, _)| !is_local(*magic)));
    }

    #[test]
    fn sync_tools_are_known_by_what_they_leave() {
        for (name, tool) in [
            (".stfolder", Some("Syncthing")),
            (".stignore", Some("Syncthing")),
            (".dropbox.cache", Some("Dropbox")),
            (".sync_0a1b.db", Some("Nextcloud or ownCloud")),
            ("._sync_0a1b.db", Some("Nextcloud or ownCloud")),
            (".nextcloudsync.log", Some("Nextcloud")),
            ("sync.db", None),
            (".sync_0a1b.db-wal", None),
            (".stfolder2", None),
            ("notes.json", None),
        ] {
            assert_eq!(sync_tool(name), tool, "{name}");
        }
    }
}
