//! The ext4 on an attached drive: created, mounted, frozen, grown, unmounted.
//!
//! Another process makes every system call on it, with a deadline: the call may wait for the drive, and so for us.

use super::mountpoint::{self, MountPoint};
use super::{AttachError, Attached, Record, Site, Step};
use crate::api::AttachMode;
use holdall_core::units::BLOCK_BYTES;
use holdall_helper::{
    Content, FreezeEnded, Frozen, Look, Outcome, Privileged, PrivilegedError, Superblock, Target, Usage,
    mountinfo,
};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// Reading a superblock, or creating a file system: some hundred blocks, of which the first may come from the store.
const FORMAT_DEADLINE: Duration = Duration::from_secs(120);
/// A mount replays the ext4 journal (128 MiB) and reads what it needs, from the store if it is not cached.
const MOUNT_DEADLINE: Duration = Duration::from_secs(300);
/// A check reads all metadata, most of it through the store.
const CHECK_DEADLINE: Duration = Duration::from_secs(4 * 3600);
/// An unmount writes back dirty pages: at most [`holdall_helper::DIRTY_LIMIT_BYTES`] where the kernel limits it.
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(300);
/// Growing when a drive is opened: somebody waits, and a file system that stays small does no harm.
const FILL_DEADLINE: Duration = Duration::from_secs(60);
/// Growing on request: resizing writes the descriptors of the new part.
const GROW_DEADLINE: Duration = Duration::from_secs(600);
/// From this difference between device and file system on, growing is worthwhile: resize2fs leaves out a last block group that would hold
/// little besides its own tables.
const GROW_FROM_BYTES: u64 = 1 << 20;
/// The figures are in memory, and a person waits for them.
const USAGE_DEADLINE: Duration = Duration::from_secs(5);
/// A freeze writes back first.
const FREEZE_DEADLINE: Duration = Duration::from_secs(120);
/// How long writes may be held while the block device changes its size.
const GROW_HOLD: Duration = Duration::from_secs(30);
/// A thaw writes one block.
const THAW_DEADLINE: Duration = Duration::from_secs(30);

/// How to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The mount point: an empty directory of this process's user, or a path that does not exist yet.
    pub at: PathBuf,
    /// For a version that is only looked at. The block device is writable all the same: ext4 replays its journal.
    pub read_only: bool,
    /// The owner of the root directory, if the file system is created now.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A mounted drive. Dropping it leaves it mounted.
#[derive(Clone, Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    made: bool,
    mode: Option<u32>,
    target: Target,
    uuid: Uuid,
    name: String,
    site: Site,
}

/// Mounts the drive; first creates the file system if the drive is blank, or repairs one that reports errors.
pub fn mount(attached: &Attached, options: &MountOptions) -> Result<Mounted, AttachError> {
    let site = attached.site();
    // A fault that a person can fix at once is found before anything that takes time.
    let point = MountPoint::resolve(&options.at)?;
    let is_small = prepare(attached, options)?;
    let identity = attached.identity();
    let mut record = Record::new(identity.uuid, &identity.name);
    record.made = point.missing || left_by_us(site, identity.uuid, &point.path)?;
    record.mountpoint = Some(point.path.clone());
    let mut mounted = Mounted::new(attached, &record, &point.path);
    mounted.save(&record)?;
    match mounted.mount_on(&point, record, options.read_only) {
        Ok(()) => {
            site.done(Step::Mounted);
            if is_small {
                mounted.fill_device();
            }
            Ok(mounted)
        }
        Err(error) => {
            // The first error is the one to report; the record ensures that nothing is forgotten.
            let _ = mounted.forget();
            Err(error)
        }
    }
}

/// Whether `path` is a mount point that a former daemon created and, because it died, did not remove. If it created one somewhere else,
/// that is removed now.
fn left_by_us(site: &Site, uuid: Uuid, path: &Path) -> Result<bool, AttachError> {
    let Some(former) = Record::load(&site.dirs.records(), uuid) else { return Ok(false) };
    match former.mountpoint {
        Some(at) if at == path => Ok(former.made),
        Some(at) => super::take_down::release_mountpoint(&at, former.made, former.mode).map(|()| false),
        None => Ok(false),
    }
}

