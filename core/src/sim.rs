//! A world for the engine to be tested in: a disk that loses what was not synced, a store that loses answers, and
//! random numbers that replay from a seed. Time is tokio's paused clock.

pub mod disk;
pub mod store;
