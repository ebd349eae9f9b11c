//! Tells the kernel what it should forget.
//!
//! To forget a name or cached pages, the kernel takes locks that a request of ours may hold until it is answered. So this has a thread of
//! its own, which holds no lock and for which nobody waits.

use super::attributes::number;
use fuser::Notifier;
use holdall_core::folder::api::Stale;
use std::ffi::OsStr;
use std::io;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// Starts the thread. It ends with the connection, or when the folder has closed.
pub(super) fn start<T: Send + Sync + 'static>(
    notifier: Notifier,
    mut stale: mpsc::UnboundedReceiver<Stale>,
    mut ended: watch::Receiver<Option<T>>,
    runtime: Handle,
) -> io::Result<()> {
    let work = move || {
        let next = || {
            runtime.block_on(async {
                tokio::select! {
                    stale = stale.recv() => stale,
                    _ = ended.wait_for(Option::is_some) => None,
                }
            })
        };
        for stale in std::iter::from_fn(next) {
            if let Err(error) = forget(&notifier, &stale) {
                // Within a second the kernel asks again by itself, within a minute where nothing else should have changed it.
                tracing::debug!(%error, ?stale, "the kernel was not told of a change");
            }
        }
    };
    std::thread::Builder::new().name("folder-stale".into()).spawn(work).map(drop)
}

fn forget(notifier: &Notifier, stale: &Stale) -> io::Result<()> {
    match stale {
        Stale::Entry { parent, name } => notifier.inval_entry(number(*parent), OsStr::new(name.as_str())),
        // From the first byte to the last.
        Stale::File(ino) => notifier.inval_inode(number(*ino), 0, 0),
    }
}
