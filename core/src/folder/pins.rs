//! Files and directories that are always kept on this device, by path.
//!
//! A pinned directory stands for all that is in it, now and later: it is walked again when names change and regularly. The pins are a
//! small file; what they stand for is computed.

use super::api::FolderError;
use super::entries::Cookie;
use super::node::Ino;
use super::open_folder::Folder;
use super::small_file;
use super::spans::Span;
use crate::disk::Disk;
use crate::pull::Class;
use crate::store::remote::Kind;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;

const NAME: &str = "pins.json";
const VERSION: u32 = 1;
/// How often pinned directories are walked without a reason.
const EVERY: Duration = Duration::from_secs(900);
/// How long changes of names are gathered before a walk.
const GATHER: Duration = Duration::from_secs(1);
/// After a walk that failed, the next one.
const AGAIN: Duration = Duration::from_secs(60);
/// Entries that are read in one step.
const STEP: usize = 512;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Saved {
    version: u32,
    paths: BTreeSet<String>,
}

/// The pins of a folder.
pub(super) struct Pins {
    disk: Arc<dyn Disk>,
    // Held to look at them or change them.
    paths: Mutex<BTreeSet<String>>,
    /// One writer of the file at a time.
    saving: tokio::sync::Mutex<()>,
    /// The file has other pins, since it could not be replaced.
    is_unsaved: AtomicBool,
    /// Names have changed.
    pub changed: Notify,
    /// What the paths stood for at the last walk. A path is missing until it was walked, and while nothing has its name.
    // Held to look at it or replace it.
    walked: Mutex<BTreeMap<String, Walked>>,
}

/// What a pinned path stood for when it was last walked.
#[derive(Clone, Default)]
struct Walked {
    /// Files that the remote has in this version.
    spans: Vec<Arc<Span>>,
    /// Files that only this device has, or has in a newer version.
    own_files: u64,
    own_bytes: u64,
    /// Nothing has the name.
    is_missing: bool,
}

/// A pinned path, and how much of it is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPath {
    /// The path; "" is the whole folder.
    pub path: String,
    /// What it amounts to; `None` until its files were counted.
    pub amount: Option<Amount>,
    /// Nothing has its name now. It is kept as soon as something has.
    pub is_missing: bool,
}

/// What a path amounts to, as far as it is known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Files.
    pub files: u64,
    /// Files of which all bytes are here.
    pub files_here: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of these that are here.
    pub local_bytes: u64,
    /// A directory below it was never listed, so there may be more.
    pub is_partial: bool,
}

