//! Folders, in words.

use super::status::{look, requests, why_of};
use super::table::Table;
use super::{count, when};
use crate::api::{
    ByKind, DeletionsSettled, DriveState, FolderChange, FolderClosed, FolderConflict, FolderOpened,
    FolderQueue, FolderQueued, FolderQueuedState, FolderStatus, HeldDeletions, WhichVersion,
};
use crate::output::{Hue, Paint};
use crate::sizes::format_bytes;
use jiff::Zoned;

/// Shown if there is no folder.
pub const NO_FOLDERS: &str = "\
No folders yet. Open the files of a bucket, a WebDAV server or a directory:
  holdall folder open URL";

/// An opened folder.
pub fn opened(opened: &FolderOpened) -> String {
    let folder = &opened.folder;
    let already = if opened.already { " already" } else { "" };
    let read_only = if folder.read_only { " (read-only)" } else { "" };
    let at = folder.mountpoint.as_deref().unwrap_or("-");
    let mut text = format!("{} is open{already} at {at}{read_only}", folder.name);
    if let Some(why) = &opened.read_only_because {
        text.push_str(&format!("\nNothing can be written: {why}"));
    }
    if let Some(why) = &opened.away_because {
        text.push_str(&format!(
            "\nThe remote cannot be reached now: {why}\nFiles that are on this computer can be used. Changes are kept here and uploaded \
             once it can be reached."
        ));
    }
    text
}

/// A directory that is watched now.
pub fn watched(folder: &FolderStatus) -> String {
    let ways = match folder.watched.as_ref().is_some_and(|watched| watched.two_way) {
        true => "in step with",
        false => "uploaded to",
    };
    format!("{} is kept {ways} {}. See: holdall folder status {}", folder.name, folder.url, folder.name)
}

/// A closed folder.
pub fn closed(closed: &FolderClosed) -> String {
    let folder = &closed.folder;
    let already = if closed.already { " already" } else { "" };
    match folder.draining {
        true => format!(
            "{} is closed{already}. {}; this continues in the background",
            folder.name,
            uploads(folder)
        ),
        false => format!("{} is closed{already}. {}", folder.name, uploads(folder)),
    }
}

/// All folders, and where their files are.
pub fn list(folders: &[FolderStatus], paint: Paint) -> String {
    if folders.is_empty() {
        return NO_FOLDERS.to_owned();
    }
    let mut table = Table::new(["FOLDER", "STATE", "MOUNTED AT", "FILES AT"]);
    for folder in folders {
        let at = place(folder);
        table.row([folder.name.clone(), word(folder, paint), at, folder.url.clone()]);
    }
    format!("{table}{}", reasons(folders))
}

/// All folders, and their pending uploads.
pub fn overview(folders: &[FolderStatus], paint: Paint) -> String {
    if folders.is_empty() {
        return NO_FOLDERS.to_owned();
    }
    let mut table = Table::new(["FOLDER", "STATE", "UPLOADS", "MOUNTED AT"]);
    for folder in folders {
        let at = place(folder);
        table.row([folder.name.clone(), word(folder, paint), uploads(folder), at]);
    }
    format!("{table}{}", reasons(folders))
}

/// Where a folder is mounted. A watched directory is not, and its name says where it is.
fn place(folder: &FolderStatus) -> String {
    match &folder.watched {
        Some(_) => "(watched)".to_owned(),
        None => folder.mountpoint.clone().unwrap_or_default(),
    }
}

