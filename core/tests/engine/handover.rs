//! A drive moves from one device to another while programs write to it. Whatever fails, one device has it, with every write that was
//! acknowledged, and nothing becomes a fork.

use crate::bench::{Bench, close, device, get, put, run, try_get};
use holdall_core::device::{BlockDevice, DeviceError, Durability, Zeroing};
use holdall_core::heads::Granted;
use holdall_core::volume::{
    self, Access, HandOver, HandOverError, HandOverPhase, OpenError, Over, ReceiveError, Volume, VolumeDevice,
};
use session::{HEADROOM, LIMIT, SESSION, Session, restarted, send_all};
pub use session::{Model, head};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

mod crashes;
mod fixtures;
mod imports;
mod planted;
mod session;
mod take_back;

/// A drive with uploaded and pending blocks, open on device 0.
pub async fn written(bench: &Bench, model: &Model) -> Arc<Volume> {
    let volume = bench.open(0).await.unwrap();
    for block in 0..20 {
        model.put(&volume, block, 1).await;
    }
    volume.pusher().unwrap().sync().await.unwrap();
    for block in 10..30 {
        model.put(&volume, block, 2).await;
    }
    volume
}

#[test]
fn everything_arrives_and_nothing_forks() {
    run(whole());
}

async fn whole() {
    let (bench, model) = (Bench::of_handover().await, Model::default());
    let volume = written(&bench, &model).await;
    let there = Session::new(&bench, 0, 1).move_drive(volume, &model).await;
    model.check(&there).await;
    model.put(&there, 40, 9).await;
    there.pusher().unwrap().sync().await.unwrap();
    let root = there.pusher().unwrap().state().borrow().root;
    assert!(root.epoch.0 > 1);
    close(there).await;
    // The device that had it finds all of its own in the version: nothing is unsent, nothing is a fork.
    let back = bench.open(0).await.unwrap();
    assert!(!back.has_unsent());
    model.check(&back).await;
    close(back).await;
    assert_eq!(bench.drives().await, 1);
}

#[test]
fn a_lost_round_is_sent_again() {
    run(lost_round());
}

async fn lost_round() {
    let (bench, model) = (Bench::of_handover().await, Model::default());
    let volume = written(&bench, &model).await;
    let session = Session::new(&bench, 0, 1);
    let hand_over = session.begin(&volume).await;
    let mut receiving = session.receive(&hand_over).await;
    let lost = hand_over.take(8, 100).unwrap();
    for run in lost.runs {
        hand_over.read(run).await.unwrap();
    }
    // Written again while the round is under way.
    model.put(&volume, 12, 3).await;
    hand_over.merge_back();
    send_all(&hand_over, &mut receiving).await;
    let there = session.finish(volume, hand_over, receiving, &model).await;
    model.check(&there).await;
}

#[test]
fn receiving_continues_after_a_power_cut() {
    run(received_again());
}

async fn received_again() {
    for seed in 0..6 {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        let round = hand_over.take(8, 100).unwrap();
        session::send(&hand_over, &mut receiving, &round).await;
        receiving.import_mut().acknowledge(round.number).await.unwrap();
        hand_over.acknowledged(round.number);
        // What comes afterwards may be torn.
        receiving.import_mut().data(200, &[seed; 4096]).unwrap();
        drop(receiving);
        bench.devices[1].power_cut();
        let mut receiving = session.received().await.unwrap().unwrap();
        assert!(receiving.import().rounds() <= round.number);
        assert_eq!(receiving.import().plan().stream, hand_over.stream());
        model.put(&volume, 200, 7).await;
        send_all(&hand_over, &mut receiving).await;
        let there = session.finish(volume, hand_over, receiving, &model).await;
        model.check(&there).await;
    }
}

#[test]
fn cancelled_at_any_step_the_drive_goes_on() {
    for steps in 0..5 {
        for is_dropped in [false, true] {
            run(cancelled(steps, is_dropped));
        }
    }
}

