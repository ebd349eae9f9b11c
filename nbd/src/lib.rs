//! NBD for Holdall: the protocol's bytes ([`codec`]), the server that brings a
//! [`BlockDevice`](holdall_core::device::BlockDevice) to the kernel and to user-space clients ([`server`]), and a
//! small client for tests and benches ([`client`]). The kernel's own client is attached by `holdall-kernel`.

// They panic where nobody can be told, such as a log on a disk that is full.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod client;
pub mod codec;
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;
