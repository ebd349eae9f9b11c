//! The engine on a simulated disk and store, one situation at a time. Each module tests one part of its promises.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bench;
mod collecting;
mod diverged;
mod drives;
mod faults;
mod fixtures;
mod folder_copy;
mod forks;
mod formats;
mod handover;
mod heads;
mod immutable;
mod journal;
mod liar;
mod migration;
mod mounted;
mod paused;
mod pins;
mod probe;
mod purity;
mod recovery;
mod replicas;
mod requests;
mod room;
mod rot;
mod stubborn;
mod survey;
mod threads;
mod trouble;
