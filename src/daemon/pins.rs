//! Requests that name files: each path belongs to the drive that is mounted there.
//!
//! What every kind of place needs for them is here and knows no drive: `target` says what a request names, `place` to which mount a path
//! belongs, and `wait` when waiting for pins ends.

use super::drives::Drives;
use super::failure;
use super::work::Work;
use crate::api::{self, Evicted, Failure, Pin};
use crate::daemon::drive::Drive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod place;
mod target;
pub mod wait;

pub use target::{Keep, ROOT, What, is_below};
pub use wait::Deadline;

/// How long to wait for a drive that was open when the service ended.
const TAKING_UP: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Drives {
    /// Always keeps files here.
    pub async fn pin(&self, request: api::PinPaths, work: Work) -> Result<Vec<Pin>, Failure> {
        let asked = self.asked(request.paths, request.drive).await?;
        let keep = match (request.look, request.dry_run) {
            (true, _) => Keep::Look,
            (false, true) => Keep::Try,
            (false, false) => Keep::Do,
        };
        let mut pins = Vec::new();
        for (drive, what) in &asked {
            pins.extend(drive.pin(what, keep, &work).await?);
        }
        if !request.wait || keep != Keep::Do {
            return Ok(pins);
        }
        pins.clear();
        for (drive, what) in &asked {
            pins.extend(drive.wait_for_pins(what, &work).await?);
        }
        Ok(pins)
    }

    /// Removes pins.
    pub async fn unpin(&self, request: api::NamedPaths) -> Result<Vec<Pin>, Failure> {
        let mut pins = Vec::new();
        for (drive, what) in self.asked(request.paths, request.drive).await? {
            pins.extend(drive.unpin(&what).await?);
        }
        Ok(pins)
    }

    /// All pins of all drives.
    pub fn pins(&self) -> Vec<Pin> {
        self.all().iter().flat_map(|drive| drive.pins()).collect()
    }

    /// Evicts files from the cache.
    pub async fn evict(&self, request: api::NamedPaths, work: Work) -> Result<Evicted, Failure> {
        let mut sum = Evicted { bytes_freed: 0, stayed_bytes: 0 };
        for (drive, what) in self.asked(request.paths, request.drive).await? {
            let evicted = drive.evict(&what, &work).await?;
            sum.bytes_freed += evicted.bytes_freed;
            sum.stayed_bytes += evicted.stayed_bytes;
        }
        Ok(sum)
    }

    /// Waits until enough of a file is here.
    pub async fn wait_for(&self, request: api::WaitFor, work: Work) -> Result<api::Waited, Failure> {
        if !(1..=100).contains(&request.percent) {
            return Err(failure::request("The part of a file to wait for is 1 to 100 percent."));
        }
        // The timeout counts from the request on, whatever has to be waited for.
        let deadline = Deadline::after(request.timeout_ms.map(Duration::from_millis));
        let (drive, path) = tokio::select! { biased;
            found = self.on_drive(&request.path) => found?,
            timeout = deadline.passed() => return Err(failure::wait_too_early(&request.path, timeout)),
        };
        drive.wait_for(&path, request.percent, &deadline, &work).await
    }

    /// The drives of a request, and its paths on each.
    async fn asked(
        &self,
        paths: Vec<String>,
        drive: Option<String>,
    ) -> Result<Vec<(Arc<Drive>, What)>, Failure> {
        match (drive, paths.is_empty()) {
            (Some(name), true) => Ok(vec![(self.get(&name)?, What::Whole)]),
            (None, false) => {
                let mut asked: Vec<(Arc<Drive>, Vec<String>)> = Vec::new();
                for path in paths {
                    let (drive, below) = self.on_drive(&path).await?;
                    match asked.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &drive)) {
                        Some((_, paths)) if paths.contains(&below) => {}
                        Some((_, paths)) => paths.push(below),
                        None => asked.push((drive, vec![below])),
                    }
                }
                Ok(asked.into_iter().map(|(drive, paths)| (drive, What::Paths(paths))).collect())
            }
            _ => Err(failure::request("Give either paths or a drive.")),
        }
    }

    /// The drive of a path, and the path below the drive's root. Waits for a drive that is being taken over.
    async fn on_drive(&self, path: &str) -> Result<(Arc<Drive>, String), Failure> {
        let begun = Instant::now();
        while let Some(drive) = self.all().into_iter().find(|drive| waits_at(drive, Path::new(path))) {
            if begun.elapsed() > TAKING_UP {
                return Err(failure::not_taken_up(&drive.name));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.on_mounted(path)
    }

    /// The same among the mounted drives. Does not access the path itself.
    fn on_mounted(&self, path: &str) -> Result<(Arc<Drive>, String), Failure> {
        let mounted: Vec<_> = self
            .all()
            .into_iter()
            .filter_map(|drive| {
                let root = drive.mountpoint()?;
                Some((drive, root))
            })
            .collect();
        match place::of_path(path, &mounted) {
            Some((drive, below)) => Ok((drive.clone(), below)),
            None => {
                let roots: Vec<_> = mounted.iter().map(|(_, root)| root.display().to_string()).collect();
                Err(failure::on_no_drive(path, &roots))
            }
        }
    }
}

/// Whether the path is on a drive that is being taken over.
fn waits_at(drive: &Drive, path: &Path) -> bool {
    drive.waits_at().is_some_and(|root| path.starts_with(root))
}
