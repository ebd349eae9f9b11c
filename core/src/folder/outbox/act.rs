//! One action: the record that it begins, its request, and what comes of it.

use super::bytes::{IN_MEMORY_MAX, Stable};
use super::expand;
use super::failure::{Verdict, verdict};
use super::finish::{Ending, Outcome};
use super::works::Works;
use crate::folder::api::FolderError;
use crate::folder::ledger::LedgerError;
use crate::folder::node::{Brings, ContentHere, Ino, Intent, Node, Place};
use crate::folder::outcome;
use crate::folder::plan::Action;
use crate::folder::step::Step;
use crate::folder::tree::Tree;
use crate::planted::{self, Bug};
use crate::store::remote::{
    Condition, Entry, Kind, Meta, Progress, Put, Relocation, RemoteError, RemotePath, Version,
};
use async_trait::async_trait;
use holdall_store::pace::in_background;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tries after which a removal that somebody's lock refuses is taken back: some minutes.
const REMOVAL_TRIES: u32 = 14;
/// Bytes that are read at a time for a digest.
const DIGEST_PIECE_BYTES: u64 = 1 << 20;
/// Tries after which an upload does not continue where it was cut off, but begins again.
const RESUME_TRIES: u32 = 4;

/// An action that is under way.
pub(super) struct Job {
    pub ino: Ino,
    pub action: Action,
}

/// Why an action ended without an outcome.
#[derive(Debug)]
pub(super) enum Halt {
    /// The remote failed. The action may have taken effect.
    Remote(RemoteError),
    /// The local disk failed.
    Local(String),
    /// More files would change at once than can be recorded.
    TooLarge(String),
    /// The remote no longer has the version that the rest of a file comes from.
    BaseGone,
    /// What is not here of the file cannot be had from the remote now.
    BaseAway(String),
    /// The file has changed since it was planned, or is being written: a new plan comes.
    Past,
    /// The outbox ends.
    Stopped,
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::TooLarge { .. } => Halt::TooLarge(error.to_string()),
            error => Halt::Local(error.to_string()),
        }
    }
}

impl From<FolderError> for Halt {
    fn from(error: FolderError) -> Self {
        Halt::Local(error.to_string())
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Halt::Local(error.to_string())
    }
}

/// What an upload sends: length and BLAKE3.
pub(super) type Sends = Option<(u64, [u8; 32])>;

impl Works {
    /// Does an action.
    pub(super) async fn act(self: &Arc<Self>, job: &Job) -> Result<Ending, Halt> {
        let path = self.path_at(job.action.at()).ok_or(Halt::Past)?;
        match &job.action {
            Action::Put { when, content, .. } => self.put(job, &path, when.clone(), *content).await,
            Action::Settle { .. } => self.settle_intent(job, &path).await,
            Action::MakeDirectory { .. } => {
                self.begin(job, None).await?;
                let made = self.make_directory(job, &path);
                let answer = self.request(made).await?;
                self.answered(job, &path, answer.map(Some), None).await
            }
            Action::SetMeta { version, meta, .. } => {
                let meta = self.meta_of(job.ino, *meta)?;
                self.begin(job, None).await?;
                let answer = self.request(self.shared.remote.set_meta(&path, version, &meta)).await?;
                let answer = self.or_kept_here(job.ino, answer);
                self.answered(job, &path, answer.map(Some), None).await
            }
            Action::Relocate { from, version, when, how, .. } => {
                let old = self.path_at(from).ok_or(Halt::Past)?;
                let node = self.shared.node(job.ino).ok_or(Halt::Past)?;
                if expand::is_needed(&node, self.shared.remote.facts().moves_trees) {
                    return self.expand(job, from, &old).await;
                }
                self.begin(job, None).await?;
                let moved = self.shared.remote.relocate(&old, version, &path, when.clone(), *how);
                let answer = self.request(moved).await?;
                self.answered(job, &path, answer.map(Some), None).await
            }
            Action::Remove { version, .. } => {
                let removed = self.shared.remote.remove(&path, Condition::Matches(version.clone()));
                let answer = self.request(removed).await?;
                self.answered(job, &path, answer.map(|()| None), None).await
            }
            Action::RemoveDirectory { .. } => {
                let answer = self.request(self.shared.remote.remove_directory(&path)).await?;
                self.answered(job, &path, answer.map(|()| None), None).await
            }
        }
    }

