//! The daemon's side of being watched: it answers the keeper's questions, says when it ends on purpose, and notices when the keeper dies.
//!
//! The questions are answered on the daemon's runtime, and not on a thread of their own: a runtime that is stuck is what the keeper has
//! to notice.

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

/// What the keeper asks, and what it hears back.
pub(super) const ALIVE: u8 = b'?';
/// What a daemon says that ends on purpose.
pub(super) const LEAVES: u8 = b'L';

/// How a daemon is started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Its program.
    pub program: PathBuf,
    /// What it prints is added to this file.
    pub log: PathBuf,
    /// Where it notes the drives that it has attached. A daemon of an earlier version does not say it.
    #[serde(default)]
    pub records: PathBuf,
    /// Whether the keeper is to do it; otherwise somebody else does.
    pub ours: bool,
}

/// Watched by the keeper, as long as there is one.
#[derive(Clone, Debug)]
pub struct Watch {
    restart: Restart,
    // Held to begin, and to say something.
    connection: Arc<Mutex<Option<UnixStream>>>,
    /// The keeper has died.
    lost: Arc<Notify>,
}

impl Watch {
    /// Not watched yet.
    pub fn new(restart: Restart) -> Self {
        Self { restart, connection: Arc::default(), lost: Arc::default() }
    }

    /// Has the keeper at `socket` watch this process from now on. Blocks.
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
                tracing::debug!(%error, "the keeper watches no longer");
            }
            watch.connection.lock().take();
            watch.lost.notify_one();
        });
        Ok(())
    }

    /// Comes back each time that a keeper has died which watched this process.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Tells the keeper that this process ends on purpose: it is not to be started again.
    pub fn leave(&self) {
        if let Some(mut connection) = self.connection.lock().as_ref() {
            // A keeper that has died starts nobody.
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
