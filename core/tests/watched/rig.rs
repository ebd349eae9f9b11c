//! A watched directory on a simulated tree, table and remote.

use async_trait::async_trait;
use bytes::Bytes;
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits, SimRemote};
use holdall_core::store::remote::{Kind, Meta, ReadAt, RemotePath, Time, Unusable};
use holdall_core::watched::tree::{Download, Here, Ignores, Incoming, Scan, Stable, Tree, TreeError};
use holdall_core::watched::{Digest, Environment, Print, Watched};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

const PART_BYTES: usize = 1 << 20;

#[derive(Clone)]
struct Node {
    here: Here,
    bytes: Bytes,
}

struct World {
    start: tokio::time::Instant,
    nodes: BTreeMap<RemotePath, Node>,
    clock_ms: u64,
    inodes: u64,
    busy: BTreeSet<RemotePath>,
    is_away: bool,
    is_full: bool,
}

impl World {
    fn now_ms(&self) -> u64 {
        self.clock_ms + self.start.elapsed().as_millis() as u64
    }
}

/// A local directory in memory. Each of its changes is durable when it returns, as the trait promises.
#[derive(Clone)]
pub struct SimTree(Arc<Mutex<World>>);

pub fn path(text: &str) -> RemotePath {
    RemotePath::parse(text).unwrap()
}

impl SimTree {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(World {
            start: tokio::time::Instant::now(),
            nodes: BTreeMap::new(),
            clock_ms: 1_700_000_000_000,
            inodes: 0,
            busy: BTreeSet::new(),
            is_away: false,
            is_full: false,
        })))
    }

    fn put(world: &mut World, path: &RemotePath, kind: Kind, bytes: Bytes, meta: &Meta) -> Here {
        world.inodes += 1;
        let now = Time(i128::from(world.now_ms()) * 1_000_000 + i128::from(world.inodes));
        let len = if kind == Kind::File { bytes.len() as u64 } else { 0 };
        let print = Print { len, mtime: meta.mtime.unwrap_or(now), ctime: now, ino: world.inodes };
        let here = Here { kind, print, mode: meta.mode.unwrap_or(0o644), link: meta.link.clone() };
        world.nodes.insert(path.clone(), Node { here: here.clone(), bytes });
        here
    }

    /// A program writes a file.
    pub fn writes(&self, path: &RemotePath, bytes: &[u8]) {
        let world = &mut *self.0.lock();
        Self::make_above(world, path);
        Self::put(world, path, Kind::File, Bytes::copy_from_slice(bytes), &Meta::default());
    }

    fn make_above(world: &mut World, path: &RemotePath) {
        if let Some((above, _)) = path.split().filter(|(above, _)| !above.is_root()) {
            Self::make_above(world, &above);
            if !world.nodes.contains_key(&above) {
                Self::put(world, &above, Kind::Directory, Bytes::new(), &Meta::default());
            }
        }
    }

    /// A program removes a file or a tree.
    pub fn removes(&self, path: &RemotePath) {
        self.0.lock().nodes.retain(|at, _| !at.is_within(path));
    }

    /// A program renames a file.
    pub fn renames(&self, from: &RemotePath, to: &RemotePath) {
        let world = &mut *self.0.lock();
        Self::make_above(world, to);
        let node = world.nodes.remove(from).unwrap();
        world.nodes.insert(to.clone(), node);
    }

    /// A program opens a file for writing, or closes it.
    pub fn set_busy(&self, path: &RemotePath, is_busy: bool) {
        let world = &mut *self.0.lock();
        let _ = if is_busy { world.busy.insert(path.clone()) } else { world.busy.remove(path) };
    }

    /// The directory is taken away, or is back.
    pub fn set_away(&self, is_away: bool) {
        self.0.lock().is_away = is_away;
    }

    pub fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    pub fn pass(&self, time: Duration) {
        self.0.lock().clock_ms += time.as_millis() as u64;
    }

    pub fn file(&self, path: &RemotePath) -> Option<Vec<u8>> {
        let world = self.0.lock();
        world.nodes.get(path).filter(|node| node.here.kind == Kind::File).map(|node| node.bytes.to_vec())
    }

    /// All files, with their bytes.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.0.lock();
        let files = world.nodes.iter().filter(|(_, node)| node.here.kind == Kind::File);
        files.map(|(path, node)| (path.to_string(), node.bytes.to_vec())).collect()
    }

    fn checked(world: &World, path: &RemotePath, print: Print) -> Result<Node, TreeError> {
        let node = world.nodes.get(path).ok_or(TreeError::Changed)?;
        if node.here.print != print {
            return Err(TreeError::Changed);
        }
        if world.busy.contains(path) {
            return Err(TreeError::InUse);
        }
        Ok(node.clone())
    }
}

struct All;

impl Ignores for All {
    fn is_ignored(&self, path: &RemotePath, _: bool) -> bool {
        path.as_str().ends_with(".tmp")
    }
}

struct Memory(Bytes);

impl ReadAt for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..offset as usize + buf.len()]);
        Ok(())
    }
}

struct Coming {
    tree: SimTree,
    path: RemotePath,
    kind: Kind,
    meta: Meta,
    over: Option<Print>,
    bytes: Vec<u8>,
}

