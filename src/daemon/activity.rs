//! The record of what has happened, for people, kept across restarts: `activity.jsonl` in the state directory.
//!
//! A row is one appended line. Nothing depends on it, so it is not synced, and an unreadable line is skipped. Once the file has twice as
//! many lines as are kept, it is replaced by one with the kept rows only. Consecutive uploads of one drive become one row: a person who
//! saves all day would see nothing else.

use super::registry;
use super::status::{now_ms, time};
use crate::api::{ActivityKind, ActivityRow, ListActivity};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// Rows that are kept: months of ordinary use, and 2 MB.
const ROWS_MAX: usize = 10_000;
/// Rows in one answer.
const LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;
/// Uploads of one drive within this time become one row.
const SAME_UPLOAD_MS: u64 = 10 * 60 * 1000;

/// One line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    id: u64,
    at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drive: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    kind: ActivityKind,
    message: String,
    /// The row that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<u64>,
}

impl Row {
    /// Whether it is about the drive or folder of this name.
    fn is_of(&self, name: &str) -> bool {
        [&self.drive, &self.folder].into_iter().flatten().any(|of| of == name)
    }

    fn told(&self) -> ActivityRow {
        let (at, message) = (time(self.at_ms), self.message.clone());
        let (drive, folder) = (self.drive.clone(), self.folder.clone());
        ActivityRow { id: self.id, at, drive, folder, kind: self.kind, message }
    }
}

/// The record of what has happened.
pub struct Activity {
    path: PathBuf,
    // Held for each row.
    rows: Mutex<Rows>,
    /// The number of the newest row.
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Rows {
    /// Oldest first.
    kept: VecDeque<Row>,
    file: Option<File>,
    /// Lines in the file.
    lines: usize,
    last_id: u64,
}

impl Activity {
    /// Loads what the state directory has. A file that cannot be read counts as empty, and that is logged.
    pub fn load(state: &Path) -> Self {
        let path = state.join("activity.jsonl");
        let mut rows = Rows::default();
        match std::fs::read(&path) {
            Ok(bytes) => rows.read(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%error, "activity.jsonl cannot be read: earlier activity is not shown")
            }
        }
        let newest = watch::Sender::new(rows.last_id);
        Self { path, rows: Mutex::new(rows), newest }
    }

    /// Records an event of a drive, or of the whole device.
    pub fn note(&self, drive: Option<&str>, kind: ActivityKind, message: impl Into<String>) {
        self.record((drive, None), kind, message.into());
    }

    /// Records an event of a folder.
    pub fn note_of_folder(&self, folder: &str, kind: ActivityKind, message: impl Into<String>) {
        self.record((None, Some(folder)), kind, message.into());
    }

    fn record(&self, (drive, folder): (Option<&str>, Option<&str>), kind: ActivityKind, message: String) {
        let id = {
            let mut rows = self.rows.lock();
            let id = rows.last_id + 1;
            let at_ms = now_ms();
            let (drive, folder) = (drive.map(str::to_owned), folder.map(str::to_owned));
            let replaces = rows.same_upload((drive.as_deref(), folder.as_deref()), kind, at_ms);
            let row = Row { id, at_ms, drive, folder, kind, message, replaces };
            rows.take(row.clone());
            if let Err(error) = rows.write(&self.path, &row) {
                tracing::warn!(%error, "activity cannot be recorded");
            }
            id
        };
        self.newest.send_replace(id);
    }

    /// The requested rows, newest first.
    pub fn list(&self, asked: &ListActivity) -> Vec<ActivityRow> {
        let limit = asked.limit.unwrap_or(LIMIT).min(LIMIT_MAX) as usize;
        let rows = self.rows.lock();
        let wanted = rows.kept.iter().rev().filter(|row| {
            asked.before.is_none_or(|before| row.id < before)
                && asked.kind.is_none_or(|kind| row.kind == kind)
                && asked.drive.as_ref().is_none_or(|name| row.is_of(name))
        });
        wanted.take(limit).map(Row::told).collect()
    }

    /// The rows after `id`, oldest first.
    pub fn since(&self, id: u64) -> Vec<ActivityRow> {
        let rows = self.rows.lock();
        let newer = rows.kept.iter().rev().take_while(|row| row.id > id);
        let mut newer: Vec<_> = newer.map(Row::told).collect();
        newer.reverse();
        newer
    }

    /// The number of the newest row.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }
}

impl Rows {
    fn read(&mut self, text: &str) {
        for line in text.lines() {
            self.lines += 1;
            // A crash may have cut the last line short.
            if let Ok(row) = serde_json::from_str::<Row>(line) {
                self.take(row);
            }
        }
    }

    fn take(&mut self, row: Row) {
        if let Some(replaced) = row.replaces {
            self.kept.retain(|kept| kept.id != replaced);
        }
        self.last_id = self.last_id.max(row.id);
        self.kept.push_back(row);
        if self.kept.len() > ROWS_MAX {
            self.kept.pop_front();
        }
    }

