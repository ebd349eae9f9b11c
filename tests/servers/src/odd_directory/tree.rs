//! A file system that forwards everything to a directory, with a descriptor for each file that its client knows.

use super::{Habits, Refusal};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const GENERATION: Generation = Generation(0);

/// A file that the client knows: a descriptor, and how often the client has looked it up.
struct Node {
    fd: Arc<OwnedFd>,
    lookups: u64,
}

/// An open file or directory.
enum Handle {
    File(Arc<File>),
    Directory(Arc<Vec<(u64, FileType, OsString)>>),
}

pub struct Tree {
    habits: Habits,
    root: u64,
    nodes: Mutex<HashMap<u64, Node>>,
    handles: Mutex<(u64, HashMap<u64, Handle>)>,
}

type Answer<T> = Result<T, Errno>;

impl Tree {
    pub fn new(directory: &Path, habits: Habits) -> Self {
        let fd = rustix::fs::open(directory, PATH, Mode::empty()).unwrap();
        let root = rustix::fs::fstat(&fd).unwrap().st_ino;
        let nodes = HashMap::from([(root, Node { fd: Arc::new(fd), lookups: 1 })]);
        Self { habits, root, nodes: Mutex::new(nodes), handles: Mutex::default() }
    }

    fn inner(&self, ino: INodeNo) -> u64 {
        if ino == INodeNo::ROOT { self.root } else { ino.0 }
    }

    fn fd(&self, ino: INodeNo) -> Answer<Arc<OwnedFd>> {
        let nodes = self.nodes.lock().unwrap();
        nodes.get(&self.inner(ino)).map(|node| node.fd.clone()).ok_or(Errno::ESTALE)
    }

    fn attributes(&self, fd: &OwnedFd) -> Answer<FileAttr> {
        let stat = rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH).map_err(errno)?;
        let time = |seconds: i64, nanos: u64| UNIX_EPOCH + Duration::new(seconds as u64, nanos as u32);
        let ino = if stat.st_ino == self.root { INodeNo::ROOT } else { INodeNo(stat.st_ino) };
        let changed = time(stat.st_mtime, stat.st_mtime_nsec);
        Ok(FileAttr {
            ino,
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: changed,
            mtime: changed,
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: UNIX_EPOCH,
            kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Looks a name up. From now on the client knows the file.
    fn find(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let fd = rustix::fs::openat(self.fd(parent)?, name, PATH, Mode::empty()).map_err(errno)?;
        let found = self.attributes(&fd)?;
        let mut nodes = self.nodes.lock().unwrap();
        nodes.entry(found.ino.0).or_insert(Node { fd: Arc::new(fd), lookups: 0 }).lookups += 1;
        Ok(found)
    }

    fn keep(&self, handle: Handle) -> FileHandle {
        let (last, handles) = &mut *self.handles.lock().unwrap();
        *last += 1;
        handles.insert(*last, handle);
        FileHandle(*last)
    }

    fn close(&self, handle: FileHandle) {
        self.handles.lock().unwrap().1.remove(&handle.0);
    }

    fn file(&self, handle: FileHandle) -> Answer<Arc<File>> {
        match self.handles.lock().unwrap().1.get(&handle.0) {
            Some(Handle::File(file)) => Ok(file.clone()),
            _ => Err(Errno::EBADF),
        }
    }

    fn entries(&self, ino: INodeNo) -> Answer<Vec<(u64, FileType, OsString)>> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.fd(ino)?, ".", directory, Mode::empty()).map_err(errno)?;
        let read = Dir::read_from(&fd).map_err(errno)?;
        let entries = read.map(|entry| {
            let entry = entry.map_err(errno)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            Ok((entry.ino(), kind(entry.file_type()), name))
        });
        entries.collect()
    }

    /// Opens a known file again, through its name in `/proc`.
    fn open_again(&self, ino: INodeNo, flags: OFlags) -> Answer<File> {
        let path = format!("/proc/self/fd/{}", self.fd(ino)?.as_raw_fd());
        let flags = (flags - OFlags::NOFOLLOW - OFlags::CREATE - OFlags::EXCL) | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(errno)
    }

