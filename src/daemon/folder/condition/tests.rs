use super::*;

fn facts(phase: Phase, engine: Option<Engine>) -> Facts {
    let (name, url) = ("photos".to_owned(), "s3://b/photos".to_owned());
    Facts { name, url, phase, engine, paused: None, unsent: false }
}

fn answering() -> Engine {
    Engine { link: Link::Answers, ..Engine::default() }
}

fn queue(waiting: u64, uploading: u64, failed: u64, in_use: u64) -> FolderQueueCounts {
    FolderQueueCounts { waiting, uploading, failed, in_use }
}

fn refused() -> Link {
    Link::Hindered(Hindrance::Credentials("the server refuses the credentials: no".to_owned()))
}

#[test]
fn the_state_follows_from_the_facts() {
    use DriveState::{
        Closed, Conflict, Connecting, NeedsAttention, Offline, Paused, ReadOnly, Ready, Syncing,
    };
    let open = |engine| facts(Phase::Open, Some(engine));
    let draining = |engine| facts(Phase::Draining, Some(engine));
    let paused = |engine| Facts { paused: Some("paused by you"), ..open(engine) };
    let failure = |code| Failure::new(code, "It failed.", "", "");
    let silent = || Link::Silent("no answer".to_owned());
    for (facts, state, reason) in [
        (facts(Phase::Closed, None), Closed, None),
        (Facts { unsent: true, ..facts(Phase::Closed, None) }, Closed, Some("only on this computer")),
        (facts(Phase::Connecting, None), Connecting, None),
        (facts(Phase::Failed(failure(Code::Offline)), None), Offline, Some("It failed.")),
        (facts(Phase::Failed(failure(Code::Corrupt)), None), NeedsAttention, Some("It failed.")),
        (open(Engine::default()), Connecting, None),
        (open(answering()), Ready, None),
        (open(Engine { queue: queue(0, 0, 0, 1), ..answering() }), Ready, Some("1 file is still open")),
        (open(Engine { queue: queue(1, 0, 0, 0), ..answering() }), Syncing, None),
        (open(Engine { queue: queue(0, 2, 0, 0), ..answering() }), Syncing, None),
        (
            open(Engine {
                queue: queue(0, 0, 1, 0),
                failed: Some(("a.txt".to_owned(), "it is locked".to_owned(), true)),
                ..answering()
            }),
            Syncing,
            Some("a.txt is uploaded again later: it is locked"),
        ),
        (
            open(Engine {
                queue: queue(5, 0, 1, 0),
                failed: Some(("a.txt".to_owned(), "it is too large".to_owned(), false)),
                ..answering()
            }),
            NeedsAttention,
            Some("a.txt cannot be uploaded: it is too large"),
        ),
        (
            open(Engine { read_only: Some("it was opened so".to_owned()), ..answering() }),
            ReadOnly,
            Some("opened so"),
        ),
        (open(Engine { link: silent(), ..Engine::default() }), Offline, Some("no answer")),
        (open(Engine { trouble: Some("full".to_owned()), ..answering() }), Offline, Some("full")),
        (open(Engine { stale_because: Some("old".to_owned()), ..answering() }), Offline, Some("old")),
        (paused(Engine { queue: queue(3, 0, 0, 0), ..answering() }), Paused, Some("paused by you")),
        // It is more important that it is offline.
        (paused(Engine { link: silent(), ..Engine::default() }), Offline, Some("no answer")),
        (
            open(Engine { conflicts: 2, queue: queue(3, 0, 0, 0), ..answering() }),
            Conflict,
            Some("2 files were"),
        ),
        (open(Engine { conflicts: 1, link: silent(), ..Engine::default() }), Conflict, Some("1 file was")),
        (
            open(Engine { held: 600, conflicts: 1, ..answering() }),
            NeedsAttention,
            Some("600 files were deleted"),
        ),
        (
            open(Engine { link: refused(), held: 1, ..answering() }),
            NeedsAttention,
            Some("refuses the credentials"),
        ),
        // A closed folder that still uploads, and one that cannot.
        (
            draining(Engine { queue: queue(2, 1, 0, 0), ..answering() }),
            Closed,
            Some("3 files are still being uploaded"),
        ),
        (draining(answering()), Closed, None),
        (
            draining(Engine { queue: queue(2, 0, 0, 0), link: silent(), ..Engine::default() }),
            Offline,
            Some("no answer"),
        ),
        (draining(Engine { link: refused(), ..answering() }), NeedsAttention, Some("uploads wait")),
        (
            Facts { phase: Phase::Draining, ..paused(Engine { queue: queue(2, 0, 0, 0), ..answering() }) },
            Paused,
            Some("paused by you"),
        ),
    ] {
        let found = condition(&facts);
        assert_eq!(found.state, state, "{facts:?}");
        match (&found.reason, reason) {
            (None, None) => {}
            (Some(found), Some(reason)) => assert!(found.contains(reason), "{found}"),
            other => panic!("{other:?} for {facts:?}"),
        }
    }
}

#[test]
fn a_refused_login_leads_to_a_login_unless_there_is_none() {
    let engine = || Some(Engine { link: refused(), ..Engine::default() });
    let found = condition(&facts(Phase::Open, engine()));
    assert!(found.needs_login);
    let advice = found.advice.unwrap();
    assert_eq!(advice.actions, [Action::LogIn { store: Some("s3://b/photos".to_owned()) }]);
    let directory = Facts { url: "file:///photos".to_owned(), ..facts(Phase::Open, engine()) };
    let found = condition(&directory);
    assert!(!found.needs_login && found.advice.unwrap().action.contains("permission"));
}

#[test]
fn what_a_person_must_decide_names_the_command() {
    for (engine, command) in [
        (Engine { held: 30, ..answering() }, "holdall folder deletions photos"),
        (Engine { conflicts: 1, ..answering() }, "holdall folder conflicts photos"),
    ] {
        let found = condition(&facts(Phase::Open, Some(engine)));
        assert!(found.advice.unwrap().action.contains(command));
    }
}
