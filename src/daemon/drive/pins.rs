//! Pins of a drive: what a person wants always kept on this device.
//!
//! A person pins paths; the engine keeps blocks. A scan of the mounted file system finds the blocks of the paths: when a path is pinned, at
//! each opening, and when something at or below the path has changed (`follow`). Until all paths were scanned since the opening, a scan
//! only adds to what is kept; so no pinned block is evicted because its path was not scanned yet.
//!
//! **The order of a change**: the file first, then the engine. After a crash in between, the next opening keeps what the person asked for.

use super::Drive;
use super::scanning::{Piece, ScanError, Scanner};
use crate::api::{self, Failure, Pin, PinState};
use crate::daemon::failure;
use crate::daemon::pins::ROOT;
use holdall_core::units::BLOCK_BYTES;
use holdall_core::volume::{Pinned, Volume};
use parking_lot::Mutex;
use saved::{Loaded, Saved};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tally::{Figures, Tally};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use change::{at_least, words};

mod change;
mod enough;
mod evict;
mod fit;
mod follow;
mod saved;
mod tally;

/// Why a pin is kept only in part.
const TOO_LARGE: &str = "it does not fit the cache";

/// The pins of one drive, open or not.
pub struct Pins {
    // Held to read or change them, never while waiting.
    state: Mutex<State>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
    /// Set while the drive is mounted. Held to copy it.
    eyes: Mutex<Option<Eyes>>,
    /// Asks for all paths to be scanned again.
    look_again: Notify,
}

/// The tasks that look at the mounted drive's files.
struct Eyes {
    scanner: Arc<Scanner>,
    /// Follows changes, on a drive that is open for writing.
    following: Option<JoinHandle<()>>,
}

#[derive(Clone, Default)]
struct State {
    whole: bool,
    /// Relative to the drive's root.
    paths: BTreeMap<String, Kept>,
    /// The blocks as `pins.json` has them.
    saved: Saved,
    /// Why earlier pins are no longer known.
    lost: Option<String>,
    /// Pinned bytes that do not fit the cache. Those that were pinned while they still fitted are kept all the same.
    too_much: u64,
    /// Whether what is kept exceeds the whole cache: it was pinned when the cache was larger.
    is_over: bool,
    /// Figures of the whole drive, from when it was open.
    whole_figures: Figures,
    /// Its files, if it is pinned whole and they were scanned: only to count them, since all blocks are kept anyway.
    whole_files: Option<Arc<Tally>>,
}

/// A path that is pinned.
#[derive(Clone, Default)]
struct Kept {
    /// The files that are there; `None` before the first scan since the opening, or if it cannot be scanned.
    tally: Option<Arc<Tally>>,
    /// Whether the scan saw everything; if not, the blocks of the scan before stay pinned too.
    is_seen: bool,
    /// Why it cannot be kept.
    problem: Option<String>,
    /// The figures that were shown last.
    figures: Figures,
}

impl Pins {
    /// Loads the pins that are remembered in a drive's directory. `expected` if there should be some.
    pub fn load(directory: &Path, expected: bool) -> Self {
        let mut state = State::default();
        match Saved::load(directory, expected) {
            Loaded::Pins(saved) => {
                state.whole = saved.whole;
                state.paths = saved.paths.iter().map(|path| (path.clone(), Kept::default())).collect();
                state.saved = saved;
            }
            Loaded::Lost(why) => {
                tracing::error!(?directory, why, "the list of files that are always kept here is lost");
                state.lost = Some(why);
            }
        }
        Self {
            state: Mutex::new(state),
            changing: tokio::sync::Mutex::default(),
            eyes: Mutex::default(),
            look_again: Notify::new(),
        }
    }

    /// The blocks that the engine must keep from the moment that it opens.
    pub fn at_open(&self) -> Pinned {
        self.state.lock().saved.pinned()
    }

    /// A warning about the pins of a drive that is open as `volume`, or is not open.
    pub fn warning(&self, volume: Option<&Volume>) -> Option<String> {
        let state = self.state.lock();
        let without_room = || volume.map_or(0, |volume| volume.pins_status().without_room_bytes);
        let too_much = if state.whole { without_room() } else { state.too_much };
        let lost = state.lost.as_ref().map(|why| {
            format!(
                "the list of files that are always kept on this computer is lost ({why}): choose them again"
            )
        });
        lost.or_else(|| {
            (too_much > 0).then(|| {
                format!(
                    "{} of the files that are always kept here do not fit the cache: enlarge it, or keep less",
                    crate::sizes::format_bytes(too_much)
                )
            })
        })
    }

    /// The pinned paths, and whether the whole drive is.
    pub(super) fn wanted(&self) -> (Vec<String>, bool) {
        let state = self.state.lock();
        (state.paths.keys().cloned().collect(), state.whole)
    }

    fn is_wanted(&self, path: &str) -> bool {
        let state = self.state.lock();
        state.paths.contains_key(path) || state.whole && path == ROOT
    }
}

