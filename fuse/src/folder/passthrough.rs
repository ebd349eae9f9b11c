//! Opens that the kernel serves by itself.

use super::backing_ids::BackingIds;
use super::device::Device;
use super::registrar::Registrar;
use holdall_core::folder::api::Handle;
use holdall_core::folder::{Ino, Survivor};
use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The registered files of a mount.
pub(super) struct Passthrough {
    registrar: Option<Arc<dyn Registrar>>,
    // Held over a registration, so that two first opens of an inode cannot register it twice, and an id is closed before it is given again.
    // A registration is one system call, or one exchange with a process that is given a second for it.
    ids: Mutex<BackingIds>,
}

impl Passthrough {
    /// With what outlived the last daemon.
    pub fn new(registrar: Option<Arc<dyn Registrar>>, survivors: &[Survivor]) -> Self {
        let mut ids = BackingIds::default();
        for Survivor { ino, registered, passed, .. } in survivors {
            registered.iter().for_each(|id| ids.restore(*ino, *id, passed));
        }
        Self { registrar, ids: Mutex::new(ids) }
    }

    /// Whether there is somebody who registers files.
    pub fn can_register(&self) -> bool {
        self.registrar.is_some()
    }

    /// The backing id for an open of `ino`, whose local file is `file`. It is released with the handle.
    pub async fn open(&self, device: &Device, ino: Ino, handle: Handle, file: &File) -> io::Result<u32> {
        let mut ids = self.ids.lock().await;
        if let Some(id) = ids.join(ino, handle) {
            return Ok(id);
        }
        let registrar = self.registrar.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        let id = registrar.register(&device.get()?, file).await?;
        ids.begin(ino, handle, id);
        Ok(id)
    }

    /// The kernel has released a handle, whether it was passed through or not.
    pub async fn release(&self, device: &Device, handle: Handle) {
        let mut ids = self.ids.lock().await;
        let Some(id) = ids.release(handle) else { return };
        let (Ok(device), Some(registrar)) = (device.get(), &self.registrar) else { return };
        if let Err(error) = registrar.unregister(&device, id).await {
            tracing::warn!(%error, id, "a file stays registered with the kernel until the folder is unmounted");
        }
    }
}
