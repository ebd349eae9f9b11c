//! The one-file disk and loop devices on this computer's kernel, as root.

#![allow(clippy::unwrap_used, reason = "a failure is the test's failure")]

mod disk;
mod handover;
mod power_cut;
#[path = "../support/mod.rs"]
mod support;
