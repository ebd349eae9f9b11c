//! Bringing the beginning of files here, for somebody who waits for it. What has arrived stays while it is waited for.

use super::api::FolderError;
use super::local_copy::LocalCopy;
use super::open_folder::Folder;
use super::spans::Span;
use crate::pull::Class;
use crate::units::{BLOCK_BYTES, BlockRange};
use std::sync::Arc;

/// Blocks that are pulled at once: enough to fill a link.
const WINDOW_BLOCKS: u64 = (16 << 20) / BLOCK_BYTES;

/// Files that somebody waits for. Nothing of them is evicted until it is dropped.
pub struct Fetch {
    copy: Arc<LocalCopy>,
    parts: Vec<Part>,
    /// Bytes of files that only this device has.
    own_bytes: u64,
}

/// A file, and the beginning of it that is enough.
struct Part {
    span: Arc<Span>,
    first: BlockRange,
}

impl Folder {
    /// What it takes to have `percent` of a file, or of everything in a directory, here: from the beginning of the first file on. `counted` is
    /// called with the number of files so far.
    ///
    /// # Errors
    ///
    /// The path does not exist, or a directory in it cannot be listed.
    pub async fn fetch_part(
        &self,
        path: &str,
        percent: u8,
        mut counted: impl FnMut(u64) + Send,
    ) -> Result<Fetch, FolderError> {
        let (mut spans, mut own_bytes, mut files) = (Vec::new(), 0, 0);
        self.each_file(self.resolve(path).await?, true, &mut |ino| {
            match self.wanted_span(ino)? {
                Some(span) => spans.push(span),
                None => own_bytes += self.shared.attributes_of(ino)?.len,
            }
            files += 1;
            counted(files);
            Ok(())
        })
        .await?;
        let blocks: u64 = spans.iter().map(|span| span.blocks().count()).sum();
        let mut left = (blocks * u64::from(percent.min(100))).div_ceil(100);
        let part = |span: Arc<Span>| {
            let count = span.blocks().count().min(left);
            left -= count;
            Part { first: BlockRange::new(span.blocks().start, count), span }
        };
        let parts: Vec<_> = spans.into_iter().map(part).collect();
        for part in &parts {
            self.shared.copy.keep_survivor(&part.span);
        }
        Ok(Fetch { copy: self.shared.copy.clone(), parts, own_bytes })
    }
}

impl Fetch {
    /// All bytes of the files.
    pub fn bytes(&self) -> u64 {
        self.own_bytes + self.parts.iter().map(|part| part.span.len()).sum::<u64>()
    }

    /// How many of them are here.
    pub fn local_bytes(&self) -> u64 {
        self.own_bytes + self.parts.iter().map(|part| self.copy.local_bytes(&part.span)).sum::<u64>()
    }

    /// Bytes of the beginning that is enough, in whole blocks.
    pub fn first_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.first.byte_len()).sum()
    }

    /// How many of them are not here.
    pub fn missing_bytes(&self) -> u64 {
        self.parts.iter().map(|part| self.copy.missing_bytes(part.first)).sum()
    }

    /// Pulls what is missing of the beginning, in the order of the files.
    ///
    /// # Errors
    ///
    /// The remote has another version of a file by now, refuses it, or the local disk failed.
    pub async fn pull(&self) -> Result<(), FolderError> {
        let (mut window, mut blocks) = (Vec::new(), 0);
        for part in &self.parts {
            for piece in part.first.pieces(WINDOW_BLOCKS) {
                if self.copy.missing_bytes(piece) == 0 {
                    continue;
                }
                blocks += piece.count();
                window.push(piece);
                if blocks >= WINDOW_BLOCKS {
                    self.copy.pull(Class::Pinned, &std::mem::take(&mut window)).await?;
                    blocks = 0;
                }
            }
        }
        self.copy.pull(Class::Pinned, &window).await?;
        match self.parts.iter().any(|part| part.span.is_retired()) {
            true => Err(FolderError::Stale),
            false => Ok(()),
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.parts.iter().for_each(|part| self.copy.keep_no_more(&part.span));
    }
}
