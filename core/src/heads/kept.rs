//! Versions that are kept for devices which may still continue them.
//!
//! A device may have changes that are in no version, on top of the version that HEAD named while it had the drive: it lost its power,
//! or it released the drive and opened it again while the store was away. Those changes can become a fork only as long as that version
//! is kept. So:
//!
//! 1. A device that takes the drive after another one first puts a root with the same content, which keeps the current version under a
//!    label with the other device's id. Only then does it swap HEAD to that root. So the version is kept from the very moment in which the
//!    other device loses the drive.
//! 2. Two events end this, and both are the other device's own. It takes the drive again in the state that the label was made for: then
//!    the version that it takes contains what it had, or its journal continues that version, and the root that it puts lacks the label.
//!    Or its fork begins with the version: the fork keeps it then, and the next collection of the drive deletes the label.
//!
//! HEAD names the device that wrote its root, with four exceptions: a seizure, a promotion, a retirement that was undone, and an opening
//! that failed and gave the drive back. The version is then kept for both devices.
//!
//! A label without a device is never deleted by the program. People may delete any of them.

use super::Device;
use crate::clock::now_ms;
use crate::format::head::{Head, HeadState};
use crate::format::id::ObjectId;
use crate::format::root::{Root, Snapshot};
use crate::local::Base;
use crate::units::Epoch;
use uuid::Uuid;

/// Begins the labels of versions whose device held the drive when it was taken.
const DEPOSED: &str = "before take-over ";
/// Begins the labels of versions whose device had released the drive. Lists leave these out: each change from one computer to another makes
/// one.
const HANDED_OVER: &str = "before hand-over ";
/// Begins the label under which a fork keeps the version that it began with.
const FORK_POINT: &str = "fork point";

/// Whether the program gives such labels. A person's snapshot must not have one: collections delete such labels, and forks begin with them.
pub fn is_reserved(label: &str) -> bool {
    [DEPOSED, HANDED_OVER, FORK_POINT].iter().any(|own| label.starts_with(own.trim_end()))
}

/// Whether a label only keeps a version for a device that had released the drive.
pub fn is_for_absent(label: &str) -> bool {
    label.starts_with(HANDED_OVER)
}

/// Whether a fork keeps the version that it began with under this label.
pub fn is_fork_point(label: &str) -> bool {
    label == FORK_POINT || label.strip_prefix(FORK_POINT).is_some_and(|rest| rest.starts_with(' '))
}

/// A label as people see it: without the device's id.
pub fn shown(label: &str) -> &str {
    match label.rsplit_once(' ') {
        Some((shown, id)) if is_reserved(label) && parse_id(id).is_some() => shown,
        _ => label,
    }
}

/// The label under which a fork of `device` keeps the version that it began with.
pub(crate) fn fork_point(device: Uuid) -> String {
    format!("{FORK_POINT} {}", device.simple())
}

/// The device for which a version is kept, or whose fork began with it.
fn device_of(label: &str) -> Option<Uuid> {
    let id = label.strip_prefix(shown(label))?.trim_start();
    parse_id(id)
}

fn parse_id(id: &str) -> Option<Uuid> {
    Uuid::try_parse(id).ok().filter(|uuid| uuid.simple().to_string() == id)
}

/// The epoch after the last one in which the device of this snapshot had the drive. None for all other snapshots.
pub(crate) fn deposed_at(snapshot: &Snapshot) -> Option<Epoch> {
    let rest = [DEPOSED, HANDED_OVER].iter().find_map(|why| snapshot.label.strip_prefix(why))?;
    rest.split(' ').next()?.parse().ok().map(Epoch)
}

/// Whether the writer of `head` may still have changes on top of the version that it names. That is another device, or an opening that this
/// device does not remember (perhaps by a copy of its files).
fn deposes(head: &Head, device: &Device, base: Option<&Base>) -> bool {
    let remembered = base.is_some_and(|base| base.epoch == head.epoch.0);
    head.state == HeadState::Held && (head.device != device.id || !remembered)
}

