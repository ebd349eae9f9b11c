//! The places of Holdall's files on this computer.
//!
//! | place | override | else |
//! | --- | --- | --- |
//! | state: registry, journals, keys, `daemon.log` | `HOLDALL_STATE_DIR` | `$XDG_STATE_HOME/holdall`, `~/.local/state/holdall` |
//! | cache: what can be pulled again | `HOLDALL_CACHE_DIR` | `$XDG_CACHE_HOME/holdall`, `~/.cache/holdall` |
//! | runtime: `daemon.sock` | `HOLDALL_RUNTIME_DIR` | `$XDG_RUNTIME_DIR/holdall`, `/tmp/holdall-UID` |
//!
//! Passphrases travel through the socket, so anybody who can put a socket into the runtime directory can learn them. A client therefore
//! checks the directory before it connects, as the daemon does before it binds: in /tmp anybody can be first to create a directory of that
//! name.
//!
//! One daemon runs for each state directory. If the environment leads to another runtime directory than the daemon's (cron, su, sudo) or to
//! none (after a logout), a client finds the daemon by the lock in the state directory ([`Paths::sockets`]).

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, Stat};
use rustix::process::getuid;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

mod holding;

pub use holding::{Holding, boot_id};

/// The kernel's answer for an owner that a container does not know.
const UNKNOWN_OWNER: u32 = 65534;

/// The places of this user's daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Files that must survive: the registry, journals, keys, the daemon's log.
    pub state: PathBuf,
    /// Data that can be pulled again.
    pub cache: PathBuf,
    /// Files that end with the session: the socket.
    pub runtime: PathBuf,
}

