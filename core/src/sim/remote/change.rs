//! Changes of a simulated remote, and whether they may take effect.

use super::World;
use super::tree::{self, SimFile};
use super::uploads::Upload;
use crate::store::StoreError;
use crate::store::remote::{Condition, Kind, Meta, Relocation, RemoteError, RemotePath, Version};
use bytes::Bytes;

/// A request that changes something. It may take effect long after it was sent.
#[derive(Clone)]
pub(super) enum Change {
    /// `upload`: the parts at the server, which become the file.
    Put {
        path: RemotePath,
        bytes: Bytes,
        meta: Meta,
        when: Condition,
        upload: Option<u64>,
    },
    SetMeta {
        path: RemotePath,
        version: Version,
        meta: Meta,
    },
    Relocate {
        from: RemotePath,
        version: Version,
        to: RemotePath,
        when: Condition,
        how: Relocation,
    },
    Remove {
        path: RemotePath,
        when: Condition,
    },
    MakeDirectory {
        path: RemotePath,
    },
    RemoveDirectory {
        path: RemotePath,
    },
}

impl Change {
    /// The file that is changed. For a relocation, the new place.
    pub(super) fn path(&self) -> &RemotePath {
        match self {
            Change::Put { path, .. }
            | Change::SetMeta { path, .. }
            | Change::Relocate { to: path, .. }
            | Change::Remove { path, .. }
            | Change::MakeDirectory { path }
            | Change::RemoveDirectory { path } => path,
        }
    }

    /// The same without its condition: it was looked at already.
    pub(super) fn unconditional(mut self) -> Self {
        if let Change::Put { when, .. } | Change::Relocate { when, .. } | Change::Remove { when, .. } =
            &mut self
        {
            *when = Condition::Always;
        }
        self
    }
}

impl World {
    /// An error if the change may not take effect now.
    pub(super) fn check(&self, change: &Change) -> Result<(), RemoteError> {
        let habits = &self.habits;
        if habits.is_read_only {
            return Err(StoreError::Denied { reason: "the account may only read".into() }.into());
        }
        let locked = |path: &RemotePath| self.locks.get(&tree::fold(habits, path)).cloned();
        let path = change.path();
        if let Some(by) = locked(path) {
            return Err(RemoteError::Locked { path: path.clone(), by: Some(by) });
        }
        let (tree, there) = (&self.tree, self.tree.get(habits, path));
        let changed = || RemoteError::Changed(path.clone());
        match change {
            Change::Put { bytes, when, upload, .. } => {
                tree.expect_parent(habits, path)?;
                if habits.len_max.is_some_and(|most| bytes.len() as u64 > most) {
                    return Err(RemoteError::TooLarge(path.clone()));
                }
                if there.is_some_and(|there| there.kind == Kind::Directory) || !holds(there, when) {
                    return Err(changed());
                }
                let parts = upload.and_then(|upload| self.uploads.get(&upload)).map_or(0, Upload::len);
                let freed = parts + there.map_or(0, |there| there.bytes.len() as u64);
                self.expect_space((bytes.len() as u64).saturating_sub(freed))
            }
            Change::SetMeta { version, .. } => match there {
                _ if path.is_root() => Ok(()),
                None => Err(RemoteError::NotFound(path.clone())),
                Some(there) if there.kind == Kind::Directory => Ok(()),
                there => if_holds(there, &Condition::Matches(version.clone()), path),
            },
            Change::Relocate { from, version, to, when, how } => {
                if let Some(by) = locked(from) {
                    return Err(RemoteError::Locked { path: from.clone(), by: Some(by) });
                }
                let Some(source) = tree.get(habits, from) else {
                    return Err(RemoteError::NotFound(from.clone()));
                };
                tree.expect_parent(habits, to)?;
                let is_directory = source.kind == Kind::Directory;
                if is_directory && (*how == Relocation::Copy || !habits.moves_trees) {
                    return Err(RemoteError::Unsupported("move or copy a directory"));
                }
                if is_directory && to.is_within(from) && to != from {
                    let reason = "it lies in the directory that is moved".into();
                    return Err(RemoteError::BadName { path: to.clone(), reason });
                }
                if !is_directory && source.version != *version {
                    return Err(RemoteError::Changed(from.clone()));
                }
                if tree::fold(habits, from) == tree::fold(habits, to) {
                    return Ok(());
                }
                if there.is_some_and(|there| there.kind == Kind::Directory) {
                    return Err(changed());
                }
                if_holds(there, when, path)?;
                let copied = if *how == Relocation::Copy { source.bytes.len() as u64 } else { 0 };
                self.expect_space(copied)
            }
            Change::Remove { when, .. } => match there {
                None => Err(RemoteError::NotFound(path.clone())),
                Some(there) if there.kind == Kind::Directory => Err(changed()),
                there => if_holds(there, when, path),
            },
            Change::MakeDirectory { .. } => {
                if path.is_root() {
                    return Ok(());
                }
                tree.expect_parent(habits, path)?;
                match there {
                    Some(there) if there.kind != Kind::Directory => Err(changed()),
                    _ => Ok(()),
                }
            }
            Change::RemoveDirectory { .. } => match there {
                Some(there) if there.kind == Kind::Directory => match tree.is_empty(habits, path) {
                    true => Ok(()),
                    false => Err(RemoteError::NotEmpty(path.clone())),
                },
                _ => Err(RemoteError::NotFound(path.clone())),
            },
        }
    }