/// Makes the file system ready to be mounted. Returns whether it is smaller than its device; the device was then resized while it was not
/// mounted, or on another machine.
fn prepare(attached: &Attached, options: &MountOptions) -> Result<bool, AttachError> {
    let (site, target) = (attached.site(), attached.target().clone());
    match probe(site, &target)? {
        Content::Foreign => Err(AttachError::Foreign),
        Content::Blank if options.read_only => Err(AttachError::NoFileSystem),
        Content::Blank => {
            let label = attached.identity().name.clone();
            let (uid, gid) = (options.uid, options.gid);
            site.perform(&Privileged::MakeFileSystem { target, label, uid, gid }, FORMAT_DEADLINE)?;
            site.done(Step::Formatted);
            Ok(false)
        }
        // Only if the kernel has met an inconsistency. After an unclean end, the mount itself replays the journal.
        Content::Ext4(superblock) => {
            if superblock.has_errors {
                site.perform(&Privileged::Check { target: target.clone() }, CHECK_DEADLINE)?;
            }
            if options.read_only || !is_small(&superblock, &target)? {
                return Ok(false);
            }
            let grow = Privileged::GrowUnmounted { target: target.clone() };
            if let Err(error) = site.perform(&grow, CHECK_DEADLINE) {
                tracing::warn!(%error, "the file system is smaller than its drive, and could not be enlarged");
            }
            match probe(site, &target)? {
                Content::Ext4(superblock) => is_small(&superblock, &target),
                Content::Blank | Content::Foreign => Err(AttachError::Confused),
            }
        }
    }
}

fn probe(site: &Site, target: &Target) -> Result<Content, AttachError> {
    let probe = Privileged::Probe { target: target.clone() };
    match site.deputy.perform(&probe, &[], FORMAT_DEADLINE)? {
        Outcome::Content(content) => Ok(content),
        _ => Err(AttachError::Confused),
    }
}

fn is_small(superblock: &Superblock, target: &Target) -> Result<bool, AttachError> {
    Ok(superblock.size_bytes + GROW_FROM_BYTES <= target.size_bytes()?)
}

/// The drive's mount, if it has one: after [`super::reattach`].
pub fn find(attached: &Attached) -> Result<Option<Mounted>, AttachError> {
    let number = attached.target().number()?;
    let mounts = mountinfo::read()?;
    let Some(mount) = mounts.iter().rev().find(|mount| mount.number == number) else { return Ok(None) };
    let identity = attached.identity();
    let record = Record::load(&attached.site().dirs.records(), identity.uuid)
        .unwrap_or_else(|| Record::new(identity.uuid, &identity.name));
    Ok(Some(Mounted::new(attached, &record, &mount.point)))
}

impl Mounted {
    fn new(attached: &Attached, record: &Record, mountpoint: &Path) -> Self {
        Mounted {
            mountpoint: mountpoint.to_owned(),
            made: record.made && record.mountpoint.as_deref() == Some(mountpoint),
            mode: record.mode,
            target: attached.target().clone(),
            uuid: record.uuid,
            name: record.name.clone(),
            site: attached.site().clone(),
        }
    }

    /// Mounts, and closes the bare directory first: a program that finds the mount gone cannot write there.
    fn mount_on(
        &mut self,
        point: &MountPoint,
        mut record: Record,
        read_only: bool,
    ) -> Result<(), AttachError> {
        let directory = point.open()?;
        record.mode = mountpoint::mode_of(&directory);
        self.mode = record.mode;
        self.save(&record)?;
        mountpoint::close(&directory, &point.path);
        let operation = Privileged::Mount { target: self.target.clone(), read_only };
        self.site.deputy.perform(&operation, &[directory.as_fd()], MOUNT_DEADLINE)?;
        Ok(())
    }

    /// The mount point, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The device that is mounted there.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The program that looks at the files, under one of its hidden subcommands.
    pub(crate) fn program(&self) -> &Path {
        self.site.deputy.own_program()
    }

    /// Writes everything back to the drive, which means to its journal.
    pub fn sync(&self, deadline: Duration) -> Result<(), PrivilegedError> {
        let (target, mountpoint) = (self.target.clone(), self.mountpoint.clone());
        self.site.deputy.look(&Look::Sync { target, mountpoint }, deadline).map(drop)
    }

