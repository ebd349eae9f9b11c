//! Puts the status of drives into words.

use crate::api::words::unsentenced;
use crate::api::{
    Advice, AttachMode, ByKind, Collecting, CollectingStage, DriveState, DriveStatus, StoreMode,
};
use crate::output::{Hue, Paint};
use crate::show::table::Table;
use crate::show::when;
use crate::sizes::{format_bytes, format_duration};
use jiff::Zoned;
use std::time::Duration;

/// Shown if there is no drive.
pub const NO_DRIVES: &str = "\
No drives yet. Create one:
  holdall drive create NAME --store URL
or use one that was created on another computer:
  holdall drive add NAME --store URL";

/// All drives, and where their data is.
pub fn list(drives: &[DriveStatus], paint: Paint) -> String {
    if drives.is_empty() {
        return NO_DRIVES.to_owned();
    }
    let mut table = Table::new(["DRIVE", "STATE", "SIZE", "STORE"]);
    for drive in drives {
        let size = known(drive.size_bytes);
        table.row([drive.name.clone(), word(drive, paint), size, drive.store.clone()]);
    }
    format!("{table}{}", reasons(drives))
}

/// All drives, and their pending uploads.
pub fn overview(drives: &[DriveStatus], paint: Paint) -> String {
    if drives.is_empty() {
        return NO_DRIVES.to_owned();
    }
    let mut table = Table::new(["DRIVE", "STATE", "UPLOADS", "SIZE", "MOUNTED AT"]);
    for drive in drives {
        table.row([
            drive.name.clone(),
            word(drive, paint),
            uploads(drive),
            known(drive.size_bytes),
            drive.mountpoint.clone().unwrap_or_default(),
        ]);
    }
    format!("{table}{}", reasons(drives))
}

/// One drive, on several lines.
pub fn details(drive: &DriveStatus, now: &Zoned, paint: Paint) -> String {
    let mut rows = vec![("state", format!("{}, {}", state(drive, paint), since(drive, now)))];
    if let Some(Advice { consequence: Some(consequence), action, .. }) = &drive.advice {
        rows.extend([("meaning", consequence.clone()), ("to do", action.clone())]);
    }
    rows.push(("uploads", uploads(drive)));
    if let Some(at) = &drive.last_commit_at {
        rows.push(("last upload", when(at, now)));
    }
    rows.extend(drive.collecting.map(|now| ("cleanup", cleanup(now))));
    rows.push(("mounted at", mounted(drive)));
    rows.push(("size", size(drive)));
    if drive.size_bytes > 0 {
        rows.push(("here", here(drive)));
    }
    if drive.prefetch_bytes > 0 {
        let bytes = format_bytes(drive.prefetch_bytes);
        rows.push((
            "prefetch",
            format!(
                "{bytes} left of the data that was read first last time (stop: holdall drive stop-prefetch)"
            ),
        ));
    }
    rows.extend(not_here(drive).map(|absent| ("not here", absent)));
    if drive.lacks_metadata {
        rows.push(("names", "not all are here: without the store, some folders cannot be listed".to_owned()));
    }
    if let Some(share) = (100 * drive.fetched_used_bytes).checked_div(drive.fetched_bytes) {
        let fetched = format_bytes(drive.fetched_bytes);
        rows.push(("fetched", format!("{fetched} since it was opened, {share} % of it was read")));
    }
    rows.push(("store", format!("{} ({})", drive.store, mode(drive.store_mode))));
    rows.extend(drive.proxy.as_ref().map(|proxy| ("through", format!("the proxy {proxy}"))));
    rows.extend(asked(drive).map(|asked| ("asked", asked)));
    if let Some(holder) = &drive.holder {
        let last = holder.last_commit_at.as_deref().map(|at| format!(", last upload {}", when(at, now)));
        rows.push(("held by", format!("{}{}", holder.name, last.unwrap_or_default())));
    }
    for replica in &drive.replicas {
        rows.push((
            "replica",
            format!("{}: {}", replica.store, crate::drive::replica::state(replica, paint)),
        ));
    }
    for fork in &drive.forks {
        let unsent = match (fork.records, fork.bytes) {
            (0, _) => "all of it uploaded".to_owned(),
            // For a closed fork, nobody has counted the bytes.
            (_, 0) => "some changes only on this computer".to_owned(),
            (_, bytes) => format!("{} only on this computer", format_bytes(bytes)),
        };
        rows.push(("fork", format!("{}: {unsent}", fork.name)));
    }
    let mut text = format!("{}\n", drive.name);
    for (label, value) in rows {
        text.push_str(&format!("  {label:<12}{value}\n"));
    }
    text
}

