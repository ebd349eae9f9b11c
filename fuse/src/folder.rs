//! A folder as a mounted file system: the kernel's requests, translated one to one to calls of an open [`Folder`].
//!
//! One read, from the kernel to the folder and back: one of fuser's threads takes a request from /dev/fuse and calls `adapter`, which moves
//! the reply into a task; the task calls the folder and answers. Nothing here decides: `errno` is the one table of errors, `attributes` and
//! `names` translate, `ops` joins the few operations that are more than one call.
//!
//! **Files that are wholly here cost no request.** Where the folder says so, an open is answered by passthrough: the kernel reads and writes
//! the local file by itself (`passthrough`, `backing_ids`). That takes a registration, which only root may make ([`registrar`]).
//!
//! **Nothing waits where it holds up others.** fuser's threads hand over and read on. What the kernel should forget is told to it by a
//! thread that nobody waits for (`invalidate`). Mounts are looked at by /proc/thread-self/mountinfo, never by a path below them.

mod adapter;
mod attributes;
mod backing_ids;
mod device;
mod errno;
mod invalidate;
mod mounted;
mod names;
mod negotiate;
mod ops;
mod passthrough;
pub mod registrar;
mod replies;
mod session;
mod shared;

pub use mounted::{Mounted, Options, Unmounting, mount, resume};
pub use negotiate::Agreed;
pub use registrar::{InProcess, Registrar};
pub use shared::Counters;

#[cfg(doc)]
use holdall_core::folder::Folder;
