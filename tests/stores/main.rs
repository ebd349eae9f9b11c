//! Drives in stores that ask who one is: real servers, the product as a person uses it, and credentials that are wrong,
//! weak, revoked or locked away. Runs as root, with FUSE and loop devices.
//!
//! Whatever a test's commands, daemons and files say is searched for the secrets of the test at its end: the daemon
//! tells as much as it can (`HOLDALL_LOG=trace`).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../product/bench.rs"]
mod bench;
mod bus;
mod person;
#[path = "../product/place.rs"]
mod place;

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