/// The labels that keep the version `root`, which `head` names, once `device` has taken the drive. `base` is what that device remembers.
pub(crate) fn labels(head: &Head, root: &Root, device: &Device, base: Option<&Base>) -> Vec<Snapshot> {
    let keep = |who: Uuid, had: Epoch, is_seen: bool| {
        let (why, epoch) = (if is_seen { DEPOSED } else { HANDED_OVER }, had.0 + 1);
        Snapshot {
            label: format!("{why}{epoch} {}", who.simple()),
            root: head.root,
            root_hash: head.root_hash,
            taken_ms: now_ms(),
            size_blocks: root.geometry.size_blocks,
        }
    };
    // The drive was created or cloned, and never opened.
    if head.epoch == Epoch(0) {
        return Vec::new();
    }
    // An opening that failed may have kept the same content for this device already.
    let parent = root.snapshots.iter().filter(|kept| kept.root == root.parent && deposed_at(kept).is_some());
    let has_parent: Vec<_> =
        parent.filter(|_| is_kept_copy(root)).map(|kept| device_of(&kept.label)).collect();
    let is_kept = |who: Uuid| has_parent.contains(&Some(who));
    let is_held = head.state == HeadState::Held;
    let is_writer = head.device == root.device;
    let mut kept = Vec::new();
    // A device that has only seized the drive has opened nothing yet.
    let may_continue = head.device != device.id || is_writer && deposes(head, device, base);
    if may_continue && !is_kept(head.device) {
        kept.push(keep(head.device, head.epoch, is_held && is_writer));
    }
    if !is_writer && root.device != device.id && !is_kept(root.device) {
        kept.push(keep(root.device, root.epoch, is_held));
    }
    kept
}

/// The root that `device` puts before it takes the drive in `epoch`: it has the content of `root`, which `head` names, and keeps that for
/// others. None where no other device can have anything on top of `root`.
pub(crate) fn root_of_taker(
    head: &Head,
    root: &Root,
    epoch: Epoch,
    device: &Device,
    base: Option<&Base>,
) -> Option<Root> {
    let kept = labels(head, root, device, base);
    if kept.is_empty() {
        return None;
    }
    // A device that starts without local files, or whose changes have become a fork, remembers no epoch, or a later one.
    let is_done = |kept: &Snapshot| {
        let last = base.map(|base| Epoch(base.epoch + 1));
        deposed_at(kept).is_some() && deposed_at(kept) == last && device_of(&kept.label) == Some(device.id)
    };
    let before = root.snapshots.iter().filter(|kept| !is_done(kept)).cloned();
    Some(Root {
        parent: head.root,
        epoch,
        seq: root.seq + 1,
        committed_ms: now_ms(),
        device: device.id,
        device_name: device.name.clone(),
        snapshots: before.chain(kept).collect(),
        // It names all that its parent names. The objects that the parent condemned are in neither of them.
        condemned: Vec::new(),
        ..root.clone()
    })
}

/// Whether `root` is what [`root_of_taker`] makes of its parent (which may be deleted by now), or has at least the same content, and
/// nothing was deleted since.
pub(crate) fn is_kept_copy(root: &Root) -> bool {
    let keeps_parent =
        root.snapshots.last().is_some_and(|last| deposed_at(last).is_some() && last.root == root.parent);
    keeps_parent && root.condemned.is_empty() && root.lineage.iter().all(|own| own.epoch < root.epoch)
}

/// The labels of those snapshots of `root` whose device has begun a fork with the version that they keep. `others` are the current versions
/// of the family's other drives.
pub(crate) fn no_longer_needed(root: &Root, others: &[Root]) -> Vec<String> {
    let has_forked = |device: Uuid, version: ObjectId| {
        let began = |kept: &Snapshot| {
            is_fork_point(&kept.label) && kept.root == version && device_of(&kept.label) == Some(device)
        };
        others.iter().any(|other| other.snapshots.iter().any(began))
    };
    let is_done = |kept: &&Snapshot| {
        deposed_at(kept).is_some()
            && device_of(&kept.label).is_some_and(|device| has_forked(device, kept.root))
    };
    root.snapshots.iter().filter(is_done).map(|kept| kept.label.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shown_without_devices() {
        let device = Uuid::from_u128(0xabc);
        assert_eq!(shown(&fork_point(device)), "fork point");
        let label = format!("before take-over 7 {}", device.simple());
        assert_eq!((shown(&label), device_of(&label)), ("before take-over 7", Some(device)));
        // Written by programs that named no device.
        assert_eq!(
            (shown("before take-over 7"), device_of("before take-over 7")),
            ("before take-over 7", None)
        );
        // A person's own label.
        let own = format!("lunch {}", device.simple());
        assert_eq!(shown(&own), own);
    }

    #[test]
    fn reserves_the_labels_of_the_program() {
        for label in
            ["fork point", "fork point x", "before take-over 1", "before hand-over", "before take-over lunch"]
        {
            assert!(is_reserved(label), "{label}");
        }
        assert!(!is_reserved("before take-off") && !is_reserved("fork"));
    }
}
