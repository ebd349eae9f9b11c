//! Where Holdall keeps things on this computer.
//!
//! | place | override | else |
//! | --- | --- | --- |
//! | state: registry, journals, keys, `daemon.log` | `HOLDALL_STATE_DIR` | `$XDG_STATE_HOME/holdall`, `~/.local/state/holdall` |
//! | cache: what can be pulled again | `HOLDALL_CACHE_DIR` | `$XDG_CACHE_HOME/holdall`, `~/.cache/holdall` |
//! | runtime: `daemon.sock` | `HOLDALL_RUNTIME_DIR` | `$XDG_RUNTIME_DIR/holdall`, `/tmp/holdall-UID` |
//!
//! Passphrases travel through the socket, so whoever can put a socket into the runtime directory can learn them. A
//! client therefore checks the directory before it connects, not only the daemon before it binds: in /tmp anybody can be
//! first to make a directory of that name.

use rustix::process::getuid;
use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The places of this user's daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// What must survive: the registry, journals, keys, the daemon's log.
    pub state: PathBuf,
    /// What can be pulled again.
    pub cache: PathBuf,
    /// What ends with the session: the socket.
    pub runtime: PathBuf,
}

/// Why there is no place.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// A relative path would mean another place for the daemon than for its client.
    #[error("{variable} is {}, which is not an absolute path", value.display())]
    Relative {
        /// The environment's variable.
        variable: &'static str,
        /// What it is.
        value: PathBuf,
    },
    /// Neither an override nor a home directory.
    #[error("{variable} is not set, and neither is HOME")]
    NoHome {
        /// The variable that would do.
        variable: &'static str,
    },
    /// Somebody else could put a socket there.
    #[error("{} is not a directory that only you can change", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
    /// The directory cannot be made or looked at.
    #[error("cannot use {}: {source}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Paths {
    /// The places that the environment asks for. Nothing is made yet.
    pub fn from_environment() -> Result<Paths, PathsError> {
        Paths::resolve(|variable| std::env::var_os(variable), getuid().as_raw())
    }

    fn resolve(get: impl Fn(&str) -> Option<OsString>, uid: u32) -> Result<Paths, PathsError> {
        // The XDG specification has relative values ignored; an override of ours that is ignored would surprise.
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

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("daemon.sock")
    }

    /// What a daemon in the background prints.
    pub fn daemon_log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Makes what is missing, for the owner only (0700), and checks that nobody else can write to any of it.
    pub fn prepare(&self) -> Result<(), PathsError> {
        for path in [&self.state, &self.cache, &self.runtime] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|source| PathsError::Unusable { path: path.clone(), source })?;
        }
        // State and cache may be links to a bigger disk.
        for path in [&self.state, &self.cache] {
            check_private(path, path.metadata())?;
        }
        self.check_runtime().map(|_| ())
    }

    /// Whether the runtime directory exists; an error if others could have put a socket there. The directory itself must
    /// not be a symbolic link: it would be its maker who decides whose socket is found.
    pub fn check_runtime(&self) -> Result<bool, PathsError> {
        match self.runtime.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            metadata => check_private(&self.runtime, metadata).map(|()| true),
        }
    }
}

/// Others may enter a directory that a person made and named in an override, but not change what is in it.
fn check_private(path: &Path, metadata: io::Result<Metadata>) -> Result<(), PathsError> {
    let metadata = metadata.map_err(|source| PathsError::Unusable { path: path.to_owned(), source })?;
    let ours = metadata.uid() == getuid().as_raw();
    match metadata.is_dir() && ours && metadata.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(PathsError::NotPrivate { path: path.to_owned() }),
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
    fn relative_paths_are_ignored_where_xdg_says_so_and_refused_elsewhere() {
        let paths = resolve(&[("HOME", "/home/ann"), ("XDG_STATE_HOME", "state")]).unwrap();
        assert_eq!(paths.state, Path::new("/home/ann/.local/state/holdall"));
        let refused = resolve(&[("HOME", "/home/ann"), ("HOLDALL_STATE_DIR", "state")]);
        assert!(matches!(refused, Err(PathsError::Relative { variable: "HOLDALL_STATE_DIR", .. })));
    }

    #[test]
    fn without_a_home_the_error_names_the_variable_that_would_do() {
        assert!(matches!(resolve(&[]), Err(PathsError::NoHome { variable: "HOLDALL_STATE_DIR" })));
    }

    #[test]
    fn what_is_made_is_private_and_what_others_can_change_is_refused() {
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
}