/// One folder, on several lines.
pub fn details(folder: &FolderStatus, now: &Zoned, paint: Paint) -> String {
    let since = match when(&folder.since, now) {
        just if just == "just now" => just,
        age => format!("since {age}"),
    };
    let why = why(folder).map(|why| format!(" ({why})")).unwrap_or_default();
    let mut rows = vec![("state", format!("{}{why}, {since}", word(folder, paint)))];
    if let Some(advice) = &folder.advice
        && let Some(consequence) = &advice.consequence
    {
        rows.extend([("meaning", consequence.clone()), ("to do", advice.action.clone())]);
    }
    rows.push(("uploads", uploads(folder)));
    if let Some(at) = &folder.last_uploaded_at {
        rows.push(("last upload", when(at, now)));
    }
    if folder.conflicts > 0 {
        rows.push((
            "conflicts",
            format!("{} (see: holdall folder conflicts {})", folder.conflicts, folder.name),
        ));
    }
    if folder.held_deletions > 0 {
        let held = count(folder.held_deletions, "file");
        let side = match &folder.watched {
            Some(watched) if watched.held_at_remote > 0 => "here",
            _ => "at the remote",
        };
        let command = format!("holdall folder deletions {}", folder.name);
        rows.push(("held", format!("{held} deleted {side} (see: {command})")));
    }
    match &folder.watched {
        Some(watched) => {
            let ways = if watched.two_way { "both ways" } else { "one way: uploads only" };
            rows.push(("watched", ways.to_owned()));
            if watched.left_out > 0 {
                let left_out = count(watched.left_out, "file");
                rows.push(("left out", format!("{left_out}, such as {}", watched.left_out_paths.join(", "))));
            }
            if watched.changed_at_remote > 0 {
                let changed = count(watched.changed_at_remote, "file");
                let words = "at the remote only, which stays so (use --two-way to get them)";
                rows.push(("changed", format!("{changed} {words}")));
            }
            if let Some(why) = &watched.no_events_because {
                rows.push(("events", format!("none: changes are found within a minute ({why})")));
            }
        }
        None => rows.push(("mounted at", folder.mountpoint.clone().unwrap_or_else(|| "-".to_owned()))),
    }
    if folder.mountpoint.is_some() {
        let passthrough = match (&folder.passthrough.on, &folder.passthrough.why) {
            (true, _) => "yes: whole files are read and written at the speed of the local disk".to_owned(),
            (false, Some(why)) => format!("no ({why})"),
            (false, None) => "no".to_owned(),
        };
        rows.push(("passthrough", passthrough));
    }
    rows.push(("known", count(folder.known_files, "file")));
    rows.push(("here", here(folder)));
    rows.push(("files at", folder.url.clone()));
    rows.extend(asked(folder).map(|asked| ("asked", asked)));
    let mut text = format!("{}\n", folder.name);
    for (label, value) in rows {
        text.push_str(&format!("  {label:<12}{value}\n"));
    }
    text
}

/// Whether everything is at the remote: the one thing to know before closing the lid.
pub fn uploads(folder: &FolderStatus) -> String {
    let left = folder.queue.all();
    match (left, folder.unsent) {
        (0, false) => "All changes uploaded".to_owned(),
        // A closed folder that nobody has counted.
        (0, true) => "Some changes waiting to upload".to_owned(),
        (left, _) if folder.state == DriveState::Syncing => {
            format!("{} left to upload", count(left, "change"))
        }
        (left, _) => format!("{} waiting to upload", count(left, "change")),
    }
}

/// The upload queue.
pub fn queue(name: &str, queue: &FolderQueue, now: &Zoned) -> String {
    let all = queue.counts.all();
    if all == 0 {
        return format!("{name} has nothing to upload");
    }
    let mut table = Table::new(["WHAT", "SIZE", "STATE", "SINCE", "PATH"]);
    for item in &queue.items {
        let size = if item.bytes == 0 { "-".to_owned() } else { format_bytes(item.bytes) };
        table.row([
            change(item.change).to_owned(),
            size,
            queued(item),
            when(&item.since, now),
            item.path.clone(),
        ]);
    }
    let more = all.saturating_sub(queue.items.len() as u64);
    let more = if more > 0 { format!("and {} more\n", count(more, "change")) } else { String::new() };
    let reasons =
        queue.items.iter().filter_map(|item| Some(format!("\n{}: {}", item.path, item.reason.as_ref()?)));
    let mut text = format!("{table}{more}{}", reasons.collect::<String>());
    if let Some(trouble) = &queue.trouble {
        text.push_str(&format!("\nNothing can be uploaded now: {trouble}"));
    }
    text
}

fn change(change: FolderChange) -> &'static str {
    match change {
        FolderChange::Upload => "upload",
        FolderChange::MakeDirectory => "new directory",
        FolderChange::Move => "move",
        FolderChange::Remove => "remove",
        FolderChange::Attributes => "attributes",
        FolderChange::Download => "download",
    }
}

fn queued(item: &FolderQueued) -> String {
    match (item.state, 100 * item.sent_bytes.min(item.bytes)) {
        (FolderQueuedState::Waiting, _) => "waiting".to_owned(),
        (FolderQueuedState::Uploading, _) if item.bytes == 0 => "under way".to_owned(),
        (FolderQueuedState::Uploading, sent) => format!("{} %", sent / item.bytes),
        (FolderQueuedState::InUse, _) => "in use".to_owned(),
        (FolderQueuedState::Failed, _) => "failed".to_owned(),
    }
}