/// The progress of a garbage collection.
fn cleanup(Collecting { stage, done, total }: Collecting) -> String {
    match stage {
        CollectingStage::Looking => "looking for data in the store that no version needs".to_owned(),
        CollectingStage::Deleting => {
            format!("deleting data that no version needs, {done} of {total} objects")
        }
        CollectingStage::Repacking => format!("tidying up, {done} of {total} objects"),
    }
}

/// Whether everything is in the store: the one thing to know before closing the lid.
pub fn uploads(drive: &DriveStatus) -> String {
    let unsent = drive.unsent();
    match (drive.unpushed_bytes, drive.state) {
        (0, _) => "All changes uploaded".to_owned(),
        (_, DriveState::Syncing) if drive.unpushed_is_known => format!("{unsent} left to upload"),
        _ if drive.unpushed_is_known && drive.oldest_dirty_age_ms >= 60_000 => {
            let age = format_duration(Duration::from_millis(drive.oldest_dirty_age_ms));
            format!("{unsent} waiting to upload for {age}")
        }
        _ => format!("{unsent} waiting to upload"),
    }
}

/// A size in a table. It is unknown for a drive that was never open here.
fn known(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { format_bytes(bytes) }
}

/// Icon, word and reason.
pub fn state(drive: &DriveStatus, paint: Paint) -> String {
    let why = why(drive).map(|why| format!(" ({why})")).unwrap_or_default();
    format!("{}{why}", word(drive, paint))
}

/// Icon and word.
fn word(drive: &DriveStatus, paint: Paint) -> String {
    let (icon, word, hue) = look(drive.state);
    // Green only if no upload is pending.
    let hue = if hue == Hue::Good && drive.unpushed_bytes > 0 { Hue::Busy } else { hue };
    paint.hue(hue, &format!("{icon} {word}"))
}

/// Why it is in its state, and what to do.
fn why(drive: &DriveStatus) -> Option<String> {
    match (drive.state, &drive.holder, &drive.reason) {
        (_, _, Some(reason)) => Some(why_of(reason, drive.advice.as_ref())),
        (DriveState::ReadOnly, Some(holder), None) => Some(format!("held by {}", holder.name)),
        (_, _, None) => None,
    }
}

/// A reason for a state, and what to do about it.
pub(super) fn why_of(reason: &str, advice: Option<&Advice>) -> String {
    // The advice of a failure has a sentence or two, and gets its own line.
    let to_do = advice.filter(|advice| advice.consequence.is_none());
    let to_do = to_do.map(|advice| format!(": {}", unsentenced(&advice.action))).unwrap_or_default();
    format!("{reason}{to_do}")
}

/// The reasons for the drives' states, below their table: a reason as long as a sentence would push all later columns off the screen.
fn reasons(drives: &[DriveStatus]) -> String {
    let reason = |drive: &DriveStatus| Some(format!("\n{}: {}", drive.name, why(drive)?));
    let reasons: String = drives.iter().filter_map(reason).collect();
    if reasons.is_empty() { reasons } else { reasons + "\n" }
}

/// The icon, the word and the colour of a state.
pub(super) fn look(state: DriveState) -> (&'static str, &'static str, Hue) {
    match state {
        DriveState::Ready => ("✓", "Ready", Hue::Good),
        DriveState::Connecting => ("…", "Connecting", Hue::Busy),
        DriveState::Syncing => ("↑", "Syncing", Hue::Busy),
        DriveState::Offline => ("×", "Offline", Hue::Busy),
        DriveState::Paused => ("‖", "Paused", Hue::Busy),
        DriveState::Recovering => ("↻", "Recovering", Hue::Busy),
        DriveState::ReadOnly => ("◇", "Read-only", Hue::Busy),
        DriveState::Conflict => ("≠", "Conflict", Hue::Bad),
        DriveState::NeedsAttention => ("!", "Needs attention", Hue::Bad),
        DriveState::Closed => ("○", "Closed", Hue::Dim),
    }
}

