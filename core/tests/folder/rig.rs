//! A folder on a simulated disk and a simulated remote, used by paths.

use bytes::Bytes;
use holdall_core::folder::api::{Access, Allocate, Asked, Changes, FolderError, Handle, Renaming, Stale};
use holdall_core::folder::entries::Cookie;
use holdall_core::folder::{Folder, FolderEnvironment, Ino, Place};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits, SimRemote};
use holdall_core::store::remote::{Kind, Name, RemotePath};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use uuid::Uuid;

pub const READS: Access = Access { writes: false, truncates: false, may_pass_through: true };
pub const WRITES: Access = Access { writes: true, truncates: false, may_pass_through: true };
pub const EMPTIES: Access = Access { writes: true, truncates: true, may_pass_through: true };

/// Nobody asks again.
pub const NOBODY: Asked = Asked { request: 0, is_repeated: false };

const FOLDER: Uuid = Uuid::from_u128(0xf0);

/// What outlives a folder.
#[derive(Clone)]
pub struct Rig {
    pub disk: SimDisk,
    pub remote: SimRemote,
    pub database: sled::Db,
    pub cache_bytes: u64,
    /// Longer files are not brought here before they are written to.
    pub whole_up_to: u64,
    /// The mount outlives the daemon that is killed.
    pub outlives: bool,
}

/// An open folder.
pub struct Opened {
    pub folder: Arc<Folder>,
    // What is told must have a listener.
    _stale: mpsc::UnboundedReceiver<Stale>,
}

pub fn database() -> sled::Db {
    sled::Config::new().temporary(true).cache_capacity(4 << 20).open().unwrap()
}

pub fn path(text: &str) -> RemotePath {
    RemotePath::parse(text).unwrap()
}

impl Rig {
    pub fn new(seed: u64, habits: RemoteHabits) -> Self {
        holdall_core::entropy::seed_this_thread(seed);
        Self {
            disk: SimDisk::new(seed, DiskFaults::default()),
            remote: SimRemote::new(seed, habits, RemoteFaults::default()),
            database: database(),
            cache_bytes: 64 << 20,
            whole_up_to: 16 << 20,
            outlives: false,
        }
    }

    pub fn good() -> Self {
        Self::new(7, RemoteHabits::GOOD)
    }

    pub async fn open(&self) -> Opened {
        let environment = FolderEnvironment {
            disk: Arc::new(self.disk.clone()),
            files: Arc::new(self.disk.directory("files")),
            database: self.database.clone(),
            folder: FOLDER,
            remote: Arc::new(self.remote.clone()),
            cache_bytes: self.cache_bytes,
            whole_up_to: self.whole_up_to,
            device: uuid::Uuid::from_u128(7),
            device_name: "laptop".into(),
            read_only: None,
            has_outlived: self.outlives,
        };
        let (folder, _stale) = Folder::open(environment).await.unwrap();
        Opened { folder, _stale }
    }

    /// The files of the remote, with their bytes; directories have none.
    pub fn there(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let bytes = |kind, bytes: Bytes| if kind == Kind::Directory { None } else { Some(bytes.to_vec()) };
        let files = self.remote.files().into_iter();
        files.map(|file| (file.path.to_string(), bytes(file.kind, file.bytes))).collect()
    }

    pub fn file_there(&self, path: &str) -> Option<Vec<u8>> {
        self.there().remove(path).flatten()
    }
}

