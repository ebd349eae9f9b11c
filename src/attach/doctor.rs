//! Finds what a crash has left, and what this computer lacks.
//!
//! It only examines and touches what is ours: what carries the identity of a drive that this user's daemon knows or has recorded, and what
//! is below its runtime directory. It never calls stat on a mount; it finds a hung mount in mountinfo like any other.
//!
//! The doctor serves nothing. A drive that only waits for a daemon is best left to the next one, which continues with it
//! ([`super::reattach`]); a repair takes it down.

use super::take_down::Left;
use super::{AttachError, Record, Site, folder_kept, keeper, onefile, take_down};
use crate::api::{Action, Actions, Finding};
use holdall_helper::Holder;
use std::collections::BTreeMap;
use uuid::Uuid;

mod requirements;

/// A drive that the daemon knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDrive {
    /// Its identity.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// The service's use of it.
    pub service: Service,
}

/// The service's present use of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// It serves the drive, which is in order then and is left alone.
    Serves,
    /// It is opening the drive, or taking over what a former service has left: the drive is left alone, and its state says nothing yet.
    Opens,
    /// Nothing.
    Rests,
}

/// Examines everything, and changes nothing.
pub fn diagnose(site: &Site, known: &[KnownDrive]) -> Result<Vec<Finding>, AttachError> {
    let mut findings = requirements::check(site);
    for (uuid, name) in unserved(site, known)? {
        findings.extend(finding(&name, &Left::of(uuid, site)?));
    }
    findings.extend(keeper_finding(site, known)?);
    Ok(findings)
}

/// Takes down everything that nobody serves, ends a keeper that keeps nothing, and reports what was done.
pub fn repair(site: &Site, known: &[KnownDrive]) -> Result<Vec<Finding>, AttachError> {
    let mut findings = requirements::check(site);
    for (uuid, name) in unserved(site, known)? {
        let Some(mut finding) = finding(&name, &Left::of(uuid, site)?) else {
            // After a crash before anything was made, or after a reboot, only a record is left.
            let records = site.dirs.records();
            Record::remove(&records, uuid).map_err(|error| AttachError::io("write to", &records, error))?;
            continue;
        };
        match take_down(uuid, site) {
            Ok(taken) => {
                finding.repaired = true;
                finding = finding.with_actions(used(&taken.holders));
            }
            Err(error) => {
                let failure = error.failure();
                finding.detail = format!("{} It could not be removed: {}.", finding.detail, failure.message);
                finding = finding.with_actions(failure.actions);
            }
        }
        findings.push(finding);
    }
    if let Some(mut finding) = keeper_finding(site, known)? {
        if !finding.ok && !any_served(known) {
            finding.repaired = onefile::end_keeper(site).unwrap_or(false);
        }
        findings.push(finding);
    }
    Ok(findings)
}

/// Every drive that may have left something: known, recorded, or with a directory of ours; except drives that are served or being opened.
fn unserved(site: &Site, known: &[KnownDrive]) -> Result<BTreeMap<Uuid, String>, AttachError> {
    let mut drives = BTreeMap::new();
    let disks = site.dirs.disks();
    let entries = std::fs::read_dir(&disks).map_err(|error| AttachError::io("look into", &disks, error))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    for uuid in names.filter_map(|name| name.to_str()?.parse::<Uuid>().ok()) {
        drives.insert(uuid, uuid.to_string());
    }
    let records = site.dirs.records();
    let noted = Record::all(&records).map_err(|error| AttachError::io("look into", &records, error))?;
    drives.extend(noted.into_iter().map(|record| (record.uuid, record.name)));
    for drive in known {
        match drive.service {
            Service::Serves | Service::Opens => drives.remove(&drive.uuid),
            Service::Rests => drives.insert(drive.uuid, drive.name.clone()),
        };
    }
    Ok(drives)
}

fn finding(name: &str, left: &Left) -> Option<Finding> {
    let what = left.describe();
    if what.is_empty() {
        return None;
    }
    let waits = if left.mounts.is_empty() { "" } else { " Programs that use it may hang or get errors." };
    let detail = format!("An earlier background service left {} behind.{waits}", what.join(", "));
    let start = Action::tell("Start the background service, which takes it over if possible.");
    let start = left.is_attached().then_some(start);
    let actions: Vec<_> = start.into_iter().chain([Action::Repair]).collect();
    Some(Finding::new(format!("drive {name}"), false, detail, actions))
}

fn keeper_finding(site: &Site, known: &[KnownDrive]) -> Result<Option<Finding>, AttachError> {
    if known.iter().any(|drive| drive.service == Service::Opens) {
        // A keeper is being asked for what it keeps, or being started.
        return Ok(None);
    }
    let socket = site.dirs.keeper_socket();
    let disks = site.dirs.disks();
    let mounts = holdall_helper::mountinfo::read()?;
    let keeps_folders = !matches!(folder_kept::is_any_noted(site), Ok(false));
    let mounted = keeps_folders || mounts.iter().any(|mount| mount.point.starts_with(&disks));
    let stale = socket.symlink_metadata().is_ok();
    let told = |ok, detail: String, actions: Actions| Some(Finding::new("keeper", ok, detail, actions));
    let remove = || Actions::from(Action::Repair);
    Ok(match (keeper::process(&socket), mounted) {
        (Some(pid), true) => {
            told(true, format!("Process {pid} holds the connections of drives and folders."), Actions::default())
        }
        (Some(pid), false) if site.watch.is_some() && any_served(known) => {
            told(true, format!("Process {pid} watches the background service."), Actions::default())
        }
        (Some(pid), false) => told(false, format!("Process {pid} is no longer needed."), remove()),
        (None, true) if any_served(known) => told(
            false,
            "The keeper has ended: if holdalld dies now, programs that use mounted drives get errors.".to_owned(),
            [
                Action::tell("Holdall starts another one by itself. If this problem stays, restart the background service."),
                Action::Restart,
            ]
            .into(),
        ),
        (None, _) if stale => told(false, format!("Leftover socket {}.", socket.display()), remove()),
        (None, _) => None,
    })
}

fn any_served(known: &[KnownDrive]) -> bool {
    known.iter().any(|drive| drive.service == Service::Serves)
}

fn used(holders: &[Holder]) -> Actions {
    let names: Vec<_> = holders
        .iter()
        .map(|holder| match holder {
            Holder::Process { pid, name, .. } => format!("{name} (process {pid})"),
            Holder::Mount { path } => path.display().to_string(),
        })
        .collect();
    match names.is_empty() {
        true => Actions::default(),
        false => {
            format!("Close {}: it still uses files of the drive, and gets errors.", names.join(", ")).into()
        }
    }
}
