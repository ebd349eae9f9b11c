use super::*;
use crate::format::id::ObjectId;
use crate::heads::Device;

const DRIVE: Uuid = Uuid::from_u128(1);
const ME: Uuid = Uuid::from_u128(2);
const OTHER: Uuid = Uuid::from_u128(3);
const EPOCH: Epoch = Epoch(7);

fn device(id: Uuid) -> Device {
    Device { id, name: format!("device {}", id.as_u128()) }
}

fn root(epoch: Epoch, seq: u64) -> ObjectId {
    ObjectId { drive: DRIVE, epoch, seq, unique: u128::from(seq) }
}

/// The states in which a drive's HEAD may be.
fn states() -> Vec<(&'static str, Head)> {
    let head = |state, device: Uuid| Head {
        drive: DRIVE,
        epoch: EPOCH,
        nonce: 1000,
        device,
        device_name: format!("device {}", device.as_u128()),
        state,
        written_ms: 0,
        root: root(EPOCH, 5),
        root_hash: [5; 32],
        parent: root(EPOCH, 4),
        moved_to: Vec::new(),
    };
    let provisional = head(HeadState::Released, OTHER);
    let provisional = Head { nonce: provisional.provisional_nonce(), ..provisional };
    vec![
        ("released here", head(HeadState::Released, ME)),
        ("released", head(HeadState::Released, OTHER)),
        ("held here", head(HeadState::Held, ME)),
        ("held", head(HeadState::Held, OTHER)),
        ("removed", head(HeadState::Removed, ME)),
        ("moved from here", head(HeadState::Moved, ME)),
        ("moved", head(HeadState::Moved, OTHER)),
        ("provisional", provisional),
    ]
}

type Transition = Box<dyn Fn(&Head, Author) -> Result<Head, Invalid>>;

/// A version that follows the one that `before` names.
fn following(before: &Head) -> Version {
    Version { root: root(EPOCH, 6), root_hash: [6; 32], parent: before.root }
}

/// A replica's record of the version that `before` names.
fn record(before: &Head) -> Head {
    Head { state: HeadState::Held, epoch: Epoch(before.epoch.0 - 1), ..before.clone() }
}