    fn cached(&self) -> FopenFlags {
        match self.habits.stale_for.is_zero() {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }

    fn reply_entry(&self, found: Answer<FileAttr>, reply: ReplyEntry) {
        match found {
            Ok(found) => reply.entry(&self.habits.stale_for, &found, GENERATION),
            Err(error) => reply.error(error),
        }
    }
}

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn refused(refusal: Option<Refusal>) -> Answer<()> {
    refusal.map_or(Ok(()), |Refusal(errno)| Err(Errno::from_i32(errno)))
}

fn kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

fn reply_empty(done: Answer<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Tree {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Like a client of a network file system, it checks a file's time before it trusts its cache.
        let mut wanted = InitFlags::FUSE_AUTO_INVAL_DATA;
        if self.habits.flock.is_some() {
            wanted |= InitFlags::FUSE_FLOCK_LOCKS;
        }
        config.add_capabilities(wanted).expect("this kernel has them");
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.find(parent, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        let mut nodes = self.nodes.lock().unwrap();
        let ino = self.inner(ino);
        let Some(node) = nodes.get_mut(&ino).filter(|_| ino != self.root) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            nodes.remove(&ino);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.fd(ino).and_then(|fd| self.attributes(&fd)) {
            Ok(found) => reply.attr(&self.habits.stale_for, &found),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let Some(size) = size {
            let resized = self.open_again(ino, OFlags::WRONLY).map(|file| file.set_len(size));
            if !matches!(resized, Ok(Ok(()))) {
                return reply.error(Errno::EIO);
            }
        }
        self.getattr(request, ino, handle, reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let mode = Mode::from_raw_mode(mode & !umask);
        let made = refused(self.habits.make_directory)
            .and_then(|()| self.fd(parent))
            .and_then(|fd| rustix::fs::mkdirat(fd, name, mode).map_err(errno));
        self.reply_entry(made.and_then(|()| self.find(parent, name)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let at = self.fd(parent);
        reply_empty(at.and_then(|fd| rustix::fs::unlinkat(fd, name, AtFlags::empty()).map_err(errno)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let at = self.fd(parent);
        reply_empty(
            at.and_then(|fd| rustix::fs::unlinkat(fd, name, AtFlags::REMOVEDIR).map_err(errno)),
            reply,
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        std::thread::sleep(self.habits.rename_takes);
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let allowed = if flags.is_empty() { Ok(()) } else { refused(self.habits.rename_new) };
        let renamed = allowed.and_then(|()| {
            let (from, to) = (self.fd(parent)?, self.fd(new_parent)?);
            rustix::fs::renameat_with(from, name, to, new_name, flags).map_err(errno)
        });
        reply_empty(renamed, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = refused(self.habits.link).and_then(|()| {
            let path = format!("/proc/self/fd/{}", self.fd(ino)?.as_raw_fd());
            let follow = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(rustix::fs::CWD, path, self.fd(parent)?, name, follow).map_err(errno)
        });
        self.reply_entry(linked.and_then(|()| self.find(parent, name)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_again(ino, OFlags::from_bits_retain(flags.0 as u32)) {
            Ok(file) => reply.opened(self.keep(Handle::File(Arc::new(file))), self.cached()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & !umask);
        let made = self
            .fd(parent)
            .and_then(|fd| rustix::fs::openat(fd, name, flags, mode).map_err(errno))
            .and_then(|fd| Ok((fd, self.find(parent, name)?)));
        match made {
            Ok((fd, found)) => {
                let handle = self.keep(Handle::File(Arc::new(fd.into())));
                reply.created(&self.habits.stale_for, &found, GENERATION, handle, self.cached());
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let read = self.file(handle).and_then(|file| {
            let mut len = 0;
            while len < bytes.len() {
                match file.read_at(&mut bytes[len..], offset + len as u64) {
                    Ok(0) => break,
                    Ok(more) => len += more,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(len)
        });
        match read {
            Ok(len) => reply.data(&bytes[..len]),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.file(handle).and_then(|file| Ok(file.write_all_at(data, offset)?));
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    /// No test cuts the power of this one.
    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.entries(ino) {
            Ok(entries) => {
                let cached = self.cached();
                let flags = if cached.is_empty() { cached } else { cached | FopenFlags::FOPEN_CACHE_DIR };
                reply.opened(self.keep(Handle::Directory(Arc::new(entries))), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        // Read at its beginning, not at the open, which may be long before.
        if offset == 0 {
            let entries = match self.entries(ino) {
                Ok(entries) => entries,
                Err(error) => return reply.error(error),
            };
            self.handles.lock().unwrap().1.insert(handle.0, Handle::Directory(Arc::new(entries)));
        }
        let Some(Handle::Directory(entries)) =
            self.handles.lock().unwrap().1.get(&handle.0).map(|handle| match handle {
                Handle::File(file) => Handle::File(file.clone()),
                Handle::Directory(entries) => Handle::Directory(entries.clone()),
            })
        else {
            return reply.error(Errno::EBADF);
        };
        for (next, (ino, kind, name)) in (1..).zip(entries.iter()).skip(offset as usize) {
            if reply.add(INodeNo(*ino), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.close(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(refused(self.habits.directory_sync), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCKS: u64 = 1 << 30;
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }

    fn setlk(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        _: u64,
        _: u64,
        _: i32,
        _: u32,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(refused(self.habits.flock), reply);
    }
}
