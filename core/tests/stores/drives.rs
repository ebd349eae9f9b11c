//! Operations on drives, on machines that share nothing but the store.

use crate::place::{Drive, Place, close, push, read, write};
use holdall_core::drive;
use holdall_core::push::PushError;
use holdall_core::store::probe::Mode;
use holdall_core::volume::{OpenError, Volume};
use std::sync::Arc;

pub async fn move_to_an_empty_machine(place: Place) {
    let drive = place.drive().await;
    let volume = drive.open(0).await.unwrap();
    for block in 0..40 {
        write(&volume, block, block as u8 + 1).await;
    }
    assert!(matches!(drive.open(1).await, Err(OpenError::Held { .. })));
    close(volume).await;
    let expected: Vec<u8> = (1..=40).chain([0, 0]).collect();
    let volume = drive.open(1).await.unwrap();
    assert_eq!(read(&volume, 42).await, expected);
    write(&volume, 0, 99).await;
    close(volume).await;
    let volume = drive.open(0).await.unwrap();
    assert_eq!(read(&volume, 42).await[..3], [99, 2, 3]);
    close(volume).await;
}

pub async fn open_at_once(place: Place) {
    let drive = place.drive().await;
    let (a, b) = tokio::join!(drive.open(0), drive.open(1));
    if place.mode == Mode::None {
        return keep_one_of(&drive, [a, b]).await;
    }
    let (won, lost) = match (a, b) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        (a, b) => panic!("one opens it: {:?}, {:?}", a.err(), b.err()),
    };
    assert!(matches!(lost, OpenError::Held { .. }), "{lost}");
    write(&won, 0, 1).await;
    close(won).await;
    // One machine takes the drive from another, which notices when it commits.
    let old = drive.open(2).await.unwrap();
    write(&old, 1, 2).await;
    push(&old).await;
    let new = drive.take(3).await;
    write(&old, 1, 77).await;
    let fenced = old.pusher().unwrap().sync().await;
    assert!(matches!(fenced, Err(PushError::Forked(_))), "{fenced:?}");
    assert_eq!(read(&new, 2).await, [1, 2]);
    close(new).await;
    assert_eq!(drive.committed(4, 2).await, [1, 2]);
}

/// Nothing may keep the two apart here. Still only one of them commits, and the other becomes a fork.
async fn keep_one_of(drive: &Drive<'_>, opened: [Result<Arc<Volume>, OpenError>; 2]) {
    let mut kept = Vec::new();
    for (byte, volume) in (1..).zip(opened.into_iter().flatten()) {
        write(&volume, 0, byte).await;
        match volume.pusher().unwrap().sync().await {
            Ok(_) => kept.push(byte),
            Err(error) => assert!(matches!(error, PushError::Forked(_)), "{error}"),
        }
    }
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(drive.committed(4, 1).await, kept);
}

pub async fn versions_and_garbage(place: Place) {
    let drive = place.drive().await;
    let volume = drive.open(0).await.unwrap();
    write(&volume, 0, 1).await;
    volume.pusher().unwrap().snapshot("one").await.unwrap();
    for byte in 2..30 {
        write(&volume, 0, byte).await;
        push(&volume).await;
    }
    let before = place.connect().list("seg/").await.unwrap().len();
    volume.pusher().unwrap().collect().await.unwrap();
    let after = place.connect().list("seg/").await.unwrap().len();
    assert!(after < before, "{before} segments, then {after}");
    close(volume).await;
    let check = async || {
        let checked = drive::check::check(&drive.objects(), drive.drive, &|_, _| {}).await.unwrap();
        assert_eq!(checked.errors, [""; 0]);
    };
    check().await;
    let device = holdall_core::push::Device { id: uuid::Uuid::from_u128(1), name: "device 0".into() };
    let newest = drive::rollback(&drive.objects(), drive.drive, "one", &device).await.unwrap();
    assert_eq!(drive.committed(1, 1).await, [1]);
    drive::rollback(&drive.objects(), drive.drive, &newest, &device).await.unwrap();
    assert_eq!(drive.committed(2, 1).await, [29]);
    check().await;
}
