//! The list of paired devices (`devices.json`).

use crate::error::{PeerError, Result};
use crate::file;
use crate::hello::{Who, is_name};
use crate::key::{DeviceId, PublicKey};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The version of the file that this program writes.
const VERSION: u32 = 1;
/// The longest file: a thousand devices.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most paired devices: more than a person has, and each costs a look-up only.
const DEVICES_MAX: usize = 256;
/// The most addresses that are remembered of a device: home, work, both families.
const ADDRESSES_MAX: usize = 8;
/// How exact `seen_at` is: each change is a write to the disk.
const SEEN_PAUSE_MS: u64 = 60_000;

/// A paired device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The device, as drives name it.
    pub uuid: Uuid,
    /// Its name on this computer; no two devices share one.
    pub name: String,
    /// What identifies it.
    pub key: PublicKey,
    /// Where it was last reached, the latest first.
    pub addresses: Vec<SocketAddr>,
    /// When it was paired, in milliseconds since 1970.
    pub paired_at: u64,
    /// When it was last connected, in milliseconds since 1970.
    #[serde(default)]
    pub seen_at: Option<u64>,
}

impl Device {
    /// The fingerprint of its key.
    pub fn id(&self) -> DeviceId {
        self.key.id()
    }
}

/// What `devices.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// This device's name, if a person has chosen one.
    #[serde(default)]
    name: Option<String>,
    /// Whether this device listens; null until somebody pairs or says so.
    #[serde(default)]
    listens: Option<bool>,
    /// The port.
    #[serde(default)]
    port: Option<u16>,
    #[serde(default)]
    devices: Vec<Device>,
}

/// The paired devices, and how this device is reached. Each change is on disk before it counts.
#[derive(Debug)]
pub struct Devices {
    path: PathBuf,
    content: Content,
}

impl Devices {
    /// Reads the list.
    ///
    /// A list of a later version, or a damaged one, is an error: to begin a new one would forget whom to trust.
    pub fn open(path: &Path) -> Result<Self> {
        let content = match file::read(path, FILE_BYTES_MAX)? {
            None => Content { version: VERSION, name: None, listens: None, port: None, devices: Vec::new() },
            Some(bytes) => {
                let broken =
                    |why: String| file::failed(path, "read", io::Error::new(io::ErrorKind::InvalidData, why));
                let content: Content =
                    serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
                if content.version != VERSION {
                    return Err(broken(format!("it has version {}", content.version)));
                }
                content
            }
        };
        Ok(Self { path: path.to_owned(), content })
    }

    /// All devices, by name.
    pub fn all(&self) -> &[Device] {
        &self.content.devices
    }

    /// The device with this key.
    pub fn by_key(&self, key: &PublicKey) -> Option<&Device> {
        self.content.devices.iter().find(|device| device.key == *key)
    }

    /// The device with this name.
    pub fn by_name(&self, name: &str) -> Option<&Device> {
        self.content.devices.iter().find(|device| device.name == name)
    }

    /// This device's chosen name.
    pub fn name(&self) -> Option<&str> {
        self.content.name.as_deref()
    }

    /// Whether this device listens: if a person said so, or else if there is a device for which it could.
    pub fn listens(&self) -> bool {
        self.content.listens.unwrap_or(!self.content.devices.is_empty())
    }

    /// The chosen port.
    pub fn port(&self) -> Option<u16> {
        self.content.port
    }

    /// Renames this device.
    pub fn set_name(&mut self, name: &str) -> Result<()> {
        self.change(|content| content.name = Some(name.to_owned()))
    }

    /// Switches listening, and sets its port.
    pub fn set_listening(&mut self, on: bool, port: Option<u16>) -> Result<()> {
        self.change(|content| {
            content.listens = Some(on);
            content.port = port.or(content.port);
        })
    }

    /// Whether a device may be added: the key alone identifies it, so no other key may claim its identity.
    pub fn may_add(&self, key: &PublicKey, uuid: Uuid) -> Result<()> {
        let other = self.content.devices.iter().any(|device| device.uuid == uuid && device.key != *key);
        match other {
            true => Err(PeerError::Impostor),
            false => Ok(()),
        }
    }

