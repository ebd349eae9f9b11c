//! One action: what it asks of the directory and of the remote, and what the table learns of it.
//!
//! An action first takes effect, durably where it is local, and its row comes after: the table never knows of anything that may not be so.

use super::action::Action;
use super::engine::{Context, Digested, Watched};
use super::listing::There;
use super::places::leads_out;
use super::row::{Conflict, Digest, Held, PART_BYTES, Print, Row, Upload};
use super::table::Change;
use super::tree::{Here, Incoming, TreeError};
use crate::folder::outbox::failure::{Verdict, verdict};
use crate::planted::{self, Bug};
use crate::retry;
use crate::store::remote::{
    Condition, Entry, Kind, Meta, Progress, Put, ReadAt, Relocation, RemoteError, RemotePath, Time, Version,
};
use async_trait::async_trait;
use holdall_store::pace::in_background;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a download that are in memory: as many as a link of 1 Gbit/s carries in 30 ms.
const PIECE_BYTES: u64 = 4 << 20;
/// Of larger files, only changed parts are sent where the server can copy the others.
const PARTS_FROM_BYTES: u64 = 16 << 20;
/// The mode of a file whose remote keeps none.
const MODE: u32 = 0o644;

/// What came of an action.
#[derive(Default)]
pub(super) struct Outcome {
    pub changes: Vec<Change>,
    pub there: Vec<(RemotePath, Option<There>)>,
    pub differing: Option<(RemotePath, (Digest, Version))>,
    pub is_upload: bool,
    /// The remote has to be listed again.
    pub is_stale: bool,
}

/// Why an action had no outcome.
#[derive(Debug)]
pub(super) enum Halt {
    /// The directory.
    Local(TreeError),
    /// The remote. The action may have taken effect.
    Remote(RemoteError),
    /// The remote answered well, and has not done it.
    Liar,
    /// The remote is not as it was listed.
    Stale,
}

impl From<TreeError> for Halt {
    fn from(error: TreeError) -> Self {
        Halt::Local(error)
    }
}

impl From<RemoteError> for Halt {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Local(reason) => Halt::Local(TreeError::Failed(reason)),
            error => Halt::Remote(error),
        }
    }
}

impl Halt {
    /// The cause, what it means, and what to do.
    pub fn reason(&self, path: &RemotePath) -> String {
        const SAFE: &str = "Both versions are as they were.";
        const AGAIN: &str = "Holdall tries again by itself.";
        match self {
            Halt::Local(TreeError::InUse) => {
                format!("A program still writes to {path}. It is synchronized once it is closed.")
            }
            Halt::Local(TreeError::Changed) | Halt::Stale => {
                format!("{path} was changed meanwhile. {SAFE} {AGAIN}")
            }
            Halt::Local(TreeError::NoSpace) => {
                format!(
                    "The local disk is full, so {path} cannot be downloaded. {SAFE} Free some space; {AGAIN}"
                )
            }
            Halt::Local(error) => format!("The local disk refuses {path}: {error}. {SAFE} {AGAIN}"),
            Halt::Liar => format!(
                "The server reported success, but still has the old version of {path}. The new one is safe on this computer. {AGAIN}"
            ),
            Halt::Remote(error) => match verdict(error) {
                Verdict::Never => format!(
                    "The server refuses {path}: {error}. {SAFE} Change that at the server, or exclude the file in .holdallignore."
                ),
                Verdict::Look => format!("{path} was changed at the remote meanwhile. {SAFE} {AGAIN}"),
                Verdict::Later | Verdict::Trouble(_) => format!("{error}. {SAFE} {AGAIN}"),
            },
        }
    }

    /// How long the remote asks to be left alone.
    pub fn hint(&self) -> Option<Duration> {
        match self {
            Halt::Remote(RemoteError::Store(error)) => retry::hint_of(error),
            _ => None,
        }
    }
}

impl Outcome {
    fn row(path: &RemotePath, row: Option<Row>) -> Self {
        Self { changes: vec![Change::Row(path.clone(), row)], ..Self::default() }
    }

    fn with_there(mut self, path: &RemotePath, entry: Option<&Entry>) -> Self {
        let there = |entry: &Entry| There {
            kind: entry.kind,
            version: entry.version.clone(),
            meta: entry.meta.clone(),
        };
        self.there.push((path.clone(), entry.map(there)));
        self
    }
}

