//! Messages to systemd. Without systemd all of this does nothing.

use sd_notify::NotifyState;
use std::future::Future;
use std::time::Duration;

/// Taking a drive over, and closing one, may take long: a check, an unmount that writes back. systemd waits as long as we report progress;
/// each report extends its wait by this.
const MORE: Duration = Duration::from_secs(60);

/// Whether systemd has started this process and waits for its messages.
pub fn keeps_us() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Reports that the drives are back.
pub fn started() {
    tell(NotifyState::Ready);
    if let Some(period) = sd_notify::watchdog_enabled() {
        // A runtime that does not get here in time is stuck; the next daemon takes the drives over.
        tokio::spawn(async move {
            loop {
                tell(NotifyState::Watchdog);
                tokio::time::sleep(period / 3).await;
            }
        });
    }
}

/// Makes systemd wait while the daemon starts.
pub async fn starting<T>(work: impl Future<Output = T>) -> T {
    patiently(work).await
}

/// Makes systemd wait while the daemon ends.
pub async fn stopping<T>(work: impl Future<Output = T>) -> T {
    tell(NotifyState::Stopping);
    patiently(work).await
}

async fn patiently<T>(work: impl Future<Output = T>) -> T {
    let extend = async {
        loop {
            tell(NotifyState::ExtendTimeoutUsec(MORE.as_micros() as u32));
            tokio::time::sleep(MORE / 3).await;
        }
    };
    tokio::select! { biased;
        done = work => done,
        () = extend => unreachable!("asking for more time never ends"),
    }
}

fn tell(state: NotifyState<'_>) {
    // If nobody listens, nobody waits for it either.
    let _ = sd_notify::notify(&[state]);
}
