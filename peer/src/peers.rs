//! This device among its peers: the paired devices, the listener, and the connections that are open.

mod dial;
mod join;
mod listen;

use crate::code::Code;
use crate::discovery::Discovery;
use crate::error::{PeerError, Result};
use crate::hello::{Purpose, Who, is_name};
use crate::key::{DeviceKey, PublicKey};
use crate::link::{Closer, Link};
use crate::list::{Device, Devices};
use crate::pairing::Pairing;
use crate::tls::{self, Door, Expected};
use listen::Listener;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// The port unless a person chooses one. No service has it.
pub const PORT_DEFAULT: u16 = 47_113;
/// The most open connections of one device: a migration and a follower for each of its drives.
const LINKS_MAX: usize = 128;
/// How long another side may take for the handshake, and for the greeting.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Serves an incoming connection until it ends.
type Handler = Arc<dyn Fn(Link) -> Serving + Send + Sync>;

/// Whether others can connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    /// Whether this device should listen.
    pub wanted: bool,
    /// The port at which it does.
    pub port: Option<u16>,
    /// Why it does not, though it should.
    pub error: Option<String>,
}

/// The peers of this device.
pub struct Peers {
    key: DeviceKey,
    uuid: Uuid,
    /// The name until a person chooses one.
    host: String,
    // Look-ups and small files; nothing waits for the network under any of these locks.
    devices: Mutex<Devices>,
    door: Arc<Door>,
    handlers: Mutex<HashMap<Purpose, Handler>>,
    live: Mutex<Vec<(PublicKey, Closer)>>,
    pairing: Mutex<Option<Arc<Pairing>>>,
    listener: Mutex<Option<Listener>>,
    listen_error: Mutex<Option<String>>,
    discovery: Mutex<Option<(Option<u16>, Discovery)>>,
    /// Held while the listener is started or stopped, which waits for the system.
    settling: tokio::sync::Mutex<()>,
}

impl Peers {
    /// Reads key and devices from `state`, and makes the key if there is none. Call [`Peers::settle`] to listen.
    pub fn open(state: &Path, uuid: Uuid, host: &str) -> Result<Arc<Self>> {
        let (key, devices) =
            (DeviceKey::open(&state.join("device.key"))?, Devices::open(&state.join("devices.json"))?);
        let door = Arc::new(Door::default());
        door.set_paired(devices.all().iter().map(|device| device.key));
        Ok(Arc::new(Self {
            key,
            uuid,
            host: shortened(host),
            devices: Mutex::new(devices),
            door,
            handlers: Mutex::default(),
            live: Mutex::default(),
            pairing: Mutex::default(),
            listener: Mutex::default(),
            listen_error: Mutex::default(),
            discovery: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
        }))
    }

