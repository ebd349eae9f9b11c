//! A watched directory on the local file system.
//!
//! Programs work in it at the same time, and it may hold hostile links, so no path is resolved by its text: the kernel resolves each one beneath
//! the root, through no link and into no other file system (openat2). The order of each step is argued at its place:
//! * a download is durable before it gets its name (`download`);
//! * a file that is replaced or removed goes by way of a temporary name, and comes back if it is not the one that was meant (`replace`);
//! * a program that opens the old file for writing breaks the lease on it, and the exchange is taken back.

use super::row::{Digest, PART_BYTES, Print};
use super::tree::{Download, Here, Incoming, Scan, Stable, Tree, TreeError};
use super::{MARKER, TEMPORARY_PREFIX};
use crate::disk::real::lease;
use crate::store::remote::{Kind, ReadAt, RemotePath, Time};
use async_trait::async_trait;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

mod download;
mod ignored;
mod replace;
mod scan;

/// Files up to this length are read into memory, so that nothing can change while they are uploaded.
const IN_MEMORY_MAX: u64 = 4 << 20;
/// Threads that digest one file: more than two seldom read faster.
const THREADS: usize = 2;

/// A local directory with its marker.
pub struct LocalTree {
    place: Arc<Place>,
    has_tidied: AtomicBool,
}

/// Where it is.
struct Place {
    root: PathBuf,
    uuid: Uuid,
}

impl LocalTree {
    /// The directory at `root`, which [`mark`] has marked.
    pub fn new(root: &Path, uuid: Uuid) -> Self {
        let place = Arc::new(Place { root: root.to_owned(), uuid });
        Self { place, has_tidied: AtomicBool::new(false) }
    }
}

/// Marks a directory. One that has the mark of another watched directory is refused.
pub fn mark(root: &Path, uuid: Uuid) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let path = root.join(MARKER);
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path) {
        Ok(mut file) => {
            file.write_all(format!("{uuid}\n").as_bytes())?;
            file.sync_all()?;
            File::open(root)?.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match marked(root)? {
            found if found == uuid => Ok(()),
            found => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} names another watched directory, {found}", path.display()),
            )),
        },
        Err(error) => Err(error),
    }
}

/// The mark of a directory.
pub fn marked(root: &Path) -> io::Result<Uuid> {
    /// A longer file is no marker.
    const BYTES_MAX: usize = 64;
    let path = root.join(MARKER);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
    let mut bytes = [0; BYTES_MAX];
    let len = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..len]).unwrap_or_default();
    Uuid::try_parse(text.trim()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} does not name a directory", path.display()))
    })
}

/// Takes the mark away, if it is this directory's.
pub fn unmark(root: &Path, uuid: Uuid) -> io::Result<()> {
    match marked(root) {
        Ok(found) if found == uuid => std::fs::remove_file(root.join(MARKER)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Place {
    /// The root, which is there and marked.
    fn root(&self) -> Result<OwnedFd, TreeError> {
        let no_root = |why: String| {
            let root = self.root.display();
            TreeError::NoRoot(format!("{root} {why}, so nothing is uploaded and nothing is deleted"))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = rustix::fs::open(&self.root, flags, Mode::empty())
            .map_err(|error| no_root(format!("cannot be opened ({error})")))?;
        match marked(&self.root) {
            Ok(found) if found == self.uuid => Ok(root),
            Ok(_) => {
                Err(no_root(format!("is another directory than was watched: its {MARKER} is another one")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(no_root(format!("has no {MARKER}: it may be another directory, or its disk is away")))
            }
            Err(error) => Err(no_root(format!("cannot be recognized ({error})"))),
        }
    }

    /// The directory that a path lies in, and its name there.
    fn parent(&self, path: &RemotePath) -> Result<(OwnedFd, String), TreeError> {
        let (above, name) = path.split().ok_or_else(|| TreeError::Failed("the root has no name".into()))?;
        let directory = directory(&self.root()?, &above)?;
        Ok((directory, name.to_string()))
    }
}

fn resolution() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV
}

/// Opens a directory beneath the root.
fn directory(root: &OwnedFd, path: &RemotePath) -> Result<OwnedFd, TreeError> {
    let text = if path.is_root() { "." } else { path.as_str() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(beneath(root, text, flags)?)
}

fn beneath(at: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    /// Tries of a resolution that a rename disturbs (EAGAIN, openat2(2)).
    const TRIES: usize = 64;
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(at, path, flags, Mode::empty(), resolution()) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
            opened => return opened,
        }
    }
}

/// Opens a file in a directory to read it, never through a link, and never waiting for a pipe.
fn open_file(directory: &OwnedFd, name: &str) -> Result<File, TreeError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = beneath(directory, name, flags)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        _ => Err(TreeError::Changed),
    }
}

impl From<Errno> for TreeError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => TreeError::NoSpace,
            Errno::NOENT | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR => TreeError::Changed,
            Errno::NOTEMPTY => TreeError::NotEmpty,
            Errno::LOOP | Errno::XDEV => TreeError::Failed(
                "a part of its path is a link or another file system, which is not followed".into(),
            ),
            error => TreeError::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for TreeError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Errno::from_raw_os_error(code).into(),
            None => TreeError::Failed(error.to_string()),
        }
    }
}

