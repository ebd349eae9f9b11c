//! Pins of a folder, and freeing the space of its files.
//!
//! The engine remembers the pinned paths and walks them; here they get words, and a check that they fit the cache.

use super::condition::Phase;
use super::remote::Link;
use super::{Folder, Live};
use crate::api::{Action, ActivityKind, Code, Evicted, Failure, FolderCommand, Pin, PinState, Unit};
use crate::daemon::failure::{self, failure};
use crate::daemon::pins::{Keep, ROOT, What, wait};
use crate::daemon::work::Work;
use crate::sizes::format_bytes;
use holdall_core::disk::real::Directory;
use holdall_core::folder::{self, Amount, Folder as Engine, PinnedPath};
use std::io;
use std::sync::Arc;

/// Why a pin is kept only in part.
const TOO_LARGE: &str = "it does not fit the cache";

/// The engine's paths of a request.
pub(super) fn engine_paths(what: &What) -> Vec<String> {
    match what {
        What::Whole => vec![String::new()],
        What::Paths(paths) => paths.iter().map(|path| engine_path(path)).collect(),
    }
}

/// A path as the engine knows it: the root has no name.
pub(super) fn engine_path(path: &str) -> String {
    if path == ROOT { String::new() } else { path.trim_matches('/').to_owned() }
}

/// What pins take with a tenth to work with.
fn with_room(bytes: u64) -> u64 {
    bytes + bytes / 10
}

