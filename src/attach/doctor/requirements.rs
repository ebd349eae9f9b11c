//! Programs and kernel features that drives need.

use super::Site;
use crate::api::Finding;
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
        findings.push(Finding {
            subject: "/dev/fuse".to_owned(),
            ok: false,
            detail: "You may not open it: your drives cannot be attached by loop.".to_owned(),
            action: Some("As root: chmod 666 /dev/fuse (udev does that where it runs).".to_owned()),
            repaired: false,
        });
    }
    findings.push(rights(root, site.deputy.has_helper()));
    findings
}

fn tool((tool, package, consequence): (&str, &str, &str), root: bool) -> Finding {
    let found = find_tool(tool);
    let ok = found.is_some() || root && tool == "fusermount3";
    Finding {
        subject: tool.to_owned(),
        ok,
        detail: match &found {
            Some(path) => path.display().to_string(),
            None => format!("{tool} is not installed: {consequence}."),
        },
        action: found.is_none().then(|| format!("apt-get install {package}")),
        repaired: false,
    }
}

fn nbd_finding(nbd: bool, others: bool) -> Finding {
    let (detail, action) = match (nbd, others) {
        (true, _) => ("The kernel has nbd.", None),
        (false, true) => ("The kernel has no nbd: drives are attached by loop.", None),
        (false, false) => {
            ("The kernel has neither nbd nor fuse and loop: no drive can be attached.", Some(INSTALL))
        }
    };
    let (subject, action) = ("nbd".to_owned(), action.map(str::to_owned));
    Finding { subject, ok: nbd || others, detail: detail.to_owned(), action, repaired: false }
}

const INSTALL: &str = "Boot a kernel with CONFIG_BLK_DEV_NBD (Debian: apt-get install linux-image-amd64).";

fn feature(subject: &str, ok: bool, otherwise: bool, missing: &str) -> Finding {
    Finding {
        subject: subject.to_owned(),
        ok: ok || otherwise,
        detail: if ok { format!("The kernel has {subject}.") } else { missing.to_owned() },
        action: (!ok).then(|| format!("modprobe {subject}")),
        repaired: false,
    }
}

/// By whom drives are attached and mounted.
fn rights(root: bool, helper: bool) -> Finding {
    let sudo = find_tool("sudo").is_some();
    let (detail, action) = match (root, helper) {
        (true, _) => ("This daemon is root's, and attaches and mounts drives itself.", None),
        (false, true) => ("The helper on the system bus attaches and mounts drives.", None),
        (false, false) if sudo => {
            ("There is no helper on the system bus: sudo attaches and mounts drives.", None)
        }
        (false, false) => (
            "There is neither the helper on the system bus nor sudo: no drive can be attached.",
            Some("Install the package holdall (its helper needs a running dbus), or sudo."),
        ),
    };
    Finding {
        subject: "rights".to_owned(),
        ok: action.is_none(),
        detail: detail.to_owned(),
        action: action.map(str::to_owned),
        repaired: false,
    }
}

/// Where udev runs, everybody may open it.
fn fuse_is_open() -> bool {
    rustix::fs::access("/dev/fuse", rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok()
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// Whether modprobe would find it, built in or not.
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