#[async_trait]
impl Download for Coming {
    async fn write(&mut self, bytes: Bytes) -> Result<(), TreeError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.bytes.extend_from_slice(&bytes);
        if self.tree.0.lock().is_full { Err(TreeError::NoSpace) } else { Ok(()) }
    }

    async fn finish(self: Box<Self>) -> Result<Here, TreeError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let world = &mut *self.tree.0.lock();
        match self.over {
            None if world.nodes.contains_key(&self.path) => return Err(TreeError::Changed),
            None => {}
            Some(print) => drop(SimTree::checked(world, &self.path, print)?),
        }
        if let Some((above, _)) = self.path.split()
            && !above.is_root()
            && !world.nodes.contains_key(&above)
        {
            return Err(TreeError::Changed);
        }
        Ok(SimTree::put(world, &self.path, self.kind, self.bytes.into(), &self.meta))
    }
}

#[async_trait]
impl Tree for SimTree {
    fn now_ms(&self) -> u64 {
        self.0.lock().now_ms()
    }

    async fn scan(&self) -> Result<Scan, TreeError> {
        let world = self.0.lock();
        if world.is_away {
            return Err(TreeError::NoRoot("its disk is away".into()));
        }
        let entries = world.nodes.iter().filter(|(path, _)| !path.as_str().ends_with(".tmp"));
        let entries = entries.map(|(path, node)| (path.clone(), node.here.clone())).collect();
        Ok(Scan { entries, unseen: BTreeSet::new(), left_out: Unusable::default(), ignores: Arc::new(All) })
    }

    async fn read(&self, path: &RemotePath, print: Print) -> Result<Stable, TreeError> {
        let bytes = Self::checked(&self.0.lock(), path, print)?.bytes;
        let parts: Vec<_> = bytes.chunks(PART_BYTES).map(|part| *blake3::hash(part).as_bytes()).collect();
        let digest = Digest::of_parts(&parts);
        Ok(Stable { content: Arc::new(Memory(bytes)), print, digest, parts: Arc::new(parts) })
    }

    async fn download(&self, incoming: Incoming<'_>) -> Result<Box<dyn Download>, TreeError> {
        let Incoming { path, kind, meta, over } = incoming;
        let (tree, path, meta) = (self.clone(), path.clone(), meta.clone());
        Ok(Box::new(Coming { tree, path, kind, meta, over, bytes: Vec::new() }))
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<(), TreeError> {
        let world = &mut *self.0.lock();
        match world.nodes.get(path) {
            Some(node) if node.here.kind == Kind::Directory => {}
            Some(_) => return Err(TreeError::Changed),
            None => drop(Self::put(world, path, Kind::Directory, Bytes::new(), &Meta::default())),
        }
        Ok(())
    }

    async fn remove(&self, path: &RemotePath, print: Print) -> Result<(), TreeError> {
        let world = &mut *self.0.lock();
        Self::checked(world, path, print)?;
        world.nodes.remove(path);
        Ok(())
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), TreeError> {
        let world = &mut *self.0.lock();
        if world.nodes.keys().any(|at| at.is_within(path) && at != path) {
            return Err(TreeError::NotEmpty);
        }
        world.nodes.remove(path);
        Ok(())
    }

    async fn rename(&self, from: &RemotePath, to: &RemotePath) -> Result<(), TreeError> {
        let world = &mut *self.0.lock();
        if world.nodes.contains_key(to) {
            return Err(TreeError::Changed);
        }
        let moved: Vec<_> = world.nodes.keys().filter(|at| at.is_within(from)).cloned().collect();
        if moved.is_empty() {
            return Err(TreeError::Changed);
        }
        for at in moved {
            let node = world.nodes.remove(&at).unwrap();
            let new = format!("{to}{}", &at.as_str()[from.as_str().len()..]);
            world.nodes.insert(path(&new), node);
        }
        Ok(())
    }
}

/// What outlives the engine.
pub struct Rig {
    pub tree: SimTree,
    pub disk: SimDisk,
    pub remote: SimRemote,
    pub two_way: bool,
}

impl Rig {
    pub fn new(seed: u64, habits: RemoteHabits, two_way: bool) -> Self {
        holdall_core::entropy::seed_this_thread(seed);
        Self {
            tree: SimTree::new(),
            disk: SimDisk::new(seed, DiskFaults::default()),
            remote: SimRemote::new(seed, habits, RemoteFaults::default()),
            two_way,
        }
    }

    pub async fn open(&self) -> Arc<Watched> {
        let environment = Environment {
            tree: Arc::new(self.tree.clone()),
            remote: Arc::new(self.remote.clone()),
            disk: Arc::new(self.disk.clone()),
            uuid: Uuid::from_u128(0x3a),
            two_way: self.two_way,
            device_name: "laptop".into(),
        };
        Watched::open(environment).await.unwrap()
    }

    /// Lets all programs rest, and waits until both sides are alike.
    pub async fn settle(&self, watched: &Watched) -> Result<(), String> {
        self.tree.pass(Duration::from_secs(3));
        let settled = timeout(Duration::from_secs(3600), watched.settle()).await;
        settled.map_err(|_| "it never settles".to_owned())?.map_err(|error| error.to_string())
    }

    /// The files of the remote, with their bytes.
    pub fn there(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.remote.files().into_iter().filter(|file| file.kind == Kind::File);
        files.map(|file| (file.path.to_string(), file.bytes.to_vec())).collect()
    }
}
