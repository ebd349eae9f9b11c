//! Power cuts and kills at every sync of either device. Whatever is left, exactly one device goes on, with every acknowledged write.

use super::session::{Model, SESSION, Session, head};
use super::written;
use crate::bench::{Bench, Disks, close, device, put, run};
use holdall_core::heads::{Granted, put_grant};
use holdall_core::sim::disk::SimDisk;
use holdall_core::volume::{Access, OpenError, Over};

/// Syncs of one disk in one hand-over, at most.
const SYNCS_MAX: u64 = 200;

fn disks(disks: &Disks) -> [&SimDisk; 2] {
    [&disks.state, &disks.journal]
}

#[test]
fn a_power_cut_at_any_sync_leaves_one_writer() {
    let mut crashes = 0;
    for which in 0..4 {
        for syncs in 0..SYNCS_MAX {
            match crash(which, syncs) {
                true => crashes += 1,
                false => break,
            }
        }
    }
    assert!(crashes > 40, "{crashes} crashes");
}

/// Cuts the power of one device after so many syncs of one of its disks, and kills the other device. Returns false if the hand-over had ended
/// by then.
pub fn crash(which: usize, syncs: u64) -> bool {
    let (bench, model) = (run(Bench::of_handover()), Model::default());
    let volume_and_rest = async {
        let volume = written(&bench, &model).await;
        let disk = disks(&bench.devices[which / 2])[which % 2];
        let session = Session::new(&bench, 0, 1);
        let moving = async {
            let there = session.move_drive(volume, &model).await;
            model.put(&there, 30, 30).await;
            there.pusher().unwrap().sync().await.unwrap();
            model.put(&there, 31, 31).await;
        };
        tokio::select! { biased;
            () = disk.after_syncs(syncs + 1) => true,
            () = moving => false,
        }
    };
    let has_crashed = run(volume_and_rest);
    for (index, disks) in bench.devices.iter().enumerate() {
        match index == which / 2 {
            true => disks.power_cut(),
            false => disks.kill(),
        }
    }
    for takes_back in [false, true] {
        let case = format!("disk {which}, {syncs} syncs, takes back: {takes_back}");
        run(recover(&bench.again(), &model, takes_back, &case));
    }
    has_crashed
}

async fn recover(bench: &Bench, model: &Model, takes_back: bool, case: &str) {
    let session = Session::new(bench, 0, 1);
    let now = head(bench).await;
    let handed = session.handed();
    let has_moved = now.device == device(1).id;
    if has_moved && handed.is_none() {
        let base = bench.devices[0].state.directory("state");
        drop(base);
        panic!("{case}: HEAD gives the drive away, and the device that had it does not know");
    }
    let usual = Access::Write { over: Over::Nobody, mounted: false };
    let (owner, other) = if has_moved {
        let refused = bench.open_with(0, usual).await.err();
        let is_refused = matches!(refused, Some(OpenError::HandedOver { .. } | OpenError::Held { .. }));
        assert!(is_refused, "{case}: {refused:?}");
        let away = bench.open_with(0, Access::Away { mounted: false }).await.err();
        assert!(matches!(away, Some(OpenError::HandedOver { .. } | OpenError::NotSeen)), "{case}: {away:?}");
        (1, 0)
    } else if let Some(handed) = handed {
        let refused = bench.open_with(0, usual).await.err();
        assert!(
            matches!(refused, Some(OpenError::HandedOver { is_decided: false, .. })),
            "{case}: {refused:?}"
        );
        let refused = bench.open_with(1, usual).await.err();
        assert!(matches!(refused, Some(OpenError::Held { .. })), "{case}: {refused:?}");
        if takes_back {
            let back = bench.open_with(0, Access::TakeBack).await.unwrap();
            model.check(&back).await;
            close(back).await;
            (0, 1)
        } else {
            let bytes = handed.head_bytes().unwrap();
            let grant = holdall_core::format::head::Head::decode(&bench.sealer, &bytes).unwrap();
            let put = put_grant((&bench.store, &bench.sealer), handed.before().unwrap(), &grant).await;
            assert!(matches!(put.unwrap(), Granted::Applied), "{case}");
            let there = bench.open_with(1, Access::Granted { session: SESSION }).await.unwrap();
            model.check(&there).await;
            close(there).await;
            (1, 0)
        }
    } else {
        (0, 1)
    };
    let volume = bench.open(owner).await.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    model.check(&volume).await;
    put(&volume, 99, 9).await;
    close(volume).await;
    let volume = bench.open(other).await.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    model.check(&volume).await;
    assert!(!volume.has_unsent(), "{case}: nothing is left that only one device has");
    close(volume).await;
    assert_eq!(bench.drives().await, 1, "{case}: nothing became a fork");
}