/// Why there is no usable place.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// A relative path would mean another place for the daemon than for its client.
    #[error("{variable} is {}, which is not an absolute path", value.display())]
    Relative {
        /// The environment's variable.
        variable: &'static str,
        /// Its value.
        value: PathBuf,
    },
    /// There is neither an override nor a home directory.
    #[error("{variable} is not set, and neither is HOME")]
    NoHome {
        /// A variable that would help.
        variable: &'static str,
    },
    /// Somebody else could put a socket there.
    #[error("{} is not a directory that only you can change", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
    /// The directory cannot be created or accessed.
    #[error("cannot use {}: {source}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Paths {
    /// The places that the environment asks for. Creates nothing yet.
    pub fn from_environment() -> Result<Paths, PathsError> {
        Paths::resolve(|variable| std::env::var_os(variable), getuid().as_raw())
    }

    fn resolve(get: impl Fn(&str) -> Option<OsString>, uid: u32) -> Result<Paths, PathsError> {
        // The XDG specification ignores relative values; an override of ours that is ignored would be a surprise.
        let xdg = |variable| get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let chosen = |variable: &'static str| match get(variable).map(PathBuf::from) {
            Some(path) if path.as_os_str().is_empty() => Ok(None),
            Some(value) if value.is_relative() => Err(PathsError::Relative { variable, value }),
            path => Ok(path),
        };
        let in_home = |variable: &'static str, below: &str| {
            xdg("HOME").map(|home| home.join(below)).ok_or(PathsError::NoHome { variable })
        };
        let place = |variable, base, below| match (chosen(variable)?, xdg(base)) {
            (Some(path), _) => Ok(path),
            (None, Some(base)) => Ok(base.join("holdall")),
            (None, None) => in_home(variable, below),
        };
        let runtime = match (chosen("HOLDALL_RUNTIME_DIR")?, xdg("XDG_RUNTIME_DIR")) {
            (Some(path), _) => path,
            (None, Some(base)) => base.join("holdall"),
            (None, None) => PathBuf::from(format!("/tmp/holdall-{uid}")),
        };
        Ok(Paths {
            state: place("HOLDALL_STATE_DIR", "XDG_STATE_HOME", ".local/state/holdall")?,
            cache: place("HOLDALL_CACHE_DIR", "XDG_CACHE_HOME", ".cache/holdall")?,
            runtime,
        })
    }

    /// The daemon's socket in the runtime directory.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("daemon.sock")
    }

    /// The daemon's socket in the state directory, which no logout removes.
    pub fn state_socket(&self) -> PathBuf {
        self.state.join("daemon.sock")
    }

    /// The sockets that the daemon of this state directory has recorded. Empty if none runs, or if others could have written the record.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let Some(holding) = self.holding() else { return Vec::new() };
        let is_private =
            |socket: &&PathBuf| socket.parent().is_some_and(|parent| open_private(parent).is_ok());
        holding.sockets.iter().filter(is_private).cloned().collect()
    }

    fn holding(&self) -> Option<Holding> {
        // Checked before its content is believed.
        open_state(&self.state).ok()?;
        let mut options = std::fs::OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file =
            options.read(true).custom_flags(flags.bits().cast_signed()).open(self.state.join("daemon.lock"));
        let mut said = Vec::new();
        file.ok()?.take(Holding::BYTES_MAX).read_to_end(&mut said).ok()?;
        Holding::parse(&said).filter(|holding| !holding.is_elsewhere())
    }

    /// The output of a daemon in the background.
    pub fn daemon_log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Creates missing directories, for the owner only (0700), and checks that nobody else can write to any of them.
    pub fn prepare(&self) -> Result<(), PathsError> {
        for path in [&self.state, &self.cache, &self.runtime] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|source| PathsError::Unusable { path: path.clone(), source })?;
        }
        for path in [&self.state, &self.cache] {
            open_state(path)?;
        }
        self.check_runtime().map(|_| ())
    }

    /// Whether the runtime directory exists; an error if others could have put a socket there. The directory itself must not be a symbolic
    /// link: its creator would decide whose socket is found.
    pub fn check_runtime(&self) -> Result<bool, PathsError> {
        match open_private(&self.runtime) {
            Ok(_) => Ok(true),
            Err(PathsError::Unusable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Opens a directory that only this user can change: it belongs to this user, nobody else may write to it, it is no link, and nobody else
/// can replace it. The opened directory is the checked one, whatever happens to the path.
///
/// A directory that a person created and named in an override may be one that others can enter.
pub fn open_private(path: &Path) -> Result<OwnedFd, PathsError> {
    let directory = open_directory(path, OFlags::NOFOLLOW)?;
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    for parent in parents {
        let facts = parent.metadata();
        let facts = facts.map_err(|source| PathsError::Unusable { path: parent.to_owned(), source })?;
        if can_others_replace(facts.uid(), facts.mode()) {
            return Err(PathsError::NotPrivate { path: parent.to_owned() });
        }
    }
    Ok(directory)
}

/// The same for a directory that may be a link to a larger disk.
fn open_state(path: &Path) -> Result<OwnedFd, PathsError> {
    open_directory(path, OFlags::empty())
}

fn open_directory(path: &Path, flags: OFlags) -> Result<OwnedFd, PathsError> {
    let flags = flags | OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
        // It is a link, no directory, or closed to this user.
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS => {
            PathsError::NotPrivate { path: path.to_owned() }
        }
        errno => PathsError::Unusable { path: path.to_owned(), source: errno.into() },
    })?;
    let facts = rustix::fs::fstat(&directory)
        .map_err(|errno| PathsError::Unusable { path: path.to_owned(), source: errno.into() })?;
    if is_ours_alone(&facts) { Ok(directory) } else { Err(PathsError::NotPrivate { path: path.to_owned() }) }
}

fn is_ours_alone(facts: &Stat) -> bool {
    facts.st_uid == getuid().as_raw() && facts.st_mode & 0o022 == 0
}

/// Whether somebody else could replace an entry of a directory with this owner and mode: the owner could, and so could everybody who may
/// write to it, unless it is sticky as /tmp is.
fn can_others_replace(owner: u32, mode: u32) -> bool {
    let is_trusted = [0, UNKNOWN_OWNER, getuid().as_raw()].contains(&owner);
    let is_open = mode & 0o002 != 0 && mode & 0o1000 == 0;
    !is_trusted || is_open
}

/// The home directory of this user.
pub fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// The path that a person means: `~` is the home directory. `None` if it begins there, and there is none.
pub fn expanded(typed: &str) -> Option<PathBuf> {
    match typed.strip_prefix('~') {
        Some("") => home(),
        Some(below) if below.starts_with('/') => Some(home()?.join(below.trim_start_matches('/'))),
        // As in a shell, this is another user's home directory; here it is a name.
        Some(_) | None => Some(PathBuf::from(typed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn resolve(variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        let get = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
        };
        Paths::resolve(get, 1000)
    }

    #[test]
    fn a_tilde_alone_or_before_a_slash_is_the_home_directory() {
        let home = home().unwrap();
        assert_eq!(expanded("~"), Some(home.clone()));
        for typed in ["~/a/b", "~//a/b"] {
            assert_eq!(expanded(typed), Some(home.join("a/b")), "{typed}");
        }
        for typed in ["/a", "a", "", "~ann/a", "/~/a", "~a"] {
            assert_eq!(expanded(typed), Some(PathBuf::from(typed)));
        }
    }

    #[test]
    fn overrides_go_before_xdg_and_xdg_before_home() {
        let home = ("HOME", "/home/ann");
        let paths = resolve(&[home]).unwrap();
        assert_eq!(paths.state, Path::new("/home/ann/.local/state/holdall"));
        assert_eq!(paths.cache, Path::new("/home/ann/.cache/holdall"));
        assert_eq!(paths.runtime, Path::new("/tmp/holdall-1000"));

        let xdg =
            [home, ("XDG_STATE_HOME", "/s"), ("XDG_CACHE_HOME", "/c"), ("XDG_RUNTIME_DIR", "/run/user/1000")];
        let paths = resolve(&xdg).unwrap();
        assert_eq!(paths.state, Path::new("/s/holdall"));
        assert_eq!(paths.cache, Path::new("/c/holdall"));
        assert_eq!(paths.socket(), Path::new("/run/user/1000/holdall/daemon.sock"));

        let ours = [("HOLDALL_STATE_DIR", "/1"), ("HOLDALL_CACHE_DIR", "/2"), ("HOLDALL_RUNTIME_DIR", "/3")];
        let paths = resolve(&[&xdg[..], &ours[..]].concat()).unwrap();
        assert_eq!(paths, Paths { state: "/1".into(), cache: "/2".into(), runtime: "/3".into() });
    }

    #[test]
    fn relative_paths_are_ignored_for_xdg_and_refused_elsewhere() {
        let paths = resolve(&[("HOME", "/home/ann"), ("XDG_STATE_HOME", "state")]).unwrap();
        assert_eq!(paths.state, Path::new("/home/ann/.local/state/holdall"));
        let refused = resolve(&[("HOME", "/home/ann"), ("HOLDALL_STATE_DIR", "state")]);
        assert!(matches!(refused, Err(PathsError::Relative { variable: "HOLDALL_STATE_DIR", .. })));
    }

    #[test]
    fn without_a_home_the_error_names_a_variable_to_set() {
        assert!(matches!(resolve(&[]), Err(PathsError::NoHome { variable: "HOLDALL_STATE_DIR" })));
    }

    #[test]
    fn creates_private_directories_and_refuses_those_others_can_change() {
        let dir = tempfile::tempdir().unwrap();
        let below = |name| dir.path().join(name);
        let paths = Paths { state: below("state"), cache: below("cache"), runtime: below("run") };
        assert!(!paths.check_runtime().unwrap());
        paths.prepare().unwrap();
        assert_eq!(paths.runtime.metadata().unwrap().mode() & 0o777, 0o700);

        set_permissions(&paths.runtime, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(paths.check_runtime(), Err(PathsError::NotPrivate { .. })));
    }

    #[test]
    fn the_runtime_directory_is_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let below = |name| dir.path().join(name);
        symlink(dir.path(), below("run")).unwrap();
        let paths = Paths { state: below("state"), cache: below("cache"), runtime: below("run") };
        assert!(matches!(paths.check_runtime(), Err(PathsError::NotPrivate { .. })));
    }

    #[test]
    fn a_directory_that_others_could_exchange_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        let paths = Paths { state: open.join("state"), cache: open.join("cache"), runtime: open.join("run") };
        paths.prepare().unwrap();
        set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(paths.check_runtime(), Err(PathsError::NotPrivate { path }) if path == open));
        // Sticky, as /tmp is.
        set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        assert!(paths.check_runtime().unwrap());
        assert!(can_others_replace(getuid().as_raw() + 1, 0o755), "its owner could");
    }

    #[test]
    fn a_recorded_socket_is_used_only_in_a_private_directory() {
        let dir = tempfile::tempdir().unwrap();
        let below = |name| dir.path().join(name);
        let paths = Paths { state: below("state"), cache: below("cache"), runtime: below("run") };
        paths.prepare().unwrap();
        assert_eq!(paths.sockets(), Vec::<PathBuf>::new());
        let elsewhere = below("elsewhere");
        DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
        let socket = elsewhere.join("daemon.sock");
        let mut holding = Holding::of_this_process(&elsewhere, false);
        holding.sockets = vec![socket.clone()];
        std::fs::write(paths.state.join("daemon.lock"), serde_json::to_vec(&holding).unwrap()).unwrap();
        assert_eq!(paths.sockets(), [socket]);
        set_permissions(&elsewhere, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(paths.sockets(), Vec::<PathBuf>::new());
        set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
        set_permissions(&paths.state, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(paths.sockets(), Vec::<PathBuf>::new(), "others could have written it");
    }
}
