//! The engine of a folder: begun over the folder's directory and its remote, and put down.

use super::config::Config;
use super::figures::Last;
use super::registering;
use super::remote::{Known, Place, Reached, connect};
use super::{Engine, Folder, Live, OpenFolder};
use crate::api::{Failure, Passthrough};
use crate::daemon::failure;
use crate::daemon::stores;
use holdall_core::disk::Disk;
use holdall_core::disk::real::Directory;
use holdall_core::folder::FolderEnvironment;
use holdall_core::folder::api::Stale;
use holdall_core::store::meter::Meter;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Files up to this length are downloaded as a whole before a program writes to them: from then on they are as fast as local ones.
const WHOLE_UP_TO: u64 = 16 << 20;
/// The database holds listings; what it keeps in memory is small.
const DATABASE_MEMORY: u64 = 4 << 20;
/// Shown for a folder that a person has opened so.
pub(super) const OPENED_READ_ONLY: &str = "it was opened read-only";

/// A new engine, with the word of what the kernel should forget.
pub(super) type Begun = (Live, mpsc::UnboundedReceiver<Stale>);

impl Folder {
    /// How the remote is reached.
    pub(super) fn place(&self, read_only: bool) -> Result<Place, Failure> {
        let config = self.config.lock().clone();
        Ok(Place {
            url: stores::parse(&config.url)?,
            stores: self.common.stores.clone(),
            device: self.common.registry.device().id,
            // What was written before is still to be uploaded.
            read_only: read_only && !config.unsent,
            meter: Meter::default(),
        })
    }

    /// Begins the engine. Only a folder whose remote was never connected waits for it. `has_outlived`: the mount is still the one of a
    /// daemon that was killed.
    pub(super) async fn begin(&self, read_only: bool, has_outlived: bool) -> Result<Begun, Failure> {
        let (place, directory) = (self.place(read_only)?, self.directory());
        let meter = place.meter.clone();
        let remote = match Known::load(&directory) {
            Some(known) => Reached::later(place, known, &directory),
            None => {
                let connected =
                    Box::pin(connect(&place, None)).await.map_err(|error| failure::reach(&error))?;
                let known = Known { facts: connected.remote.facts().clone(), root: connected.root.clone() };
                known.save(&directory).map_err(|error| failure::local(&error))?;
                Reached::connected(place, connected, &directory)
            }
        };
        self.begin_on(remote, read_only, has_outlived, meter).await
    }

    async fn begin_on(
        &self,
        remote: Arc<Reached>,
        read_only: bool,
        has_outlived: bool,
        meter: Meter,
    ) -> Result<Begun, Failure> {
        use holdall_core::store::remote::Remote;
        let read_only = match read_only {
            true => Some(OPENED_READ_ONLY.to_owned()),
            false => remote.facts().read_only.clone(),
        };
        let environment = self.environment(remote.clone(), read_only.clone(), has_outlived).await?;
        let (engine, stale) =
            Box::pin(Engine::open(environment)).await.map_err(|error| failure::open_folder(&error))?;
        let down = watch::Sender::new(false);
        let (passthrough, registering) = (Passthrough::default(), registering::Trouble::default());
        engine.outbox().set_paused(self.pause().map(str::to_owned));
        engine.set_background_pulls(self.pause().is_none());
        Ok((Live { engine, remote, meter, read_only, passthrough, registering, down }, stale))
    }

    async fn environment(
        &self,
        remote: Arc<Reached>,
        read_only: Option<String>,
        has_outlived: bool,
    ) -> Result<FolderEnvironment, Failure> {
        let (directory, known) = (self.directory(), self.database.lock().clone());
        let work = move || -> io::Result<_> {
            let database = match known {
                Some(known) => known,
                None => database(&directory.join("entries"))?,
            };
            let disk = Directory::create(&directory)?;
            let files = Directory::create(&directory.join("files"))?;
            let free_bytes = disk.free_bytes()? + files.allocated_bytes()?;
            Ok((Arc::new(disk), Arc::new(files), free_bytes, database))
        };
        let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
        let (disk, files, free_bytes, database) = done.map_err(|error| failure::local(&error))?;
        *self.database.lock() = Some(database.clone());
        Ok(FolderEnvironment {
            disk,
            files,
            database,
            folder: self.uuid,
            remote,
            whole_up_to: WHOLE_UP_TO,
            cache_bytes: self.cache_limit(free_bytes),
            device: self.common.registry.device().id,
            device_name: self.common.registry.device().name.clone(),
            read_only,
            has_outlived,
        })
    }

    /// Puts down the engine of a folder that is not mounted. `is_all_sent`: everything is at the remote.
    pub(super) async fn put_down(&self, open: OpenFolder, is_all_sent: bool) {
        let last = self.last_of(&open.live);
        open.live.down.send_replace(true);
        if let Err(error) = Box::pin(open.live.engine.close()).await {
            tracing::warn!(folder = self.name, %error, "the engine could not be closed in order; the next opening recovers");
        }
        *self.live.write() = None;
        self.figures.keep(last.clone());
        let noted = self.remember(|config: &mut Config| {
            config.last = last;
            if is_all_sent {
                config.unsent = false;
            }
        });
        if let Err(failure) = noted {
            // It counts as one with changes until the next time.
            tracing::warn!(
                folder = self.name,
                message = failure.message,
                "the end of its uploads is not recorded"
            );
        }
    }

    /// The figures that a closed folder shows.
    pub(super) fn last_of(&self, live: &Live) -> Last {
        let (status, queue) = (live.engine.status(), live.engine.outbox().queue(0));
        Last {
            known_files: status.known_files,
            cached_bytes: status.cached_bytes,
            dirty_bytes: status.dirty_bytes,
            pinned_bytes: live.engine.pinned_and_missing_bytes().0,
            conflicts: status.conflicts,
            held_deletions: status.held_deletions,
            last_uploaded_ms: queue.last_uploaded_ms.or(self.figures.last().last_uploaded_ms),
        }
    }
}

/// The database of what can be listed again. One that cannot be opened is begun anew.
fn database(path: &Path) -> io::Result<sled::Db> {
    let open = || sled::Config::new().path(path).cache_capacity(DATABASE_MEMORY).open();
    open().or_else(|error| {
        tracing::warn!(%error, "the listings of a folder are lost; they are fetched again");
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        open().map_err(io::Error::other)
    })
}
