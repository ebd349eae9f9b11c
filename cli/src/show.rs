//! Turns a daemon's results into words for people: pure functions from a result to text.

use crate::api::{
    Checked, Closed, Collected, Compared, DaemonStatus, Diagnosis, Difference, FileKind, Fork, Holder,
    Opened, Snapshot, Synced, VersionOfFile,
};
use crate::output::{Hue, Paint};
use crate::sizes::{format_age, format_bytes, format_duration};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use std::time::Duration;

pub mod devices;
pub mod folder;
pub mod map;
pub mod pins;
pub mod queue;
pub mod status;
pub mod store;
pub mod table;

use table::Table;

/// An open drive.
pub fn opened(name: &str, opened: &Opened) -> String {
    let writable = if opened.epoch == 0 { ", read-only" } else { "" };
    let already = if opened.already { " already" } else { "" };
    let mut text =
        format!("{name} is open{already} at {} ({}{writable})", opened.mountpoint, opened.block_device);
    if let Some(why) = &opened.read_only_because {
        text.push_str(&format!("\n{why}"));
    }
    if let Some(why) = &opened.away_because {
        text.push_str(&format!(
            "\nIt was opened without its store. {why}\nYour changes stay on this computer and are uploaded once the store \
             is back. If another computer\nhas written to the drive by then, both versions are kept."
        ));
    }
    if let Some(holder) = &opened.took_over {
        text.push_str(&format!("\nIt was taken over from {}", holder.name));
    }
    if !opened.forks.is_empty() {
        let forks = count(opened.forks.len() as u64, "fork");
        text.push_str(&format!("\nIt has {forks} on this computer: holdall drive forks {name}"));
    }
    text
}

/// The computer that has a drive, before it is taken over, and what that would mean.
pub fn holder(name: &str, holder: &Holder, now: &Zoned) -> String {
    let last = holder.last_commit_at.as_deref().map(|at| format!("; its last upload was {}", when(at, now)));
    format!(
        "{} has {name} open (epoch {}){}.\n\
         Changes that it has uploaded are in the drive. Changes that it has not uploaded become a fork there: both versions are\n\
         kept, and nothing is merged. If you can, close the drive on that computer instead.",
        holder.name,
        holder.epoch,
        last.unwrap_or_default()
    )
}

