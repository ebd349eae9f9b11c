//! The threads that wait for /dev/fuse, and how to stop them.
//!
//! They block in read(2) rather than in poll(2): the kernel wakes one blocked reader for a request, but every poller, and a poll would be
//! one more system call for each request. A signal interrupts a blocked read. A signal may come between the check of the flag and the read,
//! so it is repeated until the thread has ended. Nothing is lost by this, because it only interrupts a read that has no request yet.

use super::session::Session;
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a thread gets to notice, before it is signalled again.
const KICK_INTERVAL: Duration = Duration::from_millis(1);

/// Real-time signal number, counted from SIGRTMIN. Nothing else in the product uses real-time signals.
const KICK_FROM_RTMIN: i32 = 7;

pub(super) struct Readers {
    session: Arc<Session>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(session: &Arc<Session>, count: usize) -> std::io::Result<Self> {
        install_handler()?;
        let mut readers = Readers { session: Arc::clone(session), threads: Vec::with_capacity(count) };
        for index in 0..count {
            let session = Arc::clone(session);
            let thread = std::thread::Builder::new().name(format!("fuse-{index}"));
            // If a thread cannot be started, dropping `readers` stops the others.
            readers.threads.push(thread.spawn(move || {
                unblock_signal();
                session.run_reader();
            })?);
        }
        Ok(readers)
    }

    /// Returns when every thread has finished its request and ended.
    pub(super) fn stop(mut self) {
        self.stop_and_join();
    }

    fn stop_and_join(&mut self) {
        self.session.stop();
        for thread in self.threads.drain(..) {
            while !thread.is_finished() {
                // SAFETY: the thread was not joined, so its id is valid, even if it has just ended.
                unsafe { libc::pthread_kill(thread.as_pthread_t(), signal()) };
                std::thread::sleep(KICK_INTERVAL);
            }
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + KICK_FROM_RTMIN
}

fn install_handler() -> std::io::Result<()> {
    extern "C" fn interrupt_only(_signal: libc::c_int) {}
    static INSTALL: Once = Once::new();
    let mut installed = Ok(());
    INSTALL.call_once(|| {
        // SAFETY: an all-zero sigaction is valid (no flags: with SA_RESTART reads would not end), and the handler does nothing, which is
        // safe wherever it interrupts.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = interrupt_only as *const () as usize;
            libc::sigaction(signal(), &action, std::ptr::null_mut())
        };
        if result != 0 {
            installed = Err(std::io::Error::last_os_error());
        }
    });
    installed
}

/// A daemon may block all signals before it starts threads, to take them from a signalfd.
fn unblock_signal() {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}