impl Opened {
    pub async fn place(&self, path: &str) -> Result<Place, FolderError> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok(Place::new(self.folder.resolve(above).await?, Name::new(name).unwrap()))
    }

    pub async fn ino(&self, path: &str) -> Result<Ino, FolderError> {
        self.folder.resolve(path).await
    }

    pub async fn open(&self, path: &str, access: Access) -> Result<Handle, FolderError> {
        Ok(self.folder.open_file(self.ino(path).await?, access, NOBODY).await?.handle)
    }

    pub async fn create(&self, path: &str) -> Result<Handle, FolderError> {
        let place = self.place(path).await?;
        Ok(self.folder.create(place, 0o644, EMPTIES, false, NOBODY).await?.1.handle)
    }

    /// Writes a whole file, as `cp` does.
    pub async fn write(&self, path: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let handle = self.create(path).await?;
        let written = self.folder.write(handle, 0, Bytes::copy_from_slice(bytes)).await;
        self.folder.release(handle);
        written
    }

    /// Writes a whole file and makes it durable.
    pub async fn write_durably(&self, path: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let handle = self.create(path).await?;
        let written = self.folder.write(handle, 0, Bytes::copy_from_slice(bytes)).await;
        let synced = self.folder.sync_file(handle).await;
        self.folder.release(handle);
        written.and(synced)
    }

    pub async fn read_handle(&self, handle: Handle) -> Result<Vec<u8>, FolderError> {
        let mut bytes = Vec::new();
        loop {
            let lease = self.folder.read(handle, bytes.len() as u64, 128 << 10).await?;
            let len: u64 = lease.pieces().iter().map(|piece| piece.len()).sum();
            if len == 0 {
                return Ok(bytes);
            }
            let at = bytes.len();
            bytes.resize(at + len as usize, 0xee);
            lease.copy_to(&mut bytes[at..]).map_err(|error| FolderError::Local(error.to_string()))?;
        }
    }

    pub async fn read(&self, path: &str) -> Result<Vec<u8>, FolderError> {
        let handle = self.open(path, READS).await?;
        let bytes = self.read_handle(handle).await;
        self.folder.release(handle);
        bytes
    }

    /// Makes a range zeros; or cuts the file there, and gives it its length back.
    pub async fn punch(&self, path: &str, range: (u64, u64), cuts: Option<u64>) -> Result<(), FolderError> {
        let handle = self.open(path, WRITES).await?;
        let ino = self.ino(path).await?;
        let set_len = |len| self.folder.set_attributes(ino, Changes { len: Some(len), ..Changes::default() });
        let done = match cuts {
            None => self.folder.allocate(handle, Allocate::Punch, range.0, range.1).await,
            Some(len) => match set_len(range.0).await {
                Ok(_) => set_len(len).await.map(drop),
                Err(error) => Err(error),
            },
        };
        self.folder.release(handle);
        done
    }

    pub async fn mkdir(&self, path: &str) -> Result<(), FolderError> {
        self.folder.make_directory(self.place(path).await?, 0o755, NOBODY).await.map(|_| ())
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FolderError> {
        let (from, to) = (self.place(from).await?, self.place(to).await?);
        self.folder.rename(from, to, Renaming::Replace, NOBODY).await
    }

    pub async fn unlink(&self, path: &str) -> Result<(), FolderError> {
        self.folder.unlink(self.place(path).await?, NOBODY).await
    }

    pub async fn rmdir(&self, path: &str) -> Result<(), FolderError> {
        self.folder.remove_directory(self.place(path).await?, NOBODY).await
    }

    /// The names in a directory, a few at a time.
    pub async fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, FolderError> {
        let directory = self.ino(path).await?;
        let (mut names, mut after) = (Vec::new(), Cookie::START);
        loop {
            let entries = self.folder.read_directory(directory, after, 3).await?;
            let Some(last) = entries.last() else {
                names.sort_by(|one: &(String, Kind), other| one.0.cmp(&other.0));
                return Ok(names);
            };
            after = last.cookie;
            names.extend(entries.iter().map(|entry| (entry.name.to_string(), entry.attributes.kind)));
        }
    }

    /// All files with their bytes; directories have none.
    pub async fn here(&self) -> Result<BTreeMap<String, Option<Vec<u8>>>, FolderError> {
        let (mut found, mut open) = (BTreeMap::new(), vec![String::new()]);
        while let Some(directory) = open.pop() {
            for (name, kind) in self.list(&directory).await? {
                let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                match kind {
                    Kind::Directory => {
                        found.insert(path.clone(), None);
                        open.push(path);
                    }
                    _ => {
                        let bytes = self.read(&path).await?;
                        found.insert(path, Some(bytes));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Uploads everything.
    pub async fn settle(&self) {
        self.folder.outbox().settle().await.unwrap();
    }
}