impl Drive {
    /// Starts looking at the files of the drive, which was just mounted.
    pub(super) fn begin_pins(self: &Arc<Self>, volume: &Arc<Volume>, writable: bool) {
        let Some(place) = self.place.read().clone() else { return };
        let (heard, hear) = tokio::sync::mpsc::unbounded_channel();
        let scanner = Scanner::new(place.mounted, heard);
        let following = writable.then(|| {
            let (drive, volume) = (Arc::downgrade(self), Arc::downgrade(volume));
            tokio::spawn(follow::follow(drive, volume, scanner.clone(), hear))
        });
        *self.pins.eyes.lock() = Some(Eyes { scanner, following });
    }

    /// Stops that, so that the drive can be unmounted. Blocks for as long as it takes to end a process.
    pub(super) async fn end_pins(&self) {
        let eyes = self.pins.eyes.lock().take();
        let Some(Eyes { scanner, following }) = eyes else { return };
        if let Some(following) = following {
            following.abort();
            let _ = following.await;
        }
        let _ = tokio::task::spawn_blocking(move || scanner.stop()).await;
        let mut state = self.pins.state.lock();
        // The next opening scans them again.
        state.paths.values_mut().for_each(|path| (path.tally, path.is_seen) = (None, false));
        state.whole_files = None;
    }

    /// Has all pinned paths scanned again.
    pub(super) fn look_at_pins_again(&self) {
        self.pins.look_again.notify_one();
    }

    pub(super) fn scanner(&self) -> Result<Arc<Scanner>, Failure> {
        let scanner = self.pins.eyes.lock().as_ref().map(|eyes| eyes.scanner.clone());
        scanner.ok_or_else(|| failure::not_mounted(&self.name))
    }

    /// Scans `path`, counting files as they are found.
    async fn tally(
        &self,
        path: &str,
        how: (bool, bool),
        counted: impl Fn(u64) + Send + 'static,
    ) -> Result<Tally, ScanError> {
        let tally = Arc::new(Mutex::new(Some(Tally::default())));
        let collected = tally.clone();
        let mut files_found = 0;
        let collect = Box::new(move |piece| {
            let Piece::Runs(files, directories) = piece else { return true };
            files_found += files.len() as u64;
            counted(files_found);
            collected.lock().as_mut().is_some_and(|tally| tally.add(&files, &directories))
        });
        let blind = self
            .scanner()
            .map_err(|failure| ScanError::Gone(failure.message))?
            .scan(path, how, collect)
            .await?;
        let mut tally = tally.lock().take().unwrap_or_default();
        tally.blind = blind;
        Ok(tally)
    }

    /// Has the engine keep what is pinned now, and remembers it. One caller at a time.
    fn apply_pins(&self, volume: &Volume) -> io::Result<()> {
        let (whole, paths, wanted, before) = {
            let state = self.pins.state.lock();
            let unseen = state.paths.values().any(|path| !path.is_seen);
            let seen = state
                .paths
                .values()
                .filter_map(|path| path.tally.as_ref())
                .flat_map(|tally| tally.all_runs());
            let before = state.saved.runs().filter(|_| unseen);
            let wanted = Pinned::runs(seen.chain(before));
            (state.whole, state.paths.keys().cloned().collect(), wanted, Pinned::runs(state.saved.runs()))
        };
        let (wanted, too_much) = if whole { (wanted, 0) } else { self.what_fits(volume, wanted, &before) };
        let is_over = too_much > 0 && {
            let status = volume.status();
            let stays = volume.cache_stays_bytes(&wanted).saturating_sub(status.metadata_without_room_bytes);
            stays > status.cache_limit_bytes
        };
        let saved = Saved::new(whole, paths, wanted.as_runs());
        let is_new = {
            let mut state = self.pins.state.lock();
            (state.too_much, state.is_over) = (too_much, is_over);
            state.saved != saved
        };
        if is_new {
            saved.save(&self.registry.directory(&self.name))?;
            if !self.config.lock().pins {
                self.remember(|config| config.pins = true)
                    .map_err(|failure| io::Error::other(failure.message))?;
            }
            self.pins.state.lock().saved = saved;
        }
        let pinned = if whole { Pinned::whole() } else { wanted };
        if *volume.pinned() != pinned {
            volume.set_pinned(pinned)?;
        }
        Ok(())
    }

    /// The part of `wanted` that the cache can hold, and the bytes that it cannot.
    fn what_fits(&self, volume: &Volume, wanted: Pinned, before: &Pinned) -> (Pinned, u64) {
        // Pending uploads are not counted: they will become evictable, and most of them are just the newly written pinned data.
        let needed = volume.cache_stays_bytes(&wanted);
        let limit = volume.status().cache_limit_bytes;
        // A tenth is left to work with.
        if needed + needed / 10 <= limit {
            return (wanted, 0);
        }
        let room = limit / 11 * 10;
        let bytes: u64 = wanted.as_runs().iter().map(|run| run.byte_len()).sum();
        let too_much = bytes.min(needed - room);
        let fitting = fit::fit(wanted.as_runs(), before.as_runs(), (bytes - too_much) / BLOCK_BYTES);
        // It counts as too much even if all of it was pinned before and so stays: the cache then exceeds its limit.
        (Pinned::runs(fitting), too_much)
    }

