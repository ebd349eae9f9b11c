//! Paired devices: the API's side of `holdall_peer`.
//!
//! A pairing lives only as long as a client looks at it: a closed page or an interrupted command must not leave a code that is valid. So
//! each look is noted, and a pairing that nobody has looked at for [`UNSEEN_MAX`] is cancelled.

use super::failure::{self, failure};
use super::registry::Registry;
use crate::api::{self, Action, Actions, Code, Failure, Finding, PairingStage};
use holdall_peer::{Device, Pairing, PeerError, Peers, Stage};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long nobody may look at a pairing. Clients look each second; a page in the background does so each ten seconds at least.
const UNSEEN_MAX: Duration = Duration::from_secs(15);
/// How long a look-up of a name may take.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(10);
/// How long the doctor waits for a device.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);
/// The port that an address without one means.
const PORT_DEFAULT: u16 = 47_113;
/// What a failure means that concerns other devices only.
const DRIVES_UNTOUCHED: &str = "Your drives and files are not affected.";

/// The devices of this daemon.
pub struct Devices {
    /// The failure says why there are none: a key or list that cannot be read is never replaced.
    peers: Result<Arc<Peers>, Failure>,
    seen: Arc<Mutex<Instant>>,
}

impl Devices {
    /// Reads key and list.
    pub fn new(registry: &Registry) -> Self {
        let (state, device) = (&registry.paths().state, registry.device());
        let peers = Peers::open(state, device.id, &device.name).map_err(|error| told(&error));
        if let Err(failure) = &peers {
            tracing::error!(failure = failure.message, "paired devices cannot be used");
        }
        Self { peers, seen: Arc::new(Mutex::new(Instant::now())) }
    }

    /// The peers, for those that serve or dial them.
    pub fn peers(&self) -> Result<&Arc<Peers>, Failure> {
        self.peers.as_ref().map_err(Clone::clone)
    }

    /// Begins to listen, if this device should.
    pub async fn begin(&self) {
        if let Ok(peers) = &self.peers {
            peers.settle().await;
        }
    }

    /// This device and its paired ones.
    pub fn list(&self) -> Result<api::Devices, Failure> {
        let peers = self.peers()?;
        let listening = peers.listening();
        let this = api::ThisDevice {
            name: peers.name(),
            uuid: peers.uuid().to_string(),
            fingerprint: peers.public_key().id().to_string(),
            listen: listening.wanted,
            port: listening.port,
            error: listening.error,
        };
        let paired = peers.devices().iter().map(|device| shown(peers, device)).collect();
        Ok(api::Devices { this, paired })
    }

    /// Renames this device.
    pub fn rename(&self, request: &api::NameDevice) -> Result<api::Devices, Failure> {
        self.peers()?.set_name(request.name.trim()).map_err(|error| match error {
            PeerError::Protocol(_) => failure(
                Code::Usage,
                "A device's name has 1 to 64 bytes, and no control characters.",
                failure::NOTHING_CHANGED,
                "Choose another name.",
            ),
            other => told(&other),
        })?;
        self.list()
    }

    /// Lets other devices connect, or not.
    pub async fn listen(&self, request: api::ListenForDevices) -> Result<api::Devices, Failure> {
        let peers = self.peers()?;
        let listening = peers.set_listening(request.on, request.port).await.map_err(|error| told(&error))?;
        match listening.error {
            Some(why) if request.on => Err(failure(
                Code::Failed,
                format!("Other devices cannot connect: {why}."),
                DRIVES_UNTOUCHED,
                "Choose another port: holdall device listen on --port PORT.",
            )),
            _ => self.list(),
        }
    }

    /// Removes a device, and closes its connections.
    pub async fn unpair(&self, name: &str) -> Result<api::Devices, Failure> {
        self.peers()?.unpair(name).await.map_err(|error| told(&error))?;
        self.list()
    }