async fn cancelled(steps: usize, is_dropped: bool) {
    let (bench, model) = (Bench::of_handover().await, Model::default());
    let volume = written(&bench, &model).await;
    let session = Session::new(&bench, 0, 1);
    let hand_over = session.begin(&volume).await;
    let mut receiving = session.receive(&hand_over).await;
    for step in 0..steps {
        match step {
            0 => send_all(&hand_over, &mut receiving).await,
            1 => drop(hand_over.hold().await.unwrap()),
            2 => hand_over.quiesce(LIMIT).await.unwrap(),
            _ => drop(hand_over.seal().await.unwrap()),
        }
    }
    let waits = (steps > 2).then(|| {
        let volume = volume.clone();
        tokio::spawn(async move { put(&volume, 50, 5).await })
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(waits.as_ref().is_none_or(|waits| !waits.is_finished()), "the gate is shut");
    match is_dropped {
        true => drop(hand_over),
        false => {
            hand_over.cancel().unwrap();
            assert!(matches!(hand_over.seal().await, Err(HandOverError::Cancelled)));
        }
    }
    if let Some(waits) = waits {
        waits.await.unwrap();
        model.set(50, 5);
    }
    model.put(&volume, 51, 6).await;
    // Pushing continues, and another hand-over may begin.
    volume.pusher().unwrap().sync().await.unwrap();
    drop(volume.hand_over(SESSION, device(2), 0).await.unwrap());
    close(volume).await;
    receiving.discard().await.unwrap();
    let there = bench.open(1).await.unwrap();
    model.check(&there).await;
    close(there).await;
    assert_eq!(bench.drives().await, 1);
}

#[test]
fn a_preparation_without_end_ends_by_itself() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let hand_over = Session::new(&bench, 0, 1).begin(&volume).await;
        hand_over.hold().await.unwrap();
        hand_over.quiesce(Duration::from_secs(3)).await.unwrap();
        // This write waits for the limit, and is not lost.
        model.put(&volume, 60, 6).await;
        assert_eq!(hand_over.phase(), HandOverPhase::Cancelled);
        let refused = hand_over.mark_handed(volume.journal().appended()).await;
        assert!(matches!(refused, Err(HandOverError::Cancelled)), "{refused:?}");
        volume.pusher().unwrap().sync().await.unwrap();
        close(volume).await;
    });
}

#[test]
fn a_full_disk_hands_nothing_over() {
    for which in 0..2 {
        run(async {
            let (bench, model) = (Bench::of_handover().await, Model::default());
            let volume = written(&bench, &model).await;
            let session = Session::new(&bench, 0, 1);
            let hand_over = session.begin(&volume).await;
            let mut receiving = session.receive(&hand_over).await;
            let sealed = session.seal(&hand_over, &mut receiving).await;
            let disks = &bench.devices[0];
            let disk = [&disks.state, &disks.journal][which];
            disk.set_full(true);
            let told = hand_over.mark_handed(sealed.cut).await;
            assert!(matches!(told, Err(HandOverError::Local(_))), "{told:?}");
            disk.set_full(false);
            model.put(&volume, 61, 7).await;
            volume.pusher().unwrap().sync().await.unwrap();
            drop(hand_over);
            restarted(&bench, 0, volume).await;
            assert_eq!(session.handed(), None);
            receiving.discard().await.unwrap();
            let again = bench.open(0).await.unwrap();
            model.check(&again).await;
            close(again).await;
        });
    }
}

#[test]
fn only_the_sealed_cut_is_handed_over() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        assert!(matches!(hand_over.swap().await, Err(HandOverError::Order)), "nothing is released");
        let sealed = session.seal(&hand_over, &mut receiving).await;
        assert!(matches!(hand_over.swap().await, Err(HandOverError::Order)), "nothing is released");
        let told = hand_over.mark_handed(holdall_core::units::Lsn(sealed.cut.0 - 1)).await;
        assert!(matches!(told, Err(HandOverError::CutChanged)), "{told:?}");
        assert_eq!(session.handed(), None);
        model.put(&volume, 1, 8).await;
        close(volume).await;
    });
}

