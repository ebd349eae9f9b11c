//! Watched directories: what reaches the other side, what survives, and what is held.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod held;
mod lives;
mod local;
mod planted;
mod rig;
mod rules;
mod servers;