fn time(seconds: i64, nanos: u64) -> Time {
    Time(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ between processors")]
fn print_of(stat: &Stat) -> Print {
    Print {
        len: if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            0
        } else {
            stat.st_size as u64
        },
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        ino: stat.st_ino as u64,
    }
}

/// How a file looks. `None`: it is of a kind that cannot be synchronized.
fn here_of(directory: &OwnedFd, name: &str, stat: &Stat) -> Result<Option<Here>, Errno> {
    let (kind, link) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => (Kind::File, None),
        FileType::Directory => (Kind::Directory, None),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
            let Ok(target) = target.into_string() else { return Ok(None) };
            (Kind::Link, Some(target))
        }
        _ => return Ok(None),
    };
    Ok(Some(Here { kind, print: print_of(stat), mode: stat.st_mode & 0o7777, link }))
}

/// How a file looks now.
fn look(directory: &OwnedFd, name: &str) -> Result<Here, TreeError> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    here_of(directory, name, &stat)?.ok_or(TreeError::Changed)
}

/// Whether a file is the one that was meant, although it was renamed meanwhile, which changes its ctime.
fn is_same_file(now: &Print, before: &Print) -> bool {
    (now.ino, now.len, now.mtime) == (before.ino, before.len, before.mtime)
}

/// Whether a program can write to a file. Where the file system has no leases, only the time since its last write tells.
fn check_rests(file: &File) -> Result<(), TreeError> {
    match lease::take(file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(TreeError::InUse),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A name that nothing has.
fn temporary() -> String {
    format!("{TEMPORARY_PREFIX}{:032x}", crate::entropy::u128())
}

fn rename_over_nothing(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> Result<(), TreeError> {
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(TreeError::Changed),
        renamed => Ok(renamed?),
    }
}

struct InMemory(Vec<u8>);

impl ReadAt for InMemory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let bytes = self.0.get(start..start + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// A large file is read where it is. It was quiet for a while, so any later write gives it another time, and each read looks for that.
struct InPlace {
    file: File,
    print: Print,
}

impl ReadAt for InPlace {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)?;
        match print_of(&rustix::fs::fstat(&self.file)?) == self.print {
            true => Ok(()),
            false => Err(io::Error::other("the file is being changed")),
        }
    }
}

impl Place {
    fn read(&self, path: &RemotePath, print: Print) -> Result<Stable, TreeError> {
        let (directory, name) = self.parent(path)?;
        let file = open_file(&directory, &name)?;
        let is_same = |file: &File| Ok::<_, TreeError>(print_of(&rustix::fs::fstat(file)?) == print);
        if !is_same(&file)? {
            return Err(TreeError::Changed);
        }
        // The lease ends with its own descriptor: a program that comes to write must not wait for the upload.
        check_rests(&open_file(&directory, &name)?)?;
        let (content, parts): (Arc<dyn ReadAt>, _) = if print.len <= IN_MEMORY_MAX {
            let mut bytes = vec![0; print.len as usize];
            file.read_exact_at(&mut bytes, 0)?;
            let parts =
                bytes.chunks(PART_BYTES as usize).map(|part| *blake3::hash(part).as_bytes()).collect();
            if !is_same(&file)? {
                return Err(TreeError::Changed);
            }
            (Arc::new(InMemory(bytes)), parts)
        } else {
            let parts = digest(&file, print.len)?;
            if !is_same(&file)? {
                return Err(TreeError::Changed);
            }
            (Arc::new(InPlace { file, print }), parts)
        };
        Ok(Stable { content, print, digest: Digest::of_parts(&parts), parts: Arc::new(parts) })
    }
}

/// Digests a file's parts, several at a time.
fn digest(file: &File, len: u64) -> io::Result<Vec<[u8; 32]>> {
    let mut parts = vec![[0; 32]; len.div_ceil(PART_BYTES) as usize];
    let share = parts.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        let work = |(at, parts): (usize, &mut [[u8; 32]])| {
            let first = at * share;
            let parts = parts.iter_mut().enumerate();
            let mut bytes = vec![0; PART_BYTES as usize];
            for (nth, part) in parts {
                let offset = (first + nth) as u64 * PART_BYTES;
                let bytes = &mut bytes[..PART_BYTES.min(len - offset) as usize];
                file.read_exact_at(bytes, offset)?;
                *part = *blake3::hash(bytes).as_bytes();
            }
            Ok::<_, io::Error>(())
        };
        let threads: Vec<_> =
            parts.chunks_mut(share).enumerate().map(|share| scope.spawn(move || work(share))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that digests a file has ended")))
        })
    })?;
    Ok(parts)
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TreeError> + Send + 'static,
) -> Result<T, TreeError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(TreeError::Failed(error.to_string())))
}

