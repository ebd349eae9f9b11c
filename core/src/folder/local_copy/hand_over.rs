//! Whole files that leave the local copy because they are changed here, and files that come to it because the remote has them now.

use super::LocalCopy;
use crate::folder::spans::Span;
use crate::store::remote::Time;
use std::io::{self, ErrorKind};
use std::sync::Arc;

impl LocalCopy {
    /// Renames the local file of a span, all of which is here, to `to`, written last at `mtime`. The span is empty afterwards. Its bytes are
    /// durable; the new name is after the next sync of names.
    ///
    /// # Errors
    ///
    /// Not all of the file is here, or the local disk failed. Then the file stays the span's, and what could not be trusted any longer is
    /// downloaded again.
    pub(in crate::folder) async fn take_out(
        &self,
        span: &Arc<Span>,
        to: &str,
        mtime: Time,
    ) -> io::Result<()> {
        if self.backing.is_missing(span)? {
            if !span.is_empty() {
                self.cache.invalidate(&[span.extent()]).await?;
                return Err(io::Error::new(ErrorKind::NotFound, "the local file was removed"));
            }
            // Nothing was ever written to it.
            self.backing.file_of(span)?;
        }
        // Whoever syncs the content later learns nothing of a failure that came before.
        if !self.backing.settle(span).await {
            self.cache.invalidate(&[span.extent()]).await?;
            return Err(io::Error::other("what was downloaded of the file could not be made durable"));
        }
        let moves = || self.backing.rename_out(span, to, mtime);
        self.cache.hand_out(span.extent(), span.blocks(), moves).await
    }

    /// Makes `from`, which is durable and has all bytes of the span's version, the local file of the span, which is whole afterwards.
    ///
    /// # Errors
    ///
    /// Its length is another one, another version took the span's place, or the local disk failed. Then nothing has changed.
    pub(in crate::folder) fn take_in(&self, span: &Arc<Span>, from: &str) -> io::Result<()> {
        self.cache.hand_in(span.extent(), span.blocks(), || self.backing.rename_in(span, from))
    }
}