    /// Begins a pairing.
    pub async fn pair(&self, request: api::Pair) -> Result<api::PairingStatus, Failure> {
        let peers = self.peers()?;
        *self.seen.lock() = Instant::now();
        let pairing = match &request.code {
            None => peers.show_code().await,
            Some(text) => {
                let code = holdall_peer::Code::parse(text).ok_or_else(|| {
                    failure(
                        Code::Usage,
                        "A code has nine digits.",
                        failure::NOTHING_CHANGED,
                        "Type it as the other device shows it.",
                    )
                })?;
                let at = match &request.at {
                    Some(at) => Some(looked_up(at).await?),
                    None => None,
                };
                peers.pair(code, at).await
            }
        };
        tokio::spawn(end_unseen(Arc::downgrade(&pairing), self.seen.clone()));
        Ok(self.status(peers, Some(&pairing)))
    }

    /// Where the pairing is.
    pub fn pairing(&self) -> Result<api::PairingStatus, Failure> {
        let peers = self.peers()?;
        *self.seen.lock() = Instant::now();
        Ok(self.status(peers, peers.pairing().as_deref()))
    }

    /// Takes the answer of the person here.
    pub fn confirm(&self, request: api::ConfirmPairing) -> Result<api::PairingStatus, Failure> {
        if let Some(pairing) = self.peers()?.pairing() {
            pairing.decide(request.pair);
        }
        self.pairing()
    }

    /// Ends the pairing.
    pub fn cancel(&self) -> Result<api::Nothing, Failure> {
        if let Some(pairing) = self.peers()?.pairing() {
            pairing.cancel();
        }
        Ok(api::Nothing {})
    }

    fn status(&self, peers: &Peers, pairing: Option<&Pairing>) -> api::PairingStatus {
        let mut status = api::PairingStatus {
            stage: PairingStage::None,
            code: None,
            time_left_ms: 0,
            tries_left: 0,
            name: None,
            fingerprint: None,
            port: peers.listening().port,
            failure: None,
        };
        let Some(pairing) = pairing else { return status };
        let left = u64::try_from(pairing.time_left().as_millis()).unwrap_or(0);
        match pairing.stage() {
            Stage::Showing { tries_left } => {
                status.stage = PairingStage::Showing;
                (status.code, status.time_left_ms, status.tries_left) =
                    (pairing.shown_code(), left, tries_left);
            }
            Stage::Looking => (status.stage, status.time_left_ms) = (PairingStage::Looking, left),
            Stage::Confirm { name, id } => {
                status.stage = PairingStage::Confirm;
                (status.name, status.fingerprint) = (Some(name), Some(id.to_string()));
            }
            Stage::Waiting { name } => (status.stage, status.name) = (PairingStage::Waiting, Some(name)),
            Stage::Paired(device) => (status.stage, status.name) = (PairingStage::Paired, Some(device.name)),
            Stage::Failed(why) => (status.stage, status.failure) = (PairingStage::Failed, Some(told(&why))),
        }
        status
    }
}

impl Devices {
    /// For the doctor: whether others can reach this device, and it them. Either direction alone is enough for a connection that starts
    /// there, so the finding says which side cannot be reached.
    pub async fn look(&self) -> Vec<Finding> {
        let peers = match self.peers() {
            Ok(peers) => peers,
            Err(failure) => {
                return vec![Finding::new("paired devices", false, failure.message, Actions::default())];
            }
        };
        let devices = peers.devices();
        if devices.is_empty() {
            return Vec::new();
        }
        let listening = peers.listening();
        let (ok, detail) = match (listening.wanted, listening.port, listening.error) {
            (_, _, Some(why)) => (false, format!("Paired devices cannot reach this computer: {why}.")),
            (true, Some(port), None) => (true, format!("Paired devices can connect at port {port}.")),
            (_, _, None) => (true, "Listening is off: connections begin at this computer only.".to_owned()),
        };
        let actions = if ok { Actions::default() } else { "Choose another port.".into() };
        let mut findings = vec![Finding::new("this device", ok, detail, actions)];
        let probing = devices.iter().map(|device| async {
            let answer = tokio::time::timeout(PROBE_PATIENCE, peers.probe(device)).await;
            reached(device, answer.unwrap_or(Err(PeerError::TimedOut)))
        });
        findings.extend(futures_util::future::join_all(probing).await);
        findings
    }
}

