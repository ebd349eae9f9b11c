//! One drive at a glance.

use crate::texts::{said, text};
use crate::words;
use holdall_api::{Collecting, DriveState, DriveStatus, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// Its name on this device.
    pub name: String,
    /// The kind of place its data is stored in.
    pub kind: String,
    /// Its state.
    pub state: Chip,
    /// The reason for the state; null if there is nothing to say.
    pub reason: Option<String>,
    /// What this means for the data.
    pub consequence: Option<String>,
    /// What to do about it.
    pub steps: Vec<Step>,
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// How many bytes of its files are on this device, never more than `used_bytes` where that is known.
    pub local_bytes: u64,
    /// Bytes that files on it take.
    pub used_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes that are only on this device.
    pub unsent_bytes: u64,
    /// Whether they have been counted. If not, `unsent_bytes` is 1 and stands for any number.
    pub unsent_is_known: bool,
    /// The time since when everything is in the store; null if something is not.
    pub safe_since: Option<String>,
    /// Bytes per second to the store.
    pub up_rate: u64,
    /// Bytes per second from the store.
    pub down_rate: u64,
    /// Seconds until everything is uploaded, or until pinned files are here; null if no estimate can be trusted.
    pub eta_s: Option<u64>,
    /// The progress of that.
    pub progress: Option<Done>,
    /// The garbage collection that is running in its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collecting: Option<Collecting>,
    /// Bytes that are prefetched only because they were read first when the drive was opened before.
    #[serde(default)]
    pub prefetch_bytes: u64,
    /// What a person can do with it now.
    pub actions: Vec<Action>,
}

/// A state, never shown by its colour alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chip {
    /// The state in a word.
    pub word: String,
    /// Its colour.
    pub tone: Tone,
    /// The name of its icon.
    pub icon: String,
}

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// All is well, and everything is uploaded.
    Safe,
    /// Something is in progress.
    Busy,
    /// Something is waiting.
    Waiting,
    /// A person has to act.
    Attention,
    /// Not in use.
    Quiet,
}

/// The progress of something, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// How many bytes are done.
    pub done_bytes: u64,
    /// How many bytes there are in total.
    pub total_bytes: u64,
}

/// What a person can do with a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CardAction")]
pub enum Action {
    /// Open it, or try again to open it.
    Open,
    /// Close it.
    Close,
    /// Pause its uploads and background downloads.
    Pause,
    /// Resume its uploads and background downloads.
    Resume,
    /// Start uploading pending changes now.
    UploadNow,
}

/// Figures that only the samples give.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moving {
    pub up_rate: u64,
    pub down_rate: u64,
    pub eta_s: Option<u64>,
    pub progress: Option<Done>,
}

impl Card {
    /// The question before closing, and its consequence. `None` if nothing is only here, or if the drive has to be closed before it can
    /// upload.
    pub fn closing(&self) -> Option<(String, String)> {
        let size = words::unsent(self.unsent_bytes, self.unsent_is_known);
        (self.unsent_bytes > 0 && self.state.icon != "eye").then(|| {
            let text = said("drive.close.text", &[("size", &words::capital(&size))]);
            (said("drive.close.title", &[("name", &self.name)]), text)
        })
    }
}

/// The card of a drive.
pub(crate) fn card(status: &DriveStatus, moving: Moving) -> Card {
    let unsent_bytes = status.unpushed_bytes;
    let (consequence, steps) = explained(status);
    // The rates from before the store went away no longer hold.
    let moving = if status.state == DriveState::Offline { Moving::default() } else { moving };
    Card {
        name: status.name.clone(),
        kind: kind(&status.store),
        state: chip(status),
        reason: reason(status),
        consequence,
        steps,
        mountpoint: status.mountpoint.clone(),
        local_bytes: local_bytes(status),
        used_bytes: status.used_bytes,
        size_bytes: status.size_bytes,
        unsent_bytes,
        unsent_is_known: status.unpushed_is_known,
        safe_since: status.last_commit_at.clone().filter(|_| unsent_bytes == 0),
        up_rate: moving.up_rate,
        down_rate: moving.down_rate,
        eta_s: moving.eta_s,
        progress: moving.progress,
        collecting: status.collecting,
        prefetch_bytes: status.prefetch_bytes,
        actions: actions(status),
    }
}

