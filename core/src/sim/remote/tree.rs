//! The files of a simulated remote. Pure.

use super::RemoteHabits;
use crate::store::remote::{Entry, Kind, Meta, Name, RemoteError, RemotePath, Time, Version};
use bytes::Bytes;
use icu_normalizer::ComposingNormalizerBorrowed;
use std::collections::BTreeMap;

/// A file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimFile {
    /// Its path, as it was last spelled.
    pub path: RemotePath,
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Bytes,
    /// What it has beside its bytes.
    pub meta: Meta,
    /// Its version.
    pub version: Version,
}

/// All files by path, folded as the server folds names. The root is not among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, SimFile>,
}

/// How the server compares names.
pub(super) fn fold(habits: &RemoteHabits, path: &RemotePath) -> String {
    let mut text = path.as_str().to_owned();
    if habits.folds_forms {
        text = ComposingNormalizerBorrowed::new_nfc().normalize(&text).into_owned();
    }
    if habits.folds_case {
        text = text.to_lowercase();
    }
    text
}

impl SimFile {
    /// The entry as `stat` shows it.
    pub(super) fn entry(&self, is_writable: bool) -> Entry {
        let name = self.path.split().map_or_else(Name::of_root, |(_, name)| name);
        let (version, meta) = (self.version.clone(), Some(self.meta.clone()));
        Entry { name, kind: self.kind, version, meta, is_writable }
    }
}

impl Tree {
    pub(super) fn get(&self, habits: &RemoteHabits, path: &RemotePath) -> Option<&SimFile> {
        self.files.get(&fold(habits, path))
    }

    pub(super) fn is_directory(&self, habits: &RemoteHabits, path: &RemotePath) -> bool {
        path.is_root() || self.get(habits, path).is_some_and(|file| file.kind == Kind::Directory)
    }

    pub(super) fn insert(&mut self, habits: &RemoteHabits, file: SimFile) {
        self.files.insert(fold(habits, &file.path), file);
    }

    pub(super) fn remove(&mut self, habits: &RemoteHabits, path: &RemotePath) -> Option<SimFile> {
        self.files.remove(&fold(habits, path))
    }

    /// The folded names right below a directory, after `after`, and their files.
    pub(super) fn below<'a>(
        &'a self,
        habits: &RemoteHabits,
        directory: &RemotePath,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a String, &'a SimFile)> {
        let prefix =
            if directory.is_root() { String::new() } else { format!("{}/", fold(habits, directory)) };
        let from = after.map_or_else(|| prefix.clone(), str::to_owned);
        let after = after.map(str::to_owned);
        let within = prefix.clone();
        self.files
            .range(from..)
            .take_while(move |(path, _)| path.starts_with(&within))
            .filter(move |(path, _)| !path[prefix.len()..].contains('/') && Some(*path) != after.as_ref())
    }

    /// Whether a directory has something in it.
    pub(super) fn is_empty(&self, habits: &RemoteHabits, directory: &RemotePath) -> bool {
        self.below(habits, directory, None).next().is_none()
    }

    /// Moves what is at `from`, and all below it, to `to`. All files keep their versions, and what was at `to` is gone.
    pub(super) fn rename(&mut self, habits: &RemoteHabits, from: &RemotePath, to: &RemotePath) {
        let (old, moved) = (fold(habits, from), self.files.clone());
        let moved = moved.into_iter().filter(|(path, _)| {
            path.strip_prefix(&old).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let moved: Vec<_> = moved.collect();
        for (path, _) in &moved {
            self.files.remove(path);
        }
        for (_, mut file) in moved {
            let below = file.path.names().skip(from.names().count()).filter_map(|name| Name::new(name).ok());
            file.path = below.fold(to.clone(), |path, name| path.join(&name));
            self.insert(habits, file);
        }
    }

    /// An error unless the directory that `path` lies in is there.
    pub(super) fn expect_parent(&self, habits: &RemoteHabits, path: &RemotePath) -> Result<(), RemoteError> {
        match path.split() {
            Some((parent, _)) if self.is_directory(habits, &parent) => Ok(()),
            Some(_) => Err(RemoteError::NotFound(path.clone())),
            None => Err(RemoteError::Forbidden { path: path.clone(), reason: "it is the root".into() }),
        }
    }

    /// Bytes of all files.
    pub(super) fn used(&self) -> u64 {
        self.files.values().map(|file| file.bytes.len() as u64).sum()
    }

    /// All files, by path.
    pub(super) fn all(&self) -> impl Iterator<Item = &SimFile> {
        self.files.values()
    }
}

/// The version of what was written at `written`, as the `count`th change.
pub(super) fn version(habits: &RemoteHabits, len: u64, written: Time, count: u64) -> Version {
    if !habits.has_weak_tags {
        return Version { tag: format!("v{count}"), len, written: Some(written) };
    }
    let second = 1_000_000_000;
    let Time(written) = written;
    let seconds = written.div_euclid(second);
    Version { tag: format!("W/{seconds}-{len}"), len, written: Some(Time(seconds * second)) }
}