impl Watched {
    async fn row_of(&self, path: &RemotePath) -> Option<Row> {
        self.table.lock().await.known().rows.get(path).cloned()
    }

    /// Does one action.
    pub(super) async fn act(&self, action: &Action, context: &Context<'_>) -> Result<Outcome, Halt> {
        match action {
            Action::Forget(path) => Ok(Outcome::row(path, None)),
            Action::Adopt(path) => {
                let row = directory_row(context.here(path)?, context.there(path)?.version.clone());
                Ok(Outcome::row(path, Some(row)))
            }
            Action::Refresh(path) => {
                let (here, row) = (context.here(path)?, self.row_of(path).await.ok_or(Halt::Stale)?);
                Ok(Outcome::row(path, Some(Row { print: here.print, mode: here.mode, ..row })))
            }
            Action::Hold(path, side) => {
                let row = self.row_of(path).await.ok_or(Halt::Stale)?;
                let held = side.map(|side| (Held::Waits(side), self.tree.now_ms()));
                Ok(Outcome::row(path, Some(Row { held, ..row })))
            }
            Action::Compare(path) => self.compare(path, context).await,
            Action::PutOursAside { path, kept_as } => {
                let (ours, theirs) = (context.here(path)?, context.there(path)?);
                // The listing may show an earlier state, as that of our own last upload.
                if self.remote.stat(path).await?.version != theirs.version && theirs.kind != Kind::Directory {
                    return Err(Halt::Stale);
                }
                self.tree.rename(path, kept_as).await?;
                Ok(self.conflict(path, kept_as, ours, theirs))
            }
            Action::PutTheirsAside { path, version, kept_as } => {
                let (ours, theirs) = (context.here(path)?, context.there(path)?);
                let how = Relocation::Move;
                let moved = self.remote.relocate(path, version, kept_as, Condition::Absent, how).await?;
                let outcome = self.conflict(path, kept_as, ours, theirs);
                Ok(outcome.with_there(path, None).with_there(kept_as, Some(&moved)))
            }
            Action::MakeThere(path) => {
                let made = self.remote.make_directory(path).await?;
                let row = directory_row(context.here(path)?, made.version.clone());
                Ok(Outcome::row(path, Some(row)).with_there(path, Some(&made)))
            }
            Action::MakeHere(path) => {
                self.tree.make_directory(path).await?;
                // It is adopted by the next round, which sees how it looks.
                Ok(Outcome::default())
            }
            Action::Move { from, version, to } => self.move_there(from, version, to, context).await,
            Action::Put { path, when } => {
                let put = self.put(path, when, context).await;
                self.sent.lock().remove(path);
                put
            }
            Action::SetMeta { path, version } => self.set_meta(path, version, context).await,
            Action::Fetch { path, over } => self.fetch(path, *over, context).await,
            Action::RemoveThere { path, version } => {
                match self.remote.remove(path, Condition::Matches(version.clone())).await {
                    Ok(()) | Err(RemoteError::NotFound(_)) => {
                        Ok(Outcome::row(path, None).with_there(path, None))
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Action::RemoveHere { path, print } => {
                // The listing may have been wrong: the server is asked about this one file.
                match self.remote.stat(path).await {
                    Err(RemoteError::NotFound(_)) => {}
                    Err(error) => return Err(error.into()),
                    Ok(_) if planted::has(Bug::CutListingBelieved) => {}
                    Ok(_) => return Err(Halt::Stale),
                }
                self.tree.remove(path, *print).await?;
                Ok(Outcome::row(path, None))
            }
            Action::RemoveDirectoryThere(path) => match self.remote.remove_directory(path).await {
                Ok(()) | Err(RemoteError::NotFound(_)) => Ok(Outcome::row(path, None).with_there(path, None)),
                // Something that is not synchronized lies in it.
                Err(RemoteError::NotEmpty(_)) => Ok(Outcome { is_stale: true, ..Outcome::row(path, None) }),
                Err(error) => Err(error.into()),
            },
            Action::RemoveDirectoryHere(path) => match self.tree.remove_directory(path).await {
                Ok(()) | Err(TreeError::NotEmpty) => Ok(Outcome::row(path, None)),
                Err(error) => Err(error.into()),
            },
        }
    }

    fn conflict(&self, path: &RemotePath, kept_as: &RemotePath, ours: &Here, theirs: &There) -> Outcome {
        let conflict = Conflict {
            kept_as: kept_as.clone(),
            at_ms: self.tree.now_ms(),
            our_len: ours.print.len,
            their_len: theirs.version.len,
            their_time: theirs.version.written,
        };
        let mut outcome = Outcome::row(path, None);
        outcome.changes.push(Change::Conflict(path.clone(), Some(conflict)));
        outcome
    }

    async fn move_there(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        context: &Context<'_>,
    ) -> Result<Outcome, Halt> {
        let (here, row) = (context.here(to)?, self.row_of(from).await.ok_or(Halt::Stale)?);
        let how = Relocation::Move;
        let moved = match self.remote.relocate(from, version, to, Condition::Absent, how).await {
            Err(RemoteError::Unsupported(_)) => return self.put(to, &Condition::Absent, context).await,
            moved => moved?,
        };
        // What the remote keeps beside the bytes is as it was before the move.
        let print = Print { mtime: row.print.mtime, ..here.print };
        let mut outcome = Outcome::row(from, None).with_there(from, None).with_there(to, Some(&moved));
        let row = Row { version: moved.version.clone(), print, held: None, ..row };
        outcome.changes.push(Change::Row(to.clone(), Some(row)));
        Ok(outcome)
    }

    async fn put(&self, path: &RemotePath, when: &Condition, context: &Context<'_>) -> Result<Outcome, Halt> {
        let here = context.here(path)?;
        let facts = self.remote.facts();
        let before = self.row_of(path).await;
        let (content, digest, parts): (Arc<dyn ReadAt>, _, _) = match here.kind {
            Kind::Directory => return Err(Halt::Local(TreeError::Changed)),
            Kind::Link => {
                let target = here.link.clone().unwrap_or_default();
                (Arc::new(NoBytes), Digest::of(target.as_bytes()), Arc::default())
            }
            Kind::File => {
                let stable = self.tree.read(path, here.print).await?;
                (stable.content, stable.digest, stable.parts)
            }
        };
        let len = if here.kind == Kind::Link { 0 } else { here.print.len };
        let meta = Meta {
            mode: facts.keeps_meta.then_some(here.mode),
            mtime: Some(here.print.mtime),
            link: here.link.clone(),
            ..Meta::default()
        };
        let resume = self.table.lock().await.known().uploads.get(path).cloned();
        let resume = resume.filter(|upload| upload.digest == digest);
        let ranges = before.as_ref().map(|row| unchanged(&row.parts, &parts, len.min(row.version.len)));
        let same = match (when, &ranges) {
            (Condition::Matches(version), Some(ranges)) if !ranges.is_empty() => Some((version, &**ranges)),
            _ => None,
        };
        let follow = Follow { watched: self, path, digest };
        let put = Put {
            path,
            content,
            len,
            meta: &meta,
            when: when.clone(),
            unchanged: same,
            resume: resume.as_ref().map(|upload| &*upload.words),
            progress: &follow,
        };
        let put = in_background(self.remote.write(put)).await;
        if put.is_err() && resume.is_some() {
            self.give_back(path, &resume).await;
        }
        let entry = put?;
        if let Condition::Matches(old) = when {
            let is_changed = before.as_ref().is_none_or(|row| row.digest != digest);
            let now = self.remote.stat(path).await?;
            if is_changed && now.version == *old {
                return Err(Halt::Liar);
            }
        }
        let parts = if len >= PARTS_FROM_BYTES { parts.to_vec() } else { Vec::new() };
        let row = Row {
            kind: here.kind,
            print: here.print,
            mode: here.mode,
            digest,
            kind_there: entry.kind,
            version: entry.version.clone(),
            held: None,
            parts,
        };
        let mut outcome = Outcome::row(path, Some(row)).with_there(path, Some(&entry));
        outcome.changes.push(Change::Upload(path.clone(), None));
        outcome.is_upload = true;
        Ok(outcome)
    }

    /// The server may have forgotten the parts of an upload that fails again: it begins anew.
    async fn give_back(&self, path: &RemotePath, resume: &Option<Upload>) {
        let mut table = self.table.lock().await;
        if table.known().uploads.get(path) != resume.as_ref() {
            return;
        }
        if let Err(error) = table.change([Change::Upload(path.clone(), None)]) {
            tracing::warn!(%error, "an upload that cannot be continued is not forgotten");
        }
        drop(table);
        if let Some(upload) = resume
            && let Err(error) = self.remote.abandon(path, &upload.words).await
        {
            tracing::info!(%error, "parts of an upload may be left at the server");
        }
    }

    async fn set_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        context: &Context<'_>,
    ) -> Result<Outcome, Halt> {
        let (here, row) = (context.here(path)?, self.row_of(path).await.ok_or(Halt::Stale)?);
        let facts = self.remote.facts();
        let now = self.remote.stat(path).await?;
        if now.version != *version {
            return Err(Halt::Stale);
        }
        let meta = Meta {
            mode: facts.keeps_meta.then_some(here.mode),
            mtime: facts.keeps_mtime.then_some(here.print.mtime),
            // Those of others stay.
            ..now.meta.clone().unwrap_or_default()
        };
        let entry = match self.remote.set_meta(path, version, &meta).await {
            Err(RemoteError::Unsupported(_)) => now,
            set => set?,
        };
        let row =
            Row { print: here.print, mode: here.mode, version: entry.version.clone(), held: None, ..row };
        Ok(Outcome::row(path, Some(row)).with_there(path, Some(&entry)))
    }

    /// The remote's entry with what it has beside its bytes.
    async fn whole_entry(&self, path: &RemotePath, there: &There) -> Result<Meta, Halt> {
        if let Some(meta) = &there.meta {
            return Ok(meta.clone());
        }
        let entry = self.remote.stat(path).await?;
        if entry.version != there.version || entry.kind != there.kind {
            return Err(Halt::Stale);
        }
        Ok(entry.meta.unwrap_or_default())
    }

    async fn fetch(
        &self,
        path: &RemotePath,
        over: Option<Print>,
        context: &Context<'_>,
    ) -> Result<Outcome, Halt> {
        let there = context.there(path)?;
        let mut meta = self.whole_entry(path, there).await?;
        // Programs that come from elsewhere get no rights of their owner here.
        meta.mode = Some(meta.mode.unwrap_or(MODE) & 0o777);
        meta.mtime = meta.mtime.or(there.version.written);
        let target = meta.link.clone().filter(|_| there.kind == Kind::Link);
        let kind = match &target {
            Some(target) if !leads_out(path, target) && !target.is_empty() => Kind::Link,
            _ => Kind::File,
        };
        let mut download = self.tree.download(Incoming { path, kind, meta: &meta, over }).await?;
        let mut digester = Digester::default();
        match (&target, kind) {
            (Some(target), Kind::Link) => digester.parts.push(*blake3::hash(target.as_bytes()).as_bytes()),
            // A link that leads out of the directory is a plain file here.
            (Some(target), _) => {
                digester.add(target.as_bytes());
                download.write(target.clone().into_bytes().into()).await?;
            }
            (None, _) => {
                for range in pieces(there.version.len) {
                    let bytes = self.remote.read(path, &there.version, range).await?;
                    digester.add(&bytes);
                    download.write(bytes).await?;
                }
            }
        }
        let parts = digester.finish();
        if planted::has(Bug::RecordBeforeBytes) {
            let row = Row {
                kind,
                digest: Digest::of_parts(&parts),
                ..directory_row(&NOTHING, there.version.clone())
            };
            let mut table = self.table.lock().await;
            let row = Row { kind_there: there.kind, ..row };
            let _ = table.change([Change::Row(path.clone(), Some(row))]);
            let _ = table.sync().await;
        }
        let here = download.finish().await?;
        let row = Row {
            kind: here.kind,
            print: here.print,
            mode: here.mode,
            digest: Digest::of_parts(&parts),
            kind_there: there.kind,
            version: there.version.clone(),
            held: None,
            parts: if there.version.len >= PARTS_FROM_BYTES { parts } else { Vec::new() },
        };
        Ok(Outcome::row(path, Some(row)))
    }

    /// Whether two files that came about apart are equal: then they are one.
    async fn compare(&self, path: &RemotePath, context: &Context<'_>) -> Result<Outcome, Halt> {
        let (here, there) = (context.here(path)?, context.there(path)?);
        let (ours, theirs) = match here.kind {
            Kind::Link => {
                let meta = self.whole_entry(path, there).await?;
                let of = |target: Option<&str>| Digest::of(target.unwrap_or_default().as_bytes());
                (of(here.link.as_deref()), of(meta.link.as_deref()))
            }
            Kind::Directory => return Err(Halt::Stale),
            Kind::File => {
                let ours = match context.digests.get(path) {
                    Some(Digested { digest, print }) if *print == here.print => *digest,
                    _ => self.row_of(path).await.map(|row| row.digest).ok_or(Halt::Stale)?,
                };
                let mut digester = Digester::default();
                for range in pieces(there.version.len) {
                    digester.add(&self.remote.read(path, &there.version, range).await?);
                }
                (ours, Digest::of_parts(&digester.finish()))
            }
        };
        if ours != theirs {
            let differing = Some((path.clone(), (ours, there.version.clone())));
            return Ok(Outcome { differing, ..Outcome::default() });
        }
        let row = Row {
            kind: here.kind,
            print: here.print,
            mode: here.mode,
            digest: ours,
            kind_there: there.kind,
            version: there.version.clone(),
            held: None,
            parts: Vec::new(),
        };
        Ok(Outcome::row(path, Some(row)))
    }
}

fn directory_row(here: &Here, version: Version) -> Row {
    Row {
        kind: Kind::Directory,
        print: here.print,
        mode: here.mode,
        digest: Digest([0; 32]),
        kind_there: Kind::Directory,
        version,
        held: None,
        parts: Vec::new(),
    }
}

/// How a file looks of which nothing is known.
const NOTHING: Here = Here {
    kind: Kind::File,
    print: Print { len: 0, mtime: Time(0), ctime: Time(0), ino: 0 },
    mode: 0,
    link: None,
};

fn pieces(len: u64) -> impl Iterator<Item = Range<u64>> {
    (0..len.div_ceil(PIECE_BYTES)).map(move |at| at * PIECE_BYTES..((at + 1) * PIECE_BYTES).min(len))
}

/// The ranges of whole parts that are as before, within `len` bytes.
fn unchanged(before: &[[u8; 32]], now: &[[u8; 32]], len: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (at, (before, now)) in (0..).zip(before.iter().zip(now)) {
        let range = at * PART_BYTES..(at + 1) * PART_BYTES;
        if before != now || range.end > len {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    ranges
}

/// Digests bytes as they come, part by part.
#[derive(Default)]
struct Digester {
    hasher: blake3::Hasher,
    in_part: u64,
    parts: Vec<[u8; 32]>,
}

impl Digester {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min((PART_BYTES - self.in_part) as usize));
            self.hasher.update(now);
            self.in_part += now.len() as u64;
            if self.in_part == PART_BYTES {
                self.end_part();
            }
            bytes = rest;
        }
    }

    fn end_part(&mut self) {
        self.parts.push(*self.hasher.finalize().as_bytes());
        self.hasher.reset();
        self.in_part = 0;
    }

    fn finish(mut self) -> Vec<[u8; 32]> {
        if self.in_part > 0 {
            self.end_part();
        }
        self.parts
    }
}

struct NoBytes;

impl ReadAt for NoBytes {
    fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        if buf.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

struct Follow<'a> {
    watched: &'a Watched,
    path: &'a RemotePath,
    digest: Digest,
}

#[async_trait]
impl Progress for Follow<'_> {
    async fn can_resume(&self, resume: &[u8]) -> io::Result<()> {
        let upload = Upload { digest: self.digest, words: resume.to_vec() };
        let mut table = self.watched.table.lock().await;
        table.change([Change::Upload(self.path.clone(), Some(upload))]).map_err(io::Error::other)?;
        table.sync().await.map_err(io::Error::other)
    }

    fn sent(&self, bytes: u64) {
        *self.watched.sent.lock().entry(self.path.clone()).or_default() += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_equal_parts_are_copied_by_the_server() {
        let part = |n: u8| [n; 32];
        let (before, now) = ([part(1), part(2), part(3)], [part(1), part(9), part(3)]);
        assert_eq!(unchanged(&before, &now, 3 * PART_BYTES), [0..PART_BYTES, 2 * PART_BYTES..3 * PART_BYTES]);
        assert!(unchanged(&before, &before, 3 * PART_BYTES - 1).iter().eq([&(0..2 * PART_BYTES)]));
    }

    #[test]
    fn bytes_in_pieces_have_the_digest_of_the_whole() {
        let bytes = vec![7; PART_BYTES as usize * 2 + 5];
        let mut digester = Digester::default();
        bytes.chunks(70_000).for_each(|piece| digester.add(piece));
        assert_eq!(Digest::of_parts(&digester.finish()), Digest::of(&bytes));
        assert_eq!(Digest::of_parts(&Digester::default().finish()), Digest::of(&[]));
    }
}
