//! fuser's session: begun on a new connection, or on one whose first exchange is over.
//!
//! A library waits for the kernel's INIT, which comes once in a connection's life. So a session that takes a connection over begins on a
//! socket, in which an INIT waits that offers what was agreed then. Once the session has answered it, /dev/fuse takes the socket's place
//! under the same number. Nothing else has used the number meanwhile: the session has started no thread yet.

use super::adapter::Adapter;
use super::negotiate::Agreed;
use super::shared::Shared;
use crate::wire::reply;
use fuser::{Session, SessionACL};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Threads that take requests: one takes the next while another copies a write's bytes. More would only take turns at the one queue.
const THREADS: usize = 2;

/// A session on a connection that was just mounted.
pub(super) fn begin(fd: OwnedFd, shared: &Arc<Shared>, runtime: &Handle) -> io::Result<Session<Adapter>> {
    shared.device.set(fd.try_clone()?);
    open(fd, shared, runtime)
}

/// A session on a connection that another process has served. What that one took and did not answer is sent again, to us.
pub(super) fn resume(
    fd: OwnedFd,
    agreed: &Agreed,
    shared: &Arc<Shared>,
    runtime: &Handle,
) -> io::Result<Session<Adapter>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.write_all(&agreed.init_request())?;
    let session = open(theirs.into(), shared, runtime)?;
    // SAFETY: both are open, and what the session's number stood for is not needed any more.
    let number = unsafe { libc::dup3(fd.as_raw_fd(), session.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // Before the first reader starts, so that all readers take the repeated requests.
    rustix::io::write(&fd, &reply::resend())?;
    shared.device.set(fd);
    Ok(session)
}

fn open(fd: OwnedFd, shared: &Arc<Shared>, runtime: &Handle) -> io::Result<Session<Adapter>> {
    let mut config = fuser::Config::default();
    config.n_threads = Some(THREADS);
    // The kernel ends a clone's requests when a killed process's clones are closed, see `onefile`.
    config.clone_fd = false;
    let adapter = Adapter::new(shared.clone(), runtime.clone());
    // Who may use it is the kernel's decision, by the mount's options.
    Session::from_fd(adapter, fd, SessionACL::All, config)
}
