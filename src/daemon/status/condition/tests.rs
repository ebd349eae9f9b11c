//! The table: facts, and the state, reason and actions that people see.

use super::*;

const S3: &str = "s3://bucket/photos";
const DIRECTORY: &str = "file:///mnt/nas/photos";

/// An open drive that is well.
fn open() -> Facts {
    Facts {
        name: "photos".to_owned(),
        store: S3.to_owned(),
        phase: Phase::Open,
        engine: Some(Engine {
            uploads: Some(Uploads::default()),
            journal_limit_bytes: 1000,
            has_metadata: true,
            ..Engine::default()
        }),
        paused: None,
        hindrance: None,
        looks_because: None,
        has_unsent: false,
        unsent: "0 B".to_owned(),
        pins: None,
        full: None,
        taken_by: None,
        has_forks: false,
    }
}

/// A drive without an engine.
fn shut(phase: Phase) -> Facts {
    Facts { phase, engine: None, ..open() }
}

fn failed(code: Code) -> Facts {
    shut(Phase::Failed(Failure::new(code, "It failed.", "Your files are safe.", Action::Status)))
}

/// An open drive after a change of what its engine says.
fn engine(change: impl FnOnce(&mut Engine)) -> Facts {
    let mut facts = open();
    change(facts.engine.as_mut().expect("it is open"));
    facts
}

fn uploads(change: impl FnOnce(&mut Uploads)) -> Facts {
    engine(|engine| change(engine.uploads.as_mut().expect("it is open for writing")))
}

/// An open drive whose store cannot be used.
fn hindered(hindrance: Hindrance) -> Facts {
    Facts { hindrance: Some(hindrance), ..uploads(|uploads| uploads.trouble = Some("no answer".to_owned())) }
}

/// A drive that is open to look at.
fn look(change: impl FnOnce(&mut Engine)) -> Facts {
    engine(|engine| {
        engine.uploads = None;
        change(engine);
    })
}

fn rejected() -> Hindrance {
    Hindrance::Credentials("the access key is rejected".to_owned())
}

/// The first action that a person is given.
fn action(why: &Option<Why>) -> Option<Action> {
    why.as_ref()?.advice.as_ref()?.actions.first().cloned()
}

fn drive() -> Option<String> {
    Some("photos".to_owned())
}

#[track_caller]
fn check(rows: Vec<(&str, Facts, DriveState, &str, Option<Action>)>) {
    for (row, facts, state, reason, first) in rows {
        let found = condition(&facts);
        assert_eq!(found.state, state, "{row}: {found:?}");
        let found_reason = found.why.as_ref().map_or("", |why| &why.reason);
        assert_eq!(found_reason, reason, "{row}");
        assert_eq!(action(&found.why), first, "{row}");
    }
}

#[test]
fn the_phase_decides_without_an_engine() {
    check(vec![
        ("closed", shut(Phase::Closed), DriveState::Closed, "", None),
        ("open, but its engine is gone", shut(Phase::Open), DriveState::Closed, "", None),
        ("opening", shut(Phase::Connecting), DriveState::Connecting, "", None),
        ("recovering", shut(Phase::Recovering), DriveState::Recovering, RECOVERS, None),
        ("store away", failed(Code::Offline), DriveState::Offline, "It failed.", Some(Action::Status)),
        ("held", failed(Code::Held), DriveState::ReadOnly, "It failed.", Some(Action::Status)),
        (
            "refused",
            failed(Code::Credentials),
            DriveState::NeedsAttention,
            "It failed.",
            Some(Action::Status),
        ),
        (
            "conflict with a fork here",
            Facts { has_forks: true, ..failed(Code::Conflict) },
            DriveState::Conflict,
            "It failed.",
            Some(Action::Status),
        ),
        (
            "conflict with nothing to compare",
            failed(Code::Conflict),
            DriveState::NeedsAttention,
            "It failed.",
            Some(Action::Status),
        ),
    ]);
}

