//! The helper's one method.

use super::callers::{Callers, Share};
use super::permission::{self, Action};
use crate::helper::NAME;
use crate::{Privileged, SUBCOMMAND};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use tokio::process::{Child, Command};
use zbus::message::{Flags, Header};
use zbus::names::BusName;
use zbus::{Connection, zvariant};

/// The longest text of an operation: two paths of the greatest length, written as JSON. It fits into a socket's buffer, so that handing it
/// over does not wait.
const OPERATION_BYTES_MAX: usize = 32 << 10;

/// The most descriptors an operation may bring: an nbd device's sockets.
const FDS_MAX: usize = holdall_kernel::nbd::SOCKETS_MAX;

/// The longest deadline of an operation: a check of a large file system.
const DEADLINE_MS_MAX: u64 = 12 * 3600 * 1000;

/// Serves [`NAME`].
pub(super) struct Perform {
    callers: Callers,
}

/// Why nothing was begun.
#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.holdall.Helper1.Error")]
pub(super) enum PerformError {
    /// The bus or polkit did not answer.
    #[zbus(error)]
    ZBus(zbus::Error),
    /// polkit says no.
    NotAuthorized(String),
    /// This version knows no such operation.
    NotUnderstood(String),
    /// The user has too many operations under way.
    TooMany(String),
    /// No process could be started for it.
    NotStarted(String),
}

impl Perform {
    pub(super) fn new(callers: Callers) -> Self {
        Perform { callers }
    }
}

#[zbus::interface(name = "org.holdall.Helper1")]
impl Perform {
    /// Begins an operation: see [`crate::helper`].
    async fn perform(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
        operation: String,
        descriptors: Vec<zvariant::OwnedFd>,
        deadline_ms: u64,
    ) -> Result<(zvariant::OwnedFd, zvariant::OwnedFd), PerformError> {
        let not_understood = |said: &str| PerformError::NotUnderstood(said.to_owned());
        let sender = header.sender().ok_or_else(|| not_understood("the message has no sender"))?;
        if operation.len() > OPERATION_BYTES_MAX || descriptors.len() > FDS_MAX {
            return Err(not_understood("the message is too large"));
        }
        let operation: Privileged = serde_json::from_str(&operation).map_err(|error| {
            not_understood(&format!("this version of the helper does not know the operation: {error}"))
        })?;
        // The uid comes from the bus, never from the message.
        let bus = zbus::fdo::DBusProxy::new(connection).await?;
        let uid =
            bus.get_connection_unix_user(BusName::from(sender.clone())).await.map_err(zbus::Error::from)?;
        let too_many = || PerformError::TooMany(format!("too many operations of user {uid} are running"));
        let share = self.callers.enter(uid).ok_or_else(too_many)?;

        let action = Action::of(&operation);
        let may_ask = header.primary().flags().contains(Flags::AllowInteractiveAuth);
        let allowed = permission::is_allowed(connection, sender.as_str(), action, may_ask).await;
        match permission::decide(action, allowed) {
            Ok(true) => {}
            Ok(false) => return Err(PerformError::NotAuthorized(refusal(action, uid))),
            Err(error) => {
                return Err(PerformError::NotStarted(format!("polkit could not be asked: {error}")));
            }
        }
        let descriptors: Vec<OwnedFd> = descriptors.into_iter().map(OwnedFd::from).collect();
        let begun = begin(operation, uid, &descriptors, deadline_ms.min(DEADLINE_MS_MAX), share);
        let (socket, process) = begun.map_err(|error| PerformError::NotStarted(error.to_string()))?;
        Ok((OwnedFd::from(socket).into(), process.into()))
    }
}

fn refusal(action: Action, uid: u32) -> String {
    format!("polkit does not allow this for user {uid} in this session (action {})", action.id())
}

/// Starts a process and hands it the operation; returns the socket on which it answers, and its pidfd.
fn begin(
    operation: Privileged,
    uid: u32,
    descriptors: &[OwnedFd],
    deadline_ms: u64,
    share: Share,
) -> io::Result<(UnixStream, OwnedFd)> {
    let (socket, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).env_clear().current_dir("/");
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).process_group(0);
    let child = command.spawn()?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    tokio::spawn(collect(child, share));
    let fds: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    crate::begin(&socket, operation, uid, &fds, deadline_ms)?;
    Ok((socket, process))
}

/// Releases the share when the process has ended.
async fn collect(mut child: Child, share: Share) {
    if let Err(error) = child.wait().await {
        let _ = writeln!(io::stderr(), "{NAME}: a process cannot be waited for: {error}");
    }
    drop(share);
}