    async fn put(
        self: &Arc<Self>,
        job: &Job,
        path: &RemotePath,
        when: Condition,
        generation: u64,
    ) -> Result<Ending, Halt> {
        let node = self.shared.node(job.ino).ok_or(Halt::Past)?;
        let stable = match (&node.kind, &node.content) {
            (Kind::File, Some(here)) if here.generation == generation => {
                self.stable(job.ino, &node, here).await?
            }
            (Kind::Link, _) => Stable::nothing(),
            _ => return Err(Halt::Past),
        };
        let sends = Some((stable.len, stable.digest));
        let resume = self.begin(job, sends).await?;
        let meta = meta_of_put(&node);
        let unchanged = self.still_of_base(&node, path);
        let follow =
            Follow { works: self, job, generation, has_resumed: AtomicBool::new(!resume.is_empty()) };
        let put = Put {
            path,
            content: stable.content.clone(),
            len: stable.len,
            meta: &meta,
            when: if planted::has(Bug::ConflictOverwrites) { Condition::Always } else { when },
            unchanged: unchanged.as_ref().map(|(base, same)| (base, &**same)),
            resume: Some(&*resume).filter(|resume| !resume.is_empty()),
            progress: &follow,
        };
        let answer = self.request(in_background(self.shared.remote.write(put))).await?;
        match &answer {
            Err(RemoteError::Local(_))
                if node.kind == Kind::File && !self.is_unchanged(job.ino, generation) =>
            {
                return Err(Halt::Past);
            }
            Err(_) if follow.has_resumed.load(Ordering::Relaxed) => self.forget_resume(job, &node).await?,
            _ => {}
        }
        self.answered(job, path, answer.map(Some), sends).await
    }

    /// What of the version that is replaced stays as it is, where the remote has that at the same place.
    fn still_of_base(&self, node: &Node, path: &RemotePath) -> Option<(Version, Vec<Range<u64>>)> {
        let known = node.remote.as_ref().filter(|known| self.path_at(&known.place).as_ref() == Some(path))?;
        let ino = self.shared.ledger.read(|tree| tree.occupant(&known.place))?;
        let overlay = self.shared.overlays.of(ino)?;
        let base = overlay.base().filter(|base| *base == known.version)?;
        let same = overlay.missing(0..base.len);
        Some((base, same))
    }

    /// The bytes of a file that rests.
    async fn stable(self: &Arc<Self>, ino: Ino, node: &Node, here: &ContentHere) -> Result<Stable, Halt> {
        let (len, generation) = (here.len, here.generation);
        let stat = self.shared.contents.stat(ino)?;
        if (stat.len, stat.mtime) != (len, here.mtime) {
            // Somebody wrote to it without a word.
            self.tell(|desk| desk.quiet.released(ino, self.now()));
            return Err(Halt::Past);
        }
        let is_over = self.shared.overlays.base_of(ino).is_some();
        let file = self.shared.contents.reader(ino)?;
        let known = match node.intent.as_ref().map(|intent| &intent.brings) {
            Some(Brings::Content { generation: before, digest, len: sent, .. })
                if (*before, *sent) == (generation, len) =>
            {
                Some(*digest)
            }
            _ => None,
        };
        let works = self.clone();
        let stable = if len <= IN_MEMORY_MAX {
            let kib = u32::try_from(len.div_ceil(1024)).unwrap_or(u32::MAX);
            let room = self
                .unless_stopped(self.memory.clone().acquire_many_owned(kib))
                .await
                .ok_or(Halt::Stopped)?;
            let room = room.map_err(|_| Halt::Stopped)?;
            if is_over {
                let bytes = self.unless_stopped(self.shared.whole_content(ino, 0..len)).await;
                let bytes = bytes.ok_or(Halt::Stopped)?.map_err(|error| base_failed(&error))?;
                Ok(Ok(Stable::of_bytes(bytes.into(), room)))
            } else {
                tokio::task::spawn_blocking(move || Stable::in_memory(&*file, len, room)).await
            }
        } else if is_over {
            return self.stable_over(ino, generation, len, known).await;
        } else {
            tokio::task::spawn_blocking(move || Stable::in_place(&works, ino, generation, file, len, known))
                .await
        };
        let stable = stable.map_err(|stopped| Halt::Local(stopped.to_string()))??;
        self.still_rests(ino, generation)?;
        Ok(stable)
    }

