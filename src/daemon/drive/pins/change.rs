//! Pinning and unpinning.

use super::super::Drive;
use super::super::scanning::ScanError;
use super::Kept;
use super::tally::{Figures, Tally};
use crate::api::{Action, ActivityKind, Code, Failure, Pin, Unit};
use crate::daemon::failure::{self, failure};
use crate::daemon::pins::{Keep, ROOT, What, is_below, wait};
use crate::daemon::work::Work;
use crate::scanner::Unscannable;
use crate::sizes::format_bytes;
use holdall_core::volume::{Pinned, Volume};
use std::sync::Arc;

impl Drive {
    /// Always keeps files here, or only reports what that would mean. Returns the requested pins.
    pub async fn pin(self: &Arc<Self>, what: &What, keep: Keep, work: &Work) -> Result<Vec<Pin>, Failure> {
        let volume = self.mounted_volume(keep != Keep::Look).await?;
        let _change = self.pins.changing.lock().await;
        let mut tallies = Vec::new();
        if let What::Paths(paths) = what {
            for path in paths {
                match self.tally_for(path, keep == Keep::Do, work).await {
                    Ok(tally) => tallies.push((path.clone(), Arc::new(tally))),
                    Err(failure) => return Err(self.not_pinned(paths, failure)),
                }
            }
        }
        if keep == Keep::Look {
            return self.would_be(&volume, what, &tallies).await;
        }
        let fits = self.check_fit(&volume, what, &tallies).await;
        if keep == Keep::Try {
            // A refusal is reported as one.
            fits?;
            return self.would_be(&volume, what, &tallies).await;
        }
        if let (Err(failure), What::Paths(paths)) = (&fits, what) {
            return Err(self.not_pinned(paths, failure.clone()));
        }
        fits?;
        let before = self.pins.state.lock().clone();
        {
            let mut state = self.pins.state.lock();
            state.lost = None;
            match what {
                What::Whole => state.whole = true,
                What::Paths(_) => {
                    let kept = |tally: Arc<Tally>| Kept {
                        is_seen: !tally.blind.failed,
                        tally: Some(tally),
                        ..Kept::default()
                    };
                    state
                        .paths
                        .extend(tallies.iter().map(|(path, tally)| (path.clone(), kept(tally.clone()))));
                }
            }
        }
        self.apply_pins(&volume).map_err(|error| self.pins_stay(before, &error))?;
        if matches!(what, What::Whole) {
            // So that its files are counted.
            self.look_at_pins_again();
        }
        self.note(ActivityKind::Pin, format!("Always kept here from now on: {}.", what.words("drive")));
        Ok(self.asked(what))
    }

    /// Waits until all of it is here.
    pub async fn wait_for_pins(self: &Arc<Self>, what: &What, work: &Work) -> Result<Vec<Pin>, Failure> {
        wait::until_ready(|| self.asked(what), work).await
    }

    /// Removes pins. Returns those that were removed.
    pub async fn unpin(self: &Arc<Self>, what: &What) -> Result<Vec<Pin>, Failure> {
        let _change = self.pins.changing.lock().await;
        let before = self.pins.state.lock().clone();
        let mut pins = self.asked(what);
        if matches!(what, What::Whole) && self.pins.state.lock().paths.contains_key(ROOT) {
            pins.extend(self.asked(&What::Paths(vec![ROOT.to_owned()])));
        }
        {
            let mut state = self.pins.state.lock();
            match what {
                // The pin of the root directory is removed together with the drive's.
                What::Whole => {
                    let has_root = state.paths.remove(ROOT).is_some();
                    (state.whole_files, state.whole_figures) = (None, Figures::default());
                    if !std::mem::take(&mut state.whole) && !has_root {
                        return Err(failure::not_pinned_whole(&self.name, !state.paths.is_empty()));
                    }
                }
                What::Paths(paths) => {
                    if let Some(path) = paths.iter().find(|path| !state.paths.contains_key(*path)) {
                        let by = state.paths.keys().find(|pinned| is_below(path, pinned));
                        return Err(failure::not_pinned(
                            &self.shown_path(path),
                            by.map(|by| self.shown_path(by)),
                        ));
                    }
                    paths.iter().for_each(|path| drop(state.paths.remove(path)));
                }
            }
            state.lost = None;
        }
        if let Ok(scanner) = self.scanner() {
            match what {
                What::Whole => scanner.forget(ROOT),
                What::Paths(paths) => paths.iter().for_each(|path| scanner.forget(path)),
            }
        }
        let volume = self.live.read().clone();
        let applied = match &volume {
            Some(volume) => self.apply_pins(volume),
            None => self.save_pins(),
        };
        applied.map_err(|error| self.pins_stay(before, &error))?;
        self.note(ActivityKind::Pin, format!("No longer kept here: {}.", what.words("drive")));
        Ok(pins)
    }

