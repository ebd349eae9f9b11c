//! Serving a drive by NBD, without attaching it.

use super::Drive;
use super::opened::OpenDrive;
use crate::api::{self, Action, Code, Failure};
use crate::daemon::failure::{self, failure};
use crate::daemon::status::Phase;
use crate::daemon::web::is_own;
use crate::daemon::work::Work;
use holdall_core::device::BlockDevice;
use holdall_core::volume::TakeOver;
use holdall_nbd::server::Server;
use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::MutexGuard;

/// How long requests in flight may take when serving ends.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait for a serving that is about to end: the disconnection of its client is noticed a moment later, and the client may want
/// to mount the drive next.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// How often to check whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The text for a person when serving ends.
const NO_LONGER_SERVED: &str =
    "The drive is no longer served. Data that was written is safe on this computer.";

impl Drive {
    /// Serves the drive by NBD until the client disconnects.
    pub async fn serve(self: &Arc<Self>, request: api::Serve, work: Work) -> Result<api::Served, Failure> {
        let mut open = self.when_served_no_longer().await;
        if let Some(open) = &*open {
            open.check_not_serving()?;
            if open.attachment.is_some() {
                let action = Action::Close { drive: Some(self.name.clone()), wait: false };
                return Err(failure::state("The drive is open.", action));
            }
        }
        if let Some(failure) = self.relies_on_locks().await {
            return Err(failure);
        }
        let listener = Listener::bind(&request)?;
        // Closed, but still uploading: it starts again from its journal.
        if let Some(draining) = open.take() {
            self.put_down(draining).await;
        }
        self.count_anew();
        let opened = self.open_engine(TakeOver::Nobody).await?;
        let server = Server::new(tokio::runtime::Handle::current());
        let served = listener.serve(&server, opened.device());
        let volume = opened.volume.clone();
        *open = Some(OpenDrive { serving: true, ..opened });
        let ended = match served {
            Ok(uri) => {
                self.set_phase(Phase::Open);
                drop(open);
                work.result(api::Served { uri }).await;
                let ended = work.unless_interrupted(NO_LONGER_SERVED, std::future::pending()).await;
                open = self.open.lock().await;
                ended
            }
            Err(failure) => Err(failure),
        };
        // The server first, then the engine. When the daemon ends, another task may already have put the drive down.
        let _ = tokio::task::spawn_blocking(move || server.shutdown(GRACE)).await;
        match &mut *open {
            Some(opened) if Arc::ptr_eq(&opened.volume, &volume) && volume.has_unsent() => {
                opened.serving = false;
                self.set_phase(Phase::Draining);
                self.drain_in_background(opened);
            }
            Some(opened) if Arc::ptr_eq(&opened.volume, &volume) => self.finish(&mut open).await,
            _ => {}
        }
        if let Some(path) = &request.socket {
            // The next server could not listen there.
            let _ = std::fs::remove_file(path);
        }
        ended
    }

    /// The open drive, if any, after waiting a moment for a serving that is about to end; the drive may still be served afterwards.
    pub(super) async fn when_served_no_longer(&self) -> MutexGuard<'_, Option<OpenDrive>> {
        let since = Instant::now();
        loop {
            let open = self.open.lock().await;
            if !open.as_ref().is_some_and(|open| open.serving) || since.elapsed() >= END_PATIENCE {
                return open;
            }
            drop(open);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

enum Listener {
    Unix(UnixListener, String),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    fn bind(request: &api::Serve) -> Result<Self, Failure> {
        let local = |error: std::io::Error| {
            failure(
                Code::Failed,
                format!("Cannot listen: {error}."),
                "Nothing was changed.",
                "Choose another address.",
            )
        };
        match (&request.socket, &request.tcp) {
            (Some(path), None) => {
                let listener = UnixListener::bind(path).map_err(local)?;
                // Independent of the umask: a program that may connect may read and write the drive.
                std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(local)?;
                Ok(Listener::Unix(listener, path.clone()))
            }
            (None, Some(address)) => {
                let address: SocketAddr =
                    address.parse().map_err(|_| failure::usage(format!("{address} is not ADDRESS:PORT.")))?;
                if !address.ip().is_loopback() && !request.insecure {
                    let message = "Anyone who can reach that address could read and write the drive.";
                    return Err(failure::usage(message).with_actions(Action::AcceptExposure));
                }
                let listener = TcpListener::bind(address).map_err(local)?;
                let address = listener.local_addr().map_err(local)?;
                Ok(Listener::Tcp(listener, address))
            }
            _ => Err(failure::usage("Give either a socket or a TCP address.")),
        }
    }

    fn serve(self, server: &Server, device: Arc<dyn BlockDevice>) -> Result<String, Failure> {
        let failed = |error: String| failure(Code::Failed, error, "Nothing was changed.", "Try again.");
        server.export("", device).map_err(|error| failed(error.to_string()))?;
        match self {
            Listener::Unix(listener, path) => {
                server.listen_unix(listener).map_err(|error| failed(error.to_string()))?;
                Ok(format!("nbd+unix:///?socket={path}"))
            }
            Listener::Tcp(listener, address) => {
                // On loopback every user of this computer can connect, and NBD knows no passwords. Beyond loopback, the person has
                // insisted.
                let listening = match address.ip().is_loopback() {
                    true => server.listen_tcp_for(listener, is_own),
                    false => server.listen_tcp(listener),
                };
                listening.map_err(|error| failed(error.to_string()))?;
                Ok(format!("nbd://{address}"))
            }
        }
    }
}