fn since(drive: &DriveStatus, now: &Zoned) -> String {
    match when(&drive.since, now) {
        just if just == "just now" => just,
        age => format!("since {age}"),
    }
}

fn mode(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Swap => "swap",
        StoreMode::Claim => "claim",
        StoreMode::None => "none: one computer at a time",
    }
}

fn mounted(drive: &DriveStatus) -> String {
    let device = match (&drive.block_device, drive.attach) {
        (Some(device), Some(AttachMode::Nbd)) => format!(" ({device} by nbd)"),
        (Some(device), Some(AttachMode::Loop)) => format!(" ({device} by loop)"),
        (Some(device), Some(AttachMode::Auto) | None) => format!(" ({device})"),
        (None, _) => String::new(),
    };
    format!("{}{device}", drive.mountpoint.as_deref().unwrap_or("-"))
}

fn asked(drive: &DriveStatus) -> Option<String> {
    requests(drive.requests, drive.sent_by_kind, drive.received_by_kind)
}

/// The requests to a store or remote, and their bytes as far as they are known, by kind: providers charge for both.
pub(super) fn requests(requests: ByKind, up: ByKind, down: ByKind) -> Option<String> {
    let ByKind { get, put, head, list, delete } = requests;
    if get + put + head + list + delete == 0 {
        return None;
    }
    let with = |count: u64, name: &str, bytes: &[(u64, &str)]| {
        let bytes = bytes.iter().filter(|(bytes, _)| *bytes > 0);
        let bytes: Vec<_> = bytes.map(|(bytes, way)| format!("{} {way}", format_bytes(*bytes))).collect();
        match bytes.is_empty() {
            true => format!("{count} {name}"),
            false => format!("{count} {name} ({})", bytes.join(", ")),
        }
    };
    let kinds = [
        with(get, "GET", &[(down.get, "down")]),
        with(put, "PUT", &[(up.put, "up")]),
        with(head, "HEAD", &[]),
        with(list, "LIST", &[(down.list, "down")]),
        with(delete, "DELETE", &[]),
    ];
    Some(format!("{} since it was opened", kinds.join(", ")))
}

fn size(drive: &DriveStatus) -> String {
    let size = format_bytes(drive.size_bytes);
    match drive.mountpoint {
        _ if drive.size_bytes == 0 => "not known until it is opened here".to_owned(),
        Some(_) if drive.used_bytes > 0 => format!("{size}, {} used", format_bytes(drive.used_bytes)),
        _ => size,
    }
}

fn here(drive: &DriveStatus) -> String {
    let mut text = format_bytes(drive.local_bytes());
    if drive.cache_limit_bytes > 0 {
        text.push_str(&format!(" of at most {}", format_bytes(drive.cache_limit_bytes)));
    }
    if drive.pinned_bytes > 0 {
        text.push_str(&format!(", {} always kept", format_bytes(drive.pinned_bytes)));
    }
    if drive.pending_pull_bytes > 0 {
        text.push_str(&format!(", {} to download", format_bytes(drive.pending_pull_bytes)));
    }
    text
}

/// A smaller amount may be the file system's own.
const WORTH_TELLING: u64 = 1 << 20;