/// The conflicts of a folder.
pub fn conflicts(name: &str, conflicts: &[FolderConflict], now: &Zoned) -> String {
    if conflicts.is_empty() {
        return format!("{name} has no conflicts");
    }
    let mut text = String::new();
    for conflict in conflicts {
        let theirs =
            conflict.their_time.as_deref().map(|at| format!(", {}", when(at, now))).unwrap_or_default();
        text.push_str(&format!(
            "{}\n  the remote's  {}{theirs}\n  this computer's  {}, kept as {}\n",
            conflict.path,
            format_bytes(conflict.their_bytes),
            format_bytes(conflict.our_bytes),
            conflict.kept_as
        ));
    }
    text.push_str(&format!("Decide with: holdall folder conflicts {name} keep mine|theirs|both PATH"));
    text
}

/// A settled conflict, and how many are left.
pub fn kept(path: &str, which: WhichVersion, left: u64) -> String {
    let what = match which {
        WhichVersion::Mine => "This computer's version is kept, and replaces the remote's",
        WhichVersion::Theirs => "The remote's version is kept",
        WhichVersion::Both => "Both versions are kept",
    };
    let left = match left {
        0 => String::new(),
        left => format!("; {} left", count(left, "conflict")),
    };
    format!("{path}: {what}{left}")
}

/// The held deletions of a folder.
pub fn deletions(name: &str, held: &HeldDeletions, now: &Zoned) -> String {
    if held.count == 0 {
        return format!("{name} has no held deletions");
    }
    let at = held.at.as_deref().map(|at| format!(" (seen {})", when(at, now))).unwrap_or_default();
    let mut text = format!(
        "{} deleted at the remote at once{at}. Here they stay until you decide:\n",
        count(held.count, "file")
    );
    for path in &held.paths {
        text.push_str(&format!("  {path}\n"));
    }
    let more = held.count.saturating_sub(held.paths.len() as u64);
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
    }
    text.push_str(&format!(
        "Upload them again: holdall folder deletions {name} restore\nDelete them here too: holdall folder deletions {name} accept"
    ));
    text
}

/// What came of held deletions.
pub fn settled(name: &str, settled: &DeletionsSettled) -> String {
    let DeletionsSettled { removed, restored, lost } = settled;
    match (removed, lost) {
        (0, 0) => format!("{} of {name} will be uploaded again", count(*restored, "file")),
        (0, lost) => format!(
            "{} of {name} will be uploaded again. {} could not be restored: not all of their bytes were here",
            count(*restored, "file"),
            count(*lost, "file")
        ),
        (removed, _) => format!("{} of {name} deleted here too", count(*removed, "file")),
    }
}

fn here(folder: &FolderStatus) -> String {
    let mut text = format!("{} that the remote has too", format_bytes(folder.cached_bytes));
    if folder.dirty_bytes > 0 {
        text.push_str(&format!(", {} only here", format_bytes(folder.dirty_bytes)));
    }
    text
}

fn asked(folder: &FolderStatus) -> Option<String> {
    // Bytes are known by direction only.
    let text = requests(folder.requests, ByKind::default(), ByKind::default())?;
    Some(format!(
        "{text}; {} up, {} down",
        format_bytes(folder.sent_bytes),
        format_bytes(folder.received_bytes)
    ))
}

/// Icon and word.
pub fn word(folder: &FolderStatus, paint: Paint) -> String {
    let (icon, word, hue) = look(folder.state);
    // Green only if no upload is pending.
    let hue = if hue == Hue::Good && folder.unsent { Hue::Busy } else { hue };
    paint.hue(hue, &format!("{icon} {word}"))
}

/// Why it is in its state, and what to do.
pub fn why(folder: &FolderStatus) -> Option<String> {
    Some(why_of(folder.reason.as_deref()?, folder.advice.as_ref()))
}