/// The reason for its state.
pub(crate) fn reason(status: &DriveStatus) -> Option<String> {
    if let Some(fork) = status.forks.iter().find(|fork| fork.in_place)
        && status.state == DriveState::Conflict
    {
        return Some(said("card.conflict.reason", &[("device", &fork.taken_by)]));
    }
    // A failure gives its own reason, in a sentence: it may be a missing login, or a locked keyring.
    if status.advice.as_ref().is_some_and(|advice| advice.consequence.is_some()) {
        return status.reason.clone();
    }
    if status.needs_login {
        return Some(text("card.login.reason"));
    }
    let forks = status.forks.iter().map(|fork| fork.taken_by.as_str());
    let names: Vec<_> = forks.chain(status.holder.iter().map(|holder| holder.name.as_str())).collect();
    status.reason.as_deref().map(|reason| words::sentence(reason, &names))
}

/// About how many bytes of its files are here, but never more than the files take: the cache also holds the file system's own data, and
/// remains of deleted files.
fn local_bytes(status: &DriveStatus) -> u64 {
    match status.used_bytes {
        // Only an open drive knows how full it is.
        0 => status.local_bytes(),
        used_bytes => status.local_bytes().min(used_bytes),
    }
}

/// The kind of place a store is in, by its address.
fn kind(store: &str) -> String {
    text(match store.split_once("://").map_or("", |(scheme, _)| scheme) {
        "s3" => "card.kind.s3",
        "file" => "card.kind.file",
        _ => "card.kind.dav",
    })
}

/// Whether something that is only here is being uploaded, whether the drive is open or closed.
pub(crate) fn is_uploading(status: &DriveStatus) -> bool {
    let drains = status.draining && status.state == DriveState::Closed;
    status.unpushed_bytes > 0 && (status.state == DriveState::Syncing || drains)
}

/// Whether a person has to act.
pub(crate) fn needs_person(status: &DriveStatus) -> bool {
    matches!(status.state, DriveState::Conflict | DriveState::NeedsAttention)
}

fn chip(status: &DriveStatus) -> Chip {
    let is_safe = status.unpushed_bytes == 0;
    let (word, tone, icon) = match status.state {
        // Green only if everything is uploaded.
        DriveState::Ready if is_safe => ("state.ready", Tone::Safe, "check"),
        DriveState::Ready => ("state.ready", Tone::Waiting, "clock"),
        DriveState::Connecting => ("state.connecting", Tone::Busy, "sync"),
        DriveState::Syncing => ("state.syncing", Tone::Busy, "sync"),
        DriveState::Offline => ("state.offline", Tone::Waiting, "offline"),
        DriveState::Paused => ("state.paused", Tone::Waiting, "pause"),
        DriveState::Recovering => ("state.recovering", Tone::Busy, "recover"),
        DriveState::ReadOnly => ("state.read_only", Tone::Quiet, "eye"),
        DriveState::Conflict => ("state.conflict", Tone::Attention, "fork"),
        DriveState::NeedsAttention => ("state.needs_attention", Tone::Attention, "alert"),
        DriveState::Closed if is_uploading(status) => ("state.closed", Tone::Busy, "sync"),
        DriveState::Closed if is_safe => ("state.closed", Tone::Quiet, "closed"),
        DriveState::Closed => ("state.closed", Tone::Waiting, "clock"),
    };
    Chip { word: text(word), tone, icon: icon.to_owned() }
}

/// What a state means for the data, and what to do about it, if either needs saying.
fn explained(status: &DriveStatus) -> (Option<String>, Vec<Step>) {
    let advised = status.advice.as_ref();
    if let Some(failed) = advised.filter(|advice| advice.consequence.is_some()) {
        return (failed.consequence.clone(), failed.on_screen.clone());
    }
    let (consequence, action) = of_state(status);
    let advised = advised.map(|advice| advice.on_screen.clone()).filter(|steps| !steps.is_empty());
    let usual = || action.map(|key| Step { text: text(key), ..Step::default() }).into_iter().collect();
    (consequence.map(text), advised.unwrap_or_else(usual))
}