#[test]
fn the_most_pressing_fact_of_the_engine_decides() {
    let stopped = || Failure::new(Code::Corrupt, "It stopped.", "Nothing is lost.", Action::Doctor);
    let filled = "the space for pending uploads is 60 % full; at 100 %, saving waits for uploads";
    check(vec![
        ("well", open(), DriveState::Ready, "", None),
        ("uploading", uploads(|uploads| uploads.is_pushing = true), DriveState::Syncing, "", None),
        (
            "uploads stopped, whatever else is wrong",
            engine(|engine| {
                engine.uploads = Some(Uploads {
                    stopped: Some(stopped()),
                    trouble: Some("away".to_owned()),
                    is_pushing: true,
                });
                engine.local_trouble = Some("the disk is full".to_owned());
            }),
            DriveState::NeedsAttention,
            "It stopped.",
            Some(Action::Doctor),
        ),
        (
            "the local disk, before the store",
            engine(|engine| {
                engine.local_trouble = Some("the disk is full".to_owned());
                engine.pull_trouble = Some("away".to_owned());
            }),
            DriveState::NeedsAttention,
            "the disk is full",
            None,
        ),
        (
            "writing, before reading",
            engine(|engine| {
                engine.uploads =
                    Some(Uploads { trouble: Some("writes fail".to_owned()), ..Uploads::default() });
                engine.pull_trouble = Some("reads fail".to_owned());
            }),
            DriveState::Offline,
            "writes fail",
            None,
        ),
        (
            "away while the journal fills",
            engine(|engine| {
                (engine.pull_trouble, engine.journal_bytes) = (Some("away".to_owned()), 600);
            }),
            DriveState::Offline,
            &format!("away; {filled}"),
            None,
        ),
        (
            "damage",
            engine(|engine| engine.pull_damage = Some("a segment is damaged".to_owned())),
            DriveState::NeedsAttention,
            "a segment is damaged",
            Some(Action::Check { drive: drive() }),
        ),
        ("paused", Facts { paused: Some("quiet hours"), ..open() }, DriveState::Paused, "quiet hours", None),
        ("filling", engine(|engine| engine.journal_bytes = 600), DriveState::Ready, filled, None),
        ("hardly filling", engine(|engine| engine.journal_bytes = 599), DriveState::Ready, "", None),
        (
            "names are missing",
            engine(|engine| engine.has_metadata = false),
            DriveState::Syncing,
            "folder listings are being downloaded",
            None,
        ),
        (
            "names do not fit",
            engine(|engine| {
                engine.has_metadata = false;
                (engine.metadata_without_room_bytes, engine.least_cache_bytes) = (1 << 20, 10 << 20);
            }),
            DriveState::Ready,
            "the cache is too small for all folder listings (1 MiB does not fit): it needs 11 MiB or more",
            Some(Action::GrowCache { size: Some("11 MiB".to_owned()) }),
        ),
        (
            "more names than are kept",
            engine(|engine| (engine.has_metadata, engine.has_more_metadata) = (false, true)),
            DriveState::Ready,
            "the drive has more folders than this computer keeps: without the store, some cannot be listed",
            None,
        ),
        (
            "an indexer",
            engine(|engine| engine.slows_scan = true),
            DriveState::Ready,
            "a program reads the beginnings of many files and is slowed down",
            Some(Action::Indexers),
        ),
    ]);
}

#[test]
fn a_closed_drive_shows_what_it_still_uploads_and_what_hinders_it() {
    let draining = |facts: Facts| Facts { phase: Phase::Draining, ..facts };
    check(vec![
        ("done", draining(open()), DriveState::Closed, "", None),
        (
            "uploading",
            draining(engine(|engine| engine.unpushed_bytes = 2 << 20)),
            DriveState::Closed,
            "2 MiB is still being uploaded",
            None,
        ),
        (
            "the store is away",
            draining(engine(|engine| {
                (engine.unpushed_bytes, engine.pull_trouble) = (1, Some("away".to_owned()))
            })),
            DriveState::Offline,
            "away",
            None,
        ),
        (
            "paused",
            Facts { paused: Some("paused by you"), ..draining(open()) },
            DriveState::Paused,
            "paused by you",
            None,
        ),
    ]);
}

#[test]
fn an_obstacle_at_the_store_needs_a_person() {
    let keyring =
        || Hindrance::Keyring { what: "the keyring is locked".to_owned(), actions: vec![Action::Doctor] };
    let full = || Hindrance::Store("the bucket is full".to_owned());
    let login = Action::LogIn { store: Some(S3.to_owned()) };
    let continued = format!("the bucket is full; {UPLOADS_CONTINUE}");
    check(vec![
        (
            "credentials",
            hindered(rejected()),
            DriveState::NeedsAttention,
            &format!("the access key is rejected; {UPLOADS_WAIT}"),
            Some(login),
        ),
        (
            "a directory has no login",
            Facts { store: DIRECTORY.to_owned(), ..hindered(rejected()) },
            DriveState::NeedsAttention,
            &format!("the access key is rejected; {UPLOADS_CONTINUE}"),
            None,
        ),
        (
            "keyring",
            hindered(keyring()),
            DriveState::NeedsAttention,
            &format!("the keyring is locked; {UPLOADS_WAIT}"),
            Some(Action::Doctor),
        ),
        ("full store", hindered(full()), DriveState::NeedsAttention, &continued, None),
        (
            "emptied store",
            hindered(Hindrance::Emptied),
            DriveState::NeedsAttention,
            "The store no longer has any data of this drive.",
            Some(Action::RestoreStore { store: Some(S3.to_owned()) }),
        ),
        // Nothing uses the store, or nothing has failed.
        (
            "not open",
            Facts { hindrance: Some(rejected()), ..failed(Code::Offline) },
            DriveState::Offline,
            "It failed.",
            Some(Action::Status),
        ),
        ("well all the same", Facts { hindrance: Some(full()), ..open() }, DriveState::Ready, "", None),
    ]);
}

