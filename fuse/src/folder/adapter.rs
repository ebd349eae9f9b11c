//! fuser's operations, each one call of the folder.
//!
//! fuser calls them on the threads that read /dev/fuse, so nothing waits here: each takes what it needs from the request, and a task on the
//! runtime answers. Where the runtime has ended, the task is dropped, and fuser answers with EIO.

use super::attributes::{changes, file_attributes, mode_to_set, time_to_live};
use super::errno::{Refused, of_number};
use super::names::{attribute, ino, place, target};
use super::negotiate;
use super::ops;
use super::replies::Refusable;
use super::shared::Shared;
use bytes::Bytes;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use holdall_core::folder::api::{Changes, Handle, Seek};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A folder as a FUSE file system.
pub(super) struct Adapter {
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
}

impl Adapter {
    pub fn new(shared: Arc<Shared>, runtime: tokio::runtime::Handle) -> Self {
        Self { shared, runtime }
    }

    /// Does `work` in a task, and answers with what comes of it.
    fn answer<R, T, W>(
        &self,
        reply: R,
        work: impl FnOnce(Arc<Shared>) -> W,
        give: impl FnOnce(&Shared, T, R) + Send + 'static,
    ) where
        R: Refusable,
        W: Future<Output = Result<T, Refused>> + Send + 'static,
    {
        let (shared, work) = (self.shared.clone(), work(self.shared.clone()));
        self.runtime.spawn(async move {
            match work.await {
                Ok(done) => give(&shared, done, reply),
                Err(Refused(errno)) => reply.refuse(errno),
            }
        });
    }

    /// The same, where there is nothing to say but that it is done.
    fn confirm<W>(&self, reply: ReplyEmpty, work: impl FnOnce(Arc<Shared>) -> W)
    where
        W: Future<Output = Result<(), Refused>> + Send + 'static,
    {
        self.answer(reply, work, |_, (), reply: ReplyEmpty| reply.ok());
    }
}