/// Whether `path` is `above` or lies in it.
pub(super) fn is_within(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Folder {
    /// The engine of the folder, which must be open.
    pub(super) fn opened_live(&self) -> Result<Live, Failure> {
        match &*self.phase.lock() {
            Phase::Open => self.live(),
            _ => Err(failure::folder_closed()),
        }
    }

    /// Always keeps files here, or only reports what that would mean. Returns the requested pins.
    pub async fn pin(&self, what: &What, keep: Keep, work: &Work) -> Result<Vec<Pin>, Failure> {
        let live = self.opened_live()?;
        let mut amounts = Vec::new();
        for path in engine_paths(what) {
            amounts.push((path.clone(), self.measured(&live, &path, work).await?));
        }
        if keep == Keep::Look {
            return Ok(self.would_be(&live, amounts));
        }
        self.check_fit(&live.engine, &amounts)?;
        if keep == Keep::Try {
            return Ok(self.would_be(&live, amounts));
        }
        for (path, _) in &amounts {
            live.engine.pin(path).await.map_err(|error| failure::folder(&error))?;
        }
        self.note(ActivityKind::Pin, format!("Always kept here from now on: {}.", what.words("folder")));
        // The engine counts them in the background: until then the answer has what was counted here.
        let counted = self.would_be(&live, amounts);
        let is_kept = |pin: &Pin| Pin { reason: None, ..pin.clone() };
        Ok(counted.iter().map(is_kept).collect())
    }

    /// Waits until all of it is here.
    pub async fn wait_for_pins(&self, what: &What, work: &Work) -> Result<Vec<Pin>, Failure> {
        let paths = engine_paths(what);
        // A path below a pinned one is kept by that one.
        let is_asked = |pin: &Pin| {
            let pinned = pin.path.as_deref().unwrap_or_default();
            paths.iter().any(|path| is_within(path, pinned) || is_within(pinned, path))
        };
        let waited = wait::until_ready(|| self.pins().into_iter().filter(is_asked).collect(), work).await;
        waited.map_err(|failure| match failure.code {
            Code::Paused => failure.with_actions(self.action(FolderCommand::Resume)),
            _ => failure,
        })
    }

    /// What a path amounts to, with all of its directories listed if the remote can be reached.
    async fn measured(&self, live: &Live, path: &str, work: &Work) -> Result<Amount, Failure> {
        let told = work.clone();
        let counted = move |files| told.progress("Looking at files", files, 0, Unit::Items);
        let looking = live.engine.measure(path, true, counted);
        match work.unless_interrupted(failure::NOTHING_CHANGED, looking).await? {
            Ok(amount) => Ok(amount),
            // What is known of it can be kept all the same.
            Err(folder::api::FolderError::Unavailable(_)) => {
                live.engine.amount(path).await.map_err(|error| self.unusable(path, &error))
            }
            Err(error) => Err(self.unusable(path, &error)),
        }
    }

    pub(super) fn unusable(&self, path: &str, error: &folder::api::FolderError) -> Failure {
        match error {
            folder::api::FolderError::NotFound | folder::api::FolderError::NotDirectory => failure(
                Code::NotFound,
                format!("There is no {}.", self.shown_path(path)),
                failure::NOTHING_CHANGED,
                "Check the path.",
            ),
            error => failure::folder(error),
        }
    }

    /// All pins with the new ones must fit the cache with a tenth to spare.
    fn check_fit(&self, engine: &Engine, new: &[(String, Amount)]) -> Result<(), Failure> {
        let there = engine.pinned_paths();
        let is_new = |path: &str| !there.iter().any(|pinned| is_within(path, &pinned.path));
        let is_above = |pinned: &&PinnedPath| new.iter().any(|(path, _)| is_within(&pinned.path, path));
        let new: Vec<_> = new.iter().filter(|(path, _)| is_new(path)).collect();
        let (asked, limit) = (new.iter().map(|(_, amount)| amount.bytes).sum::<u64>(), engine.cache_limit());
        let others = there.iter().filter(|pinned| !is_above(pinned));
        let others: u64 = others.filter_map(|pinned| pinned.amount).map(|amount| amount.bytes).sum();
        let needed = with_room(asked + others);
        if new.is_empty() || needed <= limit {
            return Ok(());
        }
        Err(failure(
            Code::Full,
            format!(
                "{} does not fit: with files that are already pinned, and a tenth to work with, the cache of {} would need {}, but its limit is {}.",
                format_bytes(asked),
                self.name,
                format_bytes(needed),
                format_bytes(limit)
            ),
            "Nothing was pinned.",
            [
                Action::GrowCache { size: Some(crate::daemon::drive::at_least(needed)) },
                Action::tell("Or keep less offline."),
            ],
        ))
    }

    fn would_be(&self, live: &Live, amounts: Vec<(String, Amount)>) -> Vec<Pin> {
        let pin = |(path, amount): (String, Amount)| {
            self.pin_of(Some(live), PinnedPath { path, amount: Some(amount), is_missing: false })
        };
        amounts.into_iter().map(pin).collect()
    }

    /// Removes pins. Returns those that were removed, with what is left of them here.
    pub async fn unpin(self: &Arc<Self>, what: &What) -> Result<Vec<Pin>, Failure> {
        let open = self.open.lock().await;
        self.check_known()?;
        let pins = self.pins();
        let path_of = |pin: &Pin| pin.path.clone().unwrap_or_default();
        let mut removed = Vec::new();
        for path in engine_paths(what) {
            let Some(pin) = pins.iter().find(|pin| path_of(pin) == path) else {
                let by = pins.iter().map(path_of).find(|pinned| is_within(&path, pinned));
                return Err(match what {
                    What::Whole => failure::folder_not_pinned(&self.name, !pins.is_empty()),
                    What::Paths(_) => {
                        failure::not_pinned(&self.shown_path(&path), by.map(|by| self.shown_path(&by)))
                    }
                });
            };
            removed.push(pin.clone());
        }
        let live = self.live.read().clone();
        for path in engine_paths(what) {
            let unpinned = match &live {
                Some(live) => live.engine.unpin(&path).await,
                None => {
                    let disk =
                        Directory::create(&self.directory()).map_err(|error| failure::local(&error))?;
                    folder::unpin_while_closed(Arc::new(disk), &path).await
                }
            };
            unpinned.map_err(|error| failure::folder(&error))?;
        }
        drop(open);
        self.note(ActivityKind::Pin, format!("No longer kept here: {}.", what.words("folder")));
        Ok(removed)
    }

    /// All pins of the folder, open or not.
    pub fn pins(&self) -> Vec<Pin> {
        let live = self.live.read().clone();
        let pinned = match &live {
            Some(live) => live.engine.pinned_paths(),
            None => self.pinned_while_closed().unwrap_or_else(|error| {
                tracing::warn!(folder = self.name, %error, "what is always kept here cannot be read");
                Vec::new()
            }),
        };
        pinned.into_iter().map(|pinned| self.pin_of(live.as_ref(), pinned)).collect()
    }

    fn pinned_while_closed(&self) -> io::Result<Vec<PinnedPath>> {
        let paths = folder::pinned_while_closed(Arc::new(Directory::create(&self.directory())?))?;
        let pinned = |path| PinnedPath { path, amount: None, is_missing: false };
        Ok(paths.into_iter().map(pinned).collect())
    }

    fn pin_of(&self, live: Option<&Live>, pinned: PinnedPath) -> Pin {
        let facts = live.map(|live| Facts {
            trouble: trouble(live),
            pause: self.pause(),
            is_over: with_room(live.engine.pinned_and_missing_bytes().0) > live.engine.cache_limit(),
        });
        let (state, reason) = state_of(facts.as_ref(), &pinned);
        let amount = pinned.amount.unwrap_or_default();
        let is_open = matches!(&*self.phase.lock(), Phase::Open);
        Pin {
            drive: self.name.clone(),
            at: is_open.then(|| self.mountpoint()).flatten().map(|at| match pinned.path.as_str() {
                "" => at.display().to_string(),
                path => at.join(path).display().to_string(),
            }),
            path: Some(pinned.path).filter(|path| !path.is_empty()),
            state,
            reason,
            files_ready: amount.files_here,
            files_total: amount.files,
            bytes: amount.bytes,
            ready_bytes: amount.local_bytes,
            unreadable: 0,
        }
    }

    /// Frees the space of files as far as the remote has them. Refuses a pinned path; a pinned part of a path stays.
    pub async fn evict(self: &Arc<Self>, what: &What, work: &Work) -> Result<Evicted, Failure> {
        for path in engine_paths(what) {
            let pins = self.pins();
            let path_of = |pin: &Pin| pin.path.clone().unwrap_or_default();
            if let Some(by) = pins.iter().map(path_of).find(|pinned| is_within(&path, pinned)) {
                return Err(failure::folder_evict_pinned(&self.name, &by, &self.shown_path(&by)));
            }
        }
        let open = self.open.lock().await;
        self.check_known()?;
        let there = open.as_ref().map(|open| open.live.engine.clone());
        if let Some(engine) = there {
            return self.evict_on(&engine, what, work).await;
        }
        // A closed folder's engine is begun for it.
        let (live, _stale) = self.begin(true, false).await?;
        let done = self.evict_on(&live.engine, what, work).await;
        let last = self.last_of(&live);
        if let Err(error) = live.engine.close().await {
            tracing::warn!(folder = self.name, %error, "the engine could not be closed in order");
        }
        self.figures.keep(last);
        done
    }

    async fn evict_on(&self, engine: &Engine, what: &What, work: &Work) -> Result<Evicted, Failure> {
        let mut sum = Evicted { bytes_freed: 0, stayed_bytes: 0 };
        for path in engine_paths(what) {
            work.progress("Freeing space", sum.bytes_freed, 0, Unit::Bytes);
            let freed = engine.evict(&path).await.map_err(|error| self.unusable(&path, &error))?;
            let amount = engine.amount(&path).await.map_err(|error| self.unusable(&path, &error))?;
            sum.bytes_freed += freed;
            sum.stayed_bytes += amount.local_bytes;
        }
        Ok(sum)
    }

    /// A path as a person sees it.
    pub(super) fn shown_path(&self, path: &str) -> String {
        match (self.mountpoint(), path) {
            (Some(at), "") => at.display().to_string(),
            (Some(at), path) => at.join(path).display().to_string(),
            (None, "") => self.name.clone(),
            (None, path) => format!("{path} in {}", self.name),
        }
    }
}

/// Why the remote cannot be used.
pub(super) fn trouble(live: &Live) -> Option<String> {
    match live.remote.link() {
        Link::Silent(why) => Some(why),
        Link::Unknown | Link::Answers | Link::Hindered(_) => live.engine.download_trouble(),
    }
}

/// What the state of a pin depends on, beside its files.
struct Facts {
    trouble: Option<String>,
    pause: Option<&'static str>,
    /// All pins together exceed the cache.
    is_over: bool,
}

/// The state of a pin, and the reason. Pure.
fn state_of(facts: Option<&Facts>, pinned: &PinnedPath) -> (PinState, Option<String>) {
    let Some(Facts { trouble, pause, is_over }) = facts else { return (PinState::Closed, None) };
    if pinned.is_missing {
        return (PinState::Error, Some("nothing has this name now".to_owned()));
    }
    let is_ready = pinned.amount.is_some_and(|amount| amount.files_here == amount.files);
    match (is_ready, trouble, pause) {
        (true, _, _) => (PinState::AlwaysKeep, None),
        (false, Some(trouble), _) => (PinState::Offline, Some(trouble.clone())),
        (false, None, Some(pause)) => (PinState::Paused, Some((*pause).to_owned())),
        (false, None, None) if *is_over => (PinState::Error, Some(TOO_LARGE.to_owned())),
        (false, None, None) => {
            let reason = pinned.amount.is_none().then(|| "its files are being counted".to_owned());
            (PinState::Syncing, reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_has_the_state_that_a_person_can_act_on() {
        let amount = |files_here| Some(Amount { files: 2, files_here, ..Amount::default() });
        let pinned = |amount| PinnedPath { path: "a".into(), amount, is_missing: false };
        let facts = |trouble: Option<&str>, pause, is_over| Facts {
            trouble: trouble.map(str::to_owned),
            pause,
            is_over,
        };
        let of = |facts: &Facts, amount| state_of(Some(facts), &pinned(amount)).0;
        let well = facts(None, None, false);
        assert_eq!(state_of(None, &pinned(amount(2))).0, PinState::Closed);
        assert_eq!(of(&facts(Some("away"), Some("paused"), true), amount(2)), PinState::AlwaysKeep);
        assert_eq!(of(&facts(Some("away"), Some("paused"), true), amount(1)), PinState::Offline);
        assert_eq!(of(&facts(None, Some("paused"), true), amount(1)), PinState::Paused);
        assert_eq!(of(&facts(None, None, true), amount(1)), PinState::Error);
        assert_eq!((of(&well, amount(1)), of(&well, None)), (PinState::Syncing, PinState::Syncing));
        let missing = PinnedPath { is_missing: true, ..pinned(amount(0)) };
        assert_eq!(state_of(Some(&well), &missing).0, PinState::Error);
    }

    #[test]
    fn the_root_of_a_folder_has_no_name() {
        assert_eq!(engine_paths(&What::Whole), [""]);
        assert_eq!(engine_paths(&What::Paths(vec![".".into(), "a/b".into()])), ["", "a/b"]);
        assert!(is_within("a/b", "") && is_within("a/b", "a") && !is_within("ab", "a"));
    }
}
