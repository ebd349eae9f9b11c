//! Verdicts on what the doctor has seen. Pure.

use crate::api::words::{sentence, why};
use crate::api::{Action, Actions, Code, Diagnosis, DriveState, Failure, Finding, FolderStatus};
use crate::daemon::drive::LEAST_CACHE_BYTES;
use crate::daemon::failure::is_directory;
use crate::daemon::secrets::keyring::KeyringError;
use crate::sizes::format_bytes;
use holdall_core::log::Limits;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

const WHEN_FULL: &str =
    "Once the disk is full, programs cannot save to your drives. Files that are already saved are safe.";
const FREE_UP: &str = "Delete files on this disk that you do not need, set a smaller cache limit, or wait until uploads are finished.";

/// A store that was asked.
pub struct Asked {
    /// Its address.
    pub store: String,
    /// The drives that rely on it.
    pub drives: Vec<String>,
    /// The user that is logged in there.
    pub user: Option<String>,
    /// How long it took to answer, or why it did not.
    pub answer: Result<Duration, Failure>,
}

/// The free space of a directory's disk.
pub struct Space {
    /// The directory.
    pub path: PathBuf,
    /// The disk's number.
    pub device: u64,
    /// Free for this user.
    pub free_bytes: u64,
}

/// A folder: in order, unless a person has to act, or its remote does not answer.
pub fn folder(folder: &FolderStatus) -> Finding {
    let subject = format!("folder {}", folder.name);
    let ok = !matches!(folder.state, DriveState::NeedsAttention | DriveState::Conflict | DriveState::Offline);
    let reason = folder.reason.as_deref().map(sentence);
    let detail = match (ok, &reason) {
        (true, None) if folder.mountpoint.is_some() => {
            format!("It is open, and its files are at {}.", folder.url)
        }
        (true, None) => format!("It is closed, and its files are at {}.", folder.url),
        (_, Some(reason)) => reason.clone(),
        (false, None) => "It needs your attention.".to_owned(),
    };
    let actions = folder.advice.as_ref().map(|advice| advice.actions.clone()).unwrap_or_default();
    Finding::new(subject, ok, detail, if ok { Vec::new() } else { actions })
}

/// A store, and the login there. Unless the store accepts the login, nothing else is known of it.
pub fn store(asked: &Asked) -> Finding {
    let Asked { store, drives, user, answer } = asked;
    let drives = match &drives[..] {
        [] => "No drive uses it.".to_owned(),
        drives => format!("Drives there: {}.", drives.join(", ")),
    };
    match answer {
        Ok(after) => {
            let accepts = user.as_ref().map(|user| format!(" and accepts the credentials of {user}"));
            let unused = if asked.drives.is_empty() { format!(" {drives}") } else { String::new() };
            let detail =
                format!("It answers within {}{}.{unused}", took(*after), accepts.unwrap_or_default());
            Finding::new(format!("store {store}"), true, detail, Actions::default())
        }
        Err(failure) => {
            let is_login = failure.code == Code::Credentials && !is_directory(store);
            let subject = format!("{} {store}", if is_login { "login at" } else { "store" });
            let detail = format!("{} {} {drives}", failure.message, failure.consequence);
            Finding::new(subject, false, detail, failure.actions.clone())
        }
    }
}

fn took(after: Duration) -> String {
    match after.as_millis() {
        millis @ ..1000 => format!("{} ms", millis.max(1)),
        millis => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
    }
}

/// The disks of the state directory, where journals are, and of the cache. They may be the same.
pub fn disks(state: &Space, cache: &Space) -> Vec<Finding> {
    let journal = Limits::of_bytes(0);
    // The smallest number of files that a journal works with, and what closing a drive may take beyond them.
    let for_journal = journal.file_bytes * (journal.files + journal.reserve_files) as u64;
    if state.device == cache.device {
        return vec![disk(state, for_journal + LEAST_CACHE_BYTES, "journals and the cache need", WHEN_FULL)];
    }
    let slow = "Without a cache, files are downloaded each time they are read. Nothing is lost.";
    vec![
        disk(state, for_journal, "a journal needs", WHEN_FULL),
        disk(cache, LEAST_CACHE_BYTES, "a cache needs", slow),
    ]
}

