//! NBD for Holdall: the protocol's bytes ([`codec`]), the server that brings a
//! [`BlockDevice`](holdall_core::device::BlockDevice) to the kernel and to user-space clients ([`server`]), a small
//! client for tests and benches ([`client`]), and the kernel's own client, attached by netlink ([`kernel`]).

pub mod client;
pub mod codec;
pub mod kernel;
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;