    /// Bytes of new data that are in memory and have no place on the drive yet. ext4 counts them; reading the count does not enter the file
    /// system, and so does not wait for the drive.
    pub fn unallocated_bytes(&self) -> u64 {
        let said = std::fs::read_to_string(self.target.ext4_sysfs("delayed_allocation_blocks"));
        let blocks = said.ok().and_then(|said| said.trim().parse::<u64>().ok());
        blocks.unwrap_or(0).saturating_mul(BLOCK_BYTES)
    }

    /// How full the file system is.
    pub fn usage(&self) -> Result<Usage, AttachError> {
        let (target, mountpoint) = (self.target.clone(), self.mountpoint.clone());
        match self.site.deputy.look(&Look::Usage { target, mountpoint }, USAGE_DEADLINE)? {
            Outcome::Usage(usage) => Ok(usage),
            _ => Err(AttachError::Confused),
        }
    }

    /// Writes everything back, and holds writers: for at most `hold`, whatever happens to this process.
    pub fn freeze(&self, hold: Duration) -> Result<Frozen, PrivilegedError> {
        self.site.deputy.freeze(&self.target, &self.mountpoint, hold, FREEZE_DEADLINE)
    }

    /// Makes every later access fail without writing anything back; then it can be unmounted whichever programs use it.
    pub fn shut_down(&self) -> Result<(), PrivilegedError> {
        let (target, mountpoint) = (self.target.clone(), self.mountpoint.clone());
        self.site.deputy.perform(&Privileged::ShutDown { target, mountpoint }, &[], THAW_DEADLINE).map(drop)
    }

    /// Grows to the drive's present size while programs use it.
    pub fn grow(&self, attached: &mut Attached) -> Result<(), AttachError> {
        match attached.mode() {
            AttachMode::Loop => attached.resize()?,
            AttachMode::Nbd | AttachMode::Auto => {
                // The kernel's nbd may deadlock when it changes its size under requests: so writes are held now.
                let frozen = self.freeze(GROW_HOLD)?;
                let resized = attached.resize();
                match frozen.thaw() {
                    // It took long, which does no harm by itself.
                    Ok(()) | Err(FreezeEnded::Expired) => {}
                    Err(FreezeEnded::Failed(error)) => return Err(error.into()),
                }
                resized?;
            }
        }
        let grow = Privileged::Grow { target: self.target.clone() };
        self.site.deputy.perform(&grow, &[], GROW_DEADLINE)?;
        Ok(())
    }

    /// Grows the file system to its whole device. If that fails, it can be used as it is.
    fn fill_device(&self) {
        let grow = Privileged::Grow { target: self.target.clone() };
        if let Err(error) = self.site.perform(&grow, FILL_DEADLINE) {
            tracing::warn!(%error, "the file system is smaller than its drive, and could not be enlarged");
        }
    }

    /// Unmounts. If programs use it, the error names them and it stays mounted.
    pub fn unmount(&self) -> Result<(), AttachError> {
        self.take_off()?;
        self.forget()
    }

    /// Unmounts, and leaves the bare directory closed until the device is gone ([`Attached::detach`]): programs that have not noticed yet
    /// are refused there.
    pub fn take_off(&self) -> Result<(), AttachError> {
        let number = self.target.number()?;
        if mountinfo::read()?.iter().all(|mount| mount.number != number) {
            // Another program has already unmounted it, and something else may be mounted there by now.
            self.site.done(Step::Unmounted);
            return Ok(());
        }
        let operation = Privileged::Unmount { number, mountpoint: self.mountpoint.clone(), lazy: false };
        self.site.deputy.perform(&operation, &[], UNMOUNT_DEADLINE)?;
        self.site.done(Step::Unmounted);
        Ok(())
    }

    /// Releases writers after a freeze whose process may have been killed.
    pub(super) fn thaw(&self) -> Result<(), PrivilegedError> {
        let (target, mountpoint) = (self.target.clone(), self.mountpoint.clone());
        self.site.deputy.perform(&Privileged::Thaw { target, mountpoint }, &[], THAW_DEADLINE).map(drop)
    }

    /// Removes the mount point if we created it, or opens it again, and clears its record.
    fn forget(&self) -> Result<(), AttachError> {
        super::take_down::release_mountpoint(&self.mountpoint, self.made, self.mode)?;
        self.save(&Record::new(self.uuid, &self.name))
    }

    fn save(&self, record: &Record) -> Result<(), AttachError> {
        let records = self.site.dirs.records();
        record.save(&records).map_err(|error| AttachError::io("write to", &records, error))
    }
}
