//! A drive as an nbd device: one connection to the kernel, over a socket pair.

use super::{AttachError, DEVICE_DEADLINE, MODULE_DEADLINE, Record, Served, Site, Step};
use holdall_core::device::BlockDevice;
use holdall_core::units::BLOCK_BYTES;
use holdall_helper::{Deputy, Identifier, Outcome, Privileged, PrivilegedError, Proof, Refused, Target};
use holdall_kernel::nbd;
use holdall_nbd::server::{Export, Server, Session};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long requests in flight may take to end when the device goes. It is unmounted, so they are reads by some program.
const DETACH_GRACE: Duration = Duration::from_secs(5);

const _: () = assert!(nbd::BLOCK_SIZE_BYTES == BLOCK_BYTES, "the device has the blocks of the drive");

/// How long the kernel may take to notice that a dead daemon's connections are dead, and how often to check.
const NOTICE_PATIENCE: Duration = Duration::from_secs(30);
const NOTICE_INTERVAL: Duration = Duration::from_millis(20);

/// The served ends of one device's connections.
pub(super) struct Connections {
    server: Server,
    export: Arc<Export>,
    session: Option<Session>,
}

/// The identifier of a drive's device.
fn identifier(uuid: Uuid) -> String {
    Identifier { drive: uuid, user: rustix::process::geteuid().as_raw() }.to_string()
}

/// Whether the kernel has nbd, after loading the module if necessary.
pub(super) fn is_available(site: &Site) -> bool {
    if nbd::is_loaded() {
        return true;
    }
    // A missing module is no error: there is another way to attach.
    let loaded = site.perform(&Privileged::LoadNbd, MODULE_DEADLINE);
    loaded.is_ok() && nbd::is_loaded()
}

/// The drive's devices. At most one of several is alive: the others were taken down under an open file, and the kernel keeps their names
/// until the file is closed.
pub(super) fn find(uuid: Uuid) -> Result<Vec<Target>, AttachError> {
    let identifier = identifier(uuid);
    let devices = nbd::attached_devices()
        .map_err(|error| AttachError::io("look into", Path::new("/sys/block"), error))?;
    let ours = devices.iter().filter(|device| device.identifier.as_deref() == Some(&identifier));
    let target = |index: nbd::DeviceIndex| Target {
        device: index.path(),
        proof: Proof::Identifier(identifier.clone()),
    };
    Ok(ours.map(|device| target(device.index)).collect())
}

