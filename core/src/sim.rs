//! A simulated world to test the engine in: a disk that loses unsynced data, a store that loses answers, and random numbers
//! that replay from a seed. Time is tokio's paused clock.

pub mod disk;
pub mod store;
