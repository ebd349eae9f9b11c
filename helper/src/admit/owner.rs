//! Decides whose a block device is from what the kernel has said.

use crate::mountinfo::{self, FuseUser, Mount};
use crate::{Identifier, Proof};
use holdall_kernel::DISK_FILE_NAME;
use holdall_kernel::DISK_FS_TYPE;
use std::path::Path;

/// The user who owns the nbd device with this identifier, if it is one of ours.
pub(super) fn user_of(identifier: &str) -> Option<u32> {
    identifier.parse().ok().map(|identifier: Identifier| identifier.user)
}

/// The mount of the one-file disk whose file is `backing`, and who mounted it.
pub(super) fn disk<'a>(backing: &Path, mounts: &'a [Mount]) -> Option<(&'a Mount, FuseUser)> {
    let directory = backing.parent().filter(|_| backing.ends_with(DISK_FILE_NAME))?;
    let mount = mountinfo::at(mounts, directory).filter(|mount| mount.fs_type == DISK_FS_TYPE)?;
    Some((mount, mount.fuse_user?))
}

/// The user who owns a device, if anybody does.
pub(super) fn owner(proof: &Proof, mounts: &[Mount]) -> Option<u32> {
    match proof {
        Proof::Identifier(identifier) => user_of(identifier),
        Proof::Backing(backing) => disk(backing, mounts).map(|(_, mounter)| mounter.uid),
        // Only its mount said whose it was.
        Proof::Unmounted(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceNumber;

    fn mount(point: &str, fs_type: &str, uid: Option<u32>) -> Mount {
        Mount {
            id: 1,
            number: DeviceNumber { major: 0, minor: 50 },
            point: point.into(),
            fs_type: fs_type.into(),
            fuse_user: uid.map(|uid| FuseUser { uid, gid: uid }),
        }
    }

    fn owner(backing: &str, mounts: &[Mount]) -> Option<u32> {
        super::owner(&Proof::Backing(backing.into()), mounts)
    }

    #[test]
    fn a_disk_belongs_to_the_user_who_mounted_it() {
        let mounts =
            [mount("/", "ext4", None), mount("/run/user/1000/holdall/disks/a", "fuse.holdall", Some(1000))];
        assert_eq!(owner("/run/user/1000/holdall/disks/a/disk", &mounts), Some(1000));
        for other in [
            "/run/user/1000/holdall/disks/a/other",
            "/run/user/1000/holdall/disks/a/b/disk",
            "/run/user/1000/holdall/disks/b/disk",
            "/disk",
            "disk",
            "",
        ] {
            assert_eq!(owner(other, &mounts), None, "{other}");
        }
    }

    #[test]
    fn other_and_covered_mounts_prove_nothing() {
        assert_eq!(owner("/a/disk", &[mount("/a", "fuse.sshfs", Some(1000))]), None);
        assert_eq!(owner("/a/disk", &[mount("/a", "ext4", None)]), None);
        // The last mount is the one that is seen there.
        let covered = [mount("/a", "fuse.holdall", Some(1000)), mount("/a", "fuse.holdall", Some(1001))];
        assert_eq!(owner("/a/disk", &covered), Some(1001));
        let covered = [mount("/a", "fuse.holdall", Some(1000)), mount("/a", "tmpfs", None)];
        assert_eq!(owner("/a/disk", &covered), None);
    }

    #[test]
    fn an_nbd_device_belongs_to_the_user_in_its_identifier() {
        let nbd = |identifier: String| super::owner(&Proof::Identifier(identifier), &[]);
        assert_eq!(nbd(Identifier { drive: uuid::Uuid::from_u128(1), user: 1000 }.to_string()), Some(1000));
        assert_eq!(nbd("another program's".into()), None);
    }
}
