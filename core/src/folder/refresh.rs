//! Keeping up with the remote: listings, and what they change here.
//!
//! * A directory that was never listed is listed before anything is said of it, or the operation fails: a part is never shown as the whole.
//! * What was listed is listed again when it is older than [`FRESH`]; an operation waits for that at most [`PATIENCE`], then what is known is
//!   served. While the remote cannot be reached, it does not wait.
//! * Only a complete listing says that something is gone, and the guard has to believe it. Where the server replaces a file by removing the
//!   old one first, a second listing has to say so too: the first one may have come between the two steps.
//! * A file that a program has open keeps its version: where the remote has another one, the name gets a new inode.

use super::api::{FolderError, Stale};
use super::entries::{Change, Generation, Listing, ListingError, Row};
use super::guard::Guard;
use super::node::{Ino, Node, Place};
use super::open_folder::Held;
use super::pins::Pins;
use super::shared::Shared;
use super::step::Step;
use crate::clock::now_ms;
use crate::disk::Disk;
use crate::planted::{self, Bug};
use crate::store::StoreError;
use crate::store::remote::{Entry, Kind, Page, RemoteError};
use held::{HeldDirectories, Missing};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

mod gone;
mod held;
mod poll;
mod restore;

/// How long a listing is believed without a new look.
pub(super) const FRESH: Duration = Duration::from_secs(5);
/// How long an operation waits for a new look at what is known.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long an operation waits for what is not known.
const PATIENCE_UNKNOWN: Duration = Duration::from_secs(20);
/// Directories with more entries are listed again in the background only, and single names are asked for.
const LONG_DIRECTORY: u64 = 2000;
/// How long a listing of a long directory is believed.
const FRESH_LONG: Duration = Duration::from_secs(60);
/// Longer than a server needs between the two steps in which it replaces a file.
const TWO_STEPS: Duration = Duration::from_millis(500);
/// How often a directory is listed again because files are missing.
const LOOKS_MAX: u32 = 5;
/// Looks at single files at once.
const LOOKS_AT_ONCE: usize = 16;
/// Directories whose last use is remembered.
const REMEMBERED_MAX: usize = 4096;

type Flight = watch::Receiver<Option<Result<(), FolderError>>>;

/// Keeps up with the remote.
pub(super) struct Refresher {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    pins: Arc<Pins>,
    // Each is held to look up or change an entry.
    flights: Mutex<HashMap<Ino, Flight>>,
    directories: Mutex<HashMap<Ino, Use>>,
    guard: Mutex<Guard>,
    held: Mutex<HeldDirectories>,
    /// One writer of the file of held directories at a time.
    saving: tokio::sync::Mutex<()>,
    /// A person decides one thing at a time.
    deciding: tokio::sync::Mutex<()>,
    trouble: Mutex<Option<(String, Instant)>>,
    looks: Semaphore,
    tasks: Mutex<JoinSet<()>>,
}

/// When a directory was used and listed last.
#[derive(Clone, Copy)]
struct Use {
    used: Instant,
    listed: Option<Instant>,
}

impl Refresher {
    /// Starts, with the held deletions that `disk` remembers.
    pub fn start(shared: Arc<Shared>, disk: Arc<dyn Disk>, pins: Arc<Pins>) -> io::Result<Arc<Self>> {
        let held = HeldDirectories::load(&*disk)?;
        let refresher = Arc::new(Self {
            shared,
            disk,
            pins,
            flights: Mutex::default(),
            directories: Mutex::default(),
            guard: Mutex::default(),
            held: Mutex::new(held),
            saving: tokio::sync::Mutex::default(),
            deciding: tokio::sync::Mutex::default(),
            trouble: Mutex::default(),
            looks: Semaphore::new(LOOKS_AT_ONCE),
            tasks: Mutex::default(),
        });
        refresher.keep_held_bytes();
        refresher.spawn(poll::poll(Arc::downgrade(&refresher)));
        Ok(refresher)
    }

