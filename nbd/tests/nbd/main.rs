//! The server and the clients: against each other, against common programs, and with the kernel's own client.

#![allow(clippy::unwrap_used, reason = "a test's failure is a panic")]

mod hostile;
mod kernel;
mod peers;
mod server;
mod support;
mod verbs;