#[test]
fn only_missing_credentials_need_a_login() {
    let reads_fail = |engine: &mut Engine| engine.pull_trouble = Some("away".to_owned());
    for (row, facts, needs_login) in [
        ("well", open(), false),
        ("refused while opening", failed(Code::Credentials), true),
        ("another failure", failed(Code::Corrupt), false),
        ("a directory", Facts { store: DIRECTORY.to_owned(), ..failed(Code::Credentials) }, false),
        ("refused while open", hindered(rejected()), true),
        ("refused by a directory", Facts { store: DIRECTORY.to_owned(), ..hindered(rejected()) }, false),
        ("full", hindered(Hindrance::Store("full".to_owned())), false),
        ("a look whose reads fail", Facts { hindrance: Some(rejected()), ..look(reads_fail) }, true),
        // Credentials for writing, which a look does without.
        ("a look that is well", Facts { hindrance: Some(rejected()), ..look(|_| ()) }, false),
    ] {
        assert_eq!(condition(&facts).needs_login, needs_login, "{row}");
    }
}

#[test]
fn a_look_says_why_and_what_it_lacks() {
    let because = || Some("the store lost its locks".to_owned());
    let away = |engine: &mut Engine| engine.pull_trouble = Some("away".to_owned());
    let damaged = |engine: &mut Engine| engine.pull_damage = Some("a frame is damaged".to_owned());
    check(vec![
        ("asked for", look(|_| ()), DriveState::ReadOnly, "it was opened read-only", None),
        (
            "not asked for",
            Facts { looks_because: because(), ..look(|_| ()) },
            DriveState::ReadOnly,
            "the store lost its locks",
            None,
        ),
        (
            "the store is away",
            look(away),
            DriveState::ReadOnly,
            &format!("it was opened read-only; {LACKS_REST}: away"),
            None,
        ),
        (
            "the store refuses",
            Facts { hindrance: Some(rejected()), ..look(away) },
            DriveState::ReadOnly,
            &format!("it was opened read-only; {LACKS_REST}: the access key is rejected"),
            None,
        ),
        ("damage", look(damaged), DriveState::ReadOnly, "it was opened read-only; a frame is damaged", None),
        (
            "changes wait meanwhile",
            Facts { has_unsent: true, ..look(|_| ()) },
            DriveState::ReadOnly,
            &format!("it was opened read-only; {WAITS_FOR_LOOK}"),
            None,
        ),
    ]);
}

#[test]
fn a_drive_that_works_warns_of_one_thing_at_a_time() {
    let pins = || Some("kept files do not fit".to_owned());
    let full = || Some(("the drive is 95 % full".to_owned(), Action::Grow { drive: drive() }));
    let grow = Action::Grow { drive: drive() };
    let keep = Action::Pins { drive: drive() };
    let indexed = || engine(|engine| engine.slows_scan = true);
    check(vec![
        ("full", Facts { full: full(), ..open() }, DriveState::Ready, "the drive is 95 % full", Some(grow)),
        (
            "pins before a full drive",
            Facts { pins: pins(), full: full(), ..open() },
            DriveState::Ready,
            "kept files do not fit",
            Some(keep.clone()),
        ),
        (
            "the engine before pins",
            Facts { pins: pins(), ..indexed() },
            DriveState::Ready,
            "a program reads the beginnings of many files and is slowed down",
            Some(Action::Indexers),
        ),
        (
            "pins that leave no space for names come first",
            Facts { pins: pins(), ..engine(|engine| engine.has_metadata = false) },
            DriveState::Syncing,
            "kept files do not fit",
            Some(keep),
        ),
        (
            "not while the store is away",
            Facts { pins: pins(), ..engine(|engine| engine.pull_trouble = Some("away".to_owned())) },
            DriveState::Offline,
            "away",
            None,
        ),
    ]);
}

#[test]
fn a_fork_in_the_drives_place_is_a_conflict() {
    let forked = |facts: Facts| Facts { taken_by: Some("desk".to_owned()), has_forks: true, ..facts };
    let forks = Some(Action::Forks { drive: drive() });
    check(vec![
        (
            "all is uploaded",
            forked(open()),
            DriveState::Conflict,
            "desk has taken the drive over; your changes continue here as a fork, and all of it is uploaded",
            forks.clone(),
        ),
        (
            "changes wait",
            forked(Facts { has_unsent: true, unsent: "2 MiB".to_owned(), ..open() }),
            DriveState::Conflict,
            "desk has taken the drive over; your changes continue here as a fork, and 2 MiB are being uploaded",
            forks,
        ),
        (
            "what needs a person comes first",
            forked(engine(|engine| engine.local_trouble = Some("the disk is full".to_owned()))),
            DriveState::NeedsAttention,
            "the disk is full",
            None,
        ),
        (
            "the drive itself, while its fork is apart",
            Facts { has_forks: true, ..open() },
            DriveState::Ready,
            "",
            None,
        ),
    ]);
}