    /// The last upload of the same drive, if it was recent and nothing else has happened to the drive since. Each row of a folder counts other
    /// files.
    fn same_upload(
        &self,
        (drive, folder): (Option<&str>, Option<&str>),
        kind: ActivityKind,
        now: u64,
    ) -> Option<u64> {
        let last =
            self.kept.iter().rev().find(|row| row.folder.is_none() && row.drive.as_deref() == drive)?;
        let is_same = folder.is_none() && kind == ActivityKind::Uploaded && last.kind == kind;
        (is_same && now.saturating_sub(last.at_ms) < SAME_UPLOAD_MS).then_some(last.id)
    }

    fn write(&mut self, path: &Path, row: &Row) -> io::Result<()> {
        self.lines += 1;
        if self.lines > 2 * ROWS_MAX {
            let lines: io::Result<Vec<String>> = self.kept.iter().map(line).collect();
            self.file = None;
            registry::replace(path, lines?.concat().as_bytes())?;
            self.lines = self.kept.len();
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(open(path)?);
        }
        let line = line(row)?;
        let written = self.file.as_mut().map(|file| file.write_all(line.as_bytes()));
        if let Some(Err(error)) = written {
            self.file = None;
            return Err(error);
        }
        Ok(())
    }
}

/// Opens the file and starts a new line, even if a crash has cut the last one short.
fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let is_cut = file.metadata()?.len() > 0 && std::fs::read(path)?.last() != Some(&b'\n');
    if is_cut {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn line(row: &Row) -> io::Result<String> {
    Ok(serde_json::to_string(row)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(activity: &Activity, asked: ListActivity) -> Vec<String> {
        activity.list(&asked).into_iter().map(|row| row.message).collect()
    }

    #[test]
    fn rows_are_remembered_newest_first_and_filtered() {
        let dir = tempfile::tempdir().unwrap();
        let activity = Activity::load(dir.path());
        activity.note(Some("work"), ActivityKind::Opened, "one");
        activity.note(Some("home"), ActivityKind::Opened, "two");
        activity.note(Some("work"), ActivityKind::Closed, "three");
        assert_eq!(listed(&activity, ListActivity::default()), ["three", "two", "one"]);
        // A crash has cut the last line short, and the next daemon continues after it.
        let mut file = OpenOptions::new().append(true).open(dir.path().join("activity.jsonl")).unwrap();
        file.write_all(b"{\"id\": 9, \"at").unwrap();
        Activity::load(dir.path()).note(None, ActivityKind::Drive, "four");
        let activity = Activity::load(dir.path());
        assert_eq!(listed(&activity, ListActivity::default()), ["four", "three", "two", "one"]);
        let of = |drive: &str| ListActivity { drive: Some(drive.to_owned()), ..ListActivity::default() };
        assert_eq!(listed(&activity, of("work")), ["three", "one"]);
        let closed = ListActivity { kind: Some(ActivityKind::Closed), ..ListActivity::default() };
        assert_eq!(listed(&activity, closed), ["three"]);
        let page = ListActivity { before: Some(3), limit: Some(1), ..ListActivity::default() };
        assert_eq!(listed(&activity, page), ["two"]);
        let newer: Vec<_> = activity.since(2).into_iter().map(|row| row.message).collect();
        assert_eq!(newer, ["three", "four"]);
    }

    #[test]
    fn uploads_that_follow_each_other_are_one_row() {
        let dir = tempfile::tempdir().unwrap();
        let activity = Activity::load(dir.path());
        let upload = |text: &str| activity.note(Some("work"), ActivityKind::Uploaded, text);
        upload("a");
        upload("b");
        activity.note(Some("home"), ActivityKind::Uploaded, "c");
        upload("d");
        activity.note(Some("work"), ActivityKind::Snapshot, "e");
        upload("f");
        let expected = ["f", "e", "d", "c"];
        assert_eq!(listed(&activity, ListActivity::default()), expected);
        assert_eq!(listed(&Activity::load(dir.path()), ListActivity::default()), expected);
    }

    #[test]
    fn the_number_of_rows_and_lines_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let activity = Activity::load(dir.path());
        (0..=2 * ROWS_MAX).for_each(|row| activity.note(None, ActivityKind::Drive, row.to_string()));
        let lines = std::fs::read_to_string(dir.path().join("activity.jsonl")).unwrap().lines().count();
        assert_eq!(lines, ROWS_MAX);
        let again = Activity::load(dir.path());
        assert_eq!(again.rows.lock().kept.len(), ROWS_MAX);
        assert_eq!(again.newest(), 2 * ROWS_MAX as u64 + 1);
        assert_eq!(again.list(&ListActivity { limit: Some(9999), ..ListActivity::default() }).len(), 1000);
    }
}
