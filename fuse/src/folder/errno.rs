//! Which errno a program gets for what a folder says: the one table.

use fuser::Errno;
use holdall_core::folder::api::FolderError;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub Errno);

impl From<FolderError> for Refused {
    fn from(error: FolderError) -> Self {
        match &error {
            // The errno alone says too little to whoever looks for the cause.
            FolderError::Unavailable(_) | FolderError::Local(_) => {
                tracing::debug!(%error, "a request failed")
            }
            _ => {}
        }
        Refused(of(&error))
    }
}

/// Why a request about a number is refused. A number without a name is stale: the remote has another file under the name by now, and the
/// kernel looks the path up again. ENOENT would say that the path leads nowhere.
pub(super) fn of_number(error: FolderError) -> Refused {
    match error {
        FolderError::NotFound => Refused(Errno::ESTALE),
        error => error.into(),
    }
}

/// The errno of an error.
pub(super) fn of(error: &FolderError) -> Errno {
    match error {
        FolderError::NotFound => Errno::ENOENT,
        FolderError::Exists => Errno::EEXIST,
        FolderError::NotDirectory => Errno::ENOTDIR,
        FolderError::IsDirectory => Errno::EISDIR,
        FolderError::NotEmpty => Errno::ENOTEMPTY,
        FolderError::Stale => Errno::ESTALE,
        FolderError::ReadOnly(_) => Errno::EROFS,
        FolderError::Forbidden(_) => Errno::EACCES,
        FolderError::Locked => Errno::EBUSY,
        FolderError::NoSpace => Errno::ENOSPC,
        FolderError::OverQuota => Errno::EDQUOT,
        FolderError::TooLarge => Errno::EFBIG,
        FolderError::BadName(_) => Errno::EINVAL,
        FolderError::NameTooLong => Errno::ENAMETOOLONG,
        FolderError::Invalid(_) => Errno::EINVAL,
        FolderError::Unsupported(_) => Errno::EOPNOTSUPP,
        FolderError::NoAttribute => Errno::NO_XATTR,
        // What setxattr(2) names for "not enough space for the extended attribute".
        FolderError::AttributeTooLong => Errno::ENOSPC,
        FolderError::BadHandle => Errno::EBADF,
        FolderError::Unavailable(_) => Errno::EIO,
        FolderError::Closed => Errno::ENOTCONN,
        FolderError::Local(_) => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_errno_that_the_manual_names() {
        let text = || "why".to_owned();
        let rows = [
            (FolderError::NotFound, libc::ENOENT),
            (FolderError::Exists, libc::EEXIST),
            (FolderError::NotDirectory, libc::ENOTDIR),
            (FolderError::IsDirectory, libc::EISDIR),
            (FolderError::NotEmpty, libc::ENOTEMPTY),
            (FolderError::Stale, libc::ESTALE),
            (FolderError::ReadOnly(text()), libc::EROFS),
            (FolderError::Forbidden(text()), libc::EACCES),
            (FolderError::Locked, libc::EBUSY),
            (FolderError::NoSpace, libc::ENOSPC),
            (FolderError::OverQuota, libc::EDQUOT),
            (FolderError::TooLarge, libc::EFBIG),
            (FolderError::BadName(text()), libc::EINVAL),
            (FolderError::NameTooLong, libc::ENAMETOOLONG),
            (FolderError::Invalid("why"), libc::EINVAL),
            (FolderError::Unsupported("why"), libc::EOPNOTSUPP),
            (FolderError::NoAttribute, libc::ENODATA),
            (FolderError::AttributeTooLong, libc::ENOSPC),
            (FolderError::BadHandle, libc::EBADF),
            (FolderError::Unavailable(text()), libc::EIO),
            (FolderError::Closed, libc::ENOTCONN),
            (FolderError::Local(text()), libc::EIO),
        ];
        for (error, errno) in rows {
            assert_eq!(of(&error).code(), errno, "{error:?}");
        }
    }
}
