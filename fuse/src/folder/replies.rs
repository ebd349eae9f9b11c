//! One way to refuse every kind of request.

use fuser::Errno;

/// A reply that can be an error.
pub(super) trait Refusable: Send + 'static {
    /// Answers with an error.
    fn refuse(self, errno: Errno);
}

macro_rules! refusable {
    ($($reply:ident),+) => {$(
        impl Refusable for fuser::$reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        }
    )+};
}

refusable!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);