    /// Ends all that runs.
    pub async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }

    /// Why what is shown may be out of date.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().as_ref().map(|(why, _)| why.clone())
    }

    /// Deletions that wait for a person's word.
    pub fn held(&self) -> Held {
        self.held.lock().summary()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Makes sure that all names of a directory are known, and not older than need be.
    pub async fn listed(self: &Arc<Self>, directory: Ino) -> Result<(), FolderError> {
        if self.is_only_here(directory) {
            return Ok(());
        }
        let known = self.shared.entries.directory(directory);
        let age = self.use_of(directory).map(|listed| listed.elapsed());
        if known.listed.is_none() {
            let flight = self.list(directory);
            return match timeout(PATIENCE_UNKNOWN, landed(flight)).await {
                Ok(result) => result,
                Err(_) => Err(FolderError::Unavailable(
                    "the server does not answer, and the directory was never listed on this computer".into(),
                )),
            };
        }
        let is_long = known.rows > LONG_DIRECTORY;
        let fresh = if is_long { FRESH_LONG } else { FRESH };
        if age.is_some_and(|age| age < fresh) || self.failed_lately() {
            return Ok(());
        }
        let flight = self.list(directory);
        // What is known is served. Its trouble is in the folder's state.
        if !is_long {
            let _ = timeout(PATIENCE, landed(flight)).await;
        }
        Ok(())
    }

    /// Makes sure that what is known of one name is not older than need be.
    pub async fn looked_at(self: &Arc<Self>, place: &Place) -> Result<(), FolderError> {
        self.listed(place.parent).await?;
        let is_long = self.shared.entries.directory(place.parent).rows > LONG_DIRECTORY;
        if is_long && !self.is_only_here(place.parent) && !self.failed_lately() {
            let this = self.clone();
            let place = place.clone();
            let look = async move { this.look(&place).await };
            let _ = timeout(PATIENCE, look).await;
        }
        Ok(())
    }

    /// What a file has beside its bytes, where a listing does not show it.
    pub async fn with_meta(self: &Arc<Self>, place: &Place, row: Row) -> Row {
        if row.entry.meta.is_some() || row.entry.kind != Kind::File || self.failed_lately() {
            return row;
        }
        let this = self.clone();
        let at = place.clone();
        // It goes on when nobody waits any longer: what it learns is kept.
        let (done, answer) = tokio::sync::oneshot::channel();
        self.spawn(async move {
            this.look(&at).await.ok();
            let _ = done.send(());
        });
        let _ = timeout(PATIENCE, answer).await;
        self.shared.entries.get(place.parent, &place.name).unwrap_or(row)
    }

    /// Asks the remote for one name.
    pub async fn look(self: &Arc<Self>, place: &Place) -> Result<(), FolderError> {
        let path = self.shared.paths.path_of(place.parent).ok_or(FolderError::NotFound)?.join(&place.name);
        let _look = self.looks.acquire().await.map_err(|_| FolderError::Closed)?;
        match self.shared.remote.stat(&path).await {
            Ok(entry) => {
                self.works();
                self.showed(place, &entry)
            }
            Err(RemoteError::NotFound(_)) => {
                self.works();
                // Whether it is gone is for a complete listing to say.
                if self.shared.entries.get(place.parent, &place.name).is_some() {
                    self.list(place.parent);
                }
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn showed(&self, place: &Place, entry: &Entry) -> Result<(), FolderError> {
        let entries = &self.shared.entries;
        let before = entries.get(place.parent, &place.name);
        let is_same = before
            .as_ref()
            .is_some_and(|row| row.entry.kind == entry.kind && row.entry.version == entry.version);
        let named = Entry { name: place.name.clone(), ..entry.clone() };
        match (&entry.meta, is_same) {
            (Some(meta), true) => {
                entries.learn(place.parent, &place.name, &entry.version, meta).map_err(local)?;
            }
            _ => {
                let change = entries.put(place.parent, &named).map_err(local)?;
                self.apply(place.parent, change)?;
            }
        }
        Ok(())
    }

    /// Starts a listing, or joins the one that is under way.
    fn list(self: &Arc<Self>, directory: Ino) -> Flight {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&directory) {
            return flight.clone();
        }
        let (land, flight) = watch::channel(None);
        flights.insert(directory, flight.clone());
        drop(flights);
        let this = self.clone();
        self.spawn(async move {
            let result = this.list_now(directory, None).await;
            this.flights.lock().remove(&directory);
            land.send_replace(Some(result));
        });
        flight
    }

    /// Lists a directory. `accepted`: a person has said that this is gone.
    async fn list_now(
        self: &Arc<Self>,
        directory: Ino,
        accepted: Option<&Missing>,
    ) -> Result<(), FolderError> {
        let began = Instant::now();
        let mut listing = self.paged(directory).await?;
        if accepted.is_none() && !self.shared.remote.facts().replaces_at_once {
            // A file that is being replaced is missed by one listing, and shown by the next one. So the listing that counts misses nothing
            // that the one before it showed. It stays uncertain where others remove files all the time.
            let mut since = Generation::default();
            for _ in 0..LOOKS_MAX {
                if !listing.misses_since(since) {
                    break;
                }
                since = listing.generation();
                tokio::time::sleep(TWO_STEPS).await;
                listing = self.paged(directory).await?;
            }
        }
        let gone = listing.complete(None).map_err(|error| self.bad_listing(error))?;
        self.works();
        self.was_listed(directory, began);
        self.settle_gone(directory, gone, accepted).await
    }

    /// Reads all pages of a listing.
    async fn paged(self: &Arc<Self>, directory: Ino) -> Result<Listing, FolderError> {
        let path = self.shared.paths.path_of(directory).ok_or(FolderError::NotFound)?;
        let has_moved = || self.shared.paths.path_of(directory).as_ref() != Some(&path);
        let mut listing = self.shared.entries.begin(directory, now_ms()).map_err(local)?;
        let mut token = None;
        loop {
            let page = match self.shared.remote.list(&path, token.as_ref()).await {
                Ok(page) => page,
                // It is listed at its new place next time.
                Err(RemoteError::NotFound(_)) if has_moved() => {
                    return Err(FolderError::Unavailable(
                        "the directory was just moved at the server".into(),
                    ));
                }
                Err(RemoteError::NotFound(_)) => return Err(self.directory_is_gone(directory)),
                Err(_) if planted::has(Bug::CutListingBelieved) => Page::default(),
                Err(error) => return Err(self.failed(error)),
            };
            for change in listing.page(&page).map_err(|error| self.bad_listing(error))? {
                self.apply(directory, change)?;
            }
            token = page.next;
            if token.is_none() {
                return Ok(listing);
            }
        }
    }

    /// The remote has no such directory. Whether that is so is for the listing of the one above it to say.
    fn directory_is_gone(self: &Arc<Self>, directory: Ino) -> FolderError {
        if self.is_on_its_way(directory) {
            return FolderError::Unavailable("the directory is just being moved at the server".into());
        }
        match self.shared.paths.place_of(directory) {
            Some(place) => {
                self.list(place.parent);
                FolderError::NotFound
            }
            None => self
                .failed(RemoteError::Store(StoreError::NoPlace { place: "directory of this folder".into() })),
        }
    }

    /// The remote no longer has a version that somebody reads: the directory is looked at.
    pub async fn version_is_gone(self: &Arc<Self>, ino: Ino) {
        if let Ok(Some(place)) = self.shared.inodes.place(ino) {
            // Its trouble is in the folder's state.
            let _ = self.look(&place).await;
        }
    }

    /// Whether the outbox has begun to do something with the directory or one above it, so that it may be at another place.
    fn is_on_its_way(&self, directory: Ino) -> bool {
        self.shared.ledger.read(|tree| {
            let (mut at, mut depth) = (directory, 0);
            while let Some(node) = tree.node(at).filter(|_| depth < super::shared::DEPTH_MAX) {
                if node.intent.is_some() {
                    return true;
                }
                match node.remote.as_ref() {
                    Some(known) => at = known.place.parent,
                    None => return false,
                }
                depth += 1;
            }
            false
        })
    }

    /// What a listing or a look has shown of a name.
    fn apply(&self, directory: Ino, change: Change) -> Result<(), FolderError> {
        let (before, after) = match change {
            Change::Changed { before, after } => (before, after),
            Change::New(_) => {
                self.pins.changed.notify_one();
                return Ok(());
            }
            Change::Same(_) | Change::Removed => return Ok(()),
        };
        self.pins.changed.notify_one();
        let place = Place::new(directory, after.entry.name.clone());
        let Some(ino) = self.shared.inodes.find(directory, &after.entry.name)? else { return Ok(()) };
        let (old, new) = (&before.entry, &after.entry);
        if old.kind == Kind::Directory && new.kind == Kind::Directory {
            return Ok(());
        }
        // What differs here is compared with the remote when it is uploaded.
        if self.shared.ledger.read(|tree| tree.occupant(&place).is_some()) {
            return Ok(());
        }
        let is_same = old.kind == new.kind && old.version == new.version;
        if !is_same && (old.kind != new.kind || self.shared.opens.is_open(ino)) {
            self.shared.inodes.detach(ino)?;
            self.shared.tell_entry(&place);
        } else {
            self.shared.tell_file(ino);
        }
        Ok(())
    }

    /// Whether all names of a directory are known.
    pub fn is_known(&self, directory: Ino) -> bool {
        self.is_only_here(directory) || self.shared.entries.directory(directory).listed.is_some()
    }

    fn is_only_here(&self, directory: Ino) -> bool {
        self.shared.ledger.read(|tree| tree.node(directory).is_some_and(|node| node.remote.is_none()))
    }

    /// Notes that a directory is used. Returns when it was listed last.
    fn use_of(&self, directory: Ino) -> Option<Instant> {
        let mut directories = self.directories.lock();
        let now = Instant::now();
        if directories.len() >= REMEMBERED_MAX && !directories.contains_key(&directory) {
            let oldest = directories.iter().min_by_key(|(_, at)| at.used).map(|(ino, _)| *ino);
            oldest.and_then(|oldest| directories.remove(&oldest));
        }
        let at = directories.entry(directory).or_insert(Use { used: now, listed: None });
        at.used = now;
        at.listed
    }

    fn was_listed(&self, directory: Ino, at: Instant) {
        if let Some(of) = self.directories.lock().get_mut(&directory) {
            of.listed = Some(at);
        }
    }

    /// Whether the remote failed a moment ago: nobody waits for it then.
    fn failed_lately(&self) -> bool {
        self.trouble.lock().as_ref().is_some_and(|(_, at)| at.elapsed() < FRESH)
    }

    fn works(&self) {
        *self.trouble.lock() = None;
    }

    fn failed(&self, error: RemoteError) -> FolderError {
        *self.trouble.lock() = Some((error.to_string(), Instant::now()));
        FolderError::Unavailable(error.to_string())
    }

    fn bad_listing(&self, error: ListingError) -> FolderError {
        let said = format!("the server's listing cannot be used, and nothing is removed: {error}");
        *self.trouble.lock() = Some((said.clone(), Instant::now()));
        FolderError::Unavailable(said)
    }
}

async fn landed(mut flight: Flight) -> Result<(), FolderError> {
    match flight.wait_for(Option::is_some).await {
        Ok(result) => result.clone().unwrap_or(Err(FolderError::Closed)),
        Err(_) => Err(FolderError::Closed),
    }
}

pub(super) fn local(error: super::entries::EntriesError) -> FolderError {
    FolderError::Local(error.to_string())
}

impl Shared {
    /// The front end forgets what a name stood for.
    pub fn tell_entry(&self, place: &Place) {
        // Nobody listens while the folder closes.
        let _ = self.stale.send(Stale::Entry { parent: place.parent, name: place.name.clone() });
    }

    /// The front end forgets what it knows of a file.
    pub fn tell_file(&self, ino: Ino) {
        let _ = self.stale.send(Stale::File(ino));
    }
}

impl Refresher {
    /// A directory that is gone at the remote has to be made again for what was changed in it.
    fn is_made_again(&self, ino: Ino, node: &Node) -> Result<(), FolderError> {
        let again = Node { remote: None, ..node.clone() };
        self.shared.ledger.change(|tree| match tree.node(ino) {
            Some(now) if now.remote == node.remote && now.intent.is_none() => {
                Ok((Step::one(ino, Some(Node { remote: None, ..now.clone() })), ()))
            }
            _ => Ok::<_, FolderError>((Step::default(), ())),
        })?;
        tracing::info!(path = self.shared.path_here(ino), kind = ?again.kind, "was removed at the server, and is made again");
        Ok(())
    }
}
