//! A person's decisions about a fork: looking into it, keeping it as a drive of its own, discarding it.

mod compare;
pub mod differences;

use super::drive::Drive;
use super::drives::Drives;
use super::failure;
use crate::api::{self, Failure};
use std::sync::Arc;

impl Drives {
    /// A fork of the drive `name`, by its name, its identity, or its number in the list, from 1 on. A fork that is still uploading in the
    /// place of a closed drive is set apart first.
    pub async fn fork(&self, name: &str, fork: &str) -> Result<Arc<Drive>, Failure> {
        let drive = self.get(name)?;
        let forks = drive.forks();
        let number = fork.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = forks.iter().find(|known| known.name == fork || known.uuid == fork);
        let found = found.or_else(|| forks.get(number?));
        let none = || {
            let known: Vec<_> = forks.iter().map(|known| known.name.clone()).collect();
            failure::no_fork(name, fork, &known)
        };
        let found = found.ok_or_else(none)?;
        if let (true, Some(at)) = (found.in_place, &found.mountpoint) {
            return Err(failure::fork_in_place(name, at));
        }
        if found.in_place {
            drive.part_now().await?;
        }
        // By its identity: another fork may have its name by then.
        let apart = self.all().into_iter().find(|drive| drive.uuid().to_string() == found.uuid);
        apart.ok_or_else(none)
    }

    /// Makes a fork an ordinary drive of this device.
    pub async fn keep_fork(&self, name: &str, fork: &str, new: &str) -> Result<api::Created, Failure> {
        self.check_name(new)?;
        let fork = self.fork(name, fork).await?;
        fork.keep_as(new).await?;
        let kept = self.get(new)?;
        Ok(api::Created {
            uuid: kept.uuid().to_string(),
            store_mode: super::stores::told(kept.store_mode()),
            encrypted: kept.is_encrypted(),
            size_bytes: None,
            recovery_key: None,
        })
    }

    /// Deletes a fork, here and in the store.
    pub async fn discard_fork(&self, name: &str, fork: &str) -> Result<(), Failure> {
        let fork = self.fork(name, fork).await?;
        fork.discard().await?;
        self.forget(&fork.name);
        Ok(())
    }
}
