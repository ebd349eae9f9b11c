//! A drive from a device to a mounted file system and back: with loop devices on this computer's kernel, and with nbd in User
//! Mode Linux. Runs as root.

#![allow(clippy::unwrap_used, reason = "a failure is the test's failure")]

mod bench;
mod crash;
mod drive;
#[path = "../support/guest.rs"]
mod guest;
mod guest_kernel;
mod systemd;
#[path = "../support/writer.rs"]
mod writer;
