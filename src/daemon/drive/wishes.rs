//! Opening a drive that is already open. A request for the same is answered with what is there, and nothing changes; any other request is
//! refused, because an open drive cannot be moved or switched to another version under the programs that use it.

use super::Drive;
use super::open::asked_place;
use super::opened::{OpenDrive, Place};
use crate::api::{self, Action, AttachMode, Failure};
use crate::daemon::failure;
use holdall_helper::mountinfo;
use std::path::Path;

/// The version of a drive that a request wants open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The current version, to write. If it cannot be written, it may be open to look at.
    Current,
    /// The current version, to look at.
    Look,
    /// A snapshot, to look at.
    Snapshot(String),
}

impl Shows {
    /// The version that a request wants.
    pub(super) fn asked(request: &api::Open) -> Self {
        match (&request.snapshot, request.read_only) {
            (Some(label), _) => Self::Snapshot(label.clone()),
            (None, true) => Self::Look,
            (None, false) => Self::Current,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Current => "for writing".to_owned(),
            Self::Look => "read-only".to_owned(),
            Self::Snapshot(label) => format!("at the snapshot \u{201c}{label}\u{201d}"),
        }
    }
}

/// How a drive is open, or is asked to be.
struct Wishes<'a> {
    shows: &'a Shows,
    attach: AttachMode,
}

/// Why the open drive does not satisfy the request, as the rest of a sentence about the drive; `None` if it does.
fn differs(there: &Wishes<'_>, asked: &Wishes<'_>) -> Option<String> {
    if there.shows != asked.shows {
        return Some(format!("is open {}, not {}", there.shows.words(), asked.shows.words()));
    }
    let is_any = asked.attach == AttachMode::Auto;
    (!is_any && there.attach != asked.attach)
        .then(|| format!("is attached by {}, not by {}", how(there.attach), how(asked.attach)))
}

fn how(attach: AttachMode) -> &'static str {
    match attach {
        AttachMode::Auto => "auto",
        AttachMode::Nbd => "nbd",
        AttachMode::Loop => "loop",
    }
}

/// The command that opens a drive as the request asks.
fn command(name: &str, request: &api::Open) -> Action {
    let mut argv = vec!["holdall", "drive", "open", name];
    if let Some(at) = &request.at {
        argv.extend(["--at", at]);
    }
    if request.attach != AttachMode::Auto {
        argv.extend(["--attach", how(request.attach)]);
    }
    if let Some(label) = &request.snapshot {
        argv.extend(["--snapshot", label]);
    }
    let options = [
        (request.read_only, "--read-only"),
        (request.take_over, "--take-over"),
        (request.set_aside, "--set-aside"),
    ];
    argv.extend(options.iter().filter(|(is_asked, _)| *is_asked).map(|(_, option)| *option));
    Action::run(&argv)
}

/// Whether a path leads to a mount point; the mount point has no symbolic links. Does not access the mount point itself: its file system
/// may hang.
fn leads_to(path: &Path, mountpoint: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    // Absolute paths that differ only by a slash or a dot are equal by now.
    if path == mountpoint {
        return true;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let mounts = mountinfo::read().unwrap_or_default();
    mountinfo::is_safe_to_look_at(&mounts, &path)
        && parent.canonicalize().is_ok_and(|parent| parent.join(name) == mountpoint)
}

impl Drive {
    /// The answer to a request to open what is open.
    pub(super) fn opened_already(
        &self,
        open: &OpenDrive,
        place: &Place,
        request: &api::Open,
    ) -> Result<api::Opened, Failure> {
        // A drive that another computer has taken over cannot be taken back by what is open here: that is a fork by now.
        if request.take_over || request.set_aside {
            self.check_no_fork(&open.volume)?;
        }
        let there = Wishes { shows: &open.shows, attach: place.attach };
        let asked = Wishes { shows: &Shows::asked(request), attach: request.attach };
        let difference = match (differs(&there, &asked), &request.at) {
            (None, Some(at)) if !leads_to(&asked_place(at)?, place.mounted.mountpoint()) => {
                Some(format!("is open at {}, not at {at}", place.mountpoint()))
            }
            (difference, _) => difference,
        };
        if let Some(difference) = difference {
            let message = format!("{} {difference}.", self.name);
            let close = Action::Close { drive: Some(self.name.clone()), wait: false };
            return Err(failure::state(message, [close, command(&self.name, request)]));
        }
        let is_look = open.shows == Shows::Current && !open.is_writable();
        let read_only_because = if is_look { self.looks_because.lock().clone() } else { None };
        Ok(api::Opened { already: true, read_only_because, ..self.describe_opened(open, place) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(read_only: bool, snapshot: Option<&str>, attach: AttachMode) -> api::Open {
        api::Open { read_only, snapshot: snapshot.map(str::to_owned), attach, ..api::Open::default() }
    }

    #[test]
    fn only_other_wishes_differ() {
        use AttachMode::{Auto, Loop, Nbd};
        for (there, asked, expected) in [
            (request(false, None, Loop), request(false, None, Auto), None),
            (request(false, None, Loop), request(false, None, Loop), None),
            (request(false, None, Nbd), request(false, None, Loop), Some("attached by nbd")),
            (request(false, None, Nbd), request(true, None, Auto), Some("for writing, not read-only")),
            (request(true, None, Nbd), request(false, None, Auto), Some("read-only, not for writing")),
            (request(true, None, Nbd), request(true, Some("a"), Auto), Some("at the snapshot")),
            (request(true, Some("a"), Nbd), request(false, Some("b"), Auto), Some("\u{201c}b\u{201d}")),
            // A snapshot can only be looked at, whether the request says so or not.
            (request(true, Some("a"), Nbd), request(false, Some("a"), Auto), None),
        ] {
            let (shows_there, shows_asked) = (Shows::asked(&there), Shows::asked(&asked));
            let found = differs(
                &Wishes { shows: &shows_there, attach: there.attach },
                &Wishes { shows: &shows_asked, attach: asked.attach },
            );
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                _ => panic!("{there:?} {asked:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_command_repeats_the_request() {
        let request = api::Open {
            at: Some("/my drive".to_owned()),
            read_only: true,
            ..request(false, None, AttachMode::Loop)
        };
        let expected =
            ["holdall", "drive", "open", "work", "--at", "/my drive", "--attach", "loop", "--read-only"];
        assert_eq!(command("work", &request), Action::run(&expected));
    }

    #[test]
    fn a_place_is_the_same_however_it_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let real = directory.path().canonicalize().expect("it is there").join("real");
        std::fs::create_dir(&real).expect("it is made");
        std::os::unix::fs::symlink(&real, real.with_file_name("link")).expect("it is made");
        let mountpoint = real.join("drive");
        for same in ["real/drive", "real/drive/", "real/./drive", "link/drive"] {
            assert!(leads_to(&directory.path().join(same), &mountpoint), "{same}");
        }
        for other in ["real", "link", "real/other", "none/drive", "drive"] {
            assert!(!leads_to(&directory.path().join(other), &mountpoint), "{other}");
        }
    }
}
