//! What programs have written: made durable, recorded, and found at rest.

use super::works::Works;
use crate::clock;
use crate::folder::api::FolderError;
use crate::folder::contents::ContentStat;
use crate::folder::node::{ContentHere, Ino, Node};
use crate::folder::step::Step;
use crate::folder::tree::Tree;
use crate::folder::view::mtime_of;
use crate::planted::{self, Bug};
use crate::store::remote::{Kind, Time, Version};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// A content that the remote has by now, and that stays since programs may write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// As which version.
    pub version: Version,
    /// Its length when it was sent, in bytes.
    pub len: u64,
    /// The time of its last write then.
    pub mtime: Time,
}

impl Works {
    /// Makes the bytes of a content durable, and then records it if it was changed. `rests`: nobody can write to it any more.
    pub async fn note_written(&self, ino: Ino, rests: bool) -> Result<(), FolderError> {
        let contents = &self.shared.contents;
        if !contents.has(ino) {
            return Ok(());
        }
        let (mut stat, base) = self.durable_stat(ino).await?;
        if rests && is_fresh(stat.mtime, clock::now_ms()) {
            tokio::time::sleep(Duration::from_nanos(FRESH_NS as u64)).await;
        }
        if !rests && is_fresh(stat.mtime, clock::now_ms()) {
            // Another write at the same tick of the clock would leave no trace: the next look is to find a difference in any case.
            stat.mtime.0 -= 1;
        }
        let sent = self.sent.lock().get(&ino).cloned();
        let step = |tree: &Tree| written(tree, ino, &stat, base.clone(), sent.as_ref());
        if self.shared.ledger.read(|tree| step(tree).is_some()) {
            self.shared.ledger.change(|tree| Ok::<_, FolderError>((step(tree).unwrap_or_default(), ())))?;
        }
        Ok(())
    }

    /// Length and time of bytes that are durable. What is written meanwhile is left to the next look.
    async fn durable_stat(&self, ino: Ino) -> Result<(ContentStat, Option<Version>), FolderError> {
        let contents = &self.shared.contents;
        loop {
            let stat = contents.stat(ino)?;
            // Before the record: else it may survive a power cut that the bytes do not.
            let base = match planted::has(Bug::RecordBeforeBytes) {
                true => self.shared.overlays.base_of(ino),
                false => self.shared.sync_content(ino).await?,
            };
            // Cut short meanwhile, and durably so: the record must not promise more.
            if contents.stat(ino)?.len >= stat.len {
                return Ok((stat, base));
            }
        }
    }

    /// A program sets the time of the last write to `mtime`. If that is the recorded one, what was written before would leave no trace: then
    /// it is recorded now.
    pub async fn note_touched(&self, ino: Ino, mtime: Time) -> Result<(), FolderError> {
        let sent = self.sent.lock().get(&ino).cloned();
        let hides = |node: &Node| recorded(node, sent.as_ref()).is_some_and(|(_, time)| time == mtime);
        if !self.shared.node(ino).is_some_and(|node| hides(&node)) {
            return Ok(());
        }
        let (stat, base) = self.durable_stat(ino).await?;
        self.shared.ledger.change(|tree| {
            let node = tree.node(ino).filter(|node| hides(node) && node.local.is_some());
            let step = node.map(|node| {
                let content = ContentHere {
                    generation: node.next_generation(),
                    len: stat.len,
                    mtime,
                    base: base.clone(),
                };
                Step::one(ino, Some(Node { content: Some(content), ..node.clone() }))
            });
            Ok((step.unwrap_or_default(), ()))
        })
    }

    /// Looks whether a closed file rests.
    pub async fn look_at(self: Arc<Self>, ino: Ino) {
        let rests = self.comes_to_rest(ino).await;
        let node = self.shared.node(ino);
        let clocks = self.clocks();
        self.tell(|desk| match rests {
            Ok(true) => desk.quiet.looked_at(ino),
            Ok(false) => desk.quiet.in_use(ino, clocks.now),
            Err(error) => {
                tracing::error!(%ino, %error, "a changed file cannot be made durable");
                desk.quiet.in_use(ino, clocks.now);
                if let Some(node) = node {
                    let reason = format!("The file cannot be read on this computer: {error}. It is not uploaded. Save it again elsewhere.");
                    desk.failed(ino, node, reason, true, true, clocks);
                }
            }
        });
    }

