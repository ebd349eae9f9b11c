//! The operations that are more than one call of the folder.

use super::attributes::{self, file_attributes, time_to_live};
use super::errno::{Refused, of_number};
use super::negotiate::MOUNT_BLOCK_BYTES;
use super::shared::Shared;
use bytes::Bytes;
use fuser::{
    Errno, FileHandle, FopenFlags, Generation, OpenAccMode, OpenFlags, RenameFlags, ReplyCreate, ReplyData,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use holdall_core::device::{Piece, ReadLease};
use holdall_core::folder::api::{
    Access, Allocate, Asked, Attributes, FolderError, Handle, OpenMode, Opened, Renaming, Statistics,
};
use holdall_core::folder::{Ino, Place};
use holdall_core::store::remote::Name;
use tokio::runtime;

pub(super) use listing::read_directory;

mod listing;

/// Numbers of a folder's files are never given again.
pub(super) const GENERATION: Generation = Generation(0);

/// A copy between two files goes in such pieces.
const COPY_PIECE_BYTES: u32 = 1 << 20;
/// Of a longer copy the program is told that it was short, and asks for the rest: so that it can be stopped.
const COPY_BYTES_MAX: u64 = 64 << 20;

/// In the number of a request that the kernel sends again.
const RESENT: u64 = 1 << 63;

/// The request that is answered.
pub(super) fn asked(request: &Request) -> Asked {
    let number = u64::from(request.unique());
    Asked { request: number & !RESENT, is_repeated: number & RESENT != 0 }
}

/// What an open asks for.
fn access(shared: &Shared, flags: OpenFlags) -> Access {
    Access {
        writes: flags.acc_mode() != OpenAccMode::O_RDONLY,
        truncates: flags.0 & libc::O_TRUNC != 0,
        may_pass_through: shared.may_pass_through(),
    }
}

/// How an open is answered.
enum Answer {
    Served(FopenFlags),
    PassedThrough(u32),
}

/// Decides nothing: registers the file where the folder passes it through, and tells the folder if that fails.
async fn answer(shared: &Shared, ino: Ino, opened: &Opened) -> Result<Answer, Refused> {
    let how = match &opened.how {
        OpenMode::PassedThrough(file) => {
            match shared.passthrough.open(&shared.device, ino, opened.handle, file).await {
                Ok(id) => {
                    // Before the kernel hears of it: a daemon that takes the mount over has to answer with the same id.
                    shared.folder.is_registered(ino, id);
                    return Ok(Answer::PassedThrough(id));
                }
                Err(error) => tracing::debug!(%error, "a file cannot pass through"),
            }
            shared.folder.serve_instead(opened.handle)?
        }
        how @ OpenMode::Served { .. } => how.clone(),
    };
    match how {
        OpenMode::Served { keeps_cache: true } => Ok(Answer::Served(FopenFlags::FOPEN_KEEP_CACHE)),
        OpenMode::Served { keeps_cache: false } => Ok(Answer::Served(FopenFlags::empty())),
        OpenMode::PassedThrough(_) => Err(FolderError::Invalid("the file cannot pass through").into()),
    }
}

/// open
pub(super) async fn open(shared: &Shared, ino: Ino, flags: OpenFlags, asked: Asked, reply: ReplyOpen) {
    let opened = match shared.folder.open_file(ino, access(shared, flags), asked).await {
        Ok(opened) => opened,
        Err(error) => return reply.error(of_number(error).0),
    };
    let handle = FileHandle(opened.handle.0);
    match answer(shared, ino, &opened).await {
        Ok(Answer::Served(flags)) => reply.opened(handle, flags),
        Ok(Answer::PassedThrough(id)) => {
            // SAFETY: the id is registered with this session until the handle, which the kernel does not have yet, is released.
            let id = unsafe { reply.wrap_backing(id) };
            reply.opened_passthrough(handle, FopenFlags::empty(), &id);
            // It stays registered.
            id.into_raw();
        }
        Err(refused) => reply.error(refused.0),
    }
}

/// create
pub(super) async fn create(
    shared: &Shared,
    place: Place,
    mode: u32,
    flags: OpenFlags,
    asked: Asked,
    reply: ReplyCreate,
) {
    let (access, is_new) = (access(shared, flags), flags.0 & libc::O_EXCL != 0);
    let (attributes, opened) = match shared.folder.create(place, mode, access, is_new, asked).await {
        Ok(created) => created,
        Err(error) => return reply.error(Refused::from(error).0),
    };
    let handle = FileHandle(opened.handle.0);
    let (ttl, shown) = (time_to_live(&attributes), file_attributes(&attributes, shared.owner));
    match answer(shared, attributes.ino, &opened).await {
        Ok(Answer::Served(flags)) => reply.created(&ttl, &shown, GENERATION, handle, flags),
        Ok(Answer::PassedThrough(id)) => {
            // SAFETY: the id is registered with this session until the handle, which the kernel does not have yet, is released.
            let id = unsafe { reply.wrap_backing(id) };
            reply.created_passthrough(&ttl, &shown, GENERATION, handle, FopenFlags::empty(), &id);
            // It stays registered.
            id.into_raw();
        }
        Err(refused) => reply.error(refused.0),
    }
}

/// mknod of a file, which some programs use in place of create.
pub(super) async fn make_file(
    shared: &Shared,
    place: Place,
    mode: u32,
    asked: Asked,
) -> Result<Attributes, Refused> {
    let access = Access { writes: true, truncates: false, may_pass_through: false };
    let (attributes, opened) = shared.folder.create(place, mode, access, true, asked).await?;
    shared.folder.release(opened.handle);
    Ok(attributes)
}

/// release
pub(super) async fn release(shared: &Shared, handle: Handle) {
    // First here: while the folder counts the open, it cannot give the inode another file, for which the old id would be wrong.
    shared.passthrough.release(&shared.device, handle).await;
    shared.folder.release(handle);
}

/// Answers with an entry.
pub(super) fn entry(shared: &Shared, attributes: &Attributes, reply: ReplyEntry) {
    reply.entry(&time_to_live(attributes), &file_attributes(attributes, shared.owner), GENERATION);
}

/// Answers a read. The bytes may have to come from the disk, so a thread that may wait takes them.
pub(super) fn data(lease: ReadLease, reply: ReplyData) {
    let copy = move || match bytes(&lease) {
        Ok(bytes) => reply.data(&bytes),
        Err(refused) => reply.error(refused.0),
    };
    runtime::Handle::current().spawn_blocking(copy);
}

fn bytes(lease: &ReadLease) -> Result<Vec<u8>, Refused> {
    let len: u64 = lease.pieces().iter().map(Piece::len).sum();
    let mut bytes = vec![0; len as usize];
    lease.copy_to(&mut bytes).map_err(|error| FolderError::Local(error.to_string()))?;
    Ok(bytes)
}

/// copy_file_range: returns how many bytes were copied. Fewer than asked for: the source has ended, or the program asks again.
pub(super) async fn copy(
    shared: &Shared,
    (from, mut offset_in): (Handle, u64),
    (to, mut offset_out): (Handle, u64),
    len: u64,
) -> Result<u32, Refused> {
    let mut rest = len.min(COPY_BYTES_MAX);
    let mut copied = 0;
    while rest > 0 {
        let piece = rest.min(COPY_PIECE_BYTES.into()) as u32;
        let step = async {
            let lease = shared.folder.read(from, offset_in, piece).await?;
            let read = tokio::task::spawn_blocking(move || bytes(&lease)).await;
            let bytes = read.map_err(|_| FolderError::Closed)??;
            let len = bytes.len() as u32;
            if len > 0 {
                shared.folder.write(to, offset_out, Bytes::from(bytes)).await?;
            }
            Ok::<_, Refused>(len)
        };
        let len = match step.await {
            Ok(len) => len,
            // What was copied before counts; the program meets the error when it asks for the rest.
            Err(_) if copied > 0 => break,
            Err(refused) => return Err(refused),
        };
        copied += len;
        offset_in += u64::from(len);
        offset_out += u64::from(len);
        rest -= u64::from(len);
        if len < piece {
            break;
        }
    }
    Ok(copied)
}

/// What `fallocate` is asked for, by its flags.
pub(super) fn allocation(mode: i32) -> Result<Allocate, Refused> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP: i32 = ZERO | KEEP;
    match mode {
        0 => Ok(Allocate::Extend),
        KEEP => Ok(Allocate::KeepLen),
        PUNCH => Ok(Allocate::Punch),
        ZERO => Ok(Allocate::Zero),
        ZERO_KEEP => Ok(Allocate::ZeroKeepLen),
        _ => Err(Refused(Errno::EOPNOTSUPP)),
    }
}

