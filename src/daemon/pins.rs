//! Requests that name files: each path belongs to the drive or folder that is mounted there.
//!
//! What every kind of place needs for them is here: `target` says what a request names, `place` to which mount a path belongs, `mounted` who
//! does the work, and `wait` when waiting for pins ends.

use super::drives::Drives;
use super::failure;
use super::work::Work;
use crate::api::{self, Evicted, Failure, Pin};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

mod mounted;
mod place;
mod target;
pub mod wait;

pub use mounted::Place;
pub use target::{Keep, ROOT, What, is_below};
pub use wait::Deadline;

/// How long to wait for a drive or folder that was open when the service ended.
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
        for (place, what) in &asked {
            pins.extend(place.pin(what, keep, &work).await?);
        }
        if !request.wait || keep != Keep::Do {
            return Ok(pins);
        }
        pins.clear();
        for (place, what) in &asked {
            pins.extend(place.wait_for_pins(what, &work).await?);
        }
        Ok(pins)
    }

    /// Removes pins.
    pub async fn unpin(&self, request: api::NamedPaths) -> Result<Vec<Pin>, Failure> {
        let mut pins = Vec::new();
        for (place, what) in self.asked(request.paths, request.drive).await? {
            pins.extend(place.unpin(&what).await?);
        }
        Ok(pins)
    }

    /// All pins of all drives and folders.
    pub fn pins(&self) -> Vec<Pin> {
        self.places().iter().flat_map(Place::pins).collect()
    }

    /// Evicts files from the cache.
    pub async fn evict(&self, request: api::NamedPaths, work: Work) -> Result<Evicted, Failure> {
        let mut sum = Evicted { bytes_freed: 0, stayed_bytes: 0 };
        for (place, what) in self.asked(request.paths, request.drive).await? {
            let evicted = place.evict(&what, &work).await?;
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
        let (place, path) = tokio::select! { biased;
            found = self.on_place(&request.path) => found?,
            timeout = deadline.passed() => return Err(failure::wait_too_early(&request.path, timeout)),
        };
        place.wait_for(&path, request.percent, &deadline, &work).await
    }

    /// The entries of a directory of a mounted drive or folder.
    pub async fn entries_at(&self, path: &str) -> Result<Vec<api::DirectoryEntry>, Failure> {
        let (place, below) = self.on_mounted(path)?;
        place.directory(&below).await
    }

    /// The drives and folders of a request, and its paths on each.
    async fn asked(&self, paths: Vec<String>, name: Option<String>) -> Result<Vec<(Place, What)>, Failure> {
        match (name, paths.is_empty()) {
            (Some(name), true) => Ok(vec![(self.place(&name)?, What::Whole)]),
            (None, false) => {
                let mut asked: Vec<(Place, Vec<String>)> = Vec::new();
                for path in paths {
                    let (place, below) = self.on_place(&path).await?;
                    match asked.iter_mut().find(|(other, _)| other.is(&place)) {
                        Some((_, paths)) if paths.contains(&below) => {}
                        Some((_, paths)) => paths.push(below),
                        None => asked.push((place, vec![below])),
                    }
                }
                Ok(asked.into_iter().map(|(place, paths)| (place, What::Paths(paths))).collect())
            }
            _ => Err(failure::request("Give either paths or a drive or folder.")),
        }
    }

    /// The drive or folder of a path, and the path below its root. Waits for one that is being taken over.
    async fn on_place(&self, path: &str) -> Result<(Place, String), Failure> {
        let begun = Instant::now();
        let waits = |place: &Place| place.waits_at().is_some_and(|root| Path::new(path).starts_with(root));
        while let Some(place) = self.places().into_iter().find(waits) {
            if begun.elapsed() > TAKING_UP {
                return Err(place.not_taken_up());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.on_mounted(path)
    }

    /// The same among those that are mounted. Does not access the path itself.
    fn on_mounted(&self, path: &str) -> Result<(Place, String), Failure> {
        let mounted = |place: Place| Some((place.mounted_at()?, place)).map(|(root, place)| (place, root));
        let mounted: Vec<_> = self.places().into_iter().filter_map(mounted).collect();
        match place::of_path(path, &mounted) {
            Some((place, below)) => Ok((place.clone(), below)),
            None => {
                let roots: Vec<_> = mounted.iter().map(|(_, root)| root.display().to_string()).collect();
                Err(failure::on_no_drive(path, &roots))
            }
        }
    }
}
