//! Real stores for tests and benches: servers that are started, and proxies in front of them.
//!
//! Each ends when its value is dropped. If a program is missing, starting panics and says what to install.
#![allow(clippy::unwrap_used)]

mod acceptor;
pub mod connect;
pub mod dav;
pub mod delay;
pub mod fake;
pub mod faults;
pub mod names;
pub mod odd_dav;
pub mod odd_directory;
pub mod odd_s3;
pub mod process;
pub mod s3;
pub mod secrets;
mod signing;
pub mod temporary;
pub mod tls;
pub mod unconditional;