    /// The same of a long file that is partly the remote's: what is not here comes from there while it is sent.
    async fn stable_over(
        self: &Arc<Self>,
        ino: Ino,
        generation: u64,
        len: u64,
        known: Option<[u8; 32]>,
    ) -> Result<Stable, Halt> {
        let digest = match known {
            Some(digest) => digest,
            None => {
                let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
                while at < len {
                    let end = len.min(at + DIGEST_PIECE_BYTES);
                    let bytes = self.unless_stopped(self.shared.whole_content(ino, at..end)).await;
                    hasher.update(&bytes.ok_or(Halt::Stopped)?.map_err(|error| base_failed(&error))?);
                    at = end;
                }
                *hasher.finalize().as_bytes()
            }
        };
        self.still_rests(ino, generation)?;
        Ok(Stable::over(self, ino, generation, len, digest))
    }

    /// Nobody has written to the file meanwhile, and nobody can.
    fn still_rests(&self, ino: Ino, generation: u64) -> Result<(), Halt> {
        if !self.is_unchanged(ino, generation) {
            return Err(Halt::Past);
        }
        if !self.is_quiet(ino)? {
            self.tell(|desk| desk.quiet.in_use(ino, self.now()));
            return Err(Halt::Past);
        }
        Ok(())
    }

    /// The log knows of an action before the remote does. Returns the remote's words for continuing the upload.
    async fn begin(&self, job: &Job, sends: Sends) -> Result<Vec<u8>, Halt> {
        let ledger = &self.shared.ledger;
        let begun = |tree: &Tree| outcome::begun(tree, job.ino, &job.action, sends);
        let before = self.shared.node(job.ino).ok_or(Halt::Past)?.intent;
        let is_new = ledger.read(|tree| begun(tree).is_some());
        if is_new {
            ledger.change(|tree| Ok::<_, Halt>((begun(tree).unwrap_or_default(), ())))?;
        }
        ledger.sync().await?;
        let resume = match &before {
            Some(Intent { brings: Brings::Content { resume, .. }, .. }) => resume.clone(),
            _ => Vec::new(),
        };
        if !is_new {
            return Ok(resume);
        }
        if let Some(before) = before {
            self.abandon(&before.at, &resume).await;
        }
        Ok(Vec::new())
    }

    /// Removes what an upload that is not continued has left at the server.
    pub(super) async fn abandon(&self, at: &Place, resume: &[u8]) {
        let Some(path) = self.path_at(at).filter(|_| !resume.is_empty()) else { return };
        if let Some(Err(error)) = self.unless_stopped(self.shared.remote.abandon(&path, resume)).await {
            tracing::info!(%error, "parts of an upload may be left at the server");
        }
    }

    /// An upload that was cut off again and again does not continue: the server may have forgotten its parts.
    async fn forget_resume(&self, job: &Job, node: &Node) -> Result<(), Halt> {
        if self.desk.lock().tries(job.ino, node) < RESUME_TRIES {
            return Ok(());
        }
        let Some(Intent { at, brings: Brings::Content { resume, .. } }) =
            self.shared.node(job.ino).and_then(|node| node.intent)
        else {
            return Ok(());
        };
        self.set_resume(job, &[])?;
        self.abandon(&at, &resume).await;
        Ok(())
    }

    fn set_resume(&self, job: &Job, words: &[u8]) -> Result<(), Halt> {
        self.shared.ledger.change(|tree| {
            let mut node = tree.node(job.ino).cloned().ok_or(Halt::Past)?;
            match node.intent.as_mut() {
                Some(Intent { at, brings: Brings::Content { resume, .. } }) if at == job.action.at() => {
                    *resume = words.to_vec();
                }
                _ => return Err(Halt::Past),
            }
            Ok((Step::one(job.ino, Some(node)), ()))
        })
    }

    async fn make_directory(&self, job: &Job, path: &RemotePath) -> Result<Entry, RemoteError> {
        let made = self.shared.remote.make_directory(path).await?;
        let meta = self.shared.node(job.ino).and_then(|node| node.meta).map(|here| here.meta);
        let is_more = |meta: &Meta| {
            meta.mode != made.meta.as_ref().and_then(|there| there.mode) || !meta.xattrs.is_empty()
        };
        match meta.filter(|meta| self.shared.remote.facts().keeps_meta && is_more(meta)) {
            // The time of a directory is that of its last change, which the remote knows itself.
            Some(meta) => {
                let meta = Meta { mtime: None, ..meta };
                match self.shared.remote.set_meta(path, &made.version, &meta).await {
                    Err(error @ RemoteError::Store(_)) => Err(error),
                    Err(_) => Ok(made),
                    set => set,
                }
            }
            None => Ok(made),
        }
    }