    /// Serves incoming connections for `purpose` by `handler`. Only paired devices arrive there.
    ///
    /// The handler lives as long as this object: what owns this object must be captured as `Weak`.
    pub fn on<F, S>(&self, purpose: Purpose, handler: F)
    where
        F: Fn(Link) -> S + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        self.handlers.lock().insert(purpose, Arc::new(move |link| Box::pin(handler(link))));
    }

    /// This device's uuid.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// This device's name.
    pub fn name(&self) -> String {
        self.devices.lock().name().map_or_else(|| self.host.clone(), str::to_owned)
    }

    /// Renames this device. Paired devices learn it at the next connection.
    pub fn set_name(&self, name: &str) -> Result<()> {
        match is_name(name) {
            true => self.devices.lock().set_name(name),
            false => Err(PeerError::Protocol("a name that cannot be shown")),
        }
    }

    /// This device's public key.
    pub fn public_key(&self) -> &PublicKey {
        self.key.public()
    }

    /// The paired devices, by name.
    pub fn devices(&self) -> Vec<Device> {
        self.devices.lock().all().to_vec()
    }

    /// The paired device with this name.
    pub fn device(&self, name: &str) -> Result<Device> {
        self.devices.lock().by_name(name).cloned().ok_or_else(|| PeerError::Unknown(name.to_owned()))
    }

    /// How many connections of a device are open.
    pub fn links(&self, device: &Device) -> usize {
        self.live.lock().iter().filter(|(key, closer)| *key == device.key && closer.is_live()).count()
    }

    /// Removes a device, and closes its connections. It gets in no more.
    pub async fn unpair(self: &Arc<Self>, name: &str) -> Result<Device> {
        let removed = {
            let mut devices = self.devices.lock();
            let removed = devices.remove(name)?;
            self.door.set_paired(devices.all().iter().map(|device| device.key));
            // Under the same lock that admits a link: none is left over.
            self.live.lock().retain(|(key, closer)| {
                if *key == removed.key {
                    closer.close();
                }
                *key != removed.key
            });
            removed
        };
        self.settle().await;
        Ok(removed)
    }

    /// Whether others can connect.
    pub fn listening(&self) -> Listening {
        Listening {
            wanted: self.wants_listener(),
            port: self.listener.lock().as_ref().map(Listener::port),
            error: self.listen_error.lock().clone(),
        }
    }

    /// Switches listening on or off for good, at `port` if one is given.
    pub async fn set_listening(self: &Arc<Self>, on: bool, port: Option<u16>) -> Result<Listening> {
        let moved = {
            let mut devices = self.devices.lock();
            let moved = port.is_some() && port != devices.port();
            devices.set_listening(on, port)?;
            moved
        };
        if moved {
            *self.listener.lock() = None;
        }
        self.settle().await;
        Ok(self.listening())
    }

    /// Shows a code, and waits for a device on which it is typed. Ends a pairing that is under way.
    pub async fn show_code(self: &Arc<Self>) -> Arc<Pairing> {
        let pairing = Pairing::show();
        self.begin(&pairing);
        self.settle().await;
        if let Some(error) = self.listening().error {
            pairing.fail(std::io::Error::other(error).into());
        }
        self.watch(&pairing);
        pairing
    }

    /// Pairs with the device that shows this code, at `at` or wherever it is found. Ends a pairing that is under way.
    pub async fn pair(self: &Arc<Self>, code: Code, at: Option<Vec<SocketAddr>>) -> Arc<Pairing> {
        let pairing = Pairing::with(code);
        self.begin(&pairing);
        self.settle().await;
        self.watch(&pairing);
        tokio::spawn(self.clone().join(pairing.clone(), at));
        pairing
    }

    /// The pairing that was begun last.
    pub fn pairing(&self) -> Option<Arc<Pairing>> {
        self.pairing.lock().clone()
    }

    fn begin(&self, pairing: &Arc<Pairing>) {
        if let Some(former) = self.pairing.lock().replace(pairing.clone()) {
            former.cancel();
        }
        self.door.set_pairing(pairing.shown_code().is_some());
    }

    /// Ends a pairing when its time is over, and stops what ran for it alone.
    fn watch(self: &Arc<Self>, pairing: &Arc<Pairing>) {
        let (peers, pairing) = (Arc::downgrade(self), pairing.clone());
        tokio::spawn(async move {
            pairing.expire().await;
            let Some(peers) = peers.upgrade() else { return };
            let is_last = peers.pairing.lock().as_ref().is_some_and(|last| Arc::ptr_eq(last, &pairing));
            if is_last {
                peers.door.set_pairing(false);
                peers.settle().await;
            }
        });
    }

    /// Keeps a device for which both persons have confirmed.
    fn keep(&self, key: PublicKey, who: &Who, address: Option<SocketAddr>) -> Result<Device> {
        let mut devices = self.devices.lock();
        let device = devices.add(key, who, address, now())?;
        self.door.set_paired(devices.all().iter().map(|device| device.key));
        Ok(device)
    }

    /// Who this device says that it is.
    fn who(&self) -> Who {
        let port = self.listener.lock().as_ref().map_or(0, Listener::port);
        Who { uuid: self.uuid, name: self.name(), port }
    }

    fn wants_listener(&self) -> bool {
        let shows = |pairing: &Arc<Pairing>| pairing.shown_code().is_some() && !pairing.stage().is_over();
        self.devices.lock().listens() || self.pairing.lock().as_ref().is_some_and(shows)
    }

    /// Starts or stops listening and discovery, as devices and pairing want it.
    pub async fn settle(self: &Arc<Self>) {
        let _one_at_a_time = self.settling.lock().await;
        if !self.wants_listener() {
            *self.listener.lock() = None;
            *self.listen_error.lock() = None;
        } else if self.listener.lock().is_none() {
            let chosen = self.devices.lock().port();
            match listen::begin(self, chosen).await {
                Ok(listener) => {
                    *self.listener.lock() = Some(listener);
                    *self.listen_error.lock() = None;
                }
                Err(error) => {
                    tracing::warn!(%error, "this device cannot listen for paired devices");
                    *self.listen_error.lock() = Some(error.to_string());
                }
            }
        }
        self.settle_discovery();
    }

    fn settle_discovery(&self) {
        let port = self.listener.lock().as_ref().map(Listener::port);
        let pairs = self.pairing.lock().as_ref().is_some_and(|pairing| !pairing.stage().is_over());
        let wanted = port.is_some() || pairs || !self.devices.lock().all().is_empty();
        let mut discovery = self.discovery.lock();
        if !wanted {
            *discovery = None;
        } else if discovery.as_ref().is_none_or(|(announced, _)| *announced != port) {
            *discovery = None;
            match Discovery::begin(port) {
                Ok(begun) => *discovery = Some((port, begun)),
                Err(error) => {
                    tracing::warn!(%error, "devices on the local network cannot be found by themselves");
                }
            }
        }
    }

    /// The addresses at which devices with Holdall were announced.
    fn discovered(&self) -> Vec<SocketAddr> {
        self.discovery.lock().as_ref().map(|(_, discovery)| discovery.addresses()).unwrap_or_default()
    }
}

/// For a connection to a device whose key is not known: the code proves it.
fn tls_any(key: &DeviceKey) -> Arc<rustls::ClientConfig> {
    tls::client(key, Expected::Any)
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A host's name as a device's name.
fn shortened(host: &str) -> String {
    let name = host.trim();
    if is_name(name) { name.to_owned() } else { "computer".to_owned() }
}

#[cfg(test)]
mod tests;
