//! A reader of a file that is not here.

use super::super::Failure;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Instant;

/// Reads a file in a thread of its own.
pub struct Reader(JoinHandle<(std::io::Result<usize>, f64)>);

impl Reader {
    pub fn start(path: PathBuf) -> Self {
        Self(std::thread::spawn(move || {
            let begun = Instant::now();
            let read = std::fs::read(path).map(|bytes| bytes.len());
            (read, begun.elapsed().as_secs_f64())
        }))
    }

    /// Anything but an I/O error is a failure.
    pub fn seconds_until_error(self) -> Result<f64, Failure> {
        let (read, seconds) = self.0.join().map_err(|_| "the reader panicked")?;
        match read {
            Ok(bytes) => Err(format!("{bytes} bytes were read of what is not here").into()),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => Ok(seconds),
            Err(error) => Err(error.into()),
        }
    }
}