fn reasons(folders: &[FolderStatus]) -> String {
    let reason = |folder: &FolderStatus| Some(format!("\n{}: {}", folder.name, why(folder)?));
    let reasons: String = folders.iter().filter_map(reason).collect();
    if reasons.is_empty() { reasons } else { reasons + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FolderQueueCounts;
    use serde_json::json;

    const PLAIN: Paint = Paint(false);

    fn now() -> Zoned {
        "2026-11-20T12:00:00+00:00[UTC]".parse().unwrap()
    }

    fn folder() -> FolderStatus {
        let status = json!({
            "name": "photos", "uuid": "0b7e", "url": "s3://b/photos", "kind": "s3", "state": "Ready", "reason": null,
            "since": "2026-11-20T11:00:00Z", "mountpoint": "/home/ann/Holdall/photos", "read_only": false,
            "passthrough": {"on": true, "why": null}, "known_files": 12, "cached_bytes": 2u64 << 20, "dirty_bytes": 0,
            "queue": {"waiting": 0, "uploading": 0, "failed": 0, "in_use": 0}, "conflicts": 0, "held_deletions": 0,
            "pinned_bytes": 0, "requests": {"get": 3, "put": 0, "head": 0, "list": 1, "delete": 0}, "sent_bytes": 0,
            "received_bytes": 4096, "last_uploaded_at": null, "daemon_pid": 7,
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn uploads_say_whether_the_lid_may_be_closed() {
        let mut folder = folder();
        assert_eq!(uploads(&folder), "All changes uploaded");
        folder.queue = FolderQueueCounts { waiting: 1, in_use: 1, ..FolderQueueCounts::default() };
        assert_eq!(uploads(&folder), "2 changes waiting to upload");
        folder.state = DriveState::Syncing;
        assert_eq!(uploads(&folder), "2 changes left to upload");
        // Closed by a daemon that is gone: nobody has counted.
        (folder.queue, folder.state, folder.unsent) =
            (FolderQueueCounts::default(), DriveState::Closed, true);
        assert_eq!(uploads(&folder), "Some changes waiting to upload");
        let closed_folder =
            FolderClosed { folder: FolderStatus { draining: true, ..folder }, already: false };
        assert!(closed(&closed_folder).ends_with("this continues in the background"));
    }

    #[test]
    fn the_details_of_a_folder_name_what_waits_for_a_person() {
        let mut folder = folder();
        let text = details(&folder, &now(), PLAIN);
        assert!(text.contains("state       ✓ Ready, since 1 h ago") && text.contains("3 GET"), "{text}");
        (folder.conflicts, folder.held_deletions) = (2, 600);
        (folder.passthrough.on, folder.passthrough.why) = (false, Some("only root may".to_owned()));
        let text = details(&folder, &now(), PLAIN);
        for part in ["2 (see: holdall folder conflicts photos)", "600 files deleted", "no (only root may)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_opened_folder_says_where_and_what_is_missing() {
        let at = |already, away: Option<&str>| {
            opened(&FolderOpened {
                folder: folder(),
                already,
                away_because: away.map(str::to_owned),
                read_only_because: None,
            })
        };
        assert_eq!(at(false, None), "photos is open at /home/ann/Holdall/photos");
        assert_eq!(at(true, None), "photos is open already at /home/ann/Holdall/photos");
        assert!(at(false, Some("no route")).contains("cannot be reached now: no route"));
    }

    #[test]
    fn the_queue_shows_the_first_and_counts_the_rest() {
        let mut shown = FolderQueue::default();
        assert_eq!(queue("photos", &shown, &now()), "photos has nothing to upload");
        shown.counts =
            FolderQueueCounts { uploading: 1, failed: 1, waiting: 5, ..FolderQueueCounts::default() };
        let item = |path: &str, state, reason: Option<&str>| FolderQueued {
            path: path.to_owned(),
            change: FolderChange::Upload,
            bytes: 1000,
            sent_bytes: 250,
            state,
            reason: reason.map(str::to_owned),
            next_try_at: None,
            since: "2026-11-20T11:59:00Z".to_owned(),
        };
        shown.items = vec![
            item("a", FolderQueuedState::Uploading, None),
            item("b", FolderQueuedState::Failed, Some("it is locked")),
        ];
        let text = queue("photos", &shown, &now());
        for part in ["25 %", "failed", "and 5 changes more", "b: it is locked"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn decisions_are_offered_with_their_commands() {
        let conflict = FolderConflict {
            path: "a.txt".to_owned(),
            kept_as: "a (conflict, laptop, 2026-11-20 11-00).txt".to_owned(),
            at: "2026-11-20T11:00:00Z".to_owned(),
            our_bytes: 10,
            their_bytes: 20,
            their_time: None,
        };
        let text = conflicts("photos", &[conflict], &now());
        assert!(text.contains("kept as a (conflict") && text.contains("keep mine|theirs|both"), "{text}");
        let held = HeldDeletions { count: 600, paths: vec!["x".to_owned()], at: None };
        let text = deletions("photos", &held, &now());
        assert!(text.contains("and 599 more") && text.contains("deletions photos restore"), "{text}");
        assert_eq!(kept("a", WhichVersion::Both, 1), "a: Both versions are kept; 1 conflict left");
        let restored = DeletionsSettled { restored: 2, lost: 1, ..DeletionsSettled::default() };
        assert!(settled("photos", &restored).contains("1 file could not be restored"));
    }
}