    /// A change could not be saved: what is wanted is again what it was before, as it will be after the next start.
    fn pins_stay(&self, before: super::State, error: &std::io::Error) -> Failure {
        *self.pins.state.lock() = before;
        self.look_at_pins_again();
        failure::local(error)
    }

    /// For a closed drive, where nothing says which blocks belong to which pin: the blocks stay until the next scan, or are unpinned with
    /// the last pin.
    fn save_pins(&self) -> std::io::Result<()> {
        let saved = {
            let state = self.pins.state.lock();
            let paths: std::collections::BTreeSet<_> = state.paths.keys().cloned().collect();
            let runs: Vec<_> = if paths.is_empty() { Vec::new() } else { state.saved.runs().collect() };
            super::Saved::new(state.whole, paths, &runs)
        };
        saved.save(&self.registry.directory(&self.name))?;
        self.pins.state.lock().saved = saved;
        Ok(())
    }

    /// The engine of the drive, which must be mounted, and open for writing if `to_write`.
    async fn mounted_volume(&self, to_write: bool) -> Result<Arc<Volume>, Failure> {
        match &*self.open.lock().await {
            Some(open) if open.attachment.is_some() => {
                if to_write {
                    open.check_writable(&self.name)?;
                }
                Ok(open.volume.clone())
            }
            _ => Err(failure::not_mounted(&self.name)),
        }
    }

    /// Scans a path for a client that waits for the result.
    pub(super) async fn tally_for(&self, path: &str, watch: bool, work: &Work) -> Result<Tally, Failure> {
        let told = work.clone();
        let counted = move |files| told.progress("Looking at files", files, 0, Unit::Items);
        let looking = self.tally(path, (watch, false), counted);
        let looked = work.unless_interrupted(failure::NOTHING_CHANGED, looking).await?;
        looked.map_err(|error| failure::unscannable(&self.shown_path(path), &error))
    }

    /// Stops watching the paths that were not pinned after all.
    fn not_pinned(&self, paths: &[String], failure: Failure) -> Failure {
        if let Ok(scanner) = self.scanner() {
            paths.iter().filter(|path| !self.pins.is_wanted(path)).for_each(|path| scanner.forget(path));
        }
        failure
    }

    /// Metadata, pins and pending uploads must fit the cache with a tenth to spare.
    async fn check_fit(
        &self,
        volume: &Volume,
        what: &What,
        tallies: &[(String, Arc<Tally>)],
    ) -> Result<(), Failure> {
        let wanted = match what {
            What::Whole => Pinned::whole(),
            What::Paths(_) => {
                let state = self.pins.state.lock();
                if state.whole {
                    return Ok(());
                }
                let new = tallies.iter().flat_map(|(_, tally)| tally.all_runs());
                Pinned::runs(state.saved.runs().chain(new))
            }
        };
        let needed = volume.cache_needed_with(&wanted).await;
        let needed = needed.map_err(|error| failure::pull(&error))?;
        let (needed, limit) = (needed + needed / 10, volume.status().cache_limit_bytes);
        if needed <= limit {
            return Ok(());
        }
        let bytes = match what {
            What::Whole => needed,
            What::Paths(_) => tallies.iter().map(|(_, tally)| tally.bytes()).sum(),
        };
        Err(failure(
            Code::Full,
            format!(
                "{} does not fit: with folder listings, files that are already pinned, pending uploads, and a tenth to work with, the cache of {} would need {}, but its limit is {}.",
                format_bytes(bytes),
                self.name,
                format_bytes(needed),
                format_bytes(limit)
            ),
            "Nothing was pinned.",
            [Action::GrowCache { size: Some(at_least(needed)) }, Action::tell("Or keep less offline.")],
        ))
    }

