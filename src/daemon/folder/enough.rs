//! Waiting until enough of a folder's files is here to begin using them.

use super::Folder;
use super::pins::{engine_path, trouble};
use crate::api::{Action, Code, Failure, FolderCommand, Unit, Waited};
use crate::daemon::failure::{self, failure};
use crate::daemon::pins::Deadline;
use crate::daemon::pins::wait::{OFFLINE_AFTER, PROGRESS_EVERY};
use crate::daemon::work::Work;
use crate::sizes::format_bytes;
use holdall_core::folder::Fetch;
use std::time::Duration;

impl Folder {
    /// Pulls a file, or everything below a directory, from its beginning until `percent` of it is here.
    pub async fn wait_for(
        &self,
        path: &str,
        percent: u8,
        deadline: &Deadline,
        work: &Work,
    ) -> Result<Waited, Failure> {
        let (live, path) = (self.opened_live()?, engine_path(path));
        if let Some(why) = self.pause() {
            return Err(self.wait_paused(why));
        }
        let told = work.clone();
        let counted = move |files| told.progress("Looking at files", files, 0, Unit::Items);
        let looking = live.engine.fetch_part(&path, percent, counted);
        let fetch = tokio::select! { biased;
            looked = work.unless_interrupted(failure::NOTHING_CHANGED, looking) => {
                looked?.map_err(|error| self.unusable(&path, &error))?
            }
            timeout = deadline.passed() => {
                return Err(failure::wait_too_early(&self.shown_path(&path), timeout));
            }
        };
        if fetch.missing_bytes() == 0 {
            return Ok(self.waited(&fetch));
        }
        let (pinned, limit) = (live.engine.pinned_and_missing_bytes().0, live.engine.cache_limit());
        let needed = pinned.saturating_add(fetch.first_bytes());
        if needed > limit {
            return Err(failure(
                Code::Full,
                format!(
                    "This part does not fit: the cache of {} would need {}, but its limit is {}.",
                    self.name,
                    format_bytes(needed),
                    format_bytes(limit)
                ),
                failure::NOTHING_CHANGED,
                [Action::tell("Wait for a smaller part."), Action::GrowCache { size: None }],
            ));
        }
        let waiting = async {
            tokio::select! { biased;
                pulled = fetch.pull() => pulled.map_err(|error| failure::folder(&error)),
                failure = self.watch_wait(&live, &fetch, work) => Err(failure),
                timeout = deadline.passed() => {
                    let enough = fetch.first_bytes();
                    let here = enough - fetch.missing_bytes();
                    Err(failure::wait_too_late(&self.shown_path(&path), timeout, here, enough))
                }
            }
        };
        work.unless_interrupted(failure::NOT_ENOUGH, waiting).await??;
        Ok(self.waited(&fetch))
    }

    fn waited(&self, fetch: &Fetch) -> Waited {
        Waited { drive: self.name.clone(), bytes: fetch.bytes(), ready_bytes: fetch.local_bytes() }
    }

    fn wait_paused(&self, why: &str) -> Failure {
        let actions = [self.action(FolderCommand::Resume), Action::tell("Then wait again.")];
        failure::wait_paused(&self.name, why).with_actions(actions)
    }

    /// Reports the progress; returns once the remote has been away for long, or downloads are switched off.
    async fn watch_wait(&self, live: &super::Live, fetch: &Fetch, work: &Work) -> Failure {
        let mut away_for = Duration::ZERO;
        loop {
            let enough = fetch.first_bytes();
            work.progress("Downloading", enough - fetch.missing_bytes(), enough, Unit::Bytes);
            if let Some(why) = self.pause() {
                return self.wait_paused(why);
            }
            match trouble(live) {
                Some(trouble) if away_for >= OFFLINE_AFTER => return failure::wait_offline(&trouble),
                Some(_) => away_for += PROGRESS_EVERY,
                None => away_for = Duration::ZERO,
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    }
}
