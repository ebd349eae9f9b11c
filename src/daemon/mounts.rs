//! Reports every change of the mount table.
//!
//! The kernel makes /proc/self/mountinfo readable "out of band" at each change (proc_pid_mountinfo(5)), so that nothing has to poll it.
//! Waiting takes a thread of its own, which ends with the process.

use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io;
use std::time::Duration;
use tokio::sync::watch;

/// The pause before trying again, if the kernel refuses to wait.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Counts the changes from now on.
pub fn follow() -> io::Result<watch::Receiver<u64>> {
    let table = File::open("/proc/self/mountinfo")?;
    let (count, changes) = watch::channel(0);
    let thread = std::thread::Builder::new().name("mounts".into());
    thread.spawn(move || {
        while !count.is_closed() {
            let mut waiting = [PollFd::new(&table, PollFlags::PRI | PollFlags::ERR)];
            match poll(&mut waiting, None) {
                Ok(_) => count.send_modify(|count| *count += 1),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "changes of mounts cannot be watched");
                    std::thread::sleep(AGAIN_AFTER);
                }
            }
        }
    })?;
    Ok(changes)
}
