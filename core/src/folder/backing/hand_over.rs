//! Local files that become contents, and contents that become local files of spans. Only a name changes: whoever has the file open goes on
//! with it.

use super::Backing;
use crate::folder::spans::Span;
use crate::store::remote::Time;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Backing {
    /// Renames the span's file to `to`, written last at `mtime`. The caller keeps others from writing to it.
    pub(in crate::folder) fn rename_out(&self, span: &Arc<Span>, to: &str, mtime: Time) -> io::Result<()> {
        let mut handles = self.handles.lock();
        let name = span.file_name();
        let file = self.files.open_to_read(&name)?;
        check_len(file.len()?, span)?;
        file.set_mtime(mtime)?;
        self.files.rename(&name, to)?;
        // What is open belongs to the content now.
        handles.forget(span);
        self.set_taken(span, 0);
        self.has_new_names.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the durable file `from` the span's, in place of one that is there. The caller keeps others from writing to either.
    pub(in crate::folder) fn rename_in(&self, span: &Arc<Span>, from: &str) -> io::Result<()> {
        let mut handles = self.handles.lock();
        let size = self.files.size_of(from)?;
        check_len(size.len, span)?;
        self.files.rename(from, &span.file_name())?;
        handles.forget(span);
        self.set_taken(span, size.allocated);
        self.has_new_names.store(true, Ordering::SeqCst);
        Ok(())
    }
}

fn check_len(len: u64, span: &Span) -> io::Result<()> {
    if span.is_retired() {
        return Err(io::Error::new(ErrorKind::NotFound, "another version took the file's place"));
    }
    match len == span.len() {
        true => Ok(()),
        false => {
            let told = format!("the local file has {len} bytes and the version {}", span.len());
            Err(io::Error::new(ErrorKind::InvalidData, told))
        }
    }
}
