//! The product under real trouble: power cuts, killed daemons, real work, stores and disks that fail. Each test is a computer or
//! two with the command line, the daemon that it starts, and a real ext4 on a real block device. Runs as root, with FUSE, loop
//! devices and User Mode Linux.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bench;
#[path = "../stores/bus.rs"]
mod bus;
#[path = "../support/guest.rs"]
mod guest;
#[path = "../support/own_fuse.rs"]
mod own_fuse;
#[path = "../support/programs.rs"]
mod programs;
#[path = "../support/writer.rs"]
mod writer;

mod api;
mod benchmarks;
mod collecting;
mod commits;
mod damage;
mod devices;
mod drive;
mod fight;
mod folder_pins;
mod folders;
mod guest_drive;
mod manual;
mod one_daemon;
mod ordinary_user;
mod outside;
mod place;
mod power_cut;
mod room;
mod service;
mod trouble;
mod user_space;
mod versions;
mod watched;
mod web;
mod web_listen;
mod work;
