//! Opening a folder: the engine, then the mount.
//!
//! What must survive is recorded before it is true: that the folder may have changes, that it is meant to be open, and where it is mounted.
//! A daemon that is killed at any step leaves a folder that the next one opens.

use super::condition::Phase;
use super::engine::OPENED_READ_ONLY;
use super::registering::Registering;
use super::remote::Link;
use super::{Folder, Live, OpenFolder, mount};
use crate::api::{Action, ActivityKind, Failure, FolderCommand, FolderOpened, OpenFolder as Request};
use crate::daemon::drive::{asked_place, default_mountpoint};
use crate::daemon::failure;
use crate::daemon::stores;
use holdall_core::store::url::StoreUrl;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// How long an answer waits for the first word of the remote, to say whether it can be reached. The folder is open already.
const FIRST_WORD: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

type Locked<'a> = MutexGuard<'a, Option<OpenFolder>>;

/// How a folder is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Where, if a person has said so.
    pub at: Option<PathBuf>,
    /// Nothing is written.
    pub read_only: bool,
    /// Every file is served.
    pub no_passthrough: bool,
}

impl Wishes {
    /// What a request asks for.
    pub fn of(request: &Request) -> Result<Self, Failure> {
        let at = request.at.as_deref().map(asked_place).transpose()?;
        Ok(Self { at, read_only: request.read_only, no_passthrough: request.no_passthrough })
    }
}

impl Folder {
    /// Opens and mounts it.
    pub async fn open(self: &Arc<Self>, wishes: &Wishes) -> Result<FolderOpened, Failure> {
        let mut open = self.open.lock().await;
        self.check_known()?;
        if let Some(there) = &*open
            && let Some(mount) = there.mount.as_ref().filter(|mount| mount.is_mounted())
        {
            self.check_same(there, mount.mountpoint(), wishes)?;
            drop(open);
            return Ok(FolderOpened { already: true, ..self.opened().await });
        }
        self.open_now(&mut open, wishes).await?;
        drop(open);
        Ok(self.opened().await)
    }

    pub(super) async fn open_now(
        self: &Arc<Self>,
        open: &mut Locked<'_>,
        wishes: &Wishes,
    ) -> Result<(), Failure> {
        // Closed, but still uploading, or unmounted by another program: the engine begins anew.
        if let Some(before) = open.take() {
            self.put_down(before, false).await;
        }
        self.set_phase(Phase::Connecting);
        match self.begin_and_mount(wishes).await {
            Ok(opened) => {
                let at = opened.mount.as_ref().map(|mount| mount.mountpoint().display().to_string());
                *self.live.write() = Some(opened.live.clone());
                **open = Some(opened);
                self.set_phase(Phase::Open);
                self.note(ActivityKind::Opened, format!("Opened at {}.", at.unwrap_or_default()));
                Ok(())
            }
            Err(failure) => {
                self.set_phase(Phase::Closed);
                self.drain_what_is_left(open).await;
                Err(failure)
            }
        }
    }

    async fn begin_and_mount(self: &Arc<Self>, wishes: &Wishes) -> Result<OpenFolder, Failure> {
        let before = self.config.lock().clone();
        if let Some(record) = before.mount.clone() {
            mount::clean_up(record, &self.keeping()).await?;
        }
        let url = stores::parse(&before.url)?;
        // A folder that was open when its daemon ended is opened where it was.
        let was = before.mount.as_ref().filter(|_| before.is_open).map(|mount| &mount.path);
        let at = match wishes.at.as_ref().or(was).or(before.at.as_ref()) {
            Some(at) => at.clone(),
            None => default_mountpoint(&self.name)?,
        };
        let prepared = mount::prepare(&at, before.mount.clone()).await?;
        check_outside(&url, &prepared.record.path)?;
        self.remember(|config| {
            if let Some(at) = &wishes.at {
                config.at = Some(at.clone());
            }
            config.is_open = true;
            config.read_only = wishes.read_only;
            config.no_passthrough = wishes.no_passthrough;
            // Before anything can be written.
            config.unsent |= !wishes.read_only;
            config.mount = Some(prepared.record.clone());
        })?;
        let record = prepared.record.clone();
        match self.mount_on(prepared, wishes).await {
            Ok(opened) => Ok(opened),
            Err(failure) => {
                mount::release(record).await;
                // Nothing was written since.
                self.remember(|config| {
                    (config.is_open, config.mount) = (false, None);
                    config.unsent = before.unsent;
                })?;
                Err(failure)
            }
        }
    }

    /// What it takes to find who registers the folder's files.
    pub(super) fn registering(&self, live: &Live) -> Registering {
        let (deputy, trouble) = (self.common.site.deputy.clone(), live.registering.clone());
        Registering { deputy, directory: self.directory(), trouble }
    }