/// Every transition, with the states from which it is allowed.
fn transitions() -> Vec<(&'static str, Transition, &'static [&'static str])> {
    const FREE: &[&str] = &["released here", "released", "held here"];
    const OWN: &[&str] = &["released here", "held here"];
    const HERE: &[&str] = &["released here", "released", "held here", "held"];
    let above = Epoch(EPOCH.0 + 1);
    vec![
        ("take", Box::new(move |before, by| take(before, above, Version::of(before), false, by)), FREE),
        ("take over", Box::new(move |before, by| take(before, above, following(before), true, by)), HERE),
        ("commit", Box::new(|before, by| commit(before, following(before), by)), OWN),
        ("release", Box::new(release), OWN),
        (
            "give back",
            Box::new(move |before, by| {
                let taken = take(before, above, Version::of(before), true, Author { nonce: 2000, ..by })?;
                give_back(before, &taken, by)
            }),
            &["released here", "released"],
        ),
        ("change", Box::new(|before, by| change(before, following(before), by)), FREE),
        ("remove", Box::new(|before, by| remove(before, following(before), by)), FREE),
        ("retire", Box::new(|before, by| retire(before, false, |_| vec![1], by)), FREE),
        ("retire over others", Box::new(|before, by| retire(before, true, |_| vec![1], by)), HERE),
        ("restore", Box::new(restore), &["moved from here"]),
        (
            "promote",
            Box::new(|before, by| {
                let record = record(before);
                let epoch = promoted_epoch(Some(before), &record, Epoch(0));
                promote(Some(before), &record, (epoch, Version::of(&record)), by)
            }),
            &["removed", "moved from here", "moved", "provisional"],
        ),
        ("take up", Box::new(|before, _| take_up(before)), &["released here", "released"]),
        ("finish", Box::new(finish), &["provisional"]),
    ]
}

#[test]
fn only_allowed_transitions_give_a_head() {
    let me = device(ME);
    let author = Author { device: &me, nonce: 3000, written_ms: 9 };
    for (name, transition, allowed) in transitions() {
        for (state, before) in states() {
            let case = format!("{name} after {state}");
            let after = match transition(&before, author) {
                Ok(after) => after,
                Err(_) if !allowed.contains(&state) => continue,
                Err(invalid) => panic!("{case}: {invalid}"),
            };
            assert!(allowed.contains(&state), "{case}: {after:?}");
            assert_eq!(after.drive, before.drive, "{case}");
            assert!(after.epoch >= before.epoch, "{case}");
            assert!(follows(&before, &after), "{case}");
            let is_same = Version::of(&after) == Version::of(&before);
            assert!(is_same || after.parent == before.root, "{case}: a version is skipped");
            assert_eq!(after.moved_to.is_empty(), after.state != HeadState::Moved, "{case}");
            assert_eq!(after.is_provisional(), ["promote", "take up"].contains(&name), "{case}");
            // Whoever may still write in the old epoch is fenced, except by its own commits.
            let continues = ["commit", "release", "take up"].contains(&name);
            assert_eq!(after.epoch == before.epoch, continues, "{case}");
            let expected = match name {
                "take" | "take over" | "commit" => HeadState::Held,
                "remove" => HeadState::Removed,
                "retire" | "retire over others" => HeadState::Moved,
                _ => HeadState::Released,
            };
            assert_eq!(after.state, expected, "{case}");
            let maker = if ["give back", "take up", "finish"].contains(&name) { before.device } else { ME };
            assert_eq!(after.device, maker, "{case}");
        }
    }
}

#[test]
fn refusals_say_why() {
    let me = device(ME);
    let author = Author { device: &me, nonce: 3000, written_ms: 9 };
    let refused = |name: &str, state: &str| {
        let (_, transition, _) = transitions().into_iter().find(|(found, ..)| *found == name).unwrap();
        let (_, before) = states().into_iter().find(|(found, _)| *found == state).unwrap();
        transition(&before, author).unwrap_err()
    };
    let held = Invalid::Held { device_name: "device 3".into(), epoch: EPOCH };
    for (name, state, why) in [
        ("take", "held", held.clone()),
        ("change", "held", held.clone()),
        ("retire", "held", held),
        ("take over", "removed", Invalid::Removed),
        ("take over", "moved", Invalid::Moved),
        ("take over", "provisional", Invalid::Unfinished),
        ("commit", "held", Invalid::NotOwn),
        ("commit", "moved from here", Invalid::Moved),
        ("release", "released", Invalid::NotOwn),
        ("give back", "held here", Invalid::WasHeld),
        ("rename", "provisional", Invalid::Unfinished),
        ("retire over others", "provisional", Invalid::Unfinished),
        ("restore", "moved", Invalid::NotOwn),
        ("restore", "removed", Invalid::Removed),
        ("restore", "released here", Invalid::NotMoved),
        ("promote", "released", Invalid::Here),
        ("promote", "held", Invalid::Here),
        ("take up", "held", Invalid::Held { device_name: "device 3".into(), epoch: EPOCH }),
        ("take up", "provisional", Invalid::Unfinished),
        ("finish", "released", Invalid::Finished),
    ] {
        let name = if name == "rename" { "change" } else { name };
        assert_eq!(refused(name, state), why, "{name} after {state}");
    }
}

#[test]
fn neither_epochs_nor_versions_go_back() {
    let me = device(ME);
    let author = Author { device: &me, nonce: 3000, written_ms: 9 };
    let before = states().swap_remove(2).1;
    let elsewhere = Version { parent: root(EPOCH, 3), ..following(&before) };
    let used = Err(Invalid::UsedEpoch(EPOCH));
    assert_eq!(take(&before, EPOCH, Version::of(&before), false, author), used);
    let other = Err(Invalid::OtherVersion);
    assert_eq!(take(&before, Epoch(9), elsewhere, true, author), other);
    assert_eq!(commit(&before, elsewhere, author), other);
    // A commit names a version of its own.
    assert_eq!(commit(&before, Version::of(&before), author), other);
    assert_eq!(change(&before, elsewhere, author), other);
    assert_eq!(remove(&before, elsewhere, author), other);

    let moved = states().swap_remove(6).1;
    let record = record(&moved);
    let promoted = |epoch, version| promote(Some(&moved), &record, (epoch, version), author);
    assert_eq!(promoted(EPOCH, Version::of(&record)), used);
    assert_eq!(promoted(Epoch(8), elsewhere), other);
    assert_eq!(promoted_epoch(Some(&moved), &record, Epoch(20)), Epoch(21));
    let elsewhere = Head { drive: OTHER, ..record.clone() };
    assert_eq!(promote(Some(&moved), &elsewhere, (Epoch(8), Version::of(&record)), author), other);
    // A replica without any HEAD takes the next epoch of the record.
    assert_eq!(promoted_epoch(None, &record, Epoch(0)), EPOCH);
    assert!(promote(None, &record, (EPOCH, Version::of(&record)), author).unwrap().is_provisional());
}

#[test]
fn an_address_is_sealed_for_the_epoch_of_its_head() {
    let me = device(ME);
    let author = Author { device: &me, nonce: 3000, written_ms: 9 };
    let before = states().swap_remove(0).1;
    let moved = retire(&before, false, |epoch| epoch.0.to_le_bytes().to_vec(), author).unwrap();
    assert_eq!(moved.moved_to, moved.epoch.0.to_le_bytes());
}

#[test]
fn all_devices_take_up_a_promotion_with_the_same_head() {
    let before = states().swap_remove(1).1;
    let taken_up = take_up(&before).unwrap();
    assert_eq!(take_up(&before), Ok(taken_up.clone()));
    assert_eq!((Version::of(&taken_up), taken_up.epoch), (Version::of(&before), before.epoch));
}

#[test]
fn an_abandoned_drive_is_removed_in_a_later_epoch_than_its_first() {
    let me = device(ME);
    let abandoned = abandon(DRIVE, Author { device: &me, nonce: 1, written_ms: 2 });
    assert_eq!((abandoned.state, abandoned.drive), (HeadState::Removed, DRIVE));
    assert!(abandoned.epoch > Epoch(0));
}
