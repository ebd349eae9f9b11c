//! What a person decides about a fork: to look into it, to keep it as a drive of its own, to discard it.

use super::drive::Drive;
use super::drives::Drives;
use super::failure::{self, failure};
use crate::api::{self, Action, Code, Failure};
use std::sync::Arc;

impl Drives {
    /// A fork of the drive `name`: by its name, its identity, or its place in the list, from 1 on.
    pub fn fork(&self, name: &str, fork: &str) -> Result<Arc<Drive>, Failure> {
        let forks = self.get(name)?.forks();
        let number = fork.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = forks.iter().find(|known| known.name == fork || known.uuid == fork);
        let found = found.or_else(|| forks.get(number?));
        let Some(found) = found else {
            return Err(failure(
                Code::NotFound,
                format!("{name} has no fork \"{fork}\" on this computer."),
                "Nothing was changed.",
                Action::Forks { drive: Some(name.to_owned()) },
            ));
        };
        if let (true, at) = (found.in_place, found.mountpoint.as_deref().unwrap_or("-")) {
            return Err(failure::state(
                format!("The fork is still open in the place of {name}, at {at}."),
                [
                    Action::tell("Use it there, or close it first."),
                    Action::Close { drive: Some(name.to_owned()), wait: false },
                ],
            ));
        }
        self.get(&found.name)
    }

    /// Makes a fork an ordinary drive of this device.
    pub async fn keep_fork(&self, name: &str, fork: &str, new: &str) -> Result<api::Created, Failure> {
        self.check_name(new)?;
        let fork = self.fork(name, fork)?;
        fork.keep_as(new).await?;
        let kept = self.get(new)?;
        Ok(api::Created {
            uuid: kept.uuid().to_string(),
            store_mode: super::stores::told(kept.store_mode()),
            encrypted: kept.is_encrypted(),
            recovery_key: None,
        })
    }

    /// Deletes a fork, here and in the store.
    pub async fn discard_fork(&self, name: &str, fork: &str) -> Result<(), Failure> {
        let fork = self.fork(name, fork)?;
        fork.discard().await?;
        self.forget(&fork.name);
        Ok(())
    }
}