    /// Whether nobody can write to the file any more. Then it is recorded as it is.
    async fn comes_to_rest(&self, ino: Ino) -> Result<bool, FolderError> {
        // Nobody opens it meanwhile.
        let _turn = self.shared.turns.of(ino).await;
        // The end of that is told.
        let is_open = || self.shared.opens.is_open_to_write(ino);
        if is_open() {
            return Ok(true);
        }
        let contents = &self.shared.contents;
        if contents.has(ino) {
            if !self.is_quiet(ino)? {
                return Ok(false);
            }
            self.note_written(ino, true).await?;
            contents.close(ino);
            self.forget_map(ino).await?;
        }
        // Nobody could write by then, and who opens it from here on is known before anything is written.
        let rested = |tree: &Tree| {
            let node = tree.node(ino).filter(|node| node.may_be_written && !is_open())?;
            Some(Step::one(ino, Some(Node { may_be_written: false, ..node.clone() })))
        };
        let version = self.shared.ledger.change(|tree| {
            let as_remote = tree.node(ino).filter(|node| node.content.is_none() && node.local.is_some());
            let version = as_remote.and_then(|node| node.remote.as_ref()).map(|known| known.version.clone());
            Ok::<_, FolderError>((rested(tree).unwrap_or_default(), version))
        })?;
        if let Some(version) = version.filter(|_| contents.has(ino) && !is_open()) {
            self.give_back(ino, &version).await;
        }
        Ok(true)
    }

    /// The map of a content that is whole by now means nothing, once the log says so durably.
    async fn forget_map(&self, ino: Ino) -> Result<(), FolderError> {
        let is_whole = self.shared.overlays.of(ino).is_some_and(|overlay| overlay.base().is_none());
        let is_recorded = |node: Node| node.content.is_some_and(|here| here.base.is_none());
        if is_whole && self.shared.node(ino).is_some_and(is_recorded) {
            self.shared.ledger.sync().await?;
            self.shared.overlays.forget(ino);
        }
        Ok(())
    }

