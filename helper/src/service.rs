//! The helper: root's part of Holdall, on the system bus, for users who are not root.
//!
//! ```text
//! holdalld (user) --Perform(operation, descriptors)--> helper (root): who asks? does polkit allow it? -> a process
//!        ^                                                                                               |
//!        +-------------------------- socket: the answer, orders to a freeze ------------------------------+
//! ```
//!
//! It is a program of its own, so that little code runs with root's rights: no store, no network, no file format. It starts a process for
//! each operation ([`crate::main`]). That process decides again, by what the kernel says, whether the device, the file and the directory
//! are the caller's, and then does this one operation. The helper itself touches no device, so nothing it does can hang. It remembers
//! nothing: it may end, be replaced or be killed at any time, and its processes continue. After a minute without work, and with no drive
//! attached, it ends; the bus starts it again. It stays while a drive is attached: a computer that is shutting down starts no new services,
//! but drives have to be closed then.

use crate::helper::{NAME, PATH};
use callers::Callers;
use perform::Perform;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

mod callers;
mod perform;
mod permission;

/// How long it stays without work: opening a drive is a dozen operations, and the daemon works for seconds between them.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// How long to wait for calls that reached the process before it released its name.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// The program.
pub fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(argument) if argument == crate::SUBCOMMAND => crate::main(),
        Some(_) => {
            let _ = writeln!(io::stderr(), "usage: holdall-helper    the system bus starts it");
            ExitCode::from(2)
        }
        None => match run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "holdall-helper: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let callers = Callers::default();
        let connection = zbus::connection::Builder::system()?
            .serve_at(PATH, Perform::new(callers.clone()))?
            .name(NAME)?
            .build()
            .await?;
        callers.idle(IDLE_LIMIT).await;
        // This reads /sys and waits for no device.
        while crate::is_anything_attached() {
            callers.idle(IDLE_LIMIT).await;
        }
        // From now on the bus starts another helper for new calls; calls that came before are still served.
        connection.release_name(NAME).await?;
        callers.idle(LAST_CALLS).await;
        Ok(())
    })
}