fn disk(space: &Space, least_bytes: u64, need: &str, consequence: &str) -> Finding {
    let subject = format!("disk of {}", space.path.display());
    let free = format_bytes(space.free_bytes);
    if space.free_bytes >= least_bytes {
        return Finding::new(subject, true, format!("{free} is free."), Actions::default());
    }
    let detail =
        format!("Only {free} is free there, and {need} {}. {consequence}", format_bytes(least_bytes));
    Finding::new(subject, false, detail, Action::tell(FREE_UP))
}

/// A local disk that does not report its free space.
pub fn unknown_disk(error: &io::Error) -> Finding {
    let detail = format!("The free space of the local disk is unknown: {}. {WHEN_FULL}", why(error));
    Finding::new("local disk", false, detail, "Check the local disk and its permissions.")
}

/// The keyring, which has the credentials of this many logins.
pub fn keyring(found: Result<&(), &KeyringError>, logins: usize) -> Finding {
    let error = match found {
        Ok(()) => {
            return Finding::new("keyring", true, "The keyring is there, and unlocked.", Actions::default());
        }
        Err(error) => crate::api::words::sentence(&error.to_string()),
    };
    if logins == 0 {
        let detail = format!("{error} No credentials are in it: they are in a file that only you can read.");
        return Finding::new("keyring", true, detail, Actions::default());
    }
    let of = if logins == 1 { "one store".to_owned() } else { format!("{logins} stores") };
    let detail = format!(
        "{error} The credentials of {of} are in it. Your files are safe on this computer; uploads wait."
    );
    Finding::new("keyring", false, detail, Action::UnlockKeyring)
}

/// Logins that cannot be read.
pub fn logins(failure: &Failure) -> Finding {
    let detail = format!("{} {}", failure.message, failure.consequence);
    Finding::new("logins", false, detail, failure.actions.clone())
}