    async fn mount_on(
        self: &Arc<Self>,
        prepared: mount::Prepared,
        wishes: &Wishes,
    ) -> Result<OpenFolder, Failure> {
        // A fault of the directory is found before the engine begins.
        let (prepared, directory) = prepared.open().await?;
        self.remember(|config| config.mount = Some(prepared.record.clone()))?;
        let (mut live, stale) = self.begin(wishes.read_only, false).await?;
        let how = mount::MountOptions {
            source: self.url(),
            read_only: live.read_only.is_some(),
            registering: (!wishes.no_passthrough).then(|| self.registering(&live)),
            keeping: self.keeping(),
        };
        let mounted = mount::mount((live.engine.clone(), stale), (prepared, directory), how).await;
        let (mount, passthrough) = match mounted {
            Ok(mounted) => mounted,
            Err(failure) => {
                if let Err(error) = live.engine.close().await {
                    tracing::warn!(folder = self.name, %error, "the engine could not be closed in order");
                }
                return Err(failure);
            }
        };
        live.passthrough = passthrough;
        let tasks = self.begin_tasks(&live);
        Ok(OpenFolder {
            live,
            mount: Some(mount),
            read_only: wishes.read_only,
            no_passthrough: wishes.no_passthrough,
            draining: false,
            tasks,
        })
    }

    /// What runs beside an engine: the connection, and the record of what happens.
    pub(super) fn begin_tasks(self: &Arc<Self>, live: &super::Live) -> Vec<tokio::task::AbortHandle> {
        let connecting = tokio::spawn(live.remote.clone().connect_in_background());
        let watching = self.watch(live);
        vec![connecting.abort_handle(), watching, self.follow_disk()]
    }

    /// The answer, with the first word of the remote.
    async fn opened(self: &Arc<Self>) -> FolderOpened {
        let begun = tokio::time::Instant::now();
        let link = || self.live.read().as_ref().map(|live| live.remote.link());
        while link() == Some(Link::Unknown) && begun.elapsed() < FIRST_WORD {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let away_because = match link() {
            Some(Link::Silent(why)) => Some(why),
            Some(Link::Hindered(_) | Link::Unknown | Link::Answers) | None => None,
        };
        let read_only = self.live.read().as_ref().and_then(|live| live.read_only.clone());
        let read_only_because = read_only.filter(|why| why != OPENED_READ_ONLY);
        FolderOpened { folder: self.status(), already: false, away_because, read_only_because }
    }

    /// An open folder cannot be opened in another way: it says how it is open.
    fn check_same(&self, open: &OpenFolder, mountpoint: &Path, wishes: &Wishes) -> Result<(), Failure> {
        let difference = match &wishes.at {
            Some(at) if !leads_to(at, mountpoint) => {
                Some(format!("is open at {}, not at {}", mountpoint.display(), at.display()))
            }
            _ => differs((open.read_only, open.no_passthrough), wishes).map(str::to_owned),
        };
        match difference {
            None => Ok(()),
            Some(difference) => {
                let actions = [
                    Action::Folder { command: FolderCommand::Close, folder: Some(self.name.clone()) },
                    Action::tell("Then open it as you like."),
                ];
                Err(failure::state(format!("{} {difference}.", self.name), actions))
            }
        }
    }
}

/// How an open folder is not as it is asked for. Passthrough is only ever asked away.
fn differs((read_only, no_passthrough): (bool, bool), wishes: &Wishes) -> Option<&'static str> {
    match (read_only, wishes.read_only) {
        (true, false) => Some("is open read-only"),
        (false, true) => Some("is open for writing"),
        _ => (wishes.no_passthrough && !no_passthrough).then_some("is open with passthrough"),
    }
}

/// Whether a path that a person gave is this mount point. Nothing below the mount is looked at.
fn leads_to(path: &Path, mountpoint: &Path) -> bool {
    let resolved = path.parent().and_then(|parent| parent.canonicalize().ok());
    let resolved = resolved.zip(path.file_name()).map(|(parent, name)| parent.join(name));
    path == mountpoint || resolved.as_deref() == Some(mountpoint)
}

/// Refuses a mount point inside the files that are mounted.
fn check_outside(url: &StoreUrl, mountpoint: &Path) -> Result<(), Failure> {
    match url {
        StoreUrl::File(files) => {
            let files = files.canonicalize().unwrap_or_else(|_| files.clone());
            if mountpoint.starts_with(files) { Err(failure::mounted_in_itself(url)) } else { Ok(()) }
        }
        StoreUrl::S3(_) | StoreUrl::Dav(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_not_mounted_in_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let url = StoreUrl::File(root.join("files"));
        std::fs::create_dir(root.join("files")).unwrap();
        assert!(check_outside(&url, &root.join("files/below")).is_err());
        assert!(check_outside(&url, &root.join("files")).is_err());
        assert!(check_outside(&url, &root.join("files-mounted")).is_ok());
        assert!(check_outside(&StoreUrl::parse("s3://b/x").unwrap(), &root.join("files")).is_ok());
    }

    #[test]
    fn an_open_folder_is_not_opened_in_another_way() {
        let asked = |read_only, no_passthrough| Wishes { at: None, read_only, no_passthrough };
        for (there, asked, expected) in [
            ((false, false), asked(false, false), None),
            ((true, false), asked(true, false), None),
            ((false, true), asked(false, false), None),
            ((true, false), asked(false, false), Some("is open read-only")),
            ((false, false), asked(true, false), Some("is open for writing")),
            ((false, false), asked(false, true), Some("is open with passthrough")),
        ] {
            assert_eq!(differs(there, &asked), expected, "{there:?} {asked:?}");
        }
    }

    #[test]
    fn a_mount_point_is_recognised_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let mountpoint = root.join("real/photos");
        assert!(leads_to(&mountpoint, &mountpoint) && leads_to(&root.join("link/photos"), &mountpoint));
        assert!(!leads_to(&root.join("photos"), &mountpoint));
    }
}
