//! The helper on the system bus, as its callers see it: its names, and how to get a process from it.
//!
//! It has one method, which takes an operation and its descriptors. It returns the socket of a process that performs the operation, and a
//! descriptor of that process. From there on it works as with a process of our own (orders to a freeze, the answer, hanging up). The helper
//! itself is [`crate::service`].

use super::{Privileged, PrivilegedError};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use zbus::names::BusName;
use zbus::proxy::{CacheProperties, MethodFlags};
use zbus::zvariant::{self, Fd};
use zbus::{Connection, Proxy};

/// Its name on the system bus, and its interface.
pub const NAME: &str = "org.holdall.Helper1";
/// Its object.
pub const PATH: &str = "/org/holdall/Helper1";
/// Its method: (operation: JSON, descriptors, deadline in ms) -> (socket, process).
pub const METHOD: &str = "Perform";
/// The error for what polkit does not allow.
pub const NOT_AUTHORIZED: &str = "org.holdall.Helper1.Error.NotAuthorized";

/// How long the bus may take to say whether there is a helper.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// A process of the helper that performs an operation.
#[derive(Debug)]
pub(super) struct Started {
    /// The socket on which it answers.
    pub(super) socket: UnixStream,
    /// Its pidfd.
    pub(super) process: OwnedFd,
}

/// Whether the system bus knows the helper.
pub(super) fn is_known() -> bool {
    let known = async {
        let bus = zbus::fdo::DBusProxy::new(&Connection::system().await?).await?;
        if bus.list_activatable_names().await?.iter().any(|name| name.as_str() == NAME) {
            return Ok(true);
        }
        // The helper may have been started by hand.
        Ok::<_, zbus::Error>(bus.name_has_owner(BusName::try_from(NAME)?).await?)
    };
    wait(LOOK_LIMIT, known).is_ok_and(|known| known.and_then(Result::ok).unwrap_or(false))
}

/// Makes the helper begin an operation. `None`: there is no helper.
pub(super) fn start(
    operation: &Privileged,
    fds: &[BorrowedFd<'_>],
    doing: &'static str,
    deadline: Duration,
) -> Result<Option<Started>, PrivilegedError> {
    let failed = |error| PrivilegedError::NotStarted { doing, error };
    let text = serde_json::to_string(operation).map_err(|error| failed(error.into()))?;
    let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    match wait(deadline, ask(text, fds, deadline_ms)).map_err(failed)? {
        None => Err(PrivilegedError::Deadline { doing, deadline, stuck: false }),
        Some(Ok(started)) => Ok(Some(started)),
        Some(Err(error)) => match Trouble::of(&error) {
            Trouble::NoHelper => Ok(None),
            Trouble::NotAuthorized(said) => Err(PrivilegedError::NotAuthorized { doing, said }),
            Trouble::Failed(said) => Err(PrivilegedError::Helper { doing, said }),
        },
    }
}

async fn ask(operation: String, fds: &[BorrowedFd<'_>], deadline_ms: u64) -> zbus::Result<Started> {
    let connection = Connection::system().await?;
    let helper: Proxy<'_> = zbus::proxy::Builder::new(&connection)
        .destination(NAME)?
        .path(PATH)?
        .interface(NAME)?
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let fds: Vec<Fd<'_>> = fds.iter().map(|fd| Fd::from(*fd)).collect();
    let arguments = (operation, fds, deadline_ms);
    // Where polkit wants a password, the desktop's agent may ask for it.
    let flags = MethodFlags::AllowInteractiveAuth.into();
    let answer: Option<(zvariant::OwnedFd, zvariant::OwnedFd)> =
        helper.call_with_flags(METHOD, flags, &arguments).await?;
    let (socket, process) = answer.ok_or_else(|| zbus::Error::Failure("it did not answer".into()))?;
    Ok(Started { socket: UnixStream::from(OwnedFd::from(socket)), process: process.into() })
}

/// Waits on this thread, which belongs to no runtime; `None` if it took too long.
fn wait<T>(limit: Duration, work: impl Future<Output = T>) -> std::io::Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() }))
}

/// What an error of the call means.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    NoHelper,
    NotAuthorized(String),
    Failed(String),
}

impl Trouble {
    fn of(error: &zbus::Error) -> Self {
        let zbus::Error::MethodError(name, said, _) = error else {
            // There is no bus, or none that answers.
            return match error {
                zbus::Error::InputOutput(_)
                | zbus::Error::Connection(..)
                | zbus::Error::Address(_)
                | zbus::Error::Handshake(_) => Trouble::NoHelper,
                error => Trouble::Failed(error.to_string()),
            };
        };
        let said = said.clone().unwrap_or_else(|| name.to_string());
        match name.as_str() {
            "org.freedesktop.DBus.Error.ServiceUnknown" | "org.freedesktop.DBus.Error.NameHasNoOwner" => {
                Trouble::NoHelper
            }
            NOT_AUTHORIZED => Trouble::NotAuthorized(said),
            _ => Trouble::Failed(said),
        }
    }
}
