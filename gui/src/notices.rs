//! Decides what is worth interrupting a person for: a drive that needs them, a conflict, a complete pin, a server that went away. Events
//! that come together are shown together. A server is shown once for all its drives, until it has been back. A later notice replaces the
//! one before, so the last one about servers names all that are away.

use crate::card::{needs_person, reason};
use crate::texts::{counted, said, text};
use holdall_api::{DriveState, DriveStatus, FolderStatus, PinState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long to wait for others to show together with the first.
const TOGETHER: Duration = Duration::from_secs(2);
/// A server that is away for less is not shown: Wi-Fi comes and goes.
const AWAY_FOR: Duration = Duration::from_secs(20);

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A drive needs a person.
    Attention,
    /// Another device has taken a drive over.
    Conflict,
    /// Everything pinned by a path is here.
    PinComplete,
    /// A server cannot be reached.
    Network,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Attention, Kind::Conflict, Kind::PinComplete, Kind::Network];
}

/// A notification to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its kind. A later one of the same kind replaces it.
    pub kind: Kind,
    /// In a line.
    pub title: String,
    /// The rest of the text.
    pub body: String,
    /// The drive, if it is about one drive.
    pub drive: Option<String>,
}

/// The last known state of drives, and what waits to be shown.
#[derive(Debug, Default)]
pub struct Notices {
    seen: BTreeMap<String, Before>,
    /// Which of them are folders.
    folders: BTreeSet<String>,
    /// For each kind: when the first of them came, and the drives that they are about, each with its text.
    waiting: BTreeMap<Kind, (Duration, Vec<(String, String)>)>,
    /// For each server that is away: since when, and whether that was shown.
    away: BTreeMap<String, (Duration, bool)>,
}

#[derive(Debug)]
struct Before {
    needs_person: bool,
    /// Forks of a drive, or conflicts of a folder.
    forks: usize,
    /// Deletions that a folder holds.
    held: u64,
    /// Uploads of a folder that failed.
    failed: u64,
    server: Option<String>,
    /// Pins that were not complete.
    incomplete: BTreeSet<Option<String>>,
}

impl Notices {
    /// Takes a drive's current state. For a drive seen for the first time, the only news is that it needs a person.
    pub fn see(&mut self, now: Duration, status: &DriveStatus) {
        let server = (status.state == DriveState::Offline).then(|| server(&status.store));
        let incomplete =
            status.pins.iter().filter(|pin| !pin.is_ready()).map(|pin| pin.path.clone()).collect();
        let next = Before {
            needs_person: needs_person(status),
            forks: status.forks.len(),
            held: 0,
            failed: 0,
            server,
            incomplete,
        };
        let before = self.seen.insert(status.name.clone(), next);
        let next = &self.seen[&status.name];
        let mut news = Vec::new();
        let forked = before.as_ref().is_some_and(|before| before.forks < next.forks);
        if forked {
            let by = status.forks.last().map(|fork| fork.taken_by.as_str()).unwrap_or_default();
            news.push((Kind::Conflict, said("notice.conflict.body", &[("device", by)])));
        }
        if next.needs_person && !before.as_ref().is_some_and(|before| before.needs_person) && !forked {
            let reason = reason(status);
            news.push((Kind::Attention, reason.unwrap_or_else(|| text("notice.attention.body"))));
        }
        for pin in status.pins.iter().filter(|pin| pin.state == PinState::AlwaysKeep) {
            if before.as_ref().is_some_and(|before| before.incomplete.contains(&pin.path)) {
                let path = pin.path.clone().unwrap_or_else(|| status.name.clone());
                news.push((Kind::PinComplete, said("notice.pin.body", &[("path", &path)])));
            }
        }
        self.wait_with(now, &status.name, news);
        self.look_at_servers(now);
    }

    /// Takes a folder's current state. For a folder seen for the first time, the only news is that it needs a person.
    pub fn see_folder(&mut self, now: Duration, status: &FolderStatus) {
        let server = (status.state == DriveState::Offline).then(|| server(&status.url));
        let next = Before {
            needs_person: status.state == DriveState::NeedsAttention,
            forks: usize::try_from(status.conflicts).unwrap_or(usize::MAX),
            held: status.held_deletions,
            failed: status.queue.failed,
            server,
            incomplete: BTreeSet::new(),
        };
        self.folders.insert(status.name.clone());
        let before = self.seen.insert(status.name.clone(), next);
        let next = &self.seen[&status.name];
        let was = |of: fn(&Before) -> u64| before.as_ref().map(of);
        let mut news = Vec::new();
        let conflicts =
            was(|before| before.forks as u64).map_or(0, |was| status.conflicts.saturating_sub(was));
        if conflicts > 0 {
            news.push((Kind::Conflict, counted("notice.folder.conflict", conflicts, &[])));
        }
        if next.held > was(|before| before.held).unwrap_or(0) {
            news.push((Kind::Attention, counted("notice.folder.deletions", next.held, &[])));
        } else if next.failed > was(|before| before.failed).unwrap_or(next.failed) {
            news.push((Kind::Attention, counted("notice.folder.failed", next.failed, &[])));
        } else if next.needs_person && !before.as_ref().is_some_and(|before| before.needs_person) {
            let reason =
                status.reason.as_deref().map(|reason| crate::words::sentence(reason, &[&status.name]));
            news.push((Kind::Attention, reason.unwrap_or_else(|| text("notice.attention.body"))));
        }
        self.wait_with(now, &status.name, news);
        self.look_at_servers(now);
    }