    /// The pins as they would be.
    async fn would_be(
        &self,
        volume: &Volume,
        what: &What,
        tallies: &[(String, Arc<Tally>)],
    ) -> Result<Vec<Pin>, Failure> {
        let root = self.place.read().as_ref().map(|place| place.mounted.mountpoint().to_owned());
        let state = |is_ready| self.state_of(Some(volume), is_ready, None);
        if let What::Whole = what {
            let blocks = volume.data_blocks().await.map_err(|error| failure::pull(&error))?;
            let bytes = blocks * holdall_core::units::BLOCK_BYTES;
            let ready_bytes = volume.status().cached_bytes.min(bytes);
            let figures = super::Figures { bytes, ready_bytes, ..Default::default() };
            return Ok(vec![self.pin_of(None, root.as_deref(), state(ready_bytes == bytes), figures, 0)]);
        }
        let pin = |(path, tally): &(String, Arc<Tally>)| {
            let (figures, _) = tally.figures(volume, false);
            let is_ready = figures.ready_bytes == figures.bytes;
            self.pin_of(Some(path), root.as_deref(), state(is_ready), figures, tally.blind.unreadable)
        };
        Ok(tallies.iter().map(pin).collect())
    }

    /// The requested pins.
    fn asked(&self, what: &What) -> Vec<Pin> {
        let is_asked = |pin: &Pin| match (what, &pin.path) {
            (What::Whole, path) => path.is_none(),
            (What::Paths(paths), Some(path)) => paths.contains(path),
            (What::Paths(_), None) => false,
        };
        self.pins().into_iter().filter(is_asked).collect()
    }

    /// A path as a person sees it.
    pub(in crate::daemon::drive) fn shown_path(&self, path: &str) -> String {
        match (&*self.place.read(), path) {
            (Some(place), ROOT) => place.mountpoint(),
            (Some(place), path) => place.mounted.mountpoint().join(path).display().to_string(),
            (None, path) => format!("{path} on {}", self.name),
        }
    }
}

/// A size to type that is at least `bytes`.
pub fn at_least(bytes: u64) -> String {
    let mib = bytes.div_ceil(1 << 20);
    if mib < 10 << 10 { format!("{mib}M") } else { format!("{}G", mib.div_ceil(1 << 10)) }
}

/// Why a path cannot be scanned, as part of a sentence.
pub fn words(error: &ScanError) -> String {
    match error {
        ScanError::Unscannable(Unscannable::Missing) => "it does not exist".to_owned(),
        ScanError::Unscannable(Unscannable::Link) => {
            "it is a symbolic link, or is reached through one; give the path that it points to".to_owned()
        }
        ScanError::Unscannable(Unscannable::Elsewhere) => "another file system is mounted there".to_owned(),
        ScanError::Unscannable(Unscannable::Special) => "it is neither a file nor a directory".to_owned(),
        ScanError::Unscannable(Unscannable::Failed(why)) => why.clone(),
        ScanError::TooMany => {
            "there are too many files to keep one by one, but you can keep the whole drive".to_owned()
        }
        ScanError::Gone(why) => format!("its files cannot be read now: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_to_type_is_never_too_small() {
        assert_eq!((at_least((64 << 20) + 1).as_str(), at_least(20 << 30).as_str()), ("65M", "20G"));
    }
}
