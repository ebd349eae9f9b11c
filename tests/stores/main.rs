//! Drives in stores with a sign-in: real servers, the product as a person uses it, and credentials that are wrong, weak, revoked
//! or locked away. Runs as root, with FUSE and loop devices.
//!
//! At the end of a test, all output of its commands, daemons and files is searched for the test's secrets. The daemon logs as
//! much as it can (`HOLDALL_LOG=trace`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../product/bench.rs"]
mod bench;
mod bus;
mod person;
#[path = "../product/place.rs"]
mod place;
#[path = "../support/programs.rs"]
mod programs;

mod awake;
mod away;
mod cost;
mod doctor;
mod everywhere;
mod keyring;
mod lies;
mod limits;
mod networks;
mod pins;
mod proxies;
mod refusals;
mod replicas;
mod requests;
mod restored;
mod s3;
mod shared;
mod ways_in;
mod webdav;