fn of_state(status: &DriveStatus) -> (Option<&'static str>, Option<&'static str>) {
    let (consequence, action) = match status.state {
        DriveState::Offline if status.unpushed_bytes > 0 => ("card.offline.unsent", "card.offline.action"),
        DriveState::Offline => ("card.offline", "card.offline.action"),
        DriveState::Paused if status.paused => ("card.paused", "card.paused.action"),
        DriveState::Paused => ("card.paused", "card.waits.action"),
        DriveState::Conflict => ("card.conflict", "card.conflict.action"),
        DriveState::NeedsAttention if status.needs_login => ("card.attention", "card.login.action"),
        DriveState::NeedsAttention => ("card.attention", "card.attention.action"),
        DriveState::Closed if is_uploading(status) => {
            ("card.closed.uploading", "card.closed.uploading.action")
        }
        DriveState::Closed if status.unpushed_bytes > 0 => {
            ("card.closed.unsent", "card.closed.unsent.action")
        }
        DriveState::Ready
        | DriveState::Connecting
        | DriveState::Syncing
        | DriveState::Recovering
        | DriveState::ReadOnly
        | DriveState::Closed => return (None, None),
    };
    (Some(consequence), Some(action))
}

fn actions(status: &DriveStatus) -> Vec<Action> {
    if matches!(status.state, DriveState::Connecting | DriveState::Recovering) {
        return vec![Action::Close];
    }
    if status.mountpoint.is_none() {
        return match status.state {
            DriveState::Closed => vec![Action::Open],
            // It is closed; changes that only this computer has are being uploaded, or wait for that.
            DriveState::Paused if status.paused => vec![Action::Open, Action::Resume],
            DriveState::Paused | DriveState::Syncing => vec![Action::Open],
            _ if status.draining => vec![Action::Open],
            // It could not be reopened as it was, and is still meant to be open.
            _ => vec![Action::Open, Action::Close],
        };
    }
    let mut actions = Vec::new();
    let uploads = !status.paused && !matches!(status.state, DriveState::Paused | DriveState::ReadOnly);
    if status.unpushed_bytes > 0 && uploads {
        actions.push(Action::UploadNow);
    }
    if status.state != DriveState::ReadOnly {
        actions.push(if status.paused { Action::Resume } else { Action::Pause });
    }
    actions.push(Action::Close);
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::status;

    fn of(state: DriveState, unsent: u64) -> Card {
        let mut status = status("work", state);
        status.unpushed_bytes = unsent;
        card(&status, Moving::default())
    }

    #[test]
    fn a_drive_is_green_only_if_everything_is_uploaded() {
        let states = [
            DriveState::Ready,
            DriveState::Connecting,
            DriveState::Syncing,
            DriveState::Offline,
            DriveState::Paused,
            DriveState::Recovering,
            DriveState::ReadOnly,
            DriveState::Conflict,
            DriveState::NeedsAttention,
            DriveState::Closed,
        ];
        for state in states {
            assert_ne!(of(state, 1).state.tone, Tone::Safe, "{state:?}");
            assert_eq!(of(state, 0).state.tone == Tone::Safe, state == DriveState::Ready);
        }
        assert_eq!(of(DriveState::Ready, 0).safe_since.as_deref(), Some("2026-11-20T12:00:00Z"));
        assert_eq!(of(DriveState::Ready, 1).safe_since, None);
    }

    #[test]
    fn no_rates_while_the_store_is_away() {
        let moving = Moving { up_rate: 1 << 20, down_rate: 1 << 20, eta_s: Some(4), progress: None };
        let shown = |state| {
            let card = card(&status("work", state), moving);
            (card.up_rate, card.down_rate, card.eta_s)
        };
        assert_eq!(shown(DriveState::Offline), (0, 0, None));
        assert_eq!(shown(DriveState::Syncing), (1 << 20, 1 << 20, Some(4)));
    }

    #[test]
    fn the_address_gives_the_kind_of_place() {
        for (store, word) in [
            ("s3://bucket/work?endpoint=https%3A%2F%2Fdav.example", "S3"),
            ("https://cloud.example/dav/s3", "WebDAV"),
            ("davs://cloud.example/work", "WebDAV"),
            ("file:///media/disk", "Disk or folder"),
        ] {
            assert_eq!(kind(store), word, "{store}");
        }
    }

    #[test]
    fn local_bytes_never_exceed_the_files() {
        const KB: u64 = 1 << 10;
        let mut status = status("work", DriveState::Ready);
        let here = |status: &DriveStatus| card(status, Moving::default()).local_bytes;
        (status.used_bytes, status.cached_bytes) = (24 * KB, 76 * KB);
        assert_eq!(here(&status), 24 * KB);
        (status.used_bytes, status.unapplied_bytes) = (200 * KB, 40 * KB);
        assert_eq!(here(&status), 116 * KB);
        // A closed drive does not know how full it is.
        (status.used_bytes, status.unapplied_bytes) = (0, 0);
        assert_eq!(here(&status), 76 * KB);
    }

    #[test]
    fn trouble_says_what_it_means_and_what_to_do() {
        for state in
            [DriveState::Offline, DriveState::Paused, DriveState::Conflict, DriveState::NeedsAttention]
        {
            let card = of(state, 1);
            assert!(card.consequence.is_some() && !card.steps.is_empty(), "{state:?}");
        }
        let mut status = status("work", DriveState::Offline);
        status.reason = Some("the store cannot be reached".to_owned());
        let reason = card(&status, Moving::default()).reason;
        assert_eq!(reason.as_deref(), Some("The store cannot be reached."));
    }

    #[test]
    fn a_device_keeps_its_name_and_a_window_needs_no_command() {
        let mut status = status("work", DriveState::Conflict);
        status.reason = Some("vm has taken the drive over; see holdall drive forks work".to_owned());
        let fork = serde_json::json!({
            "name": "f", "uuid": "v", "device": "pc", "taken_by": "vm", "made_at": "2026-11-20T11:00:00Z",
            "base": "r", "records": 1, "bytes": 1, "mountpoint": "/mnt", "in_place": true,
        });
        status.forks = vec![serde_json::from_value(fork).unwrap()];
        let told = reason(&status).unwrap();
        assert_eq!(told, "vm has taken over the drive. Your changes continue here as a fork.");
        (status.state, status.reason) = (DriveState::ReadOnly, Some("vm has it".to_owned()));
        assert_eq!(reason(&status).as_deref(), Some("vm has it."));
    }

    #[test]
    fn closing_asks_only_where_something_is_only_here() {
        let (title, text) = of(DriveState::Paused, 5 << 20).closing().unwrap();
        assert_eq!(title, "Close work?");
        assert!(text.starts_with("5 MiB exist only on this computer."), "{text}");
        assert_eq!(of(DriveState::Ready, 0).closing(), None);
        // A read-only drive has to be closed before its changes can be uploaded.
        assert_eq!(of(DriveState::ReadOnly, 1).closing(), None);
    }

    fn advice(consequence: Option<&str>, on_screen: Option<&str>) -> Option<holdall_api::Advice> {
        let step = |text: &str| Step { text: text.to_owned(), ..Step::default() };
        let on_screen = on_screen.map(step).into_iter().collect();
        let repair = holdall_api::Action::Repair;
        Some(holdall_api::Advice::new(consequence.map(str::to_owned), repair, on_screen))
    }

    fn said(card: &Card) -> Option<String> {
        crate::advice::words(&card.steps)
    }

    #[test]
    fn says_nothing_is_lost_only_if_there_is_a_fork() {
        let mut status = status("work", DriveState::NeedsAttention);
        status.reason = Some("desk has removed the drive.".to_owned());
        status.advice = advice(
            Some("Changes that were not uploaded are kept on this computer."),
            Some("Copy it elsewhere."),
        );
        let card = card(&status, Moving::default());
        assert_eq!(card.reason.as_deref(), Some("desk has removed the drive."));
        assert_eq!(
            card.consequence.as_deref(),
            Some("Changes that were not uploaded are kept on this computer.")
        );
        assert_eq!(said(&card).as_deref(), Some("Copy it elsewhere."));
        assert_ne!(card.state.icon, "fork");
    }

    #[test]
    fn a_store_refuses_only_where_it_was_asked() {
        let mut status = status("work", DriveState::NeedsAttention);
        status.needs_login = true;
        status.reason = Some("The keyring is locked.".to_owned());
        let shown = |status: &DriveStatus| {
            let card = card(status, Moving::default());
            (card.reason.clone().unwrap(), said(&card).unwrap())
        };
        // It is open, and the store refused access.
        status.advice = advice(None, None);
        assert_eq!(shown(&status).0, "Its store refuses access.");
        status.advice = advice(Some("Your files are safe."), Some("Unlock the keyring."));
        assert_eq!(shown(&status), ("The keyring is locked.".to_owned(), "Unlock the keyring.".to_owned()));
    }

    #[test]
    fn steps_lead_to_a_screen() {
        let mut status = status("work", DriveState::Ready);
        status.reason = Some("a program is slowed down".to_owned());
        status.advice = advice(None, Some("See Settings."));
        let card = card(&status, Moving::default());
        assert_eq!((&card.consequence, said(&card).as_deref()), (&None, Some("See Settings.")));
    }

    #[test]
    fn a_closed_drive_that_uploads_asks_only_to_stay_on() {
        let mut status = status("work", DriveState::Closed);
        (status.unpushed_bytes, status.draining, status.mountpoint) = (5 << 20, true, None);
        status.reason = Some("5 MiB is still being uploaded".to_owned());
        let card = card(&status, Moving::default());
        assert_eq!((card.state.tone, card.state.icon.as_str()), (Tone::Busy, "sync"));
        assert_eq!(card.reason.as_deref(), Some("5 MiB is still being uploaded."));
        assert_eq!(card.consequence.as_deref(), Some("Uploading continues while this computer is on."));
        assert_eq!(said(&card).as_deref(), Some("Leave the computer on until everything is uploaded."));
        // Nobody uploads this one.
        status.draining = false;
        let card = super::card(&status, Moving::default());
        assert_eq!(said(&card).as_deref(), Some("Open the drive to upload them."));
        // All of it is uploaded, but the daemon has not recorded that yet.
        (status.draining, status.unpushed_bytes) = (true, 0);
        let card = super::card(&status, Moving::default());
        assert_eq!((card.state.tone, card.consequence), (Tone::Quiet, None));
    }

    #[test]
    fn only_actions_that_work_are_offered() {
        use Action::{Close, Open, Pause, Resume, UploadNow};
        let mut status = status("work", DriveState::Ready);
        let offered = |status: &DriveStatus| actions(status);
        assert_eq!(offered(&status), [Pause, Close]);
        status.unpushed_bytes = 1;
        assert_eq!(offered(&status), [UploadNow, Pause, Close]);
        (status.state, status.paused) = (DriveState::Paused, true);
        assert_eq!(offered(&status), [Resume, Close]);
        // The pause comes from the network: a person cannot end it, but can add their own.
        status.paused = false;
        assert_eq!(offered(&status), [Pause, Close]);
        (status.state, status.mountpoint) = (DriveState::Closed, None);
        assert_eq!(offered(&status), [Open]);
        status.state = DriveState::NeedsAttention;
        assert_eq!(offered(&status), [Open, Close]);
        // Closed, with changes that are not uploaded yet.
        (status.state, status.paused) = (DriveState::Paused, true);
        assert_eq!(offered(&status), [Open, Resume]);
        (status.state, status.paused) = (DriveState::Syncing, false);
        assert_eq!(offered(&status), [Open]);
        // Its store is away: there is nothing to close.
        (status.state, status.draining) = (DriveState::Offline, true);
        assert_eq!(offered(&status), [Open]);
    }
}