/// Removes a device, mounted or not. A device that is already gone is no error.
pub(super) fn discard(target: &Target, site: &Site) -> Result<(), AttachError> {
    let operation = Privileged::NbdDetach { target: target.clone(), force: true };
    match site.perform(&operation, DEVICE_DEADLINE) {
        Ok(()) | Err(PrivilegedError::Refused(Refused::NotOurs { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Has all devices go that a daemon with these records has attached, mounted or not: nobody serves them any more, and programs that wait
/// for them get errors.
pub(super) fn fail_waiters(records: &Path) -> Result<(), AttachError> {
    let deputy =
        Deputy::this_program().map_err(|error| AttachError::io("find", Path::new("this program"), error))?;
    let noted = Record::all(records).map_err(|error| AttachError::io("look into", records, error))?;
    for record in noted {
        for target in find(record.uuid)? {
            let operation = Privileged::NbdDetach { target, force: true };
            match deputy.perform(&operation, &[], DEVICE_DEADLINE) {
                Ok(_) | Err(PrivilegedError::Refused(Refused::NotOurs { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

pub(super) fn attach(
    device: Arc<dyn BlockDevice>,
    uuid: Uuid,
    site: &Site,
) -> Result<(Served, Target), AttachError> {
    let mut connections = Connections::new(device, site)?;
    let (session, kernels) = connections.open()?;
    let operation = Privileged::NbdAttach {
        identifier: identifier(uuid),
        size_bytes: connections.size_bytes(),
        server_flags: connections.export.transmission_flags(false),
    };
    let made = perform_with(site, &operation, &kernels)?;
    connections.session = Some(session);
    let Outcome::Device(device) = made else { return Err(AttachError::Confused) };
    site.done(Step::DeviceMade);
    let target = Target { device, proof: Proof::Identifier(identifier(uuid)) };
    Ok((Served::Nbd(connections), target))
}

/// Gives new connections to the device that a former daemon left.
pub(super) fn reattach(
    device: Arc<dyn BlockDevice>,
    uuid: Uuid,
    site: &Site,
) -> Result<Option<(Served, Target)>, AttachError> {
    let targets = find(uuid)?;
    if targets.is_empty() {
        return Ok(None);
    }
    let mut connections = Connections::new(device, site)?;
    for target in targets {
        if connections.offer_until_taken(&target, site)? {
            return Ok(Some((Served::Nbd(connections), target)));
        }
    }
    Ok(None)
}

/// "not configured, cannot reconfigure" in drivers/block/nbd.c.
fn is_gone(refused: &Refused) -> bool {
    matches!(refused, Refused::NotOurs { .. } | Refused::System { errno: Some(libc::EINVAL), .. })
}

fn perform_with(
    site: &Site,
    operation: &Privileged,
    kernels: &[OwnedFd],
) -> Result<Outcome, PrivilegedError> {
    let sockets: Vec<_> = kernels.iter().map(AsFd::as_fd).collect();
    site.deputy.perform(operation, &sockets, DEVICE_DEADLINE)
}

impl Connections {
    fn new(device: Arc<dyn BlockDevice>, site: &Site) -> Result<Self, AttachError> {
        let server = Server::new(site.runtime.clone());
        let export = server.export("drive", device).map_err(AttachError::Serve)?;
        Ok(Connections { server, export, session: None })
    }

    fn size_bytes(&self) -> u64 {
        self.export.device().geometry().size_bytes
    }

    /// Starts serving new connections; the second part is for the kernel.
    fn open(&self) -> Result<(Session, Vec<OwnedFd>), AttachError> {
        let failed = |error| AttachError::io("make", Path::new("a socket pair"), error);
        let (ours, kernels) = nbd::socket_pairs(nbd::SOCKETS).map_err(failed)?;
        let session = self.server.serve_kernel(&self.export, ours).map_err(AttachError::Serve)?;
        Ok((session, kernels))
    }

    /// Offers the kernel new connections until it has noticed that its old ones are dead. Returns false if the device was already removed,
    /// and only an open file keeps its name.
    fn offer_until_taken(&mut self, target: &Target, site: &Site) -> Result<bool, AttachError> {
        let deadline = Instant::now() + NOTICE_PATIENCE;
        loop {
            match self.offer(target, site) {
                Ok(true) => return Ok(true),
                Ok(false) if Instant::now() >= deadline => {
                    return Err(AttachError::NotTaken { device: target.device.clone() });
                }
                // The kernel does not report when it has noticed.
                Ok(false) => std::thread::sleep(NOTICE_INTERVAL),
                Err(AttachError::Privileged(PrivilegedError::Refused(refused))) if is_gone(&refused) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Offers the kernel new connections and the current size. Returns true if it takes them, which it does once it knows that its own are
    /// dead.
    fn offer(&mut self, target: &Target, site: &Site) -> Result<bool, AttachError> {
        let (session, kernels) = self.open()?;
        let operation = Privileged::NbdReconfigure {
            target: target.clone(),
            size_bytes: self.size_bytes(),
            server_flags: self.export.transmission_flags(false),
        };
        perform_with(site, &operation, &kernels)?;
        drop(kernels);
        let taken = session.live() > 0;
        if taken {
            self.session = Some(session);
        }
        Ok(taken)
    }

    pub(super) fn resize(&mut self, target: &Target, site: &Site) -> Result<(), AttachError> {
        // The kernel's interface requires new connections here; it uses them only if the old ones have died, and then they are needed.
        self.offer(target, site).map(drop)
    }

    pub(super) fn detach(&mut self, target: &Target, site: &Site) -> Result<(), AttachError> {
        let detached =
            site.perform(&Privileged::NbdDetach { target: target.clone(), force: false }, DEVICE_DEADLINE);
        match detached {
            Ok(()) => {}
            // Already gone: the end of an earlier operation was missed, or somebody else removed it.
            Err(PrivilegedError::Refused(Refused::NotOurs { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        site.done(Step::DeviceGone);
        if let Some(session) = self.session.take() {
            session.close(DETACH_GRACE);
        }
        self.server.withdraw(&self.export, DETACH_GRACE);
        Ok(())
    }

    /// The kernel finds its connection dead and keeps requests for as long as `DEAD_CONNECTION_TIMEOUT`.
    pub(super) fn hand_over(&mut self, patience: Duration) {
        if let Some(session) = self.session.take() {
            session.close(patience);
        }
        self.server.shutdown(patience);
    }
}