impl fuser::Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = self.shared.agreed.set(negotiate::agree(config));
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let place = place(parent, name);
        let work = |shared: Arc<Shared>| async move {
            let place = place?;
            Ok(shared.folder.look_up(place.parent, &place.name).await?)
        };
        self.answer(reply, work, |shared, found, reply| ops::entry(shared, &found, reply));
    }

    // Numbers stay with their files for as long as the folder is known, so there is nothing to forget.
    fn forget(&self, _: &Request, _: INodeNo, _: u64) {}

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let work = |shared: Arc<Shared>| async move {
            shared.folder.attributes(ino(number)?).await.map_err(of_number)
        };
        self.answer(reply, work, |shared, found, reply: ReplyAttr| {
            reply.attr(&time_to_live(&found), &file_attributes(&found, shared.owner));
        });
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if !self.shared.owner.stays(uid, gid) {
            return reply.error(Errno::EPERM);
        }
        let changes = changes(size, mode, mtime);
        let work = move |shared: Arc<Shared>| async move {
            let ino = ino(number)?;
            Ok(match changes == Changes::default() {
                true => shared.folder.attributes(ino).await.map_err(of_number)?,
                false => shared.folder.set_attributes(ino, changes).await.map_err(of_number)?,
            })
        };
        self.answer(reply, work, |shared, found, reply: ReplyAttr| {
            reply.attr(&time_to_live(&found), &file_attributes(&found, shared.owner));
        });
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let work = |shared: Arc<Shared>| async move {
            shared.folder.read_link(ino(number)?).await.map_err(of_number)
        };
        self.answer(reply, work, |_, target, reply: ReplyData| reply.data(target.as_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        // Pipes, sockets and devices are nothing that a remote could keep.
        if mode & libc::S_IFMT != libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        let (place, asked) = (place(parent, name), ops::asked(request));
        let work = move |shared: Arc<Shared>| async move {
            ops::make_file(&shared, place?, mode_to_set(mode), asked).await
        };
        self.answer(reply, work, |shared, made, reply| ops::entry(shared, &made, reply));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let (place, mode) = (place(parent, name), mode_to_set(mode | libc::S_IFDIR));
        let asked = ops::asked(request);
        let work = move |shared: Arc<Shared>| async move {
            Ok(shared.folder.make_directory(place?, mode, asked).await?)
        };
        self.answer(reply, work, |shared, made, reply| ops::entry(shared, &made, reply));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (place, asked) = (place(parent, name), ops::asked(request));
        self.confirm(reply, move |shared| async move { Ok(shared.folder.unlink(place?, asked).await?) });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (place, asked) = (place(parent, name), ops::asked(request));
        self.confirm(
            reply,
            move |shared| async move { Ok(shared.folder.remove_directory(place?, asked).await?) },
        );
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let (place, target, asked) = (place(parent, name), target(to), ops::asked(request));
        let work = move |shared: Arc<Shared>| async move {
            Ok(shared.folder.make_link(place?, &target?, asked).await?)
        };
        self.answer(reply, work, |shared, made, reply| ops::entry(shared, &made, reply));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to, how) = (place(parent, name), place(new_parent, new_name), ops::renaming(flags));
        let asked = ops::asked(request);
        self.confirm(
            reply,
            move |shared| async move { Ok(shared.folder.rename(from?, to?, how?, asked).await?) },
        );
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        // No remote can give a file two names.
        reply.error(Errno::EPERM);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (shared, asked) = (self.shared.clone(), ops::asked(request));
        self.runtime.spawn(async move {
            match ino(number) {
                Ok(ino) => ops::open(&shared, ino, flags, asked, reply).await,
                Err(error) => reply.error(Refused::from(error).0),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (shared, place, mode) = (self.shared.clone(), place(parent, name), mode_to_set(mode));
        let asked = ops::asked(request);
        self.runtime.spawn(async move {
            match place {
                Ok(place) => ops::create(&shared, place, mode, OpenFlags(flags), asked, reply).await,
                Err(error) => reply.error(Refused::from(error).0),
            }
        });
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
        self.shared.counters.count_read();
        let work = move |shared: Arc<Shared>| async move {
            Ok(shared.folder.read(Handle(handle.0), offset, size).await?)
        };
        self.answer(reply, work, |_, lease, reply| ops::data(lease, reply));
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
        self.shared.counters.count_write();
        // The request's buffer is needed for the next request.
        let (data, written) = (Bytes::copy_from_slice(data), data.len() as u32);
        let work = move |shared: Arc<Shared>| async move {
            Ok(shared.folder.write(Handle(handle.0), offset, data).await?)
        };
        self.answer(reply, work, move |_, (), reply: ReplyWrite| reply.written(written));
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.confirm(reply, move |shared| async move { Ok(shared.folder.flush(Handle(handle.0)).await?) });
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
        self.confirm(reply, move |shared| async move {
            ops::release(&shared, Handle(handle.0)).await;
            Ok(())
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.confirm(
            reply,
            move |shared| async move { Ok(shared.folder.sync_file(Handle(handle.0)).await?) },
        );
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // A listing continues by its offset alone.
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, reply: ReplyDirectory) {
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            let mut reply = reply;
            match ops::read_directory(&shared, number, offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(refused) => reply.error(refused.0),
            }
        });
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            let mut reply = reply;
            match ops::read_directory(&shared, number, offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(refused) => reply.error(refused.0),
            }
        });
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.confirm(
            reply,
            move |shared| async move { Ok(shared.folder.sync_directory(ino(number)?).await?) },
        );
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let work = |shared: Arc<Shared>| async move { Ok(shared.folder.statistics().await) };
        self.answer(reply, work, |_, statistics, reply| ops::statistics(&statistics, reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let Some(name) = attribute(name) else { return reply.error(Errno::EOPNOTSUPP) };
        let (value, exists, asked) = (value.to_vec(), ops::existence(flags), ops::asked(request));
        self.confirm(reply, move |shared| async move {
            shared.folder.set_xattr(ino(number)?, &name, &value, exists?, asked).await.map_err(of_number)
        });
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        // ls and cp ask for several of the system's attributes of each file: none costs a call.
        let Some(name) = attribute(name) else { return reply.error(Errno::NO_XATTR) };
        let work = |shared: Arc<Shared>| async move {
            shared.folder.xattr(ino(number)?, &name).await.map_err(of_number)
        };
        self.answer(reply, work, move |_, value, reply| ops::sized(&value, size, reply));
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let work =
            |shared: Arc<Shared>| async move { shared.folder.xattrs(ino(number)?).await.map_err(of_number) };
        self.answer(reply, work, move |_, names: Vec<String>, reply| {
            let names: String = names.iter().flat_map(|name| [name, "\0"]).collect();
            ops::sized(names.as_bytes(), size, reply);
        });
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let Some(name) = attribute(name) else { return reply.error(Errno::NO_XATTR) };
        let asked = ops::asked(request);
        self.confirm(reply, move |shared| async move {
            shared.folder.remove_xattr(ino(number)?, &name, asked).await.map_err(of_number)
        });
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        // The kernel has compared the permission bits (`default_permissions`).
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let how = ops::allocation(mode);
        self.confirm(reply, move |shared| async move {
            Ok(shared.folder.allocate(Handle(handle.0), how?, offset, len).await?)
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let work = move |shared: Arc<Shared>| async move {
            let what = match whence {
                libc::SEEK_DATA => Seek::Data,
                libc::SEEK_HOLE => Seek::Hole,
                // The kernel does the others by itself.
                _ => return Err(Refused(Errno::EINVAL)),
            };
            let offset = u64::try_from(offset).map_err(|_| Refused(Errno::ENXIO))?;
            let found = shared.folder.seek(Handle(handle.0), offset, what).await?;
            found.and_then(|found| i64::try_from(found).ok()).ok_or(Refused(Errno::ENXIO))
        };
        self.answer(reply, work, |_, found, reply: ReplyLseek| reply.offset(found));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        offset_in: u64,
        _: INodeNo,
        to: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((Handle(from.0), offset_in), (Handle(to.0), offset_out));
        let work = move |shared: Arc<Shared>| async move { ops::copy(&shared, from, to, len).await };
        self.answer(reply, work, |_, copied, reply: ReplyWrite| reply.written(copied));
    }
}