    /// All pins of the drive.
    pub fn pins(&self) -> Vec<Pin> {
        let volume = self.live.read().clone();
        let root = self.place.read().as_ref().map(|place| place.mounted.mountpoint().to_owned());
        let mut state = self.pins.state.lock();
        let too_much = state.too_much > 0;
        // Until all paths were scanned, blocks stay that may be evicted afterwards.
        let is_over = state.is_over && state.paths.values().all(|pin| pin.is_seen);
        let mut pins = Vec::new();
        if state.whole {
            let status = volume.as_ref().map(|volume| volume.pins_status());
            let (mut is_counted, mut trouble, mut fits) = (true, None, true);
            let files = state.whole_files.as_ref().zip(volume.as_ref());
            let files = files.map_or(state.whole_figures, |(files, volume)| files.figures(volume, false).0);
            if let Some(status) = status {
                fits = status.without_room_bytes == 0;
                state.whole_figures = Figures {
                    bytes: status.pinned_bytes,
                    ready_bytes: status.pinned_bytes.saturating_sub(status.missing_bytes),
                    ..files
                };
                (is_counted, trouble) = (status.is_counted, status.trouble);
            }
            let figures = state.whole_figures;
            let is_ready = is_counted && figures.bytes == figures.ready_bytes;
            let (mut pin_state, mut reason) = self.state_of(volume.as_deref(), is_ready, trouble);
            if pin_state == PinState::Syncing && !fits {
                (pin_state, reason) = (PinState::Error, Some(TOO_LARGE.to_owned()));
            }
            pins.push(self.pin_of(None, root.as_deref(), (pin_state, reason), figures, 0));
        }
        for (path, pin) in &mut state.paths {
            let mut fits = true;
            if let (Some(volume), Some(tally)) = (&volume, &pin.tally) {
                (pin.figures, fits) = tally.figures(volume, too_much);
            }
            let figures = pin.figures;
            let is_ready = pin.is_seen
                && fits
                && pin.tally.is_some()
                && (figures.files_ready, figures.ready_bytes) == (figures.files_total, figures.bytes);
            let (mut pin_state, mut reason) = self.state_of(volume.as_deref(), is_ready, pin.problem.clone());
            let is_refused = pin_state == PinState::Syncing && !fits;
            if is_refused || is_over && matches!(pin_state, PinState::Syncing | PinState::AlwaysKeep) {
                (pin_state, reason) = (PinState::Error, Some(TOO_LARGE.to_owned()));
            }
            if pin_state == PinState::Syncing && pin.tally.is_none() {
                reason = Some("its files are being counted".to_owned());
            }
            if pin_state == PinState::Syncing && reason.is_none() {
                reason = volume.as_ref().and_then(|volume| volume.pins_trouble());
            }
            if pin.problem.is_some() && volume.is_some() {
                pin_state = PinState::Error;
            }
            let unreadable = pin.tally.as_ref().map_or(0, |tally| tally.blind.unreadable);
            pins.push(self.pin_of(Some(path), root.as_deref(), (pin_state, reason), figures, unreadable));
        }
        pins
    }

    fn state_of(
        &self,
        volume: Option<&Volume>,
        is_ready: bool,
        problem: Option<String>,
    ) -> (PinState, Option<String>) {
        let Some(volume) = volume else { return (PinState::Closed, None) };
        if let (false, Some(trouble)) = (is_ready, &volume.puller().health().borrow().trouble) {
            return (PinState::Offline, problem.or_else(|| Some(trouble.clone())));
        }
        match (is_ready, self.pause()) {
            (true, _) => (PinState::AlwaysKeep, problem),
            (false, Some(why)) => (PinState::Paused, Some(why.to_owned())),
            (false, None) => (PinState::Syncing, problem),
        }
    }

    fn pin_of(
        &self,
        path: Option<&String>,
        root: Option<&Path>,
        (state, reason): (PinState, Option<String>),
        figures: Figures,
        unreadable: u64,
    ) -> Pin {
        let at = root.map(|root| match path.map(String::as_str) {
            None | Some(".") => root.to_owned(),
            Some(path) => root.join(path),
        });
        let Figures { files_ready, files_total, bytes, ready_bytes } = figures;
        api::Pin {
            drive: self.name.clone(),
            path: path.cloned(),
            at: at.map(|at| at.display().to_string()),
            state,
            reason,
            files_ready,
            files_total,
            bytes,
            ready_bytes,
            unreadable,
        }
    }
}
