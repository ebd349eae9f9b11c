//! The daemon's side of being watched: it answers the keeper's questions, says when it ends on purpose, and notices when the keeper dies.
//!
//! The questions are answered on the daemon's runtime, and not on a thread of their own: a stuck runtime is what the keeper must notice.

use holdall_fuse::keeper as kept;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The keeper's question, and the answer to it.
pub(super) const ALIVE: u8 = b'?';
/// The message of a daemon that ends on purpose.
pub(super) const LEAVES: u8 = b'L';

/// How to start a daemon again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Its program.
    pub program: PathBuf,
    /// Its output is appended to this file.
    pub log: PathBuf,
    /// The directory with its records of attached drives. Daemons of earlier versions do not send it.
    #[serde(default)]
    pub records: PathBuf,
    /// Whether the keeper must start it; otherwise somebody else does.
    pub ours: bool,
}

/// The connection to the keeper that watches this process, if there is one.
#[derive(Clone, Debug)]
pub struct Watch {
    restart: Restart,
    // Held to begin, and to send something.
    connection: Arc<Mutex<Option<UnixStream>>>,
    /// The keeper has died.
    lost: Arc<Notify>,
}

impl Watch {
    /// Not watched yet.
    pub fn new(restart: Restart) -> Self {
        Self { restart, connection: Arc::default(), lost: Arc::default() }
    }

    /// Makes the keeper at `socket` watch this process from now on. Blocks.
    pub(super) fn begin(&self, socket: &Path, runtime: &Handle) -> io::Result<()> {
        let mut connection = self.connection.lock();
        if connection.is_some() {
            return Ok(());
        }
        let stream = kept::watch(socket, &serde_json::to_vec(&self.restart)?)?;
        let answering = stream.try_clone()?;
        answering.set_nonblocking(true)?;
        *connection = Some(stream);
        drop(connection);
        let watch = self.clone();
        runtime.spawn(async move {
            if let Err(error) = answer(answering).await {
                tracing::debug!(%error, "the keeper no longer watches");
            }
            watch.connection.lock().take();
            watch.lost.notify_one();
        });
        Ok(())
    }

    /// Returns each time a keeper that watched this process has died.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Tells the keeper that this process ends on purpose, and must not be started again.
    pub fn leave(&self) {
        if let Some(mut connection) = self.connection.lock().as_ref() {
            // A keeper that has died starts no daemon.
            let _ = connection.write_all(&[LEAVES]);
        }
    }
}

async fn answer(connection: UnixStream) -> io::Result<()> {
    let mut connection = tokio::net::UnixStream::from_std(connection)?;
    let mut asked = [0];
    loop {
        connection.read_exact(&mut asked).await?;
        connection.write_all(&[ALIVE]).await?;
    }
}
