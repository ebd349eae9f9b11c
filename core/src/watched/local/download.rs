//! A download: bytes go to a temporary file beside the place, which is made durable before it gets its name. A crash leaves the old file or the
//! new one, and at most a temporary file that the next start removes.

use super::replace::exchange;
use super::{Place, TreeError, look, off_the_runtime, rename_over_nothing, temporary};
use crate::store::remote::{Kind, Meta, RemotePath};
use crate::watched::row::Print;
use crate::watched::tree::{Download, Here, Incoming};
use async_trait::async_trait;
use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is wanted.
pub(super) struct Wanted {
    path: RemotePath,
    kind: Kind,
    meta: Meta,
    over: Option<Print>,
}

impl Wanted {
    pub fn of(incoming: &Incoming<'_>) -> Self {
        let Incoming { path, kind, meta, over } = incoming;
        Self { path: (*path).clone(), kind: *kind, meta: (*meta).clone(), over: *over }
    }
}

/// A download under way.
pub(super) struct Begun {
    at: Arc<At>,
    wanted: Arc<Wanted>,
}

/// The temporary file. It is removed with this.
struct At {
    directory: OwnedFd,
    name: String,
    temporary: String,
    /// A link has none.
    file: Option<File>,
}

impl Drop for At {
    fn drop(&mut self) {
        // It has another name by now if it was finished.
        let _ = rustix::fs::unlinkat(&self.directory, &*self.temporary, AtFlags::empty());
    }
}

pub(super) fn begin(place: &Place, wanted: Wanted) -> Result<Begun, TreeError> {
    let (directory, name) = place.parent(&wanted.path)?;
    let temporary = temporary();
    let file = match (wanted.kind, &wanted.meta.link) {
        (Kind::Link, Some(target)) => {
            rustix::fs::symlinkat(&**target, &directory, &*temporary)?;
            None
        }
        _ => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&directory, &*temporary, flags, Mode::from_raw_mode(0o600))?;
            Some(File::from(file))
        }
    };
    Ok(Begun { at: Arc::new(At { directory, name, temporary, file }), wanted: Arc::new(wanted) })
}

#[async_trait]
impl Download for Begun {
    async fn write(&mut self, bytes: Bytes) -> Result<(), TreeError> {
        let at = self.at.clone();
        off_the_runtime(move || {
            let mut file = at.file.as_ref().ok_or_else(|| TreeError::Failed("a link has no bytes".into()))?;
            Ok(file.write_all(&bytes)?)
        })
        .await
    }

    async fn finish(self: Box<Self>) -> Result<Here, TreeError> {
        off_the_runtime(move || finish(&self.at, &self.wanted)).await
    }
}

fn finish(at: &At, wanted: &Wanted) -> Result<Here, TreeError> {
    if let Some(file) = &at.file {
        if let Some(mode) = wanted.meta.mode {
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o777))?;
        }
        if let Some(mtime) = wanted.meta.mtime {
            let seconds = i64::try_from(mtime.0.div_euclid(1_000_000_000)).unwrap_or_default();
            let nanos = mtime.0.rem_euclid(1_000_000_000);
            let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanos as _ };
            let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?;
        }
        rustix::fs::fsync(file)?;
    }
    let directory = &at.directory;
    match &wanted.over {
        None => rename_over_nothing((directory, &at.temporary), (directory, &at.name))?,
        Some(print) => exchange(directory, &at.temporary, &at.name, print)?,
    }
    rustix::fs::fsync(directory)?;
    look(directory, &at.name)
}