#[test]
fn the_journal_of_a_handed_drive_is_never_replayed() {
    run(handed_and_restarted());
}

async fn handed_and_restarted() {
    for loses_note in [false, true] {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        let sealed = session.seal(&hand_over, &mut receiving).await;
        hand_over.mark_handed(sealed.cut).await.unwrap();
        assert!(matches!(hand_over.cancel(), Err(HandOverError::Released)));
        drop(hand_over);
        // Programs learn that nothing more is written, even before HEAD says who has the drive.
        let late = VolumeDevice(volume.clone()).write(0, &[1; 4096], Durability::Ordered).wait().await;
        assert!(matches!(late, Err(DeviceError::Closed)));
        restarted(&bench, 0, volume).await;
        if loses_note {
            bench.devices[0].lose_state();
        }
        let puts = bench.store.puts();
        for access in [
            Access::Write { over: Over::Nobody, mounted: false },
            Access::Write { over: Over::Anybody, mounted: true },
            Access::Away { mounted: false },
        ] {
            let refused = bench.open_with(0, access).await.err();
            let is_told = match refused {
                Some(OpenError::HandedOver { to, is_decided, .. }) => to == device(1).id && !is_decided,
                // Without `drive.json` the version that was seen last is not this device's own.
                Some(OpenError::NotSeen) => loses_note,
                _ => false,
            };
            assert!(is_told, "{access:?}: {refused:?}");
        }
        assert_eq!(bench.store.puts(), puts, "nothing was pushed");
        // A restarted device puts the very same grant.
        let handed = session.handed().unwrap();
        let grant =
            holdall_core::format::head::Head::decode(&bench.sealer, &handed.head_bytes().unwrap()).unwrap();
        assert_eq!(grant, sealed.head);
        for _ in 0..2 {
            let put = holdall_core::heads::put_grant(
                (&bench.store, &bench.sealer),
                handed.before().unwrap(),
                &grant,
            );
            assert!(matches!(put.await.unwrap(), Granted::Applied));
        }
        let there = session.open_granted().await.unwrap();
        model.check(&there).await;
        close(there).await;
    }
}

#[test]
fn an_unanswered_swap_is_judged_and_never_repeated_blindly() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        let sealed = session.seal(&hand_over, &mut receiving).await;
        hand_over.mark_handed(sealed.cut).await.unwrap();
        // The store is away: nobody knows, and both write nothing.
        bench.store.set_commits_away(true);
        let swapped = hand_over.swap().await.unwrap();
        assert!(matches!(swapped, Granted::Unknown(_) | Granted::NotApplied(_)), "{swapped:?}");
        bench.store.set_commits_away(false);
        // The other device puts the grant. This device's own put finds it there.
        let before = sealed_before(&session);
        let put = holdall_core::heads::put_grant((&bench.store, &bench.sealer), before, &sealed.head).await;
        assert!(matches!(put.unwrap(), Granted::Applied));
        assert!(matches!(hand_over.swap().await.unwrap(), Granted::Applied));
        let heads = bench.store.heads().len();
        let there = session.open_granted().await.unwrap();
        model.put(&there, 3, 9).await;
        there.pusher().unwrap().sync().await.unwrap();
        assert!(bench.store.heads().len() > heads);
        // The other device has continued by now: that is no loss.
        let put = holdall_core::heads::put_grant((&bench.store, &bench.sealer), before, &sealed.head).await;
        assert!(matches!(put.unwrap(), Granted::Applied));
        model.check(&there).await;
        close(there).await;
    });
}

fn sealed_before(session: &Session<'_>) -> u128 {
    session.handed().unwrap().before().unwrap()
}

