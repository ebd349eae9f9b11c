//! The kernel's word that something may have changed. Only a hint: what has changed is found by looking.

use holdall_core::watched::Watched;
use notify::event::{AccessKind, AccessMode};
use notify::{Config, ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;
use std::sync::{Arc, Weak};

/// Watches a directory and all below, until it is dropped. Links are not followed.
pub struct Events(#[allow(dead_code, reason = "it watches as long as it lives")] RecommendedWatcher);

/// Begins. Where the kernel cannot watch all of it, the engine is told why, and looks at the directory by itself.
pub fn watch(directory: &Path, engine: &Arc<Watched>) -> Option<Events> {
    let heard = Arc::downgrade(engine);
    let watcher = RecommendedWatcher::new(
        move |event| hear(&heard, event),
        Config::default().with_follow_symlinks(false),
    );
    let watching = watcher.and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    match watching {
        Ok(watcher) => {
            engine.set_events(None);
            Some(Events(watcher))
        }
        Err(error) => {
            let why = match error.kind {
                ErrorKind::MaxFilesWatch => {
                    "the kernel's limit of watches is reached (sysctl fs.inotify.max_user_watches)".to_owned()
                }
                _ => error.to_string(),
            };
            tracing::warn!(directory = %directory.display(), why, "changes are found by looking every minute");
            engine.set_events(Some(why));
            None
        }
    }
}

fn hear(engine: &Weak<Watched>, event: notify::Result<Event>) {
    let Some(engine) = engine.upgrade() else { return };
    match event {
        // Our own looks are no changes. An overflow comes without a path, and is a hint like any other.
        Ok(event) => match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => engine.hint(),
            EventKind::Access(_) => {}
            EventKind::Any
            | EventKind::Create(_)
            | EventKind::Modify(_)
            | EventKind::Remove(_)
            | EventKind::Other => {
                engine.hint();
            }
        },
        Err(error) => {
            if matches!(error.kind, ErrorKind::MaxFilesWatch) {
                let why = "the kernel's limit of watches is reached (sysctl fs.inotify.max_user_watches)";
                engine.set_events(Some(why.to_owned()));
            }
            engine.hint();
        }
    }
}
