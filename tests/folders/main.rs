//! Folders on the servers that people have, under programs and suites that others wrote. Each test is a computer with the command line, the
//! daemon that it starts and a FUSE mount. Runs as root, with FUSE.

#![allow(clippy::unwrap_used, reason = "a failure is the test's failure")]

#[path = "../product/bench.rs"]
mod bench;
#[path = "../support/own_fuse.rs"]
mod own_fuse;
mod pjdfstest;
mod place;
#[path = "../support/programs.rs"]
mod programs;
mod programs_on_it;
mod random;