    /// Whether the kernel says that nobody can write to the content.
    pub fn is_quiet(&self, ino: Ino) -> Result<bool, FolderError> {
        if planted::has(Bug::WrittenFileUploaded) {
            return Ok(true);
        }
        let contents = &self.shared.contents;
        // Our own descriptor counts, too.
        contents.close(ino);
        match contents.lease(ino) {
            Ok(lease) => Ok(lease.is_some()),
            // This file system has no leases: who has closed it is believed.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A content is what the remote has as `version`: it becomes part of the cache. If that fails, the file is downloaded again when it is
    /// read. The caller has the inode's turn.
    pub async fn give_back(&self, ino: Ino, version: &Version) {
        // Only once the log knows durably that the remote has the bytes, they may be where they can be evicted.
        let synced = self.shared.ledger.sync().await;
        let given = match &synced {
            Ok(()) => self.shared.give(ino, version).await,
            Err(error) => Err(error.clone().into()),
        };
        if let Err(error) = given {
            tracing::warn!(%ino, %error, "an uploaded file could not become part of the cache");
            // A content that the log no longer knows would hide every later version.
            if synced.is_ok() && !self.shared.opens.is_open(ino) {
                self.shared.forget_content(ino);
            }
        }
        self.sent.lock().remove(&ino);
    }
}

/// Whether a time is so near that a write from now on may get the same one: the kernel's clock for files may tick every 10 ms.
fn is_fresh(mtime: Time, now_ms: u64) -> bool {
    let now = i128::from(now_ms) * 1_000_000;
    (now - FRESH_NS..=now + FRESH_NS).contains(&mtime.0)
}

const FRESH_NS: i128 = 20_000_000;

/// The step for a content as the local disk has it now; `None` if it is as recorded.
fn written(
    tree: &Tree,
    ino: Ino,
    stat: &ContentStat,
    base: Option<Version>,
    sent: Option<&Sent>,
) -> Option<Step> {
    let node = tree.node(ino).filter(|node| node.kind == Kind::File)?;
    if recorded(node, sent) == Some((stat.len, stat.mtime)) {
        return None;
    }
    let generation = node.next_generation();
    let content = Some(ContentHere { generation, len: stat.len, mtime: stat.mtime, base });
    let since_ms = if node.differs() || node.may_be_written { node.since_ms } else { clock::now_ms() };
    Some(Step::one(ino, Some(Node { content, since_ms, ..node.clone() })))
}

/// Length and time of the bytes that are known: the content's, or those of the version that it was.
fn recorded(node: &Node, sent: Option<&Sent>) -> Option<(u64, Time)> {
    if let Some(here) = &node.content {
        return Some((here.len, here.mtime));
    }
    let known = node.remote.as_ref()?;
    match sent.filter(|sent| sent.version == known.version) {
        Some(sent) => Some((sent.len, sent.mtime)),
        None => Some((known.version.len, mtime_of(&known.version, node.meta_here()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::node::{Known, Place};
    use crate::store::remote::Name;

    const FILE: Ino = Ino(7);

    fn version(tag: &str) -> Version {
        Version { tag: tag.into(), len: 5, written: Some(Time(50)) }
    }

    /// A file that a program has opened for writing.
    fn tree(content: Option<ContentHere>) -> Tree {
        let place = Place::new(Ino::ROOT, Name::new("f").unwrap());
        let known = Known { place, kind: Kind::File, version: version("1"), meta: None, is_writable: true };
        let mut tree = Tree::default();
        let node = Node { may_be_written: true, content, ..Node::as_remote(known) };
        tree.adopt(Step::one(FILE, Some(node)));
        tree
    }

    fn recorded(tree: &Tree, len: u64, mtime: i128, sent: Option<&Sent>) -> Option<u64> {
        let step = written(tree, FILE, &ContentStat { len, mtime: Time(mtime), taken: 0 }, None, sent)?;
        let here = step.states[0].1.as_ref()?.content.as_ref()?;
        assert_eq!((here.len, here.mtime), (len, Time(mtime)));
        Some(here.generation)
    }

    #[test]
    fn a_file_that_is_as_it_was_brought_is_not_recorded() {
        let tree = tree(None);
        assert_eq!(recorded(&tree, 5, 50, None), None);
        assert_eq!(recorded(&tree, 5, 51, None), Some(1), "the same length, and yet it was written");
        assert_eq!(recorded(&tree, 6, 50, None), Some(1));
    }

    #[test]
    fn only_the_last_ticks_are_fresh() {
        let at = |ms: i128| Time(ms * 1_000_000);
        assert!(is_fresh(at(995), 1000) && is_fresh(at(1001), 1000));
        assert!(!is_fresh(at(900), 1000) && !is_fresh(at(2000), 1000) && !is_fresh(Time(7), 1000));
    }

    #[test]
    fn each_change_raises_the_generation() {
        let tree = tree(Some(ContentHere { generation: 4, len: 9, mtime: Time(60), base: None }));
        assert_eq!(recorded(&tree, 9, 60, None), None);
        assert_eq!(recorded(&tree, 9, 61, None), Some(5));
    }

    #[test]
    fn what_was_sent_while_the_file_stayed_open_is_not_sent_again() {
        let tree = tree(None);
        let sent = Sent { version: version("1"), len: 9, mtime: Time(70) };
        assert_eq!(recorded(&tree, 9, 70, Some(&sent)), None);
        assert_eq!(recorded(&tree, 9, 71, Some(&sent)), Some(1));
        let earlier = Sent { version: version("0"), ..sent };
        assert_eq!(recorded(&tree, 9, 70, Some(&earlier)), Some(1), "another program's version came since");
    }
}
