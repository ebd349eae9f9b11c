//! A keeper is a process that only holds descriptors of mounted disks. A daemon that is killed with -9 can then be followed by another one,
//! and the mount never notices. Where systemd runs the daemon, its descriptor store is the keeper; this one is for everywhere else.
//!
//! A request is one byte, a mount point's length and the mount point. `P`ut is followed by a handover, and `T`ake is answered by one.
//! `W`atch is followed by other bytes instead of a mount point, and its connection stays open; the keeping process and the daemon that
//! serves decide what they send on it.
//!
//! If a keeper is killed while a daemon serves, nothing changes: the daemon has its own descriptor. If it is killed while no daemon serves,
//! the last descriptor closes, the kernel ends the connection, and waiting programs get errors: this is also the way out if no daemon comes
//! back.

use crate::handover::Handover;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most disks of one keeper: far more than a person attaches, far fewer than the descriptors a process may have.
const DISKS_LIMIT: usize = 64;

/// A silent peer holds up the others, so it gets only this long.
const PEER_PATIENCE: Duration = Duration::from_secs(5);

/// The keeper serves one peer after the other, so a caller waits longer than several silent peers take. The disk is safe meanwhile.
const KEEPER_PATIENCE: Duration = Duration::from_secs(30);

const PUT: u8 = b'P';
const TAKE: u8 = b'T';
const FORGET: u8 = b'F';
const WATCH: u8 = b'W';
const DONE: u8 = b'+';
const REFUSED: u8 = b'-';

/// Keeps what it is given, until the listener fails. Anyone who can connect can take a disk, so the socket belongs in a directory that only
/// its user can enter.
pub fn keep(listener: &UnixListener) -> io::Result<()> {
    let mut kept = Kept::default();
    loop {
        let (peer, _) = listener.accept()?;
        kept.serve(peer);
    }
}

/// The handovers that a keeper holds.
#[derive(Default)]
pub struct Kept(BTreeMap<PathBuf, Handover>);

/// A daemon that wants to be watched.
#[derive(Debug)]
pub struct Watched {
    /// Closed by the kernel when the daemon dies.
    pub connection: UnixStream,
    /// The bytes of its request.
    pub said: Vec<u8>,
}

impl Kept {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes everything: programs that wait for a daemon get errors, unless a daemon has its own descriptor.
    pub fn let_go(&mut self) {
        self.0.clear();
    }

    /// Answers one request. Returns the daemon if it wants to be watched.
    pub fn serve(&mut self, peer: UnixStream) -> Option<Watched> {
        serve(peer, &mut self.0).unwrap_or_else(|error| {
            tracing::warn!(%error, "a request to the keeper failed");
            None
        })
    }
}

/// Makes the keeper watch this process, and sends it `what`.
pub fn watch(keeper: &Path, what: &[u8]) -> io::Result<UnixStream> {
    let peer = ask(keeper, WATCH, what)?;
    match acknowledged(&peer)? {
        true => Ok(peer),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Gives a copy of `handover` to the keeper, in place of an earlier one for the same mount point.
pub fn put(keeper: &Path, handover: &Handover) -> io::Result<()> {
    let peer = ask(keeper, PUT, handover.parameters.mountpoint.as_os_str().as_bytes())?;
    handover.send(&peer)?;
    acknowledged(&peer)?.then_some(()).ok_or_else(|| io::Error::other("the keeper is full"))
}

/// A copy of the handover that the keeper has for `mountpoint`.
pub fn take(keeper: &Path, mountpoint: &Path) -> io::Result<Option<Handover>> {
    let peer = ask(keeper, TAKE, mountpoint.as_os_str().as_bytes())?;
    if !acknowledged(&peer)? {
        return Ok(None);
    }
    Handover::receive(&peer).map(Some)
}

/// Makes the keeper close its copy, after the disk was unmounted.
pub fn forget(keeper: &Path, mountpoint: &Path) -> io::Result<()> {
    acknowledged(&ask(keeper, FORGET, mountpoint.as_os_str().as_bytes())?).map(drop)
}

fn serve(peer: UnixStream, kept: &mut BTreeMap<PathBuf, Handover>) -> io::Result<Option<Watched>> {
    peer.set_read_timeout(Some(PEER_PATIENCE))?;
    peer.set_write_timeout(Some(PEER_PATIENCE))?;
    let mut stream = &peer;
    let mut head = [0; 3];
    stream.read_exact(&mut head)?;
    let mut said = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    stream.read_exact(&mut said)?;
    if head[0] == WATCH {
        stream.write_all(&[DONE])?;
        return Ok(Some(Watched { connection: peer, said }));
    }
    let mountpoint = PathBuf::from(<std::ffi::OsStr as OsStrExt>::from_bytes(&said));
    match head[0] {
        PUT => {
            let handover = Handover::receive(&peer)?;
            let room = kept.len() < DISKS_LIMIT || kept.contains_key(&mountpoint);
            if room {
                kept.insert(mountpoint, handover);
            }
            stream.write_all(&[if room { DONE } else { REFUSED }])
        }
        TAKE => match kept.get(&mountpoint) {
            Some(handover) => {
                stream.write_all(&[DONE])?;
                handover.send(&peer)
            }
            None => stream.write_all(&[REFUSED]),
        },
        FORGET => {
            kept.remove(&mountpoint);
            stream.write_all(&[DONE])
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }?;
    Ok(None)
}

fn ask(keeper: &Path, what: u8, about: &[u8]) -> io::Result<UnixStream> {
    let length = u16::try_from(about.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut peer = UnixStream::connect(keeper)?;
    peer.set_read_timeout(Some(KEEPER_PATIENCE))?;
    peer.set_write_timeout(Some(KEEPER_PATIENCE))?;
    peer.write_all(&[what])?;
    peer.write_all(&length.to_le_bytes())?;
    peer.write_all(about)?;
    Ok(peer)
}

fn acknowledged(mut peer: &UnixStream) -> io::Result<bool> {
    let mut answer = [0];
    peer.read_exact(&mut answer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it has ended"),
        _ => error,
    })?;
    Ok(answer[0] == DONE)
}
