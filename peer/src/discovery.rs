//! Discovery on the local network by multicast DNS.
//!
//! What is announced says only that a device with Holdall is at this address and port: its id is random, and changes every hour. Names come
//! after the keys have proved who asks.

use mdns_sd::{Receiver, ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The service, registered with no authority.
const SERVICE: &str = "_holdall._tcp.local.";
/// How long a random id is used.
const ID_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// The most announcements that are remembered: a hostile network sends as many as it likes.
const FOUND_MAX: usize = 64;
/// The most addresses of one of them.
const ADDRESSES_MAX: usize = 8;

/// Announces this device, and collects the addresses of others. Dropping it ends both.
pub struct Discovery {
    daemon: ServiceDaemon,
    found: Found,
    tasks: Vec<JoinHandle<()>>,
}

/// Addresses by the name of their announcement. Written by the task that listens, read by those that dial.
type Found = Arc<Mutex<BTreeMap<String, Vec<SocketAddr>>>>;

impl Discovery {
    /// Begins to look, and to announce `port` if there is one.
    pub fn begin(port: Option<u16>) -> mdns_sd::Result<Self> {
        let daemon = ServiceDaemon::new()?;
        let (found, ours) = (Found::default(), Arc::new(Mutex::new(String::new())));
        let looking = tokio::spawn(look(daemon.browse(SERVICE)?, found.clone(), ours.clone()));
        let announcing = port.map(|port| tokio::spawn(announce(daemon.clone(), port, ours)));
        Ok(Self { daemon, found, tasks: [looking].into_iter().chain(announcing).collect() })
    }

    /// The addresses at which devices were announced.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.found.lock().values().flatten().copied().collect()
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        // It says goodbye for what was announced.
        let _ = self.daemon.shutdown();
    }
}

/// Announces the port under an id that changes.
async fn announce(daemon: ServiceDaemon, port: u16, ours: Arc<Mutex<String>>) {
    loop {
        let id = format!("{:016x}", rand::random::<u64>());
        let properties = [("id", id.as_str()), ("protocol", "1")];
        let host = format!("{id}.local.");
        let info = ServiceInfo::new(SERVICE, &id, &host, "", port, &properties[..]);
        let Ok(info) = info.map(ServiceInfo::enable_addr_auto) else { return };
        let name = info.get_fullname().to_owned();
        *ours.lock() = name.clone();
        if let Err(error) = daemon.register(info) {
            tracing::warn!(%error, "this device cannot be announced on the local network");
            return;
        }
        tokio::time::sleep(ID_LIFETIME).await;
        let _ = daemon.unregister(&name);
    }
}

/// Collects announcements until the daemon ends.
async fn look(events: Receiver<ServiceEvent>, found: Found, ours: Arc<Mutex<String>>) {
    while let Ok(event) = events.recv_async().await {
        match event {
            ServiceEvent::ServiceResolved(service) if service.fullname != *ours.lock() => {
                let mut addresses: Vec<_> =
                    service.addresses.iter().map(|ip| address(ip, service.port)).collect();
                addresses.sort_by_key(|address| address.is_ipv6());
                addresses.truncate(ADDRESSES_MAX);
                let mut found = found.lock();
                if found.len() < FOUND_MAX || found.contains_key(&service.fullname) {
                    found.insert(service.fullname.clone(), addresses);
                }
            }
            ServiceEvent::ServiceRemoved(_, name) => drop(found.lock().remove(&name)),
            _ => {}
        }
    }
}

/// An IPv6 address of a link needs the interface, too.
fn address(ip: &ScopedIp, port: u16) -> SocketAddr {
    match ip {
        ScopedIp::V6(scoped) => {
            SocketAddr::V6(SocketAddrV6::new(*scoped.addr(), port, 0, scoped.scope_id().index))
        }
        other => SocketAddr::new(other.to_ip_addr(), port),
    }
}
