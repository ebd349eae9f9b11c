//! The simulated remote keeps the contract, with every habit, and its faults are what they say.

use crate::{Notes, path, put, resume};
use holdall_core::sim::contract::{self, Other};
use holdall_core::sim::remote::{RemoteFaults, RemoteHabits, Request, SimRemote};
use holdall_core::store::StoreError;
use holdall_core::store::remote::{Condition, Relocation, Remote, RemoteError, RemotePath};
use std::time::Duration;

struct Client(SimRemote);

#[async_trait::async_trait]
impl Other for Client {
    async fn write(&self, path: &RemotePath, bytes: &[u8]) {
        self.0.other_writes(path, bytes.to_vec());
    }

    async fn remove(&self, path: &RemotePath) {
        self.0.other_removes(path);
    }

    async fn read(&self, path: &RemotePath) -> Option<Vec<u8>> {
        let files = self.0.files();
        files.into_iter().find(|file| file.path == *path).map(|file| file.bytes.to_vec())
    }

    async fn leave_unusable(&self, directory: &RemotePath) -> bool {
        self.0.other_leaves_unusable(directory, "a//b");
        true
    }
}

fn remote(habits: RemoteHabits, faults: RemoteFaults) -> SimRemote {
    SimRemote::new(7, habits, faults)
}

const GOOD: RemoteHabits = RemoteHabits::GOOD;