    /// Makes the change, if it may take effect. Returns what is at its path then.
    pub(super) fn apply(&mut self, change: Change) -> Result<Option<SimFile>, RemoteError> {
        self.check(&change)?;
        self.remember();
        let habits = self.habits;
        let path = change.path().clone();
        match change {
            Change::Put { bytes, meta, upload, .. } => {
                upload.map(|upload| self.uploads.remove(&upload));
                let old = self.tree.get(&habits, &path).map(|old| old.meta.clone());
                let meta = merged(old.unwrap_or_default(), meta);
                self.write(&path, bytes, meta);
            }
            Change::SetMeta { meta, .. } => {
                if let Some(mut file) = self.tree.remove(&habits, &path) {
                    file.meta = Meta {
                        mode: meta.mode.or(file.meta.mode),
                        mtime: meta.mtime.or(file.meta.mtime),
                        xattrs: meta.xattrs,
                        link: file.meta.link,
                    };
                    file.meta = habits.kept(file.meta);
                    if habits.meta_makes_versions {
                        file.version = self.new_version(file.version.len);
                    }
                    self.tree.insert(&habits, file);
                }
            }
            Change::Relocate { from, to, how: Relocation::Move, .. } => {
                self.tree.rename(&habits, &from, &to);
                if habits.moves_make_versions
                    && let Some(mut file) = self.tree.remove(&habits, &to)
                {
                    file.version = self.new_version(file.version.len);
                    self.tree.insert(&habits, file);
                }
            }
            Change::Relocate { from, to, how: Relocation::Copy, .. } => {
                if let Some(file) = self.tree.get(&habits, &from).cloned() {
                    self.write(&to, file.bytes, file.meta);
                }
            }
            Change::Remove { .. } | Change::RemoveDirectory { .. } => {
                self.tree.remove(&habits, &path);
            }
            Change::MakeDirectory { .. } => {
                if !self.tree.is_directory(&habits, &path) {
                    let (version, meta) = (self.new_version(0), habits.kept(Meta::default()));
                    let kind = Kind::Directory;
                    self.tree.insert(
                        &habits,
                        SimFile { path: path.clone(), kind, bytes: Bytes::new(), meta, version },
                    );
                }
            }
        }
        Ok(self.tree.get(&habits, &path).cloned())
    }

    /// Stores a file or link, whatever is there. The file under the name keeps the spelling that it had.
    pub(super) fn write(&mut self, path: &RemotePath, bytes: Bytes, meta: Meta) {
        let habits = self.habits;
        let path = self.tree.get(&habits, path).map_or_else(|| path.clone(), |old| old.path.clone());
        let kind = if meta.link.is_some() { Kind::Link } else { Kind::File };
        let version = self.new_version(bytes.len() as u64);
        let mut meta = habits.kept(meta);
        if meta.mtime.is_none() {
            meta.mtime = version.written;
        }
        self.tree.insert(&habits, SimFile { path, kind, bytes, meta, version });
    }

    fn expect_space(&self, more: u64) -> Result<(), RemoteError> {
        match self.habits.capacity {
            Some(capacity) if self.used() + more > capacity => {
                Err(StoreError::Full { reason: "the quota is used up".into() }.into())
            }
            _ => Ok(()),
        }
    }
}

/// What a file has after an upload that names `new`.
fn merged(old: Meta, new: Meta) -> Meta {
    let mut xattrs = old.xattrs;
    xattrs.extend(new.xattrs);
    Meta { mode: new.mode.or(old.mode), mtime: new.mtime, xattrs, link: new.link }
}

fn holds(there: Option<&SimFile>, when: &Condition) -> bool {
    match (when, there) {
        (Condition::Always, _) | (Condition::Absent, None) => true,
        (Condition::Absent, Some(_)) | (Condition::Matches(_), None) => false,
        (Condition::Matches(expected), Some(there)) => there.version == *expected,
    }
}

fn if_holds(there: Option<&SimFile>, when: &Condition, path: &RemotePath) -> Result<(), RemoteError> {
    match holds(there, when) {
        true => Ok(()),
        false => Err(RemoteError::Changed(path.clone())),
    }
}
