//! What of Holdall is a FUSE file system: a [`folder`], and a drive as one file with a loop device over it, which is how a drive is attached
//! where the kernel has no nbd.
//!
//! One read of a drive, from the kernel to the engine and back: a reader thread of [`onefile`] takes a request from /dev/fuse, [`wire`] decodes it,
//! and the session's `serve` turns it into one call of a `BlockDevice` and the result into one reply. [`mount`] and the loop device
//! ([`holdall_kernel::loopdev`]) surround that path: they run once per attach, and in another process where they need privileges.
//! [`handover`] and [`keeper`] carry a mounted disk from one daemon to the next.

// print! panics where it cannot write, for example to a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod folder;
pub mod handover;
pub mod keeper;
pub mod mount;
pub mod onefile;
pub mod volatile;
pub mod wire;