fn reached(device: &Device, answer: Result<(), PeerError>) -> Finding {
    let subject = format!("device {}", device.name);
    match answer {
        Ok(()) => Finding::new(subject, true, "This computer reaches it.", Actions::default()),
        Err(error) => Finding::new(
            subject,
            false,
            format!(
                "This computer cannot reach it ({error}). It may be off, or a firewall may close its port."
            ),
            "Switch it on, and check that holdall device list says there that devices can connect.",
        ),
    }
}

/// Cancels a pairing once nobody has looked at it for a while.
async fn end_unseen(pairing: Weak<Pairing>, seen: Arc<Mutex<Instant>>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let Some(pairing) = pairing.upgrade().filter(|pairing| !pairing.stage().is_over()) else { return };
        if seen.lock().elapsed() > UNSEEN_MAX {
            pairing.cancel();
            return;
        }
    }
}

fn shown(peers: &Peers, device: &Device) -> api::PairedDevice {
    api::PairedDevice {
        name: device.name.clone(),
        uuid: device.uuid.to_string(),
        fingerprint: device.id().to_string(),
        addresses: device.addresses.iter().map(SocketAddr::to_string).collect(),
        paired_at: device.paired_at,
        seen_at: device.seen_at,
        connections: peers.links(device) as u64,
    }
}

/// The addresses of `host:port`, or of a host at the usual port.
async fn looked_up(at: &str) -> Result<Vec<SocketAddr>, Failure> {
    let lookup = async {
        match tokio::net::lookup_host(at).await {
            Ok(found) => Ok(found.collect::<Vec<_>>()),
            Err(_) => tokio::net::lookup_host((at, PORT_DEFAULT)).await.map(Iterator::collect),
        }
    };
    match tokio::time::timeout(LOOKUP_PATIENCE, lookup).await {
        Ok(Ok(found)) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(failure(
            Code::Usage,
            format!("{at} is not the address of a computer."),
            failure::NOTHING_CHANGED,
            "Give a host name or an IP address, and the port that the other device shows, such as 192.168.1.20:47113.",
        )),
    }
}

/// An error of a peer in words.
pub fn told(error: &PeerError) -> Failure {
    let action = "Begin again: holdall device pair.";
    match error {
        PeerError::Unreachable { name, tried } => failure(
            Code::Offline,
            format!("{name} cannot be reached ({tried})."),
            DRIVES_UNTOUCHED,
            "Check that it is on, that both are on one network, and that no firewall closes its port.",
        ),
        PeerError::Unknown(name) => failure(
            Code::NotFound,
            format!("No paired device is named {name}."),
            failure::NOTHING_CHANGED,
            "List the paired devices: holdall device list.",
        ),
        PeerError::WrongCode => {
            failure(Code::Failed, "The code is wrong.", failure::NOTHING_CHANGED, "Type the code again.")
        }
        PeerError::NoTriesLeft => {
            failure(Code::Failed, "Three wrong codes were tried.", failure::NOTHING_CHANGED, action)
        }
        PeerError::NotFound => failure(
            Code::Offline,
            "No device that shows a code was found.",
            failure::NOTHING_CHANGED,
            "Check that both are on one network, or give the other device's address with --at.",
        ),
        PeerError::TimedOut => {
            failure(Code::Failed, "The time for the pairing is over.", failure::NOTHING_CHANGED, action)
        }
        PeerError::Cancelled => {
            failure(Code::Failed, "The pairing was cancelled.", failure::NOTHING_CHANGED, action)
        }
        PeerError::Impostor => failure(
            Code::Failed,
            "The other device claims to be one that is paired already, with another key.",
            failure::NOTHING_CHANGED,
            "If its system was installed anew, unpair the old entry first: holdall device unpair NAME.",
        ),
        PeerError::File { .. } => failure(
            Code::Failed,
            format!("{error}."),
            DRIVES_UNTOUCHED,
            "Check the disk and the permissions, then start the background service again.",
        ),
        PeerError::WrongKey
        | PeerError::Refused(_)
        | PeerError::Protocol(_)
        | PeerError::Version { .. }
        | PeerError::Io(_) => failure(
            Code::Failed,
            format!("The devices cannot talk to each other: {error}."),
            DRIVES_UNTOUCHED,
            [Action::tell("Check that both use the same version of Holdall, and pair them again.")],
        ),
    }
}
