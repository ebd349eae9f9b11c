//! Names as the kernel sends them, checked.

use fuser::INodeNo;
use holdall_core::folder::api::FolderError;
use holdall_core::folder::{Ino, Place};
use holdall_core::store::remote::{Name, NameError};
use std::ffi::OsStr;
use std::path::Path;

/// The prefix of the attributes that a folder keeps. Those of the system (`security.`, `system.`, `trusted.`) mean nothing at a remote.
const USER: &str = "user.";

/// The number of a file. The kernel knows only numbers that we gave it.
pub(super) fn ino(number: INodeNo) -> Result<Ino, FolderError> {
    u32::try_from(number.0).map(Ino).map_err(|_| FolderError::Stale)
}

/// A name in a directory.
pub(super) fn place(parent: INodeNo, name: &OsStr) -> Result<Place, FolderError> {
    let text = name.to_str().ok_or_else(|| FolderError::BadName("it is not UTF-8".into()))?;
    let name = Name::new(text).map_err(|error| match error {
        NameError::TooLong => FolderError::NameTooLong,
        NameError::Reserved => FolderError::BadName(error.to_string()),
    })?;
    Ok(Place::new(ino(parent)?, name))
}

/// The target of a link.
pub(super) fn target(path: &Path) -> Result<String, FolderError> {
    path.to_str().map(str::to_owned).ok_or_else(|| FolderError::BadName("it is not UTF-8".into()))
}

/// The name of an extended attribute. `None`: it is one that no folder keeps.
pub(super) fn attribute(name: &OsStr) -> Option<String> {
    name.to_str().filter(|name| name.starts_with(USER)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    const ROOT: INodeNo = INodeNo(1);

    #[test]
    fn names_that_no_remote_can_have_are_refused() {
        assert_eq!(place(ROOT, OsStr::new("ä b")).unwrap().name.as_str(), "ä b");
        assert!(matches!(place(ROOT, OsStr::from_bytes(b"\xff")), Err(FolderError::BadName(_))));
        let long = "x".repeat(256);
        assert_eq!(place(ROOT, OsStr::new(&long)), Err(FolderError::NameTooLong));
        assert!(place(ROOT, OsStr::new(&long[..255])).is_ok());
        assert_eq!(place(INodeNo(1 << 32), OsStr::new("a")), Err(FolderError::Stale));
    }

    #[test]
    fn only_attributes_of_users_are_a_folders() {
        assert_eq!(attribute(OsStr::new("user.a")), Some("user.a".into()));
        for other in ["security.capability", "system.posix_acl_access", "trusted.overlay", "user"] {
            assert_eq!(attribute(OsStr::new(other)), None, "{other}");
        }
    }
}
