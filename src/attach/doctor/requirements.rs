//! Programs and kernel features that drives need.

use super::Site;
use crate::api::{Action, Actions, Finding};
use holdall_helper::{TOOLS, find_tool};
use std::path::Path;

/// All of them, present or not.
pub(super) fn check(site: &Site) -> Vec<Finding> {
    let root = site.deputy.is_root();
    let mut findings: Vec<_> = TOOLS.iter().map(|&tool| self::tool(tool, root)).collect();
    let (fuse, loops) = (exists("/dev/fuse"), exists("/dev/loop-control"));
    let nbd = holdall_kernel::nbd::is_loaded() || is_loadable("nbd");
    findings.push(nbd_finding(nbd, fuse && loops));
    findings.push(feature("fuse", fuse, nbd, "/dev/fuse is missing: drives cannot be attached by loop."));
    findings.push(feature(
        "loop",
        loops,
        nbd,
        "/dev/loop-control is missing: drives cannot be attached by loop.",
    ));
    if fuse && !nbd && !fuse_is_open() {
        let detail = "You have no permission to open it: your drives cannot be attached by loop.";
        let action = Action::run_as_root(&["chmod", "666", "/dev/fuse"]);
        findings.push(Finding::new("/dev/fuse", false, detail, action));
    }
    findings.push(rights(root, site.deputy.has_helper()));
    findings
}

fn tool((tool, package, consequence): (&str, &str, &str), root: bool) -> Finding {
    let found = find_tool(tool);
    let ok = found.is_some() || root && tool == "fusermount3";
    let (detail, actions) = match &found {
        Some(path) => (path.display().to_string(), Actions::default()),
        None => (
            format!("{tool} is not installed: {consequence}."),
            Action::run_as_root(&["apt-get", "install", package]).into(),
        ),
    };
    Finding::new(tool, ok, detail, actions)
}

fn nbd_finding(nbd: bool, others: bool) -> Finding {
    let (detail, action) = match (nbd, others) {
        (true, _) => ("The kernel has nbd.", None),
        (false, true) => ("The kernel has no nbd: drives are attached by loop.", None),
        (false, false) => (
            "The kernel has neither nbd nor fuse and loop: no drive can be attached.",
            Some(Actions::from(INSTALL)),
        ),
    };
    Finding::new("nbd", nbd || others, detail, action.unwrap_or_default())
}

const INSTALL: &str = "Boot a kernel with CONFIG_BLK_DEV_NBD (Debian: apt-get install linux-image-amd64).";

fn feature(subject: &str, ok: bool, otherwise: bool, missing: &str) -> Finding {
    let (detail, actions) = match ok {
        true => (format!("The kernel has {subject}."), Actions::default()),
        false => (missing.to_owned(), Action::run_as_root(&["modprobe", subject]).into()),
    };
    Finding::new(subject, ok || otherwise, detail, actions)
}

/// Which program attaches and mounts drives.
fn rights(root: bool, helper: bool) -> Finding {
    let sudo = find_tool("sudo").is_some();
    let (detail, action): (_, Option<Actions>) = match (root, helper) {
        (true, _) => ("The background service runs as root, and attaches and mounts drives itself.", None),
        (false, true) => ("The helper on the system bus attaches and mounts drives.", None),
        (false, false) if sudo => {
            ("There is no helper on the system bus: sudo attaches and mounts drives.", None)
        }
        (false, false) => (
            "There is neither a helper on the system bus nor sudo: no drive can be attached.",
            Some("Install the package holdall (its helper needs a running dbus), or sudo.".into()),
        ),
    };
    Finding::new("rights", action.is_none(), detail, action.unwrap_or_default())
}

/// Where udev runs, everybody may open it.
fn fuse_is_open() -> bool {
    rustix::fs::access("/dev/fuse", rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok()
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// Whether modprobe would find it, built in or as a module.
fn is_loadable(module: &str) -> bool {
    let release = rustix::system::uname();
    let Ok(release) = release.release().to_str() else { return false };
    let directory = Path::new("/lib/modules").join(release);
    let name = format!("/{module}.ko");
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = std::fs::read_to_string(directory.join(list)).unwrap_or_default();
        text.lines().any(|line| line.split(':').next().is_some_and(|path| path.contains(&name)))
    })
}
