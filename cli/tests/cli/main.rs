//! The command line against a fake daemon: requests, words, exit codes, and how the daemon is started.

// clippy's permission for tests does not cover functions that are not tests.
#![allow(clippy::unwrap_used)]

mod events;
mod failures;
mod fake;
mod interrupted;
mod pins;
mod place;
mod progress;
mod pty;
mod requests;
mod samples;
mod secrets;
mod shells;
mod start;
mod stores;
mod take_over;
mod words;
