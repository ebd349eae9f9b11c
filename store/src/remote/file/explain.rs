//! What an I/O error on a path means.

use super::Tree;
use crate::StoreError;
use crate::remote::{RemoteError, RemotePath};
use rustix::io::Errno;
use std::io::{self, ErrorKind};

impl Tree {
    /// The meaning of an error on `path`. Every call begins with the right root, and works beneath its descriptor. So what is not found is
    /// not there, unless the root has gone since.
    pub(super) fn explain(&self, path: &RemotePath, error: io::Error) -> RemoteError {
        let (at, reason) = (path.clone(), error.to_string());
        let store_reason = || format!("{}: {error}", self.path.display());
        let errno = match (Errno::from_io_error(&error), error.kind()) {
            (Some(errno), _) => errno,
            // Said by this program, and not by the kernel.
            (None, ErrorKind::NotFound) => Errno::NOENT,
            (None, ErrorKind::AlreadyExists) => Errno::EXIST,
            (None, ErrorKind::Unsupported) => Errno::NOTSUP,
            (None, _) => return StoreError::Unreachable { reason: store_reason() }.into(),
        };
        match errno {
            // A link or a file where a directory was: nothing lies below it.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => match self.root() {
                Ok(_) => RemoteError::NotFound(at),
                Err(gone) => gone.into(),
            },
            Errno::EXIST | Errno::ISDIR => RemoteError::Changed(at),
            Errno::NOTEMPTY => RemoteError::NotEmpty(at),
            Errno::ACCESS | Errno::PERM => RemoteError::Forbidden { path: at, reason },
            Errno::BUSY | Errno::TXTBSY => RemoteError::Locked { path: at, by: None },
            Errno::FBIG => RemoteError::TooLarge(at),
            Errno::NAMETOOLONG | Errno::ILSEQ | Errno::INVAL => RemoteError::BadName { path: at, reason },
            Errno::XDEV => RemoteError::Unsupported("move files between two file systems"),
            Errno::NOTSUP | Errno::NOSYS => RemoteError::Unsupported("do this in its file system"),
            Errno::NOSPC | Errno::DQUOT => StoreError::Full { reason: store_reason() }.into(),
            Errno::ROFS => StoreError::Denied { reason: store_reason() }.into(),
            _ => StoreError::Unreachable { reason: store_reason() }.into(),
        }
    }
}