/// The whole diagnosis: problems first, then repairs, then what is well.
pub fn diagnosis(mut findings: Vec<Finding>) -> Diagnosis {
    findings.sort_by_key(|finding| match (finding.ok, finding.repaired) {
        (_, true) => 1,
        (false, false) => 0,
        (true, false) => 2,
    });
    let named = |is_one: fn(&&Finding) -> bool, word: &str| {
        let subjects: Vec<_> =
            findings.iter().filter(is_one).map(|finding| finding.subject.as_str()).collect();
        let said = match subjects.len() {
            0 => return None,
            1 => format!("1 problem was {word}: {}.", subjects[0]),
            many => format!("{many} problems were {word}: {}.", subjects.join(", ")),
        };
        Some(said)
    };
    let found = named(|one| !one.ok && !one.repaired, "found");
    let repaired = named(|one| one.repaired, "repaired");
    let ok = found.is_none();
    let summary = match (found, repaired) {
        (None, None) => "No problems were found.".to_owned(),
        (found, repaired) => [found, repaired].into_iter().flatten().collect::<Vec<_>>().join(" "),
    };
    Diagnosis { ok, summary, findings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::failure;
    use holdall_core::store::StoreError;

    fn asked(answer: Result<Duration, Failure>) -> Asked {
        let drives = vec!["photos".to_owned(), "work".to_owned()];
        Asked { store: "s3://b".to_owned(), drives, user: Some("AKIA…".to_owned()), answer }
    }

    fn refused() -> Failure {
        failure::at_store(failure::store(&StoreError::Denied { reason: "403".to_owned() }), "s3://b")
    }

    #[test]
    fn an_answer_says_its_time_and_the_user() {
        let finding = store(&asked(Ok(Duration::from_millis(35))));
        assert!(finding.ok);
        assert_eq!(finding.detail, "It answers within 35 ms and accepts the credentials of AKIA….");
        assert!(store(&asked(Ok(Duration::from_millis(1290)))).detail.contains("1.2 s"));
    }

    #[test]
    fn a_dead_store_is_a_problem_that_names_its_drives() {
        let reason = "no answer within 10 s".to_owned();
        let finding = store(&asked(Err(failure::store(&StoreError::Unreachable { reason }))));
        assert_eq!((finding.ok, finding.subject.as_str()), (false, "store s3://b"));
        for part in ["no answer within 10 s", "safe on this computer", "photos, work"] {
            assert!(finding.detail.contains(part), "{}", finding.detail);
        }
        assert!(!finding.actions.is_empty());
    }

    #[test]
    fn a_login_that_no_drive_uses_is_told_as_such() {
        let unused = |answer| Asked { drives: Vec::new(), ..asked(answer) };
        let well = store(&unused(Ok(Duration::from_millis(35))));
        assert_eq!(
            well.detail,
            "It answers within 35 ms and accepts the credentials of AKIA…. No drive uses it."
        );
        let bad = store(&unused(Err(refused())));
        assert!(bad.detail.ends_with("No drive uses it.") && bad.subject == "login at s3://b", "{bad:?}");
    }

    #[test]
    fn a_refusal_is_a_problem_of_the_login() {
        let finding = store(&asked(Err(refused())));
        assert_eq!((finding.ok, finding.subject.as_str()), (false, "login at s3://b"));
        let log_in = Action::LogIn { store: Some("s3://b".to_owned()) };
        assert!(finding.actions.contains(&log_in), "{:?}", finding.actions);
    }

    #[test]
    fn a_disk_is_low_when_a_journal_no_longer_fits() {
        let space = |device, free_bytes| Space { path: "/home/me".into(), device, free_bytes };
        let least = 512 << 20;
        let found =
            |state: Space, cache: Space| disks(&state, &cache).iter().map(|one| one.ok).collect::<Vec<_>>();
        assert_eq!(found(space(1, least), space(2, LEAST_CACHE_BYTES)), [true, true]);
        assert_eq!(found(space(1, least - 1), space(2, LEAST_CACHE_BYTES - 1)), [false, false]);
        // A shared disk must have enough for both.
        assert_eq!(found(space(1, least + LEAST_CACHE_BYTES), space(1, 0)), [true]);
        assert_eq!(found(space(1, least), space(1, 0)), [false]);
    }

    #[test]
    fn a_keyring_is_missed_only_if_it_has_credentials() {
        assert!(keyring(Ok(&()), 0).ok);
        assert!(keyring(Err(&KeyringError::Away("no bus".to_owned())), 0).ok);
        let locked = keyring(Err(&KeyringError::Locked), 2);
        assert!(
            !locked.ok && locked.detail.starts_with("The keyring is locked. The credentials of 2 stores")
        );
        assert_eq!(locked.actions, [Action::UnlockKeyring]);
    }

    #[test]
    fn a_diagnosis_begins_with_problems_and_counts_them() {
        let of = |found: &[(&str, bool, bool)]| {
            let finding = |&(subject, ok, repaired)| Finding {
                repaired,
                ..Finding::new(subject, ok, "", Actions::default())
            };
            diagnosis(found.iter().map(finding).collect())
        };
        let well = of(&[("a", true, false)]);
        assert_eq!((well.ok, well.summary.as_str()), (true, "No problems were found."));
        let bad = of(&[("a", true, false), ("b", false, true), ("c", false, false), ("d", false, false)]);
        assert_eq!(bad.summary, "2 problems were found: c, d. 1 problem was repaired: b.");
        assert!(!bad.ok);
        let order: Vec<_> = bad.findings.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(order, ["c", "d", "b", "a"]);
        assert_eq!(of(&[("c", false, false)]).summary, "1 problem was found: c.");
        assert!(of(&[("b", false, true)]).ok);
    }
}
