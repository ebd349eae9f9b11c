//! The requests of a simulated remote.

use super::change::Change;
use super::tree::SimFile;
use super::{Request, SimRemote};
use crate::store::StoreError;
use crate::store::remote::{
    Condition, Entry, Facts, Kind, Meta, Name, Page, PageToken, Put, Quota, Relocation, Remote, RemoteError,
    RemotePath, Version,
};
use async_trait::async_trait;
use bytes::Bytes;
use rand::Rng;
use std::ops::Range;
use std::time::Duration;

/// What the server lists.
pub(super) struct Listed {
    pub(super) files: Vec<SimFile>,
    pub(super) next: Option<PageToken>,
    pub(super) unusable: Vec<String>,
}

impl SimRemote {
    /// Takes the time of a request, and meets what goes wrong before it does anything.
    pub(super) async fn arrive(&self, request: Request) -> Result<(), RemoteError> {
        let time = {
            let world = &mut *self.world.lock();
            let most = world.faults.time.as_micros() as u64;
            let time = Duration::from_micros(world.rng.random_range(0..=most));
            world.clock += time;
            time
        };
        tokio::time::sleep(time).await;
        self.world.lock().arrive(request)
    }

    /// Makes a change, or seems to. Returns what is at its path.
    async fn change(&self, request: Request, mut change: Change) -> Result<Option<SimFile>, RemoteError> {
        self.arrive(request).await?;
        let has_conditions = {
            let world = &mut *self.world.lock();
            if world.chance(world.faults.locked) {
                return Err(RemoteError::Locked { path: change.path().clone(), by: None });
            }
            world.habits.has_conditions
        };
        if !has_conditions {
            self.world.lock().check(&change)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            change = change.unconditional();
        }
        let world = &mut *self.world.lock();
        let lost = || StoreError::Unreachable { reason: "the answer was lost".into() }.into();
        if world.chance(world.faults.late) {
            world.do_later(change);
            return Err(lost());
        }
        let is_move = matches!(change, Change::Relocate { how: Relocation::Move, .. });
        if is_move && world.chance(world.faults.idle_move) {
            return world.claim_move(&change);
        }
        if world.chance(world.faults.repeated) {
            world.do_later(change.clone());
        }
        let done = world.apply(change);
        if world.chance(world.faults.answer_lost) { Err(lost()) } else { done }
    }

    fn entry(&self, file: Option<SimFile>, path: &RemotePath) -> Result<Entry, RemoteError> {
        let is_writable = self.facts.read_only.is_none();
        let file = file.ok_or_else(|| RemoteError::NotFound(path.clone()))?;
        Ok(file.entry(is_writable))
    }

    fn root(&self) -> Entry {
        let world = self.world.lock();
        let tag = if world.habits.root_tag_tells { format!("r{}", world.changes) } else { String::new() };
        let version = Version { tag, len: 0, written: None };
        let is_writable = self.facts.read_only.is_none();
        let (name, kind) = (Name::of_root(), Kind::Directory);
        Entry { name, kind, version, meta: Some(Meta::default()), is_writable }
    }
}

impl super::World {
    /// The answer to a move that is not made.
    fn claim_move(&mut self, change: &Change) -> Result<Option<SimFile>, RemoteError> {
        self.check(change)?;
        let Change::Relocate { from, to, .. } = change else { return Ok(None) };
        let moved = self.tree.get(&self.habits, from).cloned();
        Ok(moved.map(|file| SimFile { path: to.clone(), ..file }))
    }
}

