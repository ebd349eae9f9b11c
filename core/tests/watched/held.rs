//! Many deletions at once are held, on both sides, also over a restart.

use crate::rig::{Rig, path};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits};
use holdall_core::watched::Side;

async fn emptied(side: Side) -> Rig {
    let rig = Rig::new(11, RemoteHabits::GOOD, true);
    for at in 0..30 {
        rig.tree.writes(&path(&format!("d/{at}")), format!("file {at}").as_bytes());
    }
    let watched = rig.open().await;
    rig.settle(&watched).await.unwrap();
    match side {
        Side::Here => rig.tree.removes(&path("d")),
        Side::There => rig.remote.other_removes(&path("d")),
    }
    rig.settle(&watched).await.unwrap();
    rig
}

/// Both sides: held, still held after a restart, and then as a person decides.
pub async fn many_deletions() {
    for side in [Side::Here, Side::There] {
        for is_right in [true, false] {
            let rig = emptied(side).await;
            rig.disk.power_cut();
            let watched = rig.open().await;
            rig.settle(&watched).await.unwrap();
            let held = watched.held().await;
            assert_eq!(held.len(), 30, "{side:?}");
            assert!(held.iter().all(|(_, at, _)| *at == side));
            let (here, there) = (rig.tree.files().len(), rig.there().len());
            assert_eq!((here, there), if side == Side::Here { (0, 30) } else { (30, 0) });
            watched.decide(is_right).await.unwrap();
            rig.disk.power_cut();
            let watched = rig.open().await;
            rig.settle(&watched).await.unwrap();
            let expected = if is_right { 0 } else { 30 };
            assert_eq!((rig.tree.files().len(), rig.there().len()), (expected, expected), "{side:?}");
            assert_eq!(watched.held().await.len(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_deletions_are_held_until_a_person_decides() {
    many_deletions().await;
}

#[tokio::test(start_paused = true)]
async fn few_deletions_are_believed() {
    for side in [Side::Here, Side::There] {
        let rig = Rig::new(12, RemoteHabits::GOOD, true);
        for at in 0..30 {
            rig.tree.writes(&path(&format!("{at}")), format!("file {at}").as_bytes());
        }
        let watched = rig.open().await;
        rig.settle(&watched).await.unwrap();
        for at in 0..3 {
            match side {
                Side::Here => rig.tree.removes(&path(&format!("{at}"))),
                Side::There => rig.remote.other_removes(&path(&format!("{at}"))),
            }
        }
        rig.settle(&watched).await.unwrap();
        assert_eq!((rig.tree.files().len(), rig.there().len()), (27, 27), "{side:?}");
    }
}

/// Listings that break off, or a server that is away, delete nothing.
pub async fn broken_listings() {
    for faults in [
        RemoteFaults { cut: 500, ..RemoteFaults::default() },
        RemoteFaults { loops: 500, ..RemoteFaults::default() },
        RemoteFaults { login_page: 500, ..RemoteFaults::default() },
        RemoteFaults { refused: 500, ..RemoteFaults::default() },
    ] {
        let rig = Rig::new(13, RemoteHabits { page_entries: 3, ..RemoteHabits::GOOD }, true);
        for at in 0..15 {
            rig.tree.writes(&path(&format!("{at}")), format!("file {at}").as_bytes());
        }
        let watched = rig.open().await;
        rig.settle(&watched).await.unwrap();
        rig.remote.set_faults(faults);
        for _ in 0..40 {
            let _ = rig.settle(&watched).await;
            assert_eq!(rig.tree.files().len(), 15, "{faults:?}");
        }
        rig.remote.set_faults(RemoteFaults::default());
        rig.settle(&watched).await.unwrap();
        assert_eq!((rig.there().len(), watched.held().await.len()), (15, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_deletes_nothing() {
    broken_listings().await;
}
