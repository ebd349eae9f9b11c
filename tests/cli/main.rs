//! The command line against a daemon that only pretends: requests, words, exit codes, and how the daemon is started.

// clippy's permission for tests ends at functions that are no tests themselves.
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