/// How much of the files is only in the store, approximately: the file system uses some space itself.
fn not_here(drive: &DriveStatus) -> Option<String> {
    // Data that programs have just written may be in neither.
    let absent = drive.used_bytes.saturating_sub(drive.local_bytes() + drive.dirty_bytes);
    let until = match drive.state {
        DriveState::Offline | DriveState::NeedsAttention => "it cannot be read until the store is back",
        _ => "it is downloaded when it is read",
    };
    let is_told = drive.mountpoint.is_some() && absent >= WORTH_TELLING;
    is_told.then(|| format!("about {} of its files; {until}", format_bytes(absent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Action;
    use crate::api::{Fork, Holder};

    const PLAIN: Paint = Paint(false);

    #[test]
    fn an_unknown_size_is_never_shown_as_0_b() {
        let mut drive = drive();
        (drive.size_bytes, drive.used_bytes, drive.cached_bytes) = (0, 0, 0);
        for state in [DriveState::Closed, DriveState::Ready] {
            drive.state = state;
            let drives = [drive.clone()];
            let texts = [list(&drives, PLAIN), overview(&drives, PLAIN), details(&drive, &now(), PLAIN)];
            for text in texts {
                assert!(!text.contains("0 B"), "{text}");
            }
        }
        (drive.unpushed_bytes, drive.unpushed_is_known) = (1, false);
        assert_eq!(uploads(&drive), "some changes waiting to upload");
    }

    fn drive() -> DriveStatus {
        let status = serde_json::json!({
            "name": "work", "uuid": "0b7e", "state": "Ready", "reason": null, "since": "2026-11-20T11:00:00Z",
            "epoch": 3, "root": "root/ab/1", "size_bytes": 10u64 << 30, "cached_bytes": 2u64 << 30,
            "cache_limit_bytes": 0, "dirty_bytes": 0, "unpushed_bytes": 0, "oldest_dirty_age_ms": 0,
            "journal_bytes": 0, "journal_limit_bytes": 1 << 30, "pending_pull_bytes": 0, "pinned_bytes": 0,
            "block_device": "/dev/nbd0", "attach": "nbd", "mountpoint": "/home/ann/Holdall/work",
            "store": "file:///mnt/nas/work", "store_mode": "swap", "holder": null,
            "last_commit_at": "2026-11-20T11:58:00Z",
            "requests": {"get": 0, "put": 0, "head": 0, "list": 0, "delete": 0},
            "sent_bytes": 0, "received_bytes": 0, "used_bytes": 1u64 << 30, "forks": [], "daemon_pid": 7,
        });
        serde_json::from_value(status).unwrap()
    }

    fn now() -> Zoned {
        "2026-11-20T12:00:00+00:00[UTC]".parse().unwrap()
    }

    #[test]
    fn uploads_say_whether_the_lid_may_be_closed() {
        let mut drive = drive();
        assert_eq!(uploads(&drive), "All changes uploaded");
        drive.unpushed_bytes = 4096;
        assert_eq!(uploads(&drive), "4 KiB waiting to upload");
        drive.set_unsent(12_897_485);
        assert_eq!(uploads(&drive), "12.3 MiB waiting to upload");
        drive.oldest_dirty_age_ms = 3 * 3_600_000;
        assert_eq!(uploads(&drive), "12.3 MiB waiting to upload for 3 h");
        drive.state = DriveState::Syncing;
        assert_eq!(uploads(&drive), "12.3 MiB left to upload");
        drive.set_unsent(0);
        assert_eq!(uploads(&drive), "some changes waiting to upload");
    }

    #[test]
    fn missing_data_is_shown_with_what_that_means() {
        let mut drive = drive();
        assert_eq!(not_here(&drive), None, "all of it is");
        drive.used_bytes = 5 << 30;
        assert_eq!(not_here(&drive).unwrap(), "about 3 GiB of its files; it is downloaded when it is read");
        drive.state = DriveState::Offline;
        assert!(
            details(&drive, &now(), PLAIN)
                .contains("  not here    about 3 GiB of its files; it cannot be read")
        );
        drive.mountpoint = None;
        assert_eq!(not_here(&drive), None, "how full a closed drive is nobody knows");
    }

    #[test]
    fn green_only_when_nothing_is_unsent() {
        let mut drive = drive();
        assert!(state(&drive, Paint(true)).starts_with("\x1b[32m"));
        drive.set_unsent(1);
        assert!(!state(&drive, Paint(true)).starts_with("\x1b[32m"));
    }

    #[test]
    fn a_state_says_why() {
        let mut drive = drive();
        drive.state = DriveState::ReadOnly;
        let holder =
            Holder { device: String::new(), name: "old laptop".to_owned(), epoch: 2, last_commit_at: None };
        drive.holder = Some(holder);
        assert_eq!(state(&drive, PLAIN), "◇ Read-only (held by old laptop)");
        drive.state = DriveState::Paused;
        drive.reason = Some("metered network".to_owned());
        assert_eq!(state(&drive, PLAIN), "‖ Paused (metered network)");
        drive.advice = Some(Advice::new(None, Action::Limits, Vec::new()));
        let said = "‖ Paused (metered network: to see all limits, run `holdall limits`)";
        assert_eq!(state(&drive, PLAIN), said);
        // The consequence of a failure and the advice are on lines of their own.
        let consequence = Some("Your files are safe.".to_owned());
        drive.advice = Some(Advice::new(consequence, "Run it.", Vec::new()));
        assert_eq!(state(&drive, PLAIN), "‖ Paused (metered network)");
        assert!(
            details(&drive, &now(), PLAIN)
                .contains("  meaning     Your files are safe.\n  to do       Run it.\n")
        );
    }

    #[test]
    fn tables_are_aligned_and_empty_ones_say_what_to_do() {
        let text = list(&[drive()], PLAIN);
        let expected = "\
DRIVE  STATE    SIZE    STORE
work   ✓ Ready  10 GiB  file:///mnt/nas/work
";
        assert_eq!(text, expected);
        let text = overview(&[drive()], PLAIN);
        let expected = "\
DRIVE  STATE    UPLOADS               SIZE    MOUNTED AT
work   ✓ Ready  All changes uploaded  10 GiB  /home/ann/Holdall/work
";
        assert_eq!(text, expected);
        for text in [list(&[], PLAIN), overview(&[], PLAIN)] {
            assert!(text.contains("holdall drive create"));
        }
    }

    #[test]
    fn a_long_reason_does_not_widen_the_table() {
        let (mut fork, other) = (drive(), drive());
        fork.state = DriveState::Conflict;
        fork.reason = Some("desk has taken the drive over; your changes continue here as a fork".repeat(3));
        for table in [list, overview] {
            let text = table(&[fork.clone(), other.clone()], PLAIN);
            let rows: Vec<_> = text.lines().take(3).collect();
            assert!(rows.iter().all(|row| row.chars().count() < 100), "{text}");
            assert!(text.ends_with(&format!("\n\nwork: {}\n", fork.reason.clone().unwrap())), "{text}");
        }
    }

    #[test]
    fn requests_are_shown_by_kind_and_none_show_nothing() {
        let mut drive = drive();
        assert_eq!(asked(&drive), None);
        drive.requests = ByKind { get: 12, put: 30, head: 1, list: 2, delete: 3 };
        (drive.received_by_kind.get, drive.received_by_kind.list) = (3 << 20, 2 << 10);
        drive.sent_by_kind.put = 40 << 20;
        let told = "12 GET (3 MiB down), 30 PUT (40 MiB up), 1 HEAD, 2 LIST (2 KiB down), 3 DELETE since it was opened";
        assert_eq!(asked(&drive).as_deref(), Some(told));
        assert!(details(&drive, &now(), PLAIN).contains(told));
    }

    #[test]
    fn missing_names_are_mentioned_and_complete_names_are_not() {
        let mut drive = drive();
        let told =
            |drive: &DriveStatus| details(drive, &now(), PLAIN).contains("names       not all are here");
        assert!(!told(&drive));
        drive.lacks_metadata = true;
        assert!(told(&drive));
    }

    #[test]
    fn details_show_what_there_is() {
        let mut drive = drive();
        drive.forks.push(Fork {
            name: "work (fork from laptop, 2026-11-20)".to_owned(),
            uuid: "0b7f".to_owned(),
            device: "laptop".to_owned(),
            taken_by: "desk".to_owned(),
            made_at: "2026-11-20T11:00:00Z".to_owned(),
            base: "root/ab/1".to_owned(),
            records: 3,
            bytes: 12 << 20,
            size_bytes: 1 << 30,
            mountpoint: None,
            in_place: false,
        });
        let expected = "\
work
  state       ✓ Ready, since 1 h ago
  uploads     All changes uploaded
  last upload 2 min ago
  mounted at  /home/ann/Holdall/work (/dev/nbd0 by nbd)
  size        10 GiB, 1 GiB used
  here        2 GiB
  store       file:///mnt/nas/work (swap)
  fork        work (fork from laptop, 2026-11-20): 12 MiB only on this computer
";
        assert_eq!(details(&drive, &now(), PLAIN), expected);
    }
}