    /// Adds a device, or replaces the one with this key. Its name becomes one that no other device here has.
    pub fn add(
        &mut self,
        key: PublicKey,
        who: &Who,
        address: Option<SocketAddr>,
        now: u64,
    ) -> Result<Device> {
        self.may_add(&key, who.uuid)?;
        let devices = &self.content.devices;
        if devices.len() >= DEVICES_MAX && self.by_key(&key).is_none() {
            return Err(PeerError::Protocol("a pairing with more devices than are kept"));
        }
        let name = self.free_name(&who.name, &key);
        let addresses = address.into_iter().collect();
        let device = Device { uuid: who.uuid, name, key, addresses, paired_at: now, seen_at: Some(now) };
        let added = device.clone();
        self.change(|content| {
            content.devices.retain(|device| device.key != key);
            content.devices.push(added);
            content.devices.sort_by(|one, other| one.name.cmp(&other.name));
        })?;
        Ok(device)
    }

    /// Removes a device.
    pub fn remove(&mut self, name: &str) -> Result<Device> {
        let device = self.by_name(name).cloned().ok_or_else(|| PeerError::Unknown(name.to_owned()))?;
        self.change(|content| content.devices.retain(|kept| kept.key != device.key))?;
        Ok(device)
    }

    /// Notes that a device was connected, from where, and how it calls itself now. Only its key has brought it here.
    pub fn seen(&mut self, key: &PublicKey, name: &str, address: Option<SocketAddr>, now: u64) -> Result<()> {
        let name = self.free_name(name, key);
        let Some(known) = self.by_key(key) else { return Ok(()) };
        let recent = known.seen_at.is_some_and(|seen| now.saturating_sub(seen) < SEEN_PAUSE_MS);
        let same_place = address.is_none_or(|address| known.addresses.first() == Some(&address));
        if recent && same_place && known.name == name {
            return Ok(());
        }
        self.change(|content| {
            if let Some(device) = content.devices.iter_mut().find(|device| device.key == *key) {
                device.seen_at = Some(now);
                device.name = name;
                if let Some(address) = address {
                    device.addresses.retain(|known| *known != address);
                    device.addresses.insert(0, address);
                    device.addresses.truncate(ADDRESSES_MAX);
                }
            }
        })
    }

    /// `wanted`, or it with the first number that makes it unique.
    fn free_name(&self, wanted: &str, key: &PublicKey) -> String {
        let wanted = if is_name(wanted) { wanted } else { "device" };
        let taken = |name: &str| self.by_name(name).is_some_and(|device| device.key != *key);
        if !taken(wanted) {
            return wanted.to_owned();
        }
        (2..)
            .map(|number| format!("{wanted} {number}"))
            .find(|name| !taken(name))
            .expect("numbers do not end")
    }

    fn change(&mut self, change: impl FnOnce(&mut Content)) -> Result<()> {
        let mut content = self.content.clone();
        change(&mut content);
        let text = serde_json::to_vec_pretty(&content).expect("plain data");
        file::replace(&self.path, &text)?;
        self.content = content;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> PublicKey {
        PublicKey::new([byte; 32])
    }

    fn who(uuid: u128, name: &str) -> Who {
        Who { uuid: Uuid::from_u128(uuid), name: name.to_owned(), port: 0 }
    }

    #[test]
    fn the_list_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("devices.json");
        let mut devices = Devices::open(&path).unwrap();
        assert!(!devices.listens());
        let added = devices.add(key(1), &who(1, "desk"), "192.0.2.1:7".parse().ok(), 5).unwrap();
        devices.set_name("lap").unwrap();
        let again = Devices::open(&path).unwrap();
        assert_eq!((again.all(), again.name(), again.listens()), (&[added][..], Some("lap"), true));
    }

    #[test]
    fn another_key_cannot_take_an_identity() {
        let dir = tempfile::tempdir().unwrap();
        let mut devices = Devices::open(&dir.path().join("devices.json")).unwrap();
        devices.add(key(1), &who(1, "desk"), None, 5).unwrap();
        assert!(matches!(devices.add(key(2), &who(1, "desk"), None, 6), Err(PeerError::Impostor)));
        assert_eq!(devices.add(key(2), &who(2, "desk"), None, 6).unwrap().name, "desk 2");
        devices.seen(&key(2), "desk", None, 7).unwrap();
        assert_eq!(devices.by_name("desk").unwrap().key, key(1));
        assert_eq!(devices.add(key(1), &who(1, "desk"), None, 6).unwrap().name, "desk");
        assert_eq!(devices.all().len(), 2);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("devices.json");
        for text in ["{", r#"{"version":2,"devices":[]}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(Devices::open(&path).is_err());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