#[async_trait]
impl Remote for SimRemote {
    async fn list(&self, directory: &RemotePath, page: Option<&PageToken>) -> Result<Page, RemoteError> {
        self.arrive(Request::List).await?;
        let hides_meta = self.world.lock().habits.hides_meta;
        let listed = self.world.lock().page(directory, page)?;
        let mut answer = Page { next: listed.next, ..Page::default() };
        for file in listed.files {
            let name = file.path.split().map(|(_, name)| name);
            if name.is_some_and(|name| name.is_upload()) {
                continue;
            }
            let mut entry = self.entry(Some(file), directory)?;
            entry.meta = entry.meta.filter(|_| !hides_meta);
            answer.entries.push(entry);
        }
        listed.unusable.iter().for_each(|name| answer.unusable.add(name));
        Ok(answer)
    }

    async fn stat(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        self.arrive(Request::Stat).await?;
        if path.is_root() {
            return Ok(self.root());
        }
        let file = {
            let world = self.world.lock();
            world.tree.get(&world.habits, path).cloned()
        };
        self.entry(file.filter(|_| !path.is_hidden()), path)
    }

    async fn read(
        &self,
        path: &RemotePath,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, RemoteError> {
        self.arrive(Request::Read).await?;
        let world = self.world.lock();
        let file = world.tree.get(&world.habits, path).ok_or_else(|| RemoteError::NotFound(path.clone()))?;
        if file.kind != Kind::File || file.version != *version {
            return Err(RemoteError::Changed(path.clone()));
        }
        assert!(range.end <= version.len, "{path} has {} bytes, and {range:?} were asked for", version.len);
        Ok(file.bytes.slice(range.start as usize..range.end as usize))
    }

    async fn write(&self, put: Put<'_>) -> Result<Entry, RemoteError> {
        if put.path.is_hidden() {
            let reason = "names that begin so are those of uploads under way".to_owned();
            return Err(RemoteError::BadName { path: put.path.clone(), reason });
        }
        let (bytes, upload) = match put.meta.link {
            Some(_) => (Bytes::new(), None),
            None => self.send(&put).await?,
        };
        let (path, meta, when) = (put.path.clone(), put.meta.clone(), put.when.clone());
        let change = Change::Put { path, bytes, meta, when, upload };
        self.entry(self.change(Request::Write, change).await?, put.path)
    }

    async fn set_meta(
        &self,
        path: &RemotePath,
        version: &Version,
        meta: &Meta,
    ) -> Result<Entry, RemoteError> {
        let change = Change::SetMeta { path: path.clone(), version: version.clone(), meta: meta.clone() };
        let file = self.change(Request::SetMeta, change).await?;
        if path.is_root() { Ok(self.root()) } else { self.entry(file, path) }
    }

    async fn relocate(
        &self,
        from: &RemotePath,
        version: &Version,
        to: &RemotePath,
        when: Condition,
        how: Relocation,
    ) -> Result<Entry, RemoteError> {
        let (from, version, at) = (from.clone(), version.clone(), to.clone());
        let change = Change::Relocate { from, version, to: at, when, how };
        self.entry(self.change(Request::Relocate, change).await?, to)
    }

    async fn remove(&self, path: &RemotePath, when: Condition) -> Result<(), RemoteError> {
        self.change(Request::Remove, Change::Remove { path: path.clone(), when }).await.map(drop)
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<Entry, RemoteError> {
        let change = Change::MakeDirectory { path: path.clone() };
        let file = self.change(Request::MakeDirectory, change).await?;
        if path.is_root() { Ok(self.root()) } else { self.entry(file, path) }
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), RemoteError> {
        self.change(Request::RemoveDirectory, Change::RemoveDirectory { path: path.clone() }).await.map(drop)
    }

    async fn abandon(&self, _path: &RemotePath, resume: &[u8]) -> Result<(), RemoteError> {
        self.arrive(Request::Abandon).await?;
        self.forget(resume);
        Ok(())
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    async fn quota(&self) -> Result<Option<Quota>, RemoteError> {
        self.arrive(Request::Quota).await?;
        let world = self.world.lock();
        let used = world.used();
        Ok(world.habits.capacity.map(|capacity| Quota { used, free: capacity.saturating_sub(used) }))
    }
}