#[tokio::test(start_paused = true)]
async fn the_contract_holds_with_every_habit() {
    for habits in [
        GOOD,
        RemoteHabits::BUCKET,
        RemoteHabits { has_conditions: false, keeps_mtime: false, keeps_meta: false, ..GOOD },
        RemoteHabits { folds_case: true, folds_forms: true, root_tag_tells: true, ..GOOD },
        RemoteHabits { page_entries: 7, part_bytes: Some(1 << 20), ..RemoteHabits::BUCKET },
    ] {
        let remote =
            remote(habits, RemoteFaults { time: Duration::from_millis(5), ..RemoteFaults::default() });
        contract::holds(&remote, &Client(remote.clone())).await;
        assert_eq!(remote.unfinished(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_history() {
    let history = async || {
        let faults = RemoteFaults {
            answer_lost: 100,
            late: 100,
            refused: 100,
            away: 10,
            busy: 50,
            repeated: 100,
            ..RemoteFaults::default()
        };
        let remote = remote(GOOD, faults);
        let mut told = Vec::new();
        for number in 0..200 {
            let body = format!("{number}");
            told.push(put(&remote, &format!("{}", number % 20), body.as_bytes(), Condition::Always).await);
        }
        (told, remote.files(), remote.requests_total())
    };
    let (first, second) = (history().await, history().await);
    assert_eq!(first, second);
    assert!(first.0.iter().any(Result::is_err) && first.0.iter().any(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn faults_do_what_they_say() {
    let all = 1000;
    let remote = remote(GOOD, RemoteFaults { answer_lost: all, ..RemoteFaults::default() });
    let lost = put(&remote, "a", b"1", Condition::Absent).await;
    assert!(matches!(lost, Err(RemoteError::Store(StoreError::Unreachable { .. }))));
    assert_eq!(remote.files().len(), 1, "it took effect");

    remote.set_faults(RemoteFaults { late: all, ..RemoteFaults::default() });
    assert!(put(&remote, "b", b"2", Condition::Absent).await.is_err());
    assert_eq!(remote.files().len(), 1);
    remote.deliver_late();
    assert_eq!(remote.files().len(), 2);

    remote.set_faults(RemoteFaults { refused: all, ..RemoteFaults::default() });
    assert!(put(&remote, "c", b"3", Condition::Absent).await.is_err());
    remote.set_faults(RemoteFaults { login_page: all, ..RemoteFaults::default() });
    assert!(remote.list(&RemotePath::root(), None).await.is_err());
    remote.set_faults(RemoteFaults { locked: all, ..RemoteFaults::default() });
    assert!(matches!(put(&remote, "c", b"3", Condition::Absent).await, Err(RemoteError::Locked { .. })));
    assert_eq!(remote.files().len(), 2);

    remote.set_faults(RemoteFaults { idle_move: all, ..RemoteFaults::default() });
    let version = remote.stat(&path("a")).await.unwrap().version;
    let moved =
        remote.relocate(&path("a"), &version, &path("c"), Condition::Absent, Relocation::Move).await.unwrap();
    assert_eq!(moved.name.as_str(), "c");
    assert!(remote.stat(&path("c")).await.is_err() && remote.stat(&path("a")).await.is_ok());

    remote.set_faults(RemoteFaults::default());
    remote.other_locks(&path("a"), Some("Ada"));
    let locked = remote.remove(&path("a"), Condition::Always).await;
    assert_eq!(locked, Err(RemoteError::Locked { path: path("a"), by: Some("Ada".into()) }));
    remote.other_locks(&path("a"), None);
    remote.other_renames(&path("a"), &path("z"));
    assert!(remote.stat(&path("z")).await.is_ok());
    remote.set_away(true);
    assert!(remote.stat(&path("z")).await.is_err());
    remote.set_away(false);
    remote.set_login_page(true);
    assert!(remote.stat(&path("z")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn listings_break_off_loop_and_lag() {
    let all = 1000;
    let habits = RemoteHabits { page_entries: 2, ..GOOD };
    let remote = remote(habits, RemoteFaults { stale: all, ..RemoteFaults::default() });
    remote.other_makes_directory(&path("d"));
    for number in 0..6 {
        remote.other_writes(&path(&format!("d/{number}")), "x");
    }
    remote.set_faults(RemoteFaults { cut: all, ..RemoteFaults::default() });
    let first = remote.list(&path("d"), None).await.unwrap();
    assert!(remote.list(&path("d"), first.next.as_ref()).await.is_err());
    remote.set_faults(RemoteFaults { loops: all, ..RemoteFaults::default() });
    let second = remote.list(&path("d"), first.next.as_ref()).await.unwrap();
    assert_eq!(second.next, first.next);
    remote.set_faults(RemoteFaults { stale: all, ..RemoteFaults::default() });
    let mut found = Vec::new();
    for _ in 0..20 {
        found.push(remote.list(&RemotePath::root(), None).await.map_or(0, |page| page.entries.len()));
    }
    assert!(found.contains(&0) && found.contains(&1), "an earlier state is shown, too: {found:?}");
    assert_eq!(remote.requests(Request::List), 23);
}

#[tokio::test(start_paused = true)]
async fn weak_tags_repeat_within_a_second() {
    let remote = remote(RemoteHabits { has_weak_tags: true, ..GOOD }, RemoteFaults::default());
    let first = put(&remote, "a", b"1", Condition::Absent).await.unwrap().version;
    assert_eq!(put(&remote, "a", b"2", Condition::Always).await.unwrap().version, first);
    remote.pass_time(Duration::from_secs(1));
    assert_ne!(put(&remote, "a", b"3", Condition::Always).await.unwrap().version, first);
}

#[tokio::test(start_paused = true)]
async fn without_conditions_two_writers_can_both_win() {
    let habits = RemoteHabits { has_conditions: false, ..GOOD };
    let remote = remote(habits, RemoteFaults::default());
    let (one, two) =
        tokio::join!(put(&remote, "a", b"1", Condition::Absent), put(&remote, "a", b"2", Condition::Absent));
    assert!(one.is_ok() && two.is_ok());
    assert!(put(&remote, "a", b"3", Condition::Absent).await.is_err(), "outside the window it looks");
}

#[tokio::test(start_paused = true)]
async fn uploads_in_parts_resume_where_they_were_cut_off() {
    let habits = RemoteHabits { part_bytes: Some(100), ..GOOD };
    let remote = remote(habits, RemoteFaults::default());
    let body: Vec<u8> = (0..1000_u32).map(|at| (at / 3) as u8).collect();
    let notes = Notes::default();
    remote.set_capacity(Some(450));
    let cut = resume(&remote, "a", &body, Condition::Absent, None, &notes).await;
    assert!(matches!(cut, Err(RemoteError::Store(StoreError::Full { .. }))), "{cut:?}");
    assert_eq!((notes.0.lock().len(), remote.requests(Request::Part), remote.unfinished()), (4, 5, 1));
    assert!(remote.files().is_empty(), "an upload that is not complete is no file");

    remote.set_capacity(Some(1000));
    let last = notes.0.lock().last().cloned().unwrap();
    resume(&remote, "a", &body, Condition::Absent, Some(&last), &notes).await.unwrap();
    assert_eq!((remote.requests(Request::Part), remote.unfinished()), (5 + 6, 0), "only the rest is sent");
    assert_eq!(remote.files()[0].bytes, body);

    remote.set_capacity(Some(1500));
    assert!(put(&remote, "b", &body, Condition::Absent).await.is_err());
    assert_eq!(remote.quota().await.unwrap().unwrap().used, 1500);
    let notes = Notes::default();
    assert!(resume(&remote, "b", &body, Condition::Absent, None, &notes).await.is_err());
    assert_eq!(remote.unfinished(), 2);
    remote.set_capacity(None);
    let gone = b"1234 3";
    resume(&remote, "b", &body, Condition::Absent, Some(gone), &notes).await.unwrap();
    assert_eq!(remote.files().len(), 2, "an upload that the server has forgotten begins again");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_upload_leaves_nothing() {
    let remote = remote(RemoteHabits { part_bytes: Some(100), ..GOOD }, RemoteFaults::default());
    remote.set_capacity(Some(450));
    let notes = Notes::default();
    assert!(resume(&remote, "a", &[7; 1000], Condition::Absent, None, &notes).await.is_err());
    let last = notes.0.lock().last().cloned().unwrap();
    remote.abandon(&path("a"), &last).await.unwrap();
    assert_eq!((remote.unfinished(), remote.quota().await.unwrap().unwrap().used), (0, 0));
}