    fn wait_with(&mut self, now: Duration, name: &str, news: Vec<(Kind, String)>) {
        for (kind, body) in news {
            let (_, about) = self.waiting.entry(kind).or_insert((now, Vec::new()));
            about.retain(|(drive, text)| (drive.as_str(), text) != (name, &body));
            about.push((name.to_owned(), body));
        }
    }

    /// Forgets a drive or folder.
    pub fn forget(&mut self, name: &str) {
        self.seen.remove(name);
        self.folders.remove(name);
    }

    /// The notices to show now.
    pub fn take(&mut self, now: Duration) -> Vec<Notice> {
        self.look_at_servers(now);
        let folders = self.folders.clone();
        let due: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, (since, _))| now.saturating_sub(*since) >= TOGETHER)
            .map(|(kind, _)| *kind)
            .collect();
        let mut notices: Vec<_> = due
            .into_iter()
            .filter_map(|kind| Some(told(kind, self.waiting.remove(&kind)?.1, &folders)))
            .collect();
        notices.extend(self.servers(now));
        notices
    }

    /// All servers that stay away, if one of them is news.
    fn servers(&mut self, now: Duration) -> Option<Notice> {
        let mut is_news = false;
        let mut servers = Vec::new();
        for (server, (since, is_told)) in &mut self.away {
            if now.saturating_sub(*since) >= AWAY_FOR {
                is_news |= !std::mem::replace(is_told, true);
                servers.push(server.as_str());
            }
        }
        let first = servers.first().filter(|_| is_news)?;
        let title = counted("notice.network", servers.len() as u64, &[("server", first)]);
        let names = (servers.len() > 1).then(|| servers.join(", "));
        let body = names.into_iter().chain([text("notice.network.body")]).collect::<Vec<_>>().join("\n");
        Some(Notice { kind: Kind::Network, title, body, drive: None })
    }

    fn look_at_servers(&mut self, now: Duration) {
        let away: BTreeSet<_> = self.seen.values().filter_map(|before| before.server.clone()).collect();
        self.away.retain(|server, _| away.contains(server));
        for server in away {
            self.away.entry(server).or_insert((now, false));
        }
    }
}

fn told(kind: Kind, about: Vec<(String, String)>, folders: &BTreeSet<String>) -> Notice {
    let is_of_folders = about.iter().any(|(name, _)| folders.contains(name));
    let drives: BTreeSet<_> = about.iter().map(|(drive, _)| drive.as_str()).collect();
    let drive = (drives.len() == 1).then(|| about[0].0.clone());
    let name = drive.clone().unwrap_or_default();
    let count = if kind == Kind::PinComplete { about.len() } else { drives.len() } as u64;
    let key = match kind {
        Kind::Attention if is_of_folders => "notice.folder.attention",
        Kind::Attention => "notice.attention",
        Kind::Conflict if is_of_folders => "notice.folder.conflicts",
        Kind::Conflict => "notice.conflict",
        Kind::PinComplete => "notice.pin",
        Kind::Network => "notice.network",
    };
    // If several drives have the same text, for example because their server refuses access, say it once.
    let mut bodies: Vec<(String, Vec<&str>)> = Vec::new();
    for (drive, text) in &about {
        match bodies.iter_mut().find(|(known, _)| known == text) {
            Some((_, drives)) => drives.push(drive),
            None => bodies.push((text.clone(), vec![drive])),
        }
    }
    let bodies: Vec<_> = match drives.len() {
        1 => bodies.into_iter().map(|(text, _)| text).collect(),
        _ => bodies.into_iter().map(|(text, drives)| format!("{}: {text}", drives.join(", "))).collect(),
    };
    Notice { kind, title: counted(key, count, &[("name", &name)]), body: bodies.join("\n"), drive }
}

