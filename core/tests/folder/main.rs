//! Open folders: what programs see, what reaches the remote, and what survives.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod consistency;
mod durability;
mod held;
mod lives;
mod operations;
mod outbox;
mod overlays;
mod planted;
mod rig;
mod unanswered;