#[test]
fn a_swap_that_lost_is_told() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        let sealed = session.seal(&hand_over, &mut receiving).await;
        hand_over.mark_handed(sealed.cut).await.unwrap();
        // Somebody forces the drive to a third device.
        let third = bench.take(2).await.unwrap();
        let Granted::Lost(now) = hand_over.swap().await.unwrap() else { panic!("the third device has it") };
        assert_eq!(now.device, device(2).id);
        drop(hand_over);
        put(&third, 100, 4).await;
        third.pusher().unwrap().sync().await.unwrap();
        restarted(&bench, 0, volume).await;
        // The changes are a fork, on the device that had them.
        assert!(matches!(bench.open(0).await.err(), Some(OpenError::Held { .. } | OpenError::Forked { .. })));
        close(third).await;
        assert!(matches!(bench.open(0).await.err(), Some(OpenError::Forked { .. })));
        let state = bench.devices[0].state.directory("state");
        volume::fork(&state, bench.drive, "device 2").await.unwrap();
        let fork = bench.open(0).await.unwrap();
        model.check(&fork).await;
        assert_eq!(get(&fork, 100).await, 0);
        fork.pusher().unwrap().sync().await.unwrap();
        close(fork).await;
    });
}

#[test]
fn the_late_writer_gets_an_error() {
    run(late_writer());
}

async fn late_writer() {
    let (bench, model) = (Bench::of_handover().await, Model::default());
    let volume = written(&bench, &model).await;
    let session = Session::new(&bench, 0, 1);
    let hand_over = session.begin(&volume).await;
    let mut receiving = session.receive(&hand_over).await;
    let sealed = session.seal(&hand_over, &mut receiving).await;
    let device = VolumeDevice(volume.clone());
    let writes = [
        device.write(0, &[9; 4096], Durability::Ordered),
        device.write(5, &[9; 100], Durability::Forced),
        device.zero(0..8192, Zeroing::MayPunch, Durability::Ordered),
        device.flush(),
    ];
    assert!(device.flush_here().is_none());
    let waits: Vec<_> = writes.into_iter().map(|write| tokio::spawn(write.wait())).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(waits.iter().all(|waits| !waits.is_finished()));
    hand_over.mark_handed(sealed.cut).await.unwrap();
    assert!(matches!(hand_over.swap().await.unwrap(), Granted::Applied));
    for waits in waits {
        assert!(matches!(waits.await.unwrap(), Err(DeviceError::Closed)));
    }
    assert!(matches!(device.flush().wait().await, Err(DeviceError::Closed)));
    assert!(try_get(&volume, 1).await.is_ok(), "what is mounted can still be read");
}

#[test]
fn a_chain_of_devices_commits_once() {
    run(chain());
}

/// From device 0 to 1 to 2 before anything was committed, and then back to 0: only what is new moves.
async fn chain() {
    let (bench, model) = (Bench::of_handover().await, Model::default());
    let volume = written(&bench, &model).await;
    let first = Session::new(&bench, 0, 1).move_drive(volume, &model).await;
    first.pusher().unwrap().set_paused(true);
    model.put(&first, 70, 1).await;
    Session::taken(&first).await;
    let second = Session::new(&bench, 1, 2).move_drive(first, &model).await;
    model.check(&second).await;
    second.pusher().unwrap().sync().await.unwrap();
    model.put(&second, 71, 2).await;
    let session = Session::new(&bench, 2, 0);
    let hand_over = session.begin(&second).await;
    let waiting = hand_over.waiting_blocks().0;
    assert!(waiting <= 1, "{waiting} blocks would be sent, and one is new");
    let mut receiving = session.receive(&hand_over).await;
    send_all(&hand_over, &mut receiving).await;
    let third = session.finish(second, hand_over, receiving, &model).await;
    let requests = bench.store.requests();
    model.check(&third).await;
    // Blocks 0..30 were here. What others wrote since is fetched or came along.
    assert!(bench.store.requests() - requests < 30);
    model.put(&third, 72, 3).await;
    third.pusher().unwrap().sync().await.unwrap();
    close(third).await;
    // Every device finds its own journal in the version.
    for index in [1, 2, 0] {
        let volume = bench.open(index).await.unwrap();
        assert!(!volume.has_unsent());
        model.check(&volume).await;
        close(volume).await;
    }
    assert_eq!(bench.drives().await, 1);
}

