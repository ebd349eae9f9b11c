//! The client of Holdall's daemon, for the command line, the app, and a daemon that follows another one.
//!
//! `paths` says where the daemon's files and its socket are, `start` finds the daemon and starts it if none runs, and `request` sends it
//! one request of the API. What goes wrong before the daemon answers is a [`api::Failure`], like what goes wrong in the daemon; `failure`
//! has its words. `api` is what the two say to each other.

pub mod failure;
mod lines;
pub mod nearest;
pub mod paths;
pub mod request;
pub mod start;

pub use holdall_api as api;
