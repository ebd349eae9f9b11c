//! The bytes of a hand-over, kept under `tests/data/v1/handover`. Every later version must read them. `just fixtures` writes those that are
//! missing.

use super::session::{LIMIT, Model, SESSION, Session, restarted, send_all};
use super::written;
use crate::bench::{Bench, run};
use holdall_core::disk::Disk;
use holdall_core::format::head::Head;
use holdall_core::grant;
use holdall_core::journal::import::Import;
use holdall_core::keys::device::DeviceSecret;
use holdall_core::keys::{Secret, WrappedKey};
use holdall_core::seal::{Cipher, DataKey, Sealer};
use holdall_core::sim::disk::{DiskFaults, SimDisk};
use holdall_core::volume::{Arrival, Local};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

const FAMILY: Uuid = Uuid::from_u128(9);
const DEVICE: [u8; 32] = [5; 32];
const KEY_ID: &str = "0123456789abcdef0123456789abcdef";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1/handover").join(name)
}

fn read(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, false).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn disk_with(name: &str, bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1, DiskFaults::default());
    disk.open(name, true).unwrap().write_at(bytes, 0).unwrap();
    disk
}

#[test]
fn reads_the_notes_of_both_devices() {
    let load = |name: &str| {
        let bytes = std::fs::read(data(name)).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["version"], 2);
        let disk = disk_with("drive.json", &bytes);
        let local = Local::load(&disk).unwrap().unwrap();
        run(local.save(&disk)).unwrap();
        assert_eq!(read(&disk, "drive.json"), bytes, "{name}");
        local
    };
    let sealer = Sealer::new(Cipher::None, &DataKey([7; 32].into()));
    let handed = load("handed.json").handed.unwrap();
    let head = Head::decode(&sealer, &handed.head_bytes().unwrap()).unwrap();
    assert_eq!((handed.session, Some(head.nonce), head.device), (SESSION, handed.nonce(), handed.to));
    let local = load("inherits.json");
    let inherits = local.inherits.clone().unwrap();
    assert!(inherits.is_of(&head));
    assert_eq!(inherits.lineage[0].journal, handed.journal);
    // Once nothing of it is needed, earlier programs may read the file again.
    let disk = SimDisk::new(1, DiskFaults::default());
    run(Local { inherits: None, ..local }.save(&disk)).unwrap();
    let now: serde_json::Value = serde_json::from_slice(&read(&disk, "drive.json")).unwrap();
    assert_eq!(now["version"], 1);
}

#[test]
fn reads_a_sealed_import() {
    run(async {
        let disk = disk_with("import-0", &std::fs::read(data("import")).unwrap());
        let import = Import::find_sealed(Arc::new(disk)).await.unwrap().unwrap();
        assert_eq!((import.plan().session, import.rounds()), (SESSION, 2));
        let sealer = Sealer::new(Cipher::None, &DataKey([7; 32].into()));
        let arrival = Arrival::decode(&sealer, &import.trailer().unwrap()).unwrap();
        let delta = import.delta().hash(import.plan().size_blocks, &arrival.lineage);
        assert!(grant::is_grant_of(&arrival.head, SESSION, &delta));
        assert_eq!(import.delta().data_blocks(), 20);
    });
}

#[test]
fn opens_the_wrap_for_a_device() {
    let wrapped = WrappedKey::decode(&std::fs::read(data("device-key.json")).unwrap()).unwrap();
    let secret = Secret::Device(DeviceSecret::from_bytes(DEVICE));
    assert_eq!(*wrapped.unwrap(&secret, FAMILY, KEY_ID).unwrap().unwrap().0, [7; 32]);
}

#[test]
#[ignore = "writes the fixtures of today's format: just fixtures"]
fn regenerate() {
    std::fs::create_dir_all(data("")).unwrap();
    let keep = |name: &str, bytes: &[u8]| {
        if !data(name).exists() {
            std::fs::write(data(name), bytes).unwrap();
        }
    };
    let public = DeviceSecret::from_bytes(DEVICE).public();
    let wrapped = WrappedKey::wrap_for_device(&DataKey([7; 32].into()), &public, FAMILY, KEY_ID).unwrap();
    keep("device-key.json", &wrapped.encode());
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        send_all(&hand_over, &mut receiving).await;
        hand_over.hold().await.unwrap();
        hand_over.quiesce(LIMIT).await.unwrap();
        let sealed = session.sealed(&hand_over, &mut receiving).await;
        drop(receiving);
        let journal = bench.devices[1].journal.directory("journal");
        let name = journal.list().unwrap().into_iter().find(|name| name.starts_with("import-")).unwrap();
        keep("import", &read(&journal, &name));
        hand_over.mark_handed(sealed.cut).await.unwrap();
        keep("handed.json", &read(&bench.devices[0].state.directory("state"), "drive.json"));
        hand_over.swap().await.unwrap();
        let there = session.open_granted().await.unwrap();
        there.pusher().unwrap().set_paused(true);
        restarted(&bench, 1, there).await;
        keep("inherits.json", &read(&bench.devices[1].state.directory("state"), "drive.json"));
    });
}