#[test]
fn a_drive_comes_back_before_the_first_commit() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let there = Session::new(&bench, 0, 1).move_drive(volume, &model).await;
        there.pusher().unwrap().set_paused(true);
        Session::taken(&there).await;
        model.put(&there, 80, 5).await;
        let back = Session::new(&bench, 1, 0).move_drive(there, &model).await;
        model.check(&back).await;
        model.put(&back, 81, 6).await;
        back.pusher().unwrap().sync().await.unwrap();
        close(back).await;
        for index in [1, 0] {
            let volume = bench.open(index).await.unwrap();
            assert!(!volume.has_unsent());
            model.check(&volume).await;
            close(volume).await;
        }
        assert_eq!(bench.drives().await, 1);
    });
}

#[test]
fn pending_changes_are_not_buried_by_a_received_drive() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        // Device 1 has the drive, writes, and loses its power.
        let volume = bench.open(1).await.unwrap();
        volume.pusher().unwrap().set_paused(true);
        put(&volume, 5, 5).await;
        restarted(&bench, 1, volume).await;
        let volume = bench.take(0).await.unwrap();
        model.put(&volume, 1, 1).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let refused = session.try_receive(&hand_over, HEADROOM).await.err();
        assert!(matches!(refused, Some(ReceiveError::Unsent { unsent: 1 })), "{refused:?}");
        drop(hand_over);
        close(volume).await;
    });
}

#[test]
fn a_drive_without_changes_moves_too() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = bench.open(0).await.unwrap();
        model.put(&volume, 1, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        let there = Session::new(&bench, 0, 1).move_drive_quietly(volume).await;
        model.check(&there).await;
        model.put(&there, 2, 2).await;
        close(there).await;
        let back = bench.open(0).await.unwrap();
        model.check(&back).await;
        close(back).await;
    });
}

#[test]
fn the_receiver_opens_it_by_any_way_once_head_is_the_grant() {
    run(async {
        for access in [
            Access::Write { over: Over::Nobody, mounted: false },
            Access::Granted { session: SESSION },
            Access::Granted { session: Uuid::from_u128(404) },
            Access::Away { mounted: false },
        ] {
            let (bench, model) = (Bench::of_handover().await, Model::default());
            let volume = written(&bench, &model).await;
            let session = Session::new(&bench, 0, 1);
            let hand_over = session.begin(&volume).await;
            let mut receiving = session.receive(&hand_over).await;
            let sealed = session.seal(&hand_over, &mut receiving).await;
            drop(receiving);
            let early = bench.open_with(1, Access::Write { over: Over::Nobody, mounted: false }).await.err();
            assert!(matches!(early, Some(OpenError::Held { .. })), "{early:?}");
            hand_over.mark_handed(sealed.cut).await.unwrap();
            assert!(matches!(hand_over.swap().await.unwrap(), Granted::Applied));
            assert_eq!(head(&bench).await, sealed.head);
            let opened = bench.open_with(1, access).await;
            match access {
                Access::Away { .. } => assert!(matches!(opened.err(), Some(OpenError::NotSeen))),
                Access::Granted { session } if session != SESSION => {
                    assert!(matches!(opened.err(), Some(OpenError::NotSeen | OpenError::NotGranted)));
                }
                _ => model.check(&opened.unwrap()).await,
            }
        }
    });
}

fn _is_send(hand_over: HandOver) -> impl Send {
    hand_over
}