/// A drive's forks.
pub fn forks(name: &str, forks: &[Fork], now: &Zoned) -> String {
    if forks.is_empty() {
        return format!("{name} has no forks on this computer");
    }
    let mut table = Table::new(["", "FORK", "SINCE", "TAKEN OVER BY", "BASED ON", "UNSENT", "MOUNTED AT"]);
    for (index, fork) in forks.iter().enumerate() {
        let base = fork.base.rsplit('-').next().unwrap_or_default();
        let unsent = if fork.bytes == 0 { "nothing".to_owned() } else { format_bytes(fork.bytes) };
        table.row([
            (index + 1).to_string(),
            fork.name.clone(),
            when(&fork.made_at, now),
            fork.taken_by.clone(),
            base.chars().take(8).collect(),
            unsent,
            fork.mountpoint.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    format!(
        "{table}\n\
         Each fork is a separate drive with everything that this computer had. Compare, then decide:\n  \
         holdall drive forks {name} compare FORK\n  \
         holdall drive forks {name} open FORK\n  \
         holdall drive forks {name} keep FORK --as NEW\n  \
         holdall drive forks {name} discard FORK"
    )
}

/// The differences between a fork and the current version.
pub fn compared(compared: &Compared, now: &Zoned) -> String {
    let mut text = match compared.differences.is_empty() {
        true => "Both versions have the same files\n".to_owned(),
        false => {
            let mut table = Table::new(["FORK", "CURRENT VERSION", "PATH"]);
            for Difference { path, fork, current } in &compared.differences {
                let [fork, current] = [fork, current].map(|version| version_of_file(version.as_ref(), now));
                table.row([fork, current, path.clone()]);
            }
            table.to_string()
        }
    };
    if compared.more > 0 {
        text.push_str(&format!("... and {} more\n", compared.more));
    }
    if compared.unreadable > 0 {
        text.push_str(&format!(
            "Not compared, because they cannot be read: {}\n",
            count(compared.unreadable, "folder")
        ));
    }
    text.trim_end().to_owned()
}

fn version_of_file(version: Option<&VersionOfFile>, now: &Zoned) -> String {
    let Some(version) = version else { return "-".to_owned() };
    let (size, age) = (format_bytes(version.bytes), when(&version.modified_at, now));
    match version.kind {
        FileKind::Directory => format!("{}, {size}", count(version.files, "file")),
        FileKind::File => format!("{size}, {age}"),
        FileKind::Link => format!("link, {age}"),
        FileKind::Other => format!("special, {age}"),
    }
}

/// A version that is in the store.
pub fn synced(name: &str, synced: &Synced, verbose: bool) -> String {
    let version = if verbose { format!(" (version {})", synced.root) } else { String::new() };
    format!("All changes of {name} are uploaded{version}")
}

/// A closed drive.
pub fn closed(name: &str, closed: &Closed) -> String {
    let already = if closed.already { " already" } else { "" };
    let uploads = status::uploads(&closed.drive);
    match closed.drive.unpushed_bytes {
        0 => format!("{name} is closed{already}. {uploads}"),
        _ => format!("{name} is closed{already}. {uploads}; this continues in the background"),
    }
}

/// The result of a check.
pub fn checked(name: &str, checked: &Checked, paint: Paint) -> String {
    let objects = count(checked.objects, "object");
    let mut foreign = String::new();
    if !checked.foreign.is_empty() {
        foreign.push_str(
            "\nThe store contains objects that are not Holdall's. They were skipped and do no harm:",
        );
        for name in &checked.foreign {
            foreign.push_str(&format!("\n  {name}"));
        }
    }
    if checked.ok {
        return format!("{} {name} is intact: {objects} checked{foreign}", paint.hue(Hue::Good, "✓"));
    }
    let errors = count(checked.errors.len() as u64, "error");
    let mut text = format!("{} {name} is damaged: {errors}, {objects} checked\n", paint.hue(Hue::Bad, "!"));
    for error in &checked.errors {
        text.push_str(&format!("  {error}\n"));
    }
    text.push_str(foreign.trim_start());
    text
}

/// The result of a collection.
pub fn collected(collected: &Collected) -> String {
    let freed = match collected.deleted {
        0 => "Nothing to delete yet".to_owned(),
        deleted => format!("Deleted {} ({})", count(deleted, "object"), format_bytes(collected.bytes_freed)),
    };
    let garbage = match collected.garbage_bytes {
        0 => String::new(),
        bytes => format!(", {} can be deleted later", format_bytes(bytes)),
    };
    format!("{freed}; {} in use{garbage}", format_bytes(collected.live_bytes))
}

/// A drive's snapshots.
pub fn snapshots(name: &str, snapshots: &[Snapshot], now: &Zoned) -> String {
    if snapshots.is_empty() {
        return format!("{name} has no snapshots. Take one: holdall drive snapshot create {name}");
    }
    let mut table = Table::new(["SNAPSHOT", "TAKEN", "SIZE"]);
    for snapshot in snapshots {
        let taken = when(&snapshot.taken_at, now);
        table.row([snapshot.label.clone(), taken, format_bytes(snapshot.size_bytes)]);
    }
    table.to_string()
}

/// The doctor's findings.
pub fn diagnosis(diagnosis: &Diagnosis, paint: Paint) -> String {
    let mut text = format!("{}\n", diagnosis.summary);
    for finding in &diagnosis.findings {
        let icon = match finding.ok || finding.repaired {
            true => paint.hue(Hue::Good, "✓"),
            false => paint.hue(Hue::Bad, "!"),
        };
        let repaired = if finding.repaired { " (repaired)" } else { "" };
        text.push_str(&format!("{icon} {}: {}{repaired}\n", finding.subject, finding.detail));
        if let Some(action) = finding.action.as_deref().filter(|_| !finding.ok && !finding.repaired) {
            text.push_str(&format!("  {action}\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The daemon.
pub fn daemon(daemon: &DaemonStatus) -> String {
    let up = format_duration(Duration::from_millis(daemon.uptime_ms));
    format!("The background service {} is running as process {}, for {up}", daemon.version, daemon.pid)
}

/// From this age on, a date says more than an age.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// A past time for people: its age, or the local date and time. A time that cannot be read is shown unchanged.
pub fn when(time: &str, now: &Zoned) -> String {
    let Ok(then) = time.parse::<Timestamp>() else { return time.to_owned() };
    let age = now.timestamp().duration_since(then);
    match age < AGE_MAX {
        // After a clock was set back, events may lie in the future.
        true => format_age(Duration::try_from(age).unwrap_or_default()),
        false => then.to_zoned(now.time_zone().clone()).strftime("%Y-%m-%d %H:%M").to_string(),
    }
}

/// A future time in the local time zone.
pub fn at(time: &str, zone: &TimeZone) -> String {
    let local = time.parse::<Timestamp>().map(|time| time.to_zoned(zone.clone()));
    local.map_or_else(|_| time.to_owned(), |local| local.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// `1 object`, `2 objects`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Finding;

    const PLAIN: Paint = Paint(false);

    fn now() -> Zoned {
        "2026-11-20T12:00:00+00:00[UTC]".parse().unwrap()
    }

    #[test]
    fn ages_are_relative_for_a_day_and_survive_odd_clocks() {
        for (time, expected) in [
            ("2026-11-20T11:58:00Z", "2 min ago"),
            ("2026-11-20T12:58:00+01:00", "2 min ago"),
            ("2026-11-20T12:30:00Z", "just now"),
            ("2026-11-19T12:00:01Z", "23 h ago"),
            ("2026-11-19T12:00:00Z", "2026-11-19 12:00"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(when(time, &now()), expected);
        }
    }

    #[test]
    fn dates_are_local() {
        let zone = TimeZone::fixed(jiff::tz::offset(9));
        let in_tokyo = now().with_time_zone(zone.clone());
        assert_eq!(when("2026-11-10T23:30:00Z", &in_tokyo), "2026-11-11 08:30");
        assert_eq!(at("2026-11-10T23:30:05Z", &zone), "2026-11-11 08:30:05");
        assert_eq!(at("soon", &zone), "soon");
    }

    #[test]
    fn forks_are_numbered_and_say_what_can_be_done() {
        assert_eq!(forks("work", &[], &now()), "work has no forks on this computer");
        let fork = Fork {
            name: "work (fork from laptop, 2026-11-20)".to_owned(),
            uuid: "0b7f".to_owned(),
            device: "laptop".to_owned(),
            taken_by: "desk".to_owned(),
            made_at: "2026-11-20T11:58:00Z".to_owned(),
            base: "root/ab/0b7e-01-02-abcdef0123".to_owned(),
            records: 3,
            bytes: 12 << 20,
            size_bytes: 1 << 30,
            mountpoint: None,
            in_place: false,
        };
        let text = forks("work", &[fork], &now());
        let row = "1  work (fork from laptop, 2026-11-20)  2 min ago  desk           abcdef01  12 MiB  -\n";
        assert!(text.contains(row), "{text}");
        assert!(text.ends_with("holdall drive forks work discard FORK"), "{text}");
    }

    #[test]
    fn a_holder_is_shown_with_its_last_uploads_age() {
        let at = Some("2026-11-20T09:00:00Z".to_owned());
        let desk = Holder { device: String::new(), name: "desk".to_owned(), epoch: 7, last_commit_at: at };
        let text = holder("work", &desk, &now());
        let expected =
            "desk has work open (epoch 7); its last upload was 3 h ago.\nChanges that it has uploaded are in";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_check_lists_what_is_wrong() {
        let well = Checked { ok: true, objects: 1, errors: Vec::new(), foreign: Vec::new() };
        assert_eq!(checked("work", &well, PLAIN), "✓ work is intact: 1 object checked");
        let bad = Checked {
            ok: false,
            objects: 12,
            errors: vec!["seg/ab is missing".to_owned()],
            foreign: Vec::new(),
        };
        let text = checked("work", &bad, PLAIN);
        assert_eq!(text, "! work is damaged: 1 error, 12 objects checked\n  seg/ab is missing\n");
    }

    #[test]
    fn a_collection_says_what_is_left() {
        let nothing = Collected { deleted: 0, bytes_freed: 0, live_bytes: 1 << 30, garbage_bytes: 0 };
        assert_eq!(collected(&nothing), "Nothing to delete yet; 1 GiB in use");
        let some = Collected { deleted: 3, bytes_freed: 2048, live_bytes: 1 << 30, garbage_bytes: 1024 };
        assert_eq!(collected(&some), "Deleted 3 objects (2 KiB); 1 GiB in use, 1 KiB can be deleted later");
    }

    #[test]
    fn a_diagnosis_gives_advice_only_for_problems() {
        let finding = |subject: &str, ok, repaired| Finding {
            repaired,
            ..Finding::new(subject, ok, "detail", "do it")
        };
        let findings =
            vec![finding("nbd", true, false), finding("mount", false, false), finding("loop", false, true)];
        let summary = "1 problem was found: mount.".to_owned();
        let text = diagnosis(&Diagnosis { ok: false, summary, findings }, PLAIN);
        let lines = ["✓ nbd: detail", "! mount: detail", "  do it", "✓ loop: detail (repaired)"];
        assert_eq!(text, format!("1 problem was found: mount.\n{}", lines.join("\n")));
    }
}
