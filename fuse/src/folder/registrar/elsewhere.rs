//! Registrations by another process, which may do what this one may not.

use super::Registrar;
use async_trait::async_trait;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// After a process could not be started, files are served for so long before it is tried again: each try may ask other programs.
const START_AGAIN: Duration = Duration::from_secs(60);

/// An open exchange with such a process. Calls wait, for a time that is bounded.
pub trait Exchange: Send {
    /// Registers a file. Returns its backing id.
    fn register(&mut self, file: BorrowedFd<'_>) -> io::Result<u32>;

    /// Ends a registration.
    fn unregister(&mut self, id: u32) -> io::Result<()>;

    /// The process is of no use any more: another one has to be started.
    fn is_over(&self) -> bool;
}

/// A registrar that has another process do it, started when the first file is registered. A thread waits for it.
pub struct Elsewhere {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    device: Arc<OwnedFd>,
    what: What,
    done: oneshot::Sender<io::Result<u32>>,
}

enum What {
    Register(OwnedFd),
    Unregister(u32),
}

impl Elsewhere {
    /// `start` starts the process, which gets the open /dev/fuse of the mount. It may wait, for a time that is bounded.
    pub fn new<E: Exchange + 'static>(
        start: impl FnMut(BorrowedFd<'_>) -> io::Result<E> + Send + 'static,
    ) -> io::Result<Self> {
        // A mount has one order under way at a time.
        let (jobs, mut orders) = mpsc::channel::<Job>(1);
        let mut process = Process { start, exchange: None, failed: None };
        let work = move || {
            while let Some(Job { device, what, done }) = orders.blocking_recv() {
                // Nobody may be left to hear it; then the id stays until the unmount.
                let _ = done.send(process.perform(device.as_fd(), what));
            }
        };
        std::thread::Builder::new().name("folder-register".into()).spawn(work)?;
        Ok(Self { jobs })
    }

    async fn ask(&self, device: &Arc<OwnedFd>, what: What) -> io::Result<u32> {
        let (done, answer) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let job = Job { device: device.clone(), what, done };
        self.jobs.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

#[async_trait]
impl Registrar for Elsewhere {
    async fn register(&self, device: &Arc<OwnedFd>, file: &File) -> io::Result<u32> {
        let file = file.as_fd().try_clone_to_owned()?;
        self.ask(device, What::Register(file)).await
    }

    async fn unregister(&self, device: &Arc<OwnedFd>, id: u32) -> io::Result<()> {
        self.ask(device, What::Unregister(id)).await.map(drop)
    }
}

struct Process<S, E> {
    start: S,
    exchange: Option<E>,
    failed: Option<Instant>,
}

impl<S, E> Process<S, E>
where
    S: FnMut(BorrowedFd<'_>) -> io::Result<E>,
    E: Exchange,
{
    fn perform(&mut self, device: BorrowedFd<'_>, what: What) -> io::Result<u32> {
        let result = match what {
            What::Register(file) => self.started(device)?.register(file.as_fd()),
            // Only the process that has registered it may end it.
            What::Unregister(id) => match &mut self.exchange {
                Some(exchange) => exchange.unregister(id).map(|()| id),
                None => Err(io::ErrorKind::NotFound.into()),
            },
        };
        if self.exchange.as_ref().is_some_and(Exchange::is_over) {
            self.exchange = None;
        }
        result
    }

    fn started(&mut self, device: BorrowedFd<'_>) -> io::Result<&mut E> {
        if self.exchange.is_none() {
            if self.failed.is_some_and(|at| at.elapsed() < START_AGAIN) {
                return Err(io::Error::other("the process that registers files could not be started"));
            }
            match (self.start)(device) {
                Ok(exchange) => (self.exchange, self.failed) = (Some(exchange), None),
                Err(error) => {
                    tracing::info!(%error, "files of the folder do not pass through");
                    self.failed = Some(Instant::now());
                    return Err(error);
                }
            }
        }
        Ok(self.exchange.as_mut().expect("it was started, or the start has failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Gives each file the next id; ends at the file that is no file.
    struct Counting {
        next: u32,
        is_over: bool,
    }

    impl Exchange for Counting {
        fn register(&mut self, _: BorrowedFd<'_>) -> io::Result<u32> {
            self.next += 1;
            self.is_over = self.next % 10 == 3;
            if self.is_over { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(self.next) }
        }

        fn unregister(&mut self, id: u32) -> io::Result<()> {
            if id <= self.next { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        }

        fn is_over(&self) -> bool {
            self.is_over
        }
    }

    fn null() -> File {
        File::open("/dev/null").unwrap()
    }

    #[tokio::test]
    async fn a_process_that_ends_is_followed_by_another() {
        let started = Arc::new(AtomicU32::new(0));
        let count = started.clone();
        let elsewhere = Elsewhere::new(move |_| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            Ok(Counting { next: number * 10, is_over: false })
        });
        let (elsewhere, device) = (elsewhere.unwrap(), Arc::new(OwnedFd::from(null())));
        assert_eq!(started.load(Ordering::SeqCst), 0, "nothing is started before a file is there");
        assert_eq!(elsewhere.register(&device, &null()).await.unwrap(), 1);
        assert_eq!(elsewhere.register(&device, &null()).await.unwrap(), 2);
        elsewhere.unregister(&device, 1).await.unwrap();
        assert!(elsewhere.register(&device, &null()).await.is_err());
        assert!(elsewhere.unregister(&device, 2).await.is_err(), "who registered it is gone");
        assert_eq!(elsewhere.register(&device, &null()).await.unwrap(), 11);
        assert_eq!(started.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_process_that_cannot_be_started_is_not_tried_for_every_file() {
        let tried = Arc::new(AtomicU32::new(0));
        let count = tried.clone();
        let elsewhere = Elsewhere::new(move |_| -> io::Result<Counting> {
            count.fetch_add(1, Ordering::SeqCst);
            Err(io::ErrorKind::PermissionDenied.into())
        });
        let (elsewhere, device) = (elsewhere.unwrap(), Arc::new(OwnedFd::from(null())));
        for _ in 0..5 {
            assert!(elsewhere.register(&device, &null()).await.is_err());
        }
        assert_eq!(tried.load(Ordering::SeqCst), 1);
    }
}
