use super::*;
use crate::error::Refusal;
use crate::frame::{self, FRAME_MAX, Frame};
use crate::pairing::Stage;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Computer {
    peers: Arc<Peers>,
    _state: tempfile::TempDir,
}

impl Computer {
    fn new(name: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let peers = Peers::open(state.path(), Uuid::new_v4(), name).unwrap();
        Self { peers, _state: state }
    }

    fn at(&self) -> Vec<SocketAddr> {
        vec![(Ipv4Addr::LOCALHOST, self.peers.listening().port.unwrap()).into()]
    }
}

async fn until(pairing: &Pairing, wanted: fn(&Stage) -> bool) -> Stage {
    let mut stages = pairing.stages();
    let reached = stages.wait_for(|stage| wanted(stage) || stage.is_over());
    let stage = timeout(PATIENCE, reached).await.unwrap().unwrap().clone();
    assert!(wanted(&stage), "{stage:?}");
    stage
}

async fn pair(desk: &Computer, lap: &Computer) {
    // The port that the system gives: others may have the usual one.
    desk.peers.set_listening(true, Some(0)).await.unwrap();
    let shows = desk.peers.show_code().await;
    let code = Code::parse(&shows.shown_code().unwrap()).unwrap();
    let types = lap.peers.pair(code, Some(desk.at())).await;
    for pairing in [&shows, &types] {
        until(pairing, |stage| matches!(stage, Stage::Confirm { .. })).await;
        pairing.decide(true);
    }
    for pairing in [&shows, &types] {
        until(pairing, |stage| matches!(stage, Stage::Paired(_))).await;
    }
}

/// A handler that sends back the first frame.
fn echoes(computer: &Computer, purpose: Purpose) {
    computer.peers.on(purpose, |mut link: Link| async move {
        while let Ok(Some(frame)) = frame::read(&mut link, FRAME_MAX).await {
            if frame::write(&mut link, &frame).await.is_err() {
                return;
            }
        }
    });
}

#[tokio::test]
async fn paired_devices_exchange_frames_until_they_are_unpaired() {
    let (desk, lap) = (Computer::new("desk"), Computer::new("lap"));
    pair(&desk, &lap).await;
    echoes(&desk, Purpose::Migrate);
    let device = lap.peers.device("desk").unwrap();
    let mut link = lap.peers.dial(&device, Purpose::Migrate).await.unwrap();
    assert_eq!((link.peer().uuid, link.protocol(), link.dialed()), (desk.peers.uuid(), 1, true));
    let sent = Frame { kind: 40, seq: 3, body: vec![5; 1 << 20] };
    frame::write(&mut link, &sent).await.unwrap();
    assert_eq!(frame::expect(&mut link, FRAME_MAX).await.unwrap(), sent);

    let of_desk = desk.peers.device("lap").unwrap();
    assert_eq!(desk.peers.links(&of_desk), 1);
    desk.peers.unpair("lap").await.unwrap();
    let mut one = [0];
    let ended = timeout(PATIENCE, link.read(&mut one)).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert!(lap.peers.dial(&device, Purpose::Migrate).await.is_err());
    assert!(desk.peers.devices().is_empty());
}

#[tokio::test]
async fn a_purpose_without_a_handler_is_refused() {
    let (desk, lap) = (Computer::new("desk"), Computer::new("lap"));
    pair(&desk, &lap).await;
    let device = lap.peers.device("desk").unwrap();
    let refused = lap.peers.dial(&device, Purpose::Mirror).await;
    assert!(matches!(refused, Err(PeerError::Refused(Refusal::Purpose))), "{refused:?}");
    lap.peers.probe(&device).await.unwrap();
}

#[tokio::test]
async fn a_paired_device_cannot_claim_anothers_uuid() {
    let (desk, lap) = (Computer::new("desk"), Computer::new("lap"));
    pair(&desk, &lap).await;
    echoes(&desk, Purpose::Migrate);
    // The same key with another uuid.
    let liar = Peers::open(lap._state.path(), Uuid::new_v4(), "lap").unwrap();
    let refused = liar.dial(&liar.device("desk").unwrap(), Purpose::Migrate).await;
    assert!(matches!(refused, Err(PeerError::Refused(Refusal::Identity))), "{refused:?}");
}

#[tokio::test]
async fn an_unpaired_device_reaches_only_the_pairing() {
    let (desk, other) = (Computer::new("desk"), Computer::new("other"));
    desk.peers.set_listening(true, Some(0)).await.unwrap();
    echoes(&desk, Purpose::Migrate);
    let (key, addresses) = (*desk.peers.public_key(), desk.at());
    let name = "desk".to_owned();
    let device = Device { uuid: desk.peers.uuid(), name, key, addresses, paired_at: 0, seen_at: None };
    // Without a pairing its key does not get in at all.
    let refused = other.peers.dial(&device, Purpose::Migrate).await;
    assert!(matches!(refused, Err(PeerError::Io(_))), "{refused:?}");
    let shows = desk.peers.show_code().await;
    let refused = other.peers.dial(&device, Purpose::Migrate).await;
    assert!(matches!(refused, Err(PeerError::Refused(Refusal::Unpaired))), "{refused:?}");
    shows.cancel();
}

#[tokio::test]
async fn another_computer_at_the_address_is_not_the_device() {
    let (desk, lap, other) = (Computer::new("desk"), Computer::new("lap"), Computer::new("other"));
    pair(&desk, &lap).await;
    other.peers.set_listening(true, Some(0)).await.unwrap();
    let device = Device { addresses: other.at(), ..lap.peers.device("desk").unwrap() };
    let refused = lap.peers.dial(&device, Purpose::Migrate).await;
    assert!(matches!(refused, Err(PeerError::Unreachable { .. })), "{refused:?}");
}

#[tokio::test]
async fn listening_begins_with_the_first_pairing_and_can_be_switched_off() {
    let desk = Computer::new("desk");
    desk.peers.settle().await;
    assert_eq!(desk.peers.listening(), Listening::default());
    let lap = Computer::new("lap");
    pair(&desk, &lap).await;
    assert!(lap.peers.listening().wanted);
    let off = desk.peers.set_listening(false, None).await.unwrap();
    assert_eq!(off, Listening::default());
    assert!(lap.peers.dial(&lap.peers.device("desk").unwrap(), Purpose::Migrate).await.is_err());
}

#[tokio::test]
async fn peers_are_freed_when_nobody_uses_them() {
    let desk = Computer::new("desk");
    desk.peers.set_listening(true, Some(0)).await.unwrap();
    let weak = Arc::downgrade(&desk.peers);
    drop(desk);
    assert!(weak.upgrade().is_none());
}