impl Pins {
    pub fn load(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let saved: Option<Saved> = small_file::load(&*disk, NAME)?;
        if saved.as_ref().is_some_and(|saved| saved.version != VERSION) {
            let reason = format!(
                "{NAME} was written by a newer program, which can open the folder; nothing was changed"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let paths = Mutex::new(saved.map_or_else(BTreeSet::new, |saved| saved.paths));
        let (saving, is_unsaved, changed, walked) = Default::default();
        Ok(Self { disk, paths, saving, is_unsaved, changed, walked })
    }

    /// All of them.
    pub fn paths(&self) -> BTreeSet<String> {
        self.paths.lock().clone()
    }

    async fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) -> Result<(), FolderError> {
        let _turn = self.saving.lock().await;
        let mut paths = self.paths();
        change(&mut paths);
        let saved = Saved { version: VERSION, paths };
        small_file::save(&*self.disk, NAME, &saved).await?;
        *self.paths.lock() = saved.paths;
        self.is_unsaved.store(false, Ordering::SeqCst);
        self.changed.notify_one();
        Ok(())
    }

    /// A file or directory was renamed: pins go with it. The rename is a fact, so a disk that cannot remember the pins now does not undo it:
    /// [`save_again`](Self::save_again) tries later.
    pub async fn renamed(&self, from: &str, to: &str) {
        if !self.paths.lock().iter().any(|path| is_within(path, from)) {
            return;
        }
        let _turn = self.saving.lock().await;
        let saved = {
            let mut paths = self.paths.lock();
            let moved: Vec<String> = paths.iter().filter(|path| is_within(path, from)).cloned().collect();
            for path in moved {
                paths.remove(&path);
                paths.insert(format!("{to}{}", &path[from.len()..]));
            }
            Saved { version: VERSION, paths: paths.clone() }
        };
        let done = small_file::save(&*self.disk, NAME, &saved).await;
        self.is_unsaved.store(done.is_err(), Ordering::SeqCst);
        self.changed.notify_one();
        if let Err(error) = done {
            tracing::warn!(
                from,
                to,
                %error,
                "what is always kept on this device has a new name, which cannot be written down now: Holdall tries again"
            );
        }
    }

    /// Writes down what could not be written down before. Returns whether all is.
    pub async fn save_again(&self) -> bool {
        let is_unsaved = self.is_unsaved.load(Ordering::SeqCst);
        !is_unsaved || self.change(|_| {}).await.is_ok()
    }
}

/// Whether `path` is `above` or lies in it.
fn is_within(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Amount {
    /// One more file, of which `here` bytes are here.
    fn add(&mut self, bytes: u64, here: u64) {
        self.files += 1;
        self.files_here += u64::from(here >= bytes);
        self.bytes += bytes;
        self.local_bytes += here;
    }
}

/// The pinned paths of a folder that is not open, by its directory `disk`.
///
/// # Errors
///
/// The file cannot be read, or a newer program has written it.
pub fn pinned_while_closed(disk: Arc<dyn Disk>) -> io::Result<BTreeSet<String>> {
    Ok(Pins::load(disk)?.paths())
}

/// Keeps a path of a folder that is not open no longer. Returns whether it was pinned. Nothing may open the folder meanwhile.
pub async fn unpin_while_closed(disk: Arc<dyn Disk>, path: &str) -> Result<bool, FolderError> {
    let pins = Pins::load(disk)?;
    let was_pinned = pins.paths().contains(path);
    if was_pinned {
        pins.change(|paths| {
            paths.remove(path);
        })
        .await?;
    }
    Ok(was_pinned)
}

impl Folder {
    /// Keeps a file or directory here from now on. Missing bytes are pulled in the background.
    pub async fn pin(&self, path: &str) -> Result<(), FolderError> {
        self.resolve(path).await?;
        // Counted again with all that it takes in.
        self.pins.walked.lock().retain(|other, _| !is_within(other, path));
        self.pins
            .change(|paths| {
                // What lies in it is kept by it.
                paths.retain(|other| !is_within(other, path));
                if !paths.iter().any(|above| is_within(path, above)) {
                    paths.insert(path.to_owned());
                }
            })
            .await
    }

    /// Keeps a file or directory no longer. Returns whether it was pinned itself. Its files may be evicted at once, even while the remote
    /// cannot be reached; if the local disk does not let them go, they only stay until the folder is opened again.
    pub async fn unpin(&self, path: &str) -> Result<bool, FolderError> {
        let was_pinned = self.pins.paths().contains(path);
        if was_pinned {
            self.pins
                .change(|paths| {
                    paths.remove(path);
                })
                .await?;
            let left: Vec<_> = {
                let mut walked = self.pins.walked.lock();
                walked.remove(path);
                walked.values().flat_map(|seen| seen.spans.iter().cloned()).collect()
            };
            if let Err(error) = self.shared.copy.set_pinned(left) {
                tracing::warn!(path, %error, "a file that is no longer pinned stays until the folder is opened again");
            }
        }
        Ok(was_pinned)
    }

    /// The pinned paths.
    pub fn pinned(&self) -> BTreeSet<String> {
        self.pins.paths()
    }

    /// The pinned path that keeps this one here.
    pub fn pinned_by(&self, path: &str) -> Option<String> {
        self.pins.paths().into_iter().find(|above| is_within(path, above))
    }

    /// Bytes of pinned files, and how many of them are not here yet.
    pub fn pinned_and_missing_bytes(&self) -> (u64, u64) {
        self.shared.copy.pinned_and_missing_bytes()
    }

    /// The pinned paths, and how much of each is here. Looks at what the last walk found.
    pub fn pinned_paths(&self) -> Vec<PinnedPath> {
        let paths = self.pins.paths();
        let walked = self.pins.walked.lock().clone();
        let pinned = |path: String| {
            let seen = walked.get(&path);
            let is_missing = seen.is_some_and(|seen| seen.is_missing);
            PinnedPath { amount: seen.map(|seen| self.amount_of(seen)), is_missing, path }
        };
        paths.into_iter().map(pinned).collect()
    }

    fn amount_of(&self, walked: &Walked) -> Amount {
        let Walked { spans, own_files, own_bytes, .. } = walked;
        let mut amount = Amount {
            files: *own_files,
            files_here: *own_files,
            bytes: *own_bytes,
            local_bytes: *own_bytes,
            is_partial: false,
        };
        for span in spans {
            amount.add(span.len(), self.shared.copy.local_bytes(span));
        }
        amount
    }

    /// What a path amounts to, without asking the remote.
    pub async fn amount(&self, path: &str) -> Result<Amount, FolderError> {
        self.measure(path, false, |_| {}).await
    }

    /// What a path amounts to. `lists`: directories that were never listed are. `counted` is called with the number of files so far.
    pub async fn measure(
        &self,
        path: &str,
        lists: bool,
        mut counted: impl FnMut(u64) + Send,
    ) -> Result<Amount, FolderError> {
        let mut amount = Amount::default();
        let is_partial = self
            .each_file(self.resolve(path).await?, lists, &mut |ino| {
                let attributes = self.shared.attributes_of(ino)?;
                let here = match self.shared.contents.has(ino) {
                    true => attributes.len - self.shared.missing_bytes(ino, attributes.len),
                    false => self.local_span(ino)?.map_or(0, |span| self.shared.copy.local_bytes(&span)),
                };
                amount.add(attributes.len, here);
                counted(amount.files);
                Ok(())
            })
            .await?;
        Ok(Amount { is_partial, ..amount })
    }

    /// Frees the space that a file or directory takes here, except for what is pinned, open or not uploaded. Returns the bytes freed.
    pub async fn evict(&self, path: &str) -> Result<u64, FolderError> {
        let mut spans = Vec::new();
        self.each_file(self.resolve(path).await?, false, &mut |ino| {
            spans.extend(self.local_span(ino)?.filter(|_| !self.shared.opens.is_open(ino)));
            Ok(())
        })
        .await?;
        let mut freed = 0;
        for span in spans {
            freed += self.shared.copy.evict(&span).await?;
        }
        Ok(freed)
    }

    /// Pulls all of a file or directory, and returns when it is here.
    pub async fn fetch(&self, path: &str) -> Result<(), FolderError> {
        let mut spans = Vec::new();
        self.each_file(self.resolve(path).await?, true, &mut |ino| {
            spans.extend(self.wanted_span(ino)?);
            Ok(())
        })
        .await?;
        for span in spans {
            self.shared.copy.make_whole(&span, Class::Pinned).await?;
        }
        Ok(())
    }

    /// What of the current version is here.
    pub(super) fn local_span(&self, ino: Ino) -> Result<Option<Arc<Span>>, FolderError> {
        let known = self.shared.known_of(ino)?;
        let span = self.shared.copy.current(ino);
        Ok(span.filter(|span| known.is_some_and(|known| known.version == *span.version())))
    }

    pub(super) fn wanted_span(&self, ino: Ino) -> Result<Option<Arc<Span>>, FolderError> {
        if self.shared.contents.has(ino) {
            return Ok(None);
        }
        match self.shared.known_of(ino)? {
            Some(known) => Ok(Some(self.shared.copy.span_of(ino, &known.version)?)),
            None => Ok(None),
        }
    }

    /// Calls `with` for each file in a directory and below, or for the file. `lists`: directories are listed where they are not known or may
    /// be out of date. Returns whether some could not be looked into.
    pub(super) async fn each_file(
        &self,
        ino: Ino,
        lists: bool,
        with: &mut (dyn FnMut(Ino) -> Result<(), FolderError> + Send),
    ) -> Result<bool, FolderError> {
        match self.shared.kind_of(ino)? {
            Kind::File => return with(ino).map(|()| false),
            Kind::Link => return Ok(false),
            Kind::Directory => {}
        }
        let (mut open, mut is_partial) = (vec![ino], false);
        while let Some(directory) = open.pop() {
            if lists {
                self.refresher.listed(directory).await?;
            }
            is_partial |= !self.refresher.is_known(directory);
            let mut after = Cookie::START;
            loop {
                let entries = self.entries_after(directory, after, STEP)?;
                let Some(last) = entries.last() else { break };
                after = last.cookie;
                for entry in &entries {
                    match entry.attributes.kind {
                        Kind::Directory => open.push(entry.attributes.ino),
                        Kind::File => with(entry.attributes.ino)?,
                        Kind::Link => {}
                    }
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(is_partial)
    }

    /// Pins the spans that the pinned paths stand for now. While some of them cannot be looked through, nothing that was pinned is let go.
    async fn walk_pins(&self) -> Result<(), FolderError> {
        let mut walked = BTreeMap::new();
        for path in self.pins.paths() {
            let ino = match self.resolve(&path).await {
                // It may come back: a pin is a person's word.
                Err(FolderError::NotFound | FolderError::NotDirectory) => {
                    walked.insert(path, Walked { is_missing: true, ..Walked::default() });
                    continue;
                }
                ino => ino?,
            };
            let mut seen = Walked::default();
            self.each_file(ino, true, &mut |ino| {
                match self.wanted_span(ino)? {
                    Some(span) => seen.spans.push(span),
                    None => {
                        seen.own_files += 1;
                        seen.own_bytes += self.shared.attributes_of(ino)?.len;
                    }
                }
                Ok(())
            })
            .await?;
            walked.insert(path, seen);
        }
        let spans: Vec<_> = walked.values().flat_map(|seen| seen.spans.iter().cloned()).collect();
        *self.pins.walked.lock() = walked;
        Ok(self.shared.copy.set_pinned(spans)?)
    }
}

/// Keeps the pinned files here while the folder is open.
pub(super) async fn keep(folder: Weak<Folder>, pins: Arc<Pins>) {
    let mut wait = Duration::ZERO;
    loop {
        let _ = tokio::time::timeout(wait, pins.changed.notified()).await;
        tokio::time::sleep(GATHER).await;
        let Some(folder) = folder.upgrade() else { return };
        wait = EVERY;
        if let Err(error) = folder.walk_pins().await {
            tracing::debug!(%error, "pinned directories cannot be looked through now");
            wait = AGAIN;
        }
        if !pins.save_again().await {
            wait = AGAIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::disk::{DiskFaults, SimDisk};

    #[tokio::test]
    async fn pins_are_remembered_and_follow_renames() {
        let disk = Arc::new(SimDisk::new(1, DiskFaults::default()));
        let pins = Pins::load(disk.clone()).unwrap();
        pins.change(|paths| paths.extend(["a/b".into(), "ab".into(), "c".into()])).await.unwrap();
        pins.renamed("a", "x/y").await;
        pins.renamed("c", "d").await;
        disk.power_cut();
        let paths = Pins::load(disk).unwrap().paths();
        assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["ab", "d", "x/y/b"]);
    }

    #[tokio::test]
    async fn pins_follow_a_rename_that_cannot_be_written_down_at_once() {
        let disk = Arc::new(SimDisk::new(1, DiskFaults::default()));
        let pins = Pins::load(disk.clone()).unwrap();
        pins.change(|paths| paths.extend(["a".into(), "b".into()])).await.unwrap();
        disk.set_faults(DiskFaults { sync_fails: 1000, ..DiskFaults::default() });
        pins.renamed("a", "c").await;
        let here = |pins: &Pins| pins.paths().into_iter().collect::<Vec<_>>();
        assert_eq!(here(&pins), ["b", "c"]);
        assert!(!pins.save_again().await);
        disk.set_faults(DiskFaults::default());
        assert!(pins.save_again().await);
        disk.power_cut();
        assert_eq!(here(&Pins::load(disk).unwrap()), ["b", "c"]);
    }

    #[test]
    fn a_path_lies_in_itself_and_in_what_is_above() {
        assert!(is_within("a/b", "a") && is_within("a", "a") && is_within("a", ""));
        assert!(!is_within("ab", "a") && !is_within("a", "a/b"));
    }
}
