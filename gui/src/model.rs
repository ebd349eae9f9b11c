//! The state of all drives and folders, and their rates.

use crate::card::{self, Card, Done, Moving};
use crate::overview::{self, Overview};
use crate::rates::Meter;
use holdall_api::{DriveStatus, Event, FolderStatus, PinState};
use std::collections::BTreeMap;
use std::time::Duration;

/// The current time, as the caller measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now(
    /// Time since any fixed beginning. It never goes back.
    pub Duration,
);

/// The state of all drives and folders.
#[derive(Clone, Debug, Default)]
pub struct Model {
    drives: BTreeMap<String, Seen>,
    folders: BTreeMap<String, FolderStatus>,
    paused_until: Option<String>,
    most: Most,
}

/// How much of the network all drives may use, in bytes per second; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// To stores.
    pub up: Option<u64>,
    /// From stores.
    pub down: Option<u64>,
}

/// One drive.
#[derive(Clone, Debug)]
struct Seen {
    status: DriveStatus,
    sent: Meter,
    received: Meter,
    /// Counts the drive's own bytes, as the amount that is left does.
    uploaded: Meter,
    pinned: Meter,
    /// The most that was left to upload since nothing was left.
    most_unsent: u64,
}

impl Model {
    /// Takes an event of the daemon.
    pub fn apply(&mut self, now: Now, event: Event) {
        match event {
            Event::Drive(status) => self.drive(now, *status),
            Event::Folder(status) => drop(self.folders.insert(status.name.clone(), *status)),
            Event::Removed { name } => {
                self.drives.remove(&name);
                self.folders.remove(&name);
            }
            Event::Activity(_) | Event::Notice { .. } => {}
        }
    }

    /// Forgets drives and folders that are not wanted.
    pub fn keep_only(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.folders.retain(|name, _| is_wanted(name));
        self.drives.retain(|name, _| is_wanted(name));
    }

    /// Sets until when all drives are paused, if they are.
    pub fn set_paused_until(&mut self, until: Option<String>) {
        self.paused_until = until;
    }

    /// Sets how much of the network drives may use.
    pub fn set_most(&mut self, most: Most) {
        self.most = most;
    }

    fn drive(&mut self, now: Now, status: DriveStatus) {
        let name = status.name.clone();
        let seen = self.drives.entry(name).or_insert_with(|| Seen::new(status.clone()));
        seen.status = status;
        seen.sample(now);
    }

    /// Samples without news: rates go down.
    pub fn tick(&mut self, now: Now) {
        self.drives.values_mut().for_each(|seen| seen.sample(now));
    }

    /// What to show.
    pub fn overview(&self) -> Overview {
        let cards = self.drives.values().map(|seen| seen.card(self.most)).collect();
        let statuses: Vec<_> = self.drives.values().map(|seen| &seen.status).collect();
        let folders = self.folders.values().cloned().collect();
        overview::overview(cards, &statuses, folders, self.paused_until.clone())
    }
}

impl Seen {
    fn new(status: DriveStatus) -> Self {
        let meter = Meter::default;
        Self { status, sent: meter(), received: meter(), uploaded: meter(), pinned: meter(), most_unsent: 0 }
    }

    fn sample(&mut self, Now(at): Now) {
        self.sent.sample(at, self.status.sent_bytes);
        self.received.sample(at, self.status.received_bytes);
        self.uploaded.sample(at, self.status.uploaded_bytes);
        self.pinned.sample(at, self.pins().0);
        self.most_unsent = match self.unsent() {
            0 => 0,
            left => self.most_unsent.max(left),
        };
    }

    /// The bytes left to upload. The figure falls as they are uploaded, so nothing has to be subtracted.
    fn unsent(&self) -> u64 {
        self.status.unpushed_bytes
    }

    /// How many bytes of pins are here, and how many there are in total, without pins that failed.
    fn pins(&self) -> (u64, u64) {
        let pins = self.status.pins.iter().filter(|pin| pin.state != PinState::Error);
        pins.fold((0, 0), |(ready, all), pin| (ready + pin.ready_bytes, all + pin.bytes))
    }

