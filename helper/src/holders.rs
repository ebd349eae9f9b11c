//! Finds who uses a mount, so that "in use" names the program to close.
//!
//! Nothing that a process holds is stat'ed, because it may lie on a mount that hangs. The `mnt_id` in fdinfo says which mount a descriptor
//! is on; for everything else the text of the link is compared.

use super::Refused;
use super::mountinfo::{self, Mount};
use super::procfs::{self, Process};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The most programs to name: after closing these, the user can ask again.
const HOLDERS_MAX: usize = 16;

/// Who uses a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// A process.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// The path it uses there.
        path: PathBuf,
    },
    /// Another mount below it.
    Mount {
        /// Its mount point.
        path: PathBuf,
    },
}

/// Who uses what is mounted at `point`, as far as this process may see. Nobody, if nothing is mounted there.
pub fn at(point: &Path) -> Result<Vec<Holder>, Refused> {
    let mounts = mountinfo::read()?;
    Ok(mountinfo::at(&mounts, point).map(|mount| of(mount, &mounts)).unwrap_or_default())
}

/// Who uses `mount`, as far as this process may see; root sees everything.
pub(super) fn of(mount: &Mount, mounts: &[Mount]) -> Vec<Holder> {
    let below = mounts.iter().filter(|other| other.id != mount.id && other.point.starts_with(&mount.point));
    let mut holders: Vec<_> = below.map(|other| Holder::Mount { path: other.point.clone() }).collect();
    let others = procfs::processes().filter(|(pid, _)| *pid != std::process::id());
    let found = others.filter_map(|(pid, process)| {
        let path = held(&process, mount)?;
        let name = process.read("comm").unwrap_or_default();
        Some(Holder::Process { pid, name: String::from_utf8_lossy(&name).trim_end().to_owned(), path })
    });
    holders.extend(found.take(HOLDERS_MAX));
    holders
}

/// Some path of `mount` that a process holds.
fn held(process: &Process, mount: &Mount) -> Option<PathBuf> {
    let on_mount = |path: &PathBuf| path.starts_with(&mount.point);
    let links = ["cwd", "root", "exe"].iter().filter_map(|link| process.link(link).ok());
    // If our file system were mounted at /, everyone's root directory would be on it; it never is.
    links.into_iter().find(on_mount).or_else(|| open_file(process, mount)).or_else(|| mapped(process, mount))
}

fn open_file(process: &Process, mount: &Mount) -> Option<PathBuf> {
    process.names("fdinfo").ok()?.iter().find_map(|name| {
        let facts = process.read(Path::new("fdinfo").join(name)).ok()?;
        if mountinfo::id_in(&facts) != Some(mount.id) {
            return None;
        }
        process.link(Path::new("fd").join(name)).ok()
    })
}

/// A line of maps is: addresses, rights, offset, device in hexadecimal, inode, path.
fn mapped(process: &Process, mount: &Mount) -> Option<PathBuf> {
    let number = format!("{:02x}:{:02x}", mount.number.major, mount.number.minor);
    let maps = process.read("maps").ok()?;
    String::from_utf8_lossy(&maps).lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ');
        (fields.nth(3)? == number).then(|| fields.nth(1).map(|path| PathBuf::from(path.trim_start())))?
    })
}

/// The holders, as the end of a sentence.
pub(super) fn list(holders: &[Holder]) -> String {
    let names: Vec<_> = holders
        .iter()
        .map(|holder| match holder {
            Holder::Process { pid, name, path } => format!("{name} (process {pid}: {})", path.display()),
            Holder::Mount { path } => format!("what is mounted at {}", path.display()),
        })
        .collect();
    if names.is_empty() { String::new() } else { format!(" by {}", names.join(", ")) }
}