/// The server in a store's address: drives on one server go and come together, whatever their buckets.
fn server(store: &str) -> String {
    let (scheme, rest) = store.split_once("://").unwrap_or(("", store));
    let host = |address: &str| address.split(['/', '?']).next().unwrap_or(address).to_owned();
    match scheme {
        // A disk is not away like a server: each directory counts by itself.
        "file" => rest.to_owned(),
        "s3" => {
            let query = rest.split_once('?').map_or("", |(_, query)| query);
            let endpoint = query.split('&').find_map(|pair| pair.strip_prefix("endpoint="));
            let Some(endpoint) = endpoint else { return text("s3.aws") };
            // The endpoint is percent-encoded inside the address.
            let endpoint = endpoint.replace("%3A", ":").replace("%2F", "/");
            host(endpoint.split_once("://").map_or(&*endpoint, |(_, rest)| rest))
        }
        _ => host(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::status;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn in_state(name: &str, state: DriveState) -> DriveStatus {
        status(name, state)
    }

    #[test]
    fn events_that_come_together_are_shown_together() {
        let mut notices = Notices::default();
        for name in ["a", "b", "c"] {
            notices.see(s(0), &in_state(name, DriveState::Ready));
        }
        assert_eq!(notices.take(s(10)), []);
        notices.see(s(10), &in_state("a", DriveState::NeedsAttention));
        notices.see(s(11), &in_state("b", DriveState::NeedsAttention));
        assert_eq!(notices.take(s(11)), []);
        let told = notices.take(s(12));
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].title.as_str(), told[0].drive.as_deref()), ("2 drives need attention", None));
        // Its state has not changed, so it is not shown again; another drive is.
        notices.see(s(13), &in_state("a", DriveState::NeedsAttention));
        notices.see(s(13), &in_state("c", DriveState::NeedsAttention));
        let told = notices.take(s(20));
        assert_eq!((told.len(), told[0].drive.as_deref()), (1, Some("c")));
    }

    #[test]
    fn a_folder_tells_of_conflicts_deletions_failures_and_its_server() {
        use crate::folder::tests::folder;
        let mut notices = Notices::default();
        let mut photos = folder("photos", DriveState::Ready);
        notices.see_folder(s(0), &photos);
        assert_eq!(notices.take(s(5)), []);
        let mut told = |at: u64, photos: &FolderStatus| {
            notices.see_folder(s(at), photos);
            let told = notices.take(s(at + 5));
            told.into_iter().map(|notice| (notice.kind, notice.title, notice.body)).collect::<Vec<_>>()
        };
        photos.conflicts = 2;
        let conflict = told(10, &photos);
        assert_eq!((conflict.len(), conflict[0].0), (1, Kind::Conflict));
        assert!(conflict[0].2.starts_with("2 files were changed"), "{conflict:?}");
        assert_eq!(told(20, &photos), []);
        photos.held_deletions = 600;
        let held = told(30, &photos);
        assert_eq!((held.len(), held[0].0), (1, Kind::Attention));
        assert!(held[0].1 == "photos needs attention" && held[0].2.starts_with("600 files"), "{held:?}");
        photos.queue.failed = 1;
        assert!(told(40, &photos)[0].2.starts_with("A file could not be uploaded"));
        photos.state = DriveState::Offline;
        assert_eq!(told(50, &photos), []);
        let away = told(75, &photos);
        assert_eq!(away[0].1, "cloud.example.org cannot be reached");
    }

    #[test]
    fn a_fork_is_shown_once_with_the_device_that_took_over() {
        let mut notices = Notices::default();
        let mut drive = in_state("work", DriveState::Ready);
        notices.see(s(0), &drive);
        drive.state = DriveState::Conflict;
        drive.forks = vec![serde_json::from_value(serde_json::json!({
            "name": "work (fork)", "uuid": "u", "device": "laptop", "taken_by": "desk", "made_at": "", "base": "",
            "records": 1, "bytes": 1, "mountpoint": null, "in_place": true,
        }))
        .unwrap()];
        notices.see(s(1), &drive);
        notices.see(s(2), &drive);
        let told = notices.take(s(5));
        assert_eq!(told.iter().map(|notice| notice.kind).collect::<Vec<_>>(), [Kind::Conflict]);
        assert!(told[0].body.contains("desk"), "{}", told[0].body);
    }

    #[test]
    fn a_pin_is_shown_when_it_becomes_complete() {
        let pin = |state: &str| {
            let mut drive = in_state("work", DriveState::Ready);
            drive.pins = vec![serde_json::from_value(serde_json::json!({
                "drive": "work", "path": "photos", "at": null, "state": state, "reason": null, "files_ready": 0,
                "files_total": 1, "bytes": 1, "ready_bytes": 0, "unreadable": 0,
            }))
            .unwrap()];
            drive
        };
        let mut notices = Notices::default();
        notices.see(s(0), &pin("Always keep"));
        assert_eq!(notices.take(s(9)), [], "it was so before");
        notices.see(s(10), &pin("Syncing"));
        notices.see(s(11), &pin("Always keep"));
        let told = notices.take(s(20));
        assert_eq!((told.len(), told[0].kind), (1, Kind::PinComplete));
        assert!(told[0].body.contains("photos"));
    }

    /// Drives in one state, each on its store.
    fn on(notices: &mut Notices, at: u64, state: DriveState, drives: &[(&str, &str)]) {
        for (name, store) in drives {
            let mut drive = in_state(name, state);
            drive.store = (*store).to_owned();
            notices.see(s(at), &drive);
        }
    }

    const NAS: [(&str, &str); 3] = [
        ("a", "s3://one/a?endpoint=http%3A%2F%2Fnas.example%3A7070&region=us-east-1"),
        ("b", "s3://one/b?endpoint=http%3A%2F%2Fnas.example%3A7070&region=us-east-1"),
        ("c", "s3://two?endpoint=http%3A%2F%2Fnas.example%3A7070&path_style=false"),
    ];

    #[test]
    fn a_server_that_stays_away_is_shown_once_for_its_drives() {
        let mut notices = Notices::default();
        on(&mut notices, 0, DriveState::Offline, &NAS);
        assert_eq!(notices.take(s(19)), []);
        let told = notices.take(s(20));
        assert_eq!((told.len(), told[0].title.as_str()), (1, "nas.example:7070 cannot be reached"));
        // More drives that find the same server away are no news.
        on(
            &mut notices,
            50,
            DriveState::Offline,
            &[("d", "s3://three?endpoint=http%3A%2F%2Fnas.example%3A7070")],
        );
        assert_eq!(notices.take(s(100)), []);
        // It was back, and goes away again.
        notices.forget("d");
        on(&mut notices, 200, DriveState::Ready, &NAS);
        on(&mut notices, 300, DriveState::Offline, &NAS);
        assert_eq!(notices.take(s(320)).len(), 1);
        // A server that is away for a moment is no news.
        on(&mut notices, 400, DriveState::Ready, &NAS);
        on(&mut notices, 500, DriveState::Offline, &NAS);
        on(&mut notices, 510, DriveState::Ready, &NAS);
        assert_eq!(notices.take(s(600)), []);
    }

    #[test]
    fn a_replacing_notice_names_all_servers_that_are_away() {
        let mut notices = Notices::default();
        on(&mut notices, 0, DriveState::Offline, &NAS);
        assert_eq!(notices.take(s(20)).len(), 1);
        on(
            &mut notices,
            60,
            DriveState::Offline,
            &[("d", "s3://four"), ("e", "https://cloud.example/dav/e?ca=/a")],
        );
        let told = notices.take(s(80));
        assert_eq!((told.len(), told[0].title.as_str()), (1, "3 servers cannot be reached"));
        let first = told[0].body.lines().next();
        assert_eq!(first, Some("Amazon S3, cloud.example, nas.example:7070"));
    }

    #[test]
    fn closed_uploading_drives_notify_only_of_an_absent_server() {
        let mut notices = Notices::default();
        let mut drive = in_state("work", DriveState::Closed);
        (drive.draining, drive.unpushed_bytes, drive.mountpoint) = (true, 5 << 20, None);
        drive.store = NAS[0].1.to_owned();
        notices.see(s(0), &drive);
        assert_eq!(notices.take(s(100)), []);
        drive.state = DriveState::Offline;
        notices.see(s(100), &drive);
        let told = notices.take(s(120));
        assert_eq!((told.len(), told[0].title.as_str()), (1, "nas.example:7070 cannot be reached"));
        // The server is back, and everything is uploaded.
        drive.state = DriveState::Closed;
        notices.see(s(130), &drive);
        (drive.draining, drive.unpushed_bytes) = (false, 0);
        notices.see(s(140), &drive);
        assert_eq!(notices.take(s(200)), []);
    }

    #[test]
    fn text_shared_by_several_drives_is_said_once() {
        let mut notices = Notices::default();
        for (name, reason) in [("a", "locked out"), ("b", "locked out"), ("c", "disk full")] {
            let mut drive = in_state(name, DriveState::NeedsAttention);
            drive.reason = Some(reason.to_owned());
            notices.see(s(0), &drive);
        }
        let told = notices.take(s(5));
        assert_eq!((told.len(), told[0].title.as_str()), (1, "3 drives need attention"));
        assert_eq!(told[0].body, "a, b: Locked out.\nc: Disk full.");
    }
}