#[async_trait]
impl Tree for LocalTree {
    fn now_ms(&self) -> u64 {
        crate::clock::now_ms()
    }

    async fn scan(&self) -> Result<Scan, TreeError> {
        let (place, tidies) = (self.place.clone(), !self.has_tidied.swap(true, Ordering::SeqCst));
        off_the_runtime(move || scan::scan(&place.root()?, tidies)).await
    }

    async fn read(&self, path: &RemotePath, print: Print) -> Result<Stable, TreeError> {
        let (place, path) = (self.place.clone(), path.clone());
        off_the_runtime(move || place.read(&path, print)).await
    }

    async fn download(&self, incoming: Incoming<'_>) -> Result<Box<dyn Download>, TreeError> {
        let place = self.place.clone();
        let wanted = download::Wanted::of(&incoming);
        let begun = off_the_runtime(move || download::begin(&place, wanted)).await?;
        Ok(Box::new(begun))
    }

    async fn make_directory(&self, path: &RemotePath) -> Result<(), TreeError> {
        let (place, path) = (self.place.clone(), path.clone());
        off_the_runtime(move || {
            let (directory, name) = place.parent(&path)?;
            match rustix::fs::mkdirat(&directory, &*name, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) if look(&directory, &name)?.kind == Kind::Directory => {}
                made => made?,
            }
            Ok(rustix::fs::fsync(&directory)?)
        })
        .await
    }

    async fn remove(&self, path: &RemotePath, print: Print) -> Result<(), TreeError> {
        let (place, path) = (self.place.clone(), path.clone());
        off_the_runtime(move || {
            let (directory, name) = place.parent(&path)?;
            replace::remove(&directory, &name, &print)
        })
        .await
    }

    async fn remove_directory(&self, path: &RemotePath) -> Result<(), TreeError> {
        let (place, path) = (self.place.clone(), path.clone());
        off_the_runtime(move || {
            let (directory, name) = place.parent(&path)?;
            match rustix::fs::unlinkat(&directory, &*name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Err(TreeError::NotEmpty),
                removed => removed?,
            }
            Ok(rustix::fs::fsync(&directory)?)
        })
        .await
    }

    async fn rename(&self, from: &RemotePath, to: &RemotePath) -> Result<(), TreeError> {
        let (place, from, to) = (self.place.clone(), from.clone(), to.clone());
        off_the_runtime(move || {
            let ((old, name), (new, new_name)) = (place.parent(&from)?, place.parent(&to)?);
            rename_over_nothing((&old, &name), (&new, &new_name))?;
            // The new name first: a cut in between leaves both, or the old one.
            rustix::fs::fsync(&new)?;
            Ok(rustix::fs::fsync(&old)?)
        })
        .await
    }
}
