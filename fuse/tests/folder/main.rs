//! Folders on this computer's kernel, as root. Each test mounts a folder of its own, whose remote is a directory.

#![allow(clippy::unwrap_used, reason = "a failure is the test's failure")]

mod attributes;
mod bench;
mod changes;
#[path = "../support/child.rs"]
mod child;
mod directories;
mod files;
mod fsx;
mod maps;
mod outliving;
mod passing;
mod programs;
mod semantics;
mod unmounting;
