//! NBD for Holdall: the protocol's bytes ([`codec`]), the server that offers a [`BlockDevice`](holdall_core::device::BlockDevice) to the
//! kernel and to user-space clients ([`server`]), and a small client for tests and benches ([`client`]). `holdall-kernel` attaches the
//! kernel's own client.

// print! panics where it cannot write, for example to a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod client;
pub mod codec;
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;