    fn card(&self, most: Most) -> Card {
        let (ready, all) = self.pins();
        let done = |done_bytes, total_bytes| Some(Done { done_bytes, total_bytes });
        let (time_left, progress) = match (self.unsent(), all - ready.min(all)) {
            (0, 0) => (None, None),
            (0, left) => (self.pinned.time_left(left), done(ready, all)),
            (left, _) => {
                (self.uploaded.time_left(left), done(self.most_unsent.saturating_sub(left), self.most_unsent))
            }
        };
        let eta_s = time_left.map(|time| time.as_secs());
        // Bytes count when they are handed to the network, some time before it carries them: over a few seconds that looks too fast.
        let up_rate = self.sent.rate().min(most.up.unwrap_or(u64::MAX));
        let down_rate = self.received.rate().min(most.down.unwrap_or(u64::MAX));
        let moving = Moving { up_rate, down_rate, eta_s, progress };
        card::card(&self.status, moving)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use holdall_api::DriveState;

    /// An open drive with nothing to do.
    pub fn status(name: &str, state: DriveState) -> DriveStatus {
        let value = serde_json::json!({
            "name": name, "uuid": "u", "state": state, "reason": null, "since": "2026-11-20T11:00:00Z", "epoch": 1,
            "root": null, "size_bytes": 10_u64 << 30, "cached_bytes": 1 << 30, "cache_limit_bytes": 4_u64 << 30,
            "dirty_bytes": 0, "unpushed_bytes": 0, "oldest_dirty_age_ms": 0, "journal_bytes": 0,
            "journal_limit_bytes": 1 << 30, "pending_pull_bytes": 0, "pinned_bytes": 0, "block_device": "/dev/nbd0",
            "attach": "nbd", "mountpoint": "/mnt", "store": "s3://bucket/work", "store_mode": "swap", "holder": null,
            "last_commit_at": "2026-11-20T12:00:00Z",
            "requests": {"get": 0, "put": 0, "head": 0, "list": 0, "delete": 0},
            "sent_bytes": 0, "received_bytes": 0, "used_bytes": 2_u64 << 30, "forks": [], "daemon_pid": 1,
        });
        serde_json::from_value(value).unwrap()
    }

    fn at(ms: u64) -> Now {
        Now(Duration::from_millis(ms))
    }

    fn tell(model: &mut Model, ms: u64, status: &DriveStatus) {
        model.apply(at(ms), Event::Drive(Box::new(status.clone())));
    }

    #[test]
    fn an_upload_has_a_rate_a_time_and_a_progress() {
        let (mut model, mut status) = (Model::default(), status("work", DriveState::Syncing));
        let total = 100_u64 << 20;
        status.batch_bytes = total;
        for tick in 0..=40 {
            let done = tick * (256 << 10);
            status.unpushed_bytes = total - done;
            (status.batch_done_bytes, status.uploaded_bytes, status.sent_bytes) = (done, done, done / 2);
            tell(&mut model, tick * 250, &status);
        }
        let card = &model.overview().drives[0];
        // One MiB of the drive each second, half of it on the wire.
        assert_eq!((card.up_rate, card.eta_s), (512 << 10, Some(120)));
        assert_eq!(card.progress, Some(Done { done_bytes: 10 << 20, total_bytes: total }));
        assert_eq!(model.overview().line, "Uploading 90 MiB, 2 min left");

        // No more news: the rate goes down, and the time is no longer shown.
        model.tick(at(14_000));
        model.tick(at(30_000));
        let card = &model.overview().drives[0];
        assert_eq!((card.up_rate, card.eta_s), (0, None));
        // The upload is done.
        (status.unpushed_bytes, status.batch_done_bytes, status.batch_bytes) = (0, 0, 0);
        status.state = DriveState::Ready;
        tell(&mut model, 31_000, &status);
        assert_eq!(model.overview().drives[0].progress, None);
        assert_eq!(model.overview().line, "All changes uploaded");
    }

    #[test]
    fn a_rate_is_never_above_the_limit() {
        let (mut model, mut status) = (Model::default(), status("work", DriveState::Syncing));
        for tick in 0..8 {
            (status.sent_bytes, status.received_bytes) = (tick << 20, tick << 21);
            tell(&mut model, tick * 1000, &status);
        }
        let rates = |model: &Model| {
            let card = &model.overview().drives[0];
            (card.up_rate, card.down_rate)
        };
        assert_eq!(rates(&model), (1 << 20, 2 << 20));
        model.set_most(Most { up: Some(1000), down: None });
        assert_eq!(rates(&model), (1000, 2 << 20));
        model.set_most(Most { up: None, down: Some(2000) });
        assert_eq!(rates(&model), (1 << 20, 2000));
    }

    #[test]
    fn pins_that_download_are_progress_too() {
        let (mut model, mut status) = (Model::default(), status("work", DriveState::Ready));
        status.pins = vec![serde_json::from_value(serde_json::json!({
            "drive": "work", "path": "a", "at": "/mnt/a", "state": "Syncing", "reason": null, "files_ready": 0,
            "files_total": 1, "bytes": 100 << 20, "ready_bytes": 0, "unreadable": 0,
        }))
        .unwrap()];
        for tick in 0..=24 {
            status.pins[0].ready_bytes = tick * (256 << 10);
            tell(&mut model, tick * 250, &status);
        }
        let card = &model.overview().drives[0];
        assert_eq!(card.progress, Some(Done { done_bytes: 6 << 20, total_bytes: 100 << 20 }));
        assert_eq!(card.eta_s, Some(120));
    }

    #[test]
    fn a_drive_that_is_removed_is_not_shown() {
        let mut model = Model::default();
        tell(&mut model, 0, &status("work", DriveState::Ready));
        tell(&mut model, 0, &status("home", DriveState::Closed));
        let names =
            |model: &Model| model.overview().drives.iter().map(|card| card.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&model), ["home", "work"]);
        model.apply(at(1), Event::Removed { name: "home".to_owned() });
        assert_eq!(names(&model), ["work"]);
    }
}
