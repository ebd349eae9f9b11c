//! The device that handed a drive over takes it back.

use super::session::{Model, Session, head, restarted};
use super::written;
use crate::bench::{Bench, close, device, put, run};
use holdall_core::volume::{Access, OpenError};

#[test]
fn before_the_first_commit_the_journal_continues() {
    run(taken_back());
}

pub async fn taken_back() {
    for opens_there in [false, true] {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let there = session.move_drive(volume, &model).await;
        there.pusher().unwrap().set_paused(true);
        if opens_there {
            Session::taken(&there).await;
        }
        // That laptop is lost.
        restarted(&bench, 1, there).await;
        let refused = bench.open(0).await.err();
        assert!(matches!(refused, Some(OpenError::HandedOver { .. })), "{refused:?}");
        let granted = head(&bench).await;
        let back = bench.open_with(0, Access::TakeBack).await.unwrap();
        let now = head(&bench).await;
        assert!(now.device == device(0).id && now.epoch > granted.epoch);
        assert_eq!(session.handed(), None);
        model.check(&back).await;
        model.put(&back, 5, 55).await;
        back.pusher().unwrap().sync().await.unwrap();
        close(back).await;
        let again = bench.open(0).await.unwrap();
        model.check(&again).await;
        close(again).await;
    }
}

#[test]
fn an_undecided_swap_is_taken_back_too() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let session = Session::new(&bench, 0, 1);
        let hand_over = session.begin(&volume).await;
        let mut receiving = session.receive(&hand_over).await;
        let sealed = session.seal(&hand_over, &mut receiving).await;
        hand_over.mark_handed(sealed.cut).await.unwrap();
        let before = session.handed().unwrap().before().unwrap();
        drop((hand_over, receiving));
        restarted(&bench, 0, volume).await;
        let back = bench.open_with(0, Access::TakeBack).await.unwrap();
        // The grant comes late: it changes nothing.
        let late = holdall_core::heads::put_grant((&bench.store, &bench.sealer), before, &sealed.head).await;
        assert!(matches!(late.unwrap(), holdall_core::heads::Granted::Lost(_)));
        model.check(&back).await;
        model.put(&back, 5, 56).await;
        close(back).await;
        // What the other device has received is void, and not mistaken for its own changes.
        let there = bench.open(1).await.unwrap();
        model.check(&there).await;
        assert!(!there.has_unsent());
        close(there).await;
        assert_eq!(bench.drives().await, 1);
    });
}

#[test]
fn after_a_commit_it_is_refused_with_the_way_out() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let there = Session::new(&bench, 0, 1).move_drive(volume, &model).await;
        model.put(&there, 7, 77).await;
        there.pusher().unwrap().sync().await.unwrap();
        let refused = bench.open_with(0, Access::TakeBack).await.err();
        assert!(matches!(refused, Some(OpenError::Continued { .. })), "{refused:?}");
        close(there).await;
        // The usual opening has everything.
        let back = bench.open(0).await.unwrap();
        model.check(&back).await;
        put(&back, 8, 1).await;
        close(back).await;
    });
}

#[test]
fn writes_on_both_sides_are_kept() {
    run(async {
        let (bench, model) = (Bench::of_handover().await, Model::default());
        let volume = written(&bench, &model).await;
        let there = Session::new(&bench, 0, 1).move_drive(volume, &model).await;
        there.pusher().unwrap().set_paused(true);
        Session::taken(&there).await;
        put(&there, 33, 3).await;
        let back = bench.open_with(0, Access::TakeBack).await.unwrap();
        model.put(&back, 34, 4).await;
        back.pusher().unwrap().sync().await.unwrap();
        // The other device continues as a fork, with all that came to it.
        there.pusher().unwrap().set_paused(false);
        let _forked = there.pusher().unwrap().sync().await;
        there.pusher().unwrap().sync().await.unwrap();
        assert!(there.pusher().unwrap().state().borrow().fork.is_some());
        assert_eq!(crate::bench::get(&there, 33).await, 3);
        assert_eq!(crate::bench::get(&there, 15).await, 2);
        assert_eq!(crate::bench::get(&back, 33).await, 0);
        assert_eq!(bench.drives().await, 2);
    });
}
