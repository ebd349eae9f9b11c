//! A simulated world to test the engine in: a disk that loses unsynced data, a store and a remote that lose answers, and random numbers
//! that replay from a seed. Time is tokio's paused clock.

pub mod contract;
pub mod disk;
pub mod remote;
pub mod store;