/// What `renameat2` is asked for, by its flags.
pub(super) fn renaming(flags: RenameFlags) -> Result<Renaming, Refused> {
    if flags.is_empty() {
        Ok(Renaming::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(Renaming::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(Renaming::Exchange)
    } else {
        Err(Refused(Errno::EINVAL))
    }
}

/// Whether an attribute that is set must be there before, by the flags.
pub(super) fn existence(flags: i32) -> Result<Option<bool>, Refused> {
    match flags {
        0 => Ok(None),
        libc::XATTR_CREATE => Ok(Some(false)),
        libc::XATTR_REPLACE => Ok(Some(true)),
        _ => Err(Refused(Errno::EINVAL)),
    }
}

/// Answers with a value, or with its size where the program asks for that.
pub(super) fn sized(value: &[u8], size: u32, reply: ReplyXattr) {
    match size {
        0 => reply.size(value.len() as u32),
        size if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

/// statfs
pub(super) fn statistics(Statistics { total, free, files }: &Statistics, reply: ReplyStatfs) {
    let block = u64::from(MOUNT_BLOCK_BYTES);
    let (blocks, free_blocks) = (total / block, free / block);
    let free_files = u64::from(u32::MAX).saturating_sub(*files);
    let names = Name::BYTES_MAX as u32;
    reply.statfs(
        blocks,
        free_blocks,
        free_blocks,
        u64::from(u32::MAX),
        free_files,
        MOUNT_BLOCK_BYTES,
        names,
        MOUNT_BLOCK_BYTES,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_are_not_known_are_refused() {
        assert_eq!(allocation(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE), Ok(Allocate::Punch));
        assert_eq!(allocation(0), Ok(Allocate::Extend));
        // Punching without keeping the length, and collapsing, would move bytes.
        for mode in [libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_COLLAPSE_RANGE] {
            assert_eq!(allocation(mode), Err(Refused(Errno::EOPNOTSUPP)));
        }
        assert_eq!(renaming(RenameFlags::RENAME_EXCHANGE), Ok(Renaming::Exchange));
        assert_eq!(renaming(RenameFlags::RENAME_WHITEOUT), Err(Refused(Errno::EINVAL)));
        let both = RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_NOREPLACE;
        assert_eq!(renaming(both), Err(Refused(Errno::EINVAL)));
        assert_eq!(existence(libc::XATTR_REPLACE), Ok(Some(true)));
        assert_eq!(existence(-1), Err(Refused(Errno::EINVAL)));
    }
}