    /// The attributes of that generation.
    fn meta_of(&self, ino: Ino, generation: u64) -> Result<Meta, Halt> {
        let here = self.shared.node(ino).and_then(|node| node.meta);
        here.filter(|here| here.generation == generation).map(|here| here.meta).ok_or(Halt::Past)
    }

    /// Attributes that the remote cannot keep at all stay here.
    fn or_kept_here(&self, ino: Ino, answer: Result<Entry, RemoteError>) -> Result<Entry, RemoteError> {
        let Err(RemoteError::Unsupported(what)) = answer else { return answer };
        let node = self.shared.node(ino);
        match node.and_then(|node| node.remote) {
            Some(known) => {
                tracing::info!(%ino, "attributes stay on this computer: the server cannot {what}");
                let (name, is_writable) = (known.place.name, known.is_writable);
                Ok(Entry { name, kind: known.kind, version: known.version, meta: known.meta, is_writable })
            }
            None => Err(RemoteError::Unsupported(what)),
        }
    }

    async fn request<T>(&self, request: impl Future<Output = T>) -> Result<T, Halt> {
        self.unless_stopped(request).await.ok_or(Halt::Stopped)
    }

    /// What comes of an answer.
    async fn answered(
        &self,
        job: &Job,
        path: &RemotePath,
        answer: Result<Option<Entry>, RemoteError>,
        sends: Sends,
    ) -> Result<Ending, Halt> {
        let error = match answer {
            Ok(entry) => return self.finish(job, Outcome::Took(entry)).await,
            Err(error) => error,
        };
        let is_removal = matches!(job.action, Action::Remove { .. } | Action::RemoveDirectory { .. });
        match verdict(&error) {
            Verdict::Look => {
                let outcome = self.look(job, path, &error, sends).await?;
                self.finish(job, outcome).await
            }
            Verdict::Never if is_removal => self.finish(job, Outcome::Refused(error)).await,
            Verdict::Later if is_removal && self.has_failed_for_long(job.ino) => {
                self.finish(job, Outcome::Refused(error)).await
            }
            Verdict::Never | Verdict::Later | Verdict::Trouble(_) => Err(Halt::Remote(error)),
        }
    }

    fn has_failed_for_long(&self, ino: Ino) -> bool {
        let node = self.shared.node(ino);
        node.is_some_and(|node| self.desk.lock().tries(ino, &node) >= REMOVAL_TRIES)
    }
}

/// The rest of a file could not be had from the remote.
fn base_failed(error: &FolderError) -> Halt {
    match error {
        FolderError::Stale => Halt::BaseGone,
        FolderError::Unavailable(reason) => Halt::BaseAway(reason.clone()),
        FolderError::Closed => Halt::Stopped,
        error => Halt::Local(error.to_string()),
    }
}

/// What goes with a file's bytes.
fn meta_of_put(node: &Node) -> Meta {
    let meta = node.meta_here().cloned().unwrap_or_default();
    let mtime = node.content.as_ref().map(|here| here.mtime).or(meta.mtime);
    Meta { mtime, ..meta }
}

/// Whether a relocation leaves the old place as it was.
pub(super) fn is_copy(action: &Action) -> bool {
    matches!(action, Action::Relocate { how: Relocation::Copy, .. })
}

struct Follow<'a> {
    works: &'a Works,
    job: &'a Job,
    generation: u64,
    /// The upload was continued, or could be.
    has_resumed: AtomicBool,
}

#[async_trait]
impl Progress for Follow<'_> {
    async fn can_resume(&self, resume: &[u8]) -> io::Result<()> {
        self.has_resumed.store(true, Ordering::Relaxed);
        if !self.works.is_unchanged(self.job.ino, self.generation) {
            return Err(io::Error::other("the file is being changed"));
        }
        self.works.set_resume(self.job, resume).map_err(|halt| io::Error::other(format!("{halt:?}")))?;
        self.works.shared.ledger.sync().await.map_err(io::Error::other)
    }

    fn sent(&self, bytes: u64) {
        self.works.desk.lock().sent(self.job.ino, bytes);
    }
}
