//! Puts stores, and the logins to them, into words.

use crate::api::{Action, KeptIn, StoreLogin, StoreMode, StoreTested};
use crate::output::{Hue, Paint};
use crate::show::table::Table;

const NO_LOGINS: &str = "\
You are not logged in to any store. Log in:
  holdall store login URL";

/// All logins.
pub fn list(logins: &[StoreLogin]) -> String {
    if logins.is_empty() {
        return NO_LOGINS.to_owned();
    }
    let mut table = Table::new(["STORE", "USER", "KEPT IN", "USED BY"]);
    for login in logins {
        let used_by = [&login.drives[..], &login.folders].concat().join(", ");
        table.row([login.store.clone(), login.user.clone(), kept(login).to_owned(), used_by]);
    }
    table.to_string()
}

/// A new login.
pub fn logged_in(login: &StoreLogin) -> String {
    let place = match login.kept {
        KeptIn::Keyring => "the keyring",
        KeptIn::File => "a file that only you can read",
    };
    format!("Logged in to {} as {}; the credentials are saved in {place}", login.store, login.user)
}

/// A removed login.
pub fn logged_out(login: &StoreLogin) -> String {
    let mut text = format!("Logged out of {}", login.store);
    for (what, names) in [("drives", &login.drives), ("folders", &login.folders)] {
        if !names.is_empty() {
            text.push_str(&format!(
                "\nThese {what} used the login, and cannot upload or download until you log in again: {}",
                names.join(", ")
            ));
        }
    }
    text
}

fn kept(login: &StoreLogin) -> &'static str {
    match login.kept {
        KeptIn::Keyring => "keyring",
        KeptIn::File => "file",
    }
}

/// The abilities of a store; `at` is its address as it was typed.
pub fn tested(at: &str, tested: &StoreTested, paint: Paint) -> String {
    let mut text = format!("{at}\n");
    for finding in &tested.findings {
        let icon = match finding.ok {
            true => paint.hue(Hue::Good, "✓"),
            false => paint.hue(Hue::Bad, "!"),
        };
        text.push_str(&format!("  {icon} {}: {}\n", finding.subject, finding.detail));
    }
    for reason in &tested.reasons {
        text.push_str(&format!("  {reason}\n"));
    }
    text.push_str(match tested.usable {
        true => meaning(tested.store_mode),
        false => "This store cannot hold a drive",
    });
    text.push_str(&there_already(tested));
    text
}

/// The existing content of the place, if that matters to a new drive.
fn there_already(tested: &StoreTested) -> String {
    if tested.has_drive {
        let add = Action::Add { drive: None, store: Some(tested.store.clone()) };
        return format!("\nThere is already a drive. {}", add.sentence());
    }
    match &tested.instead {
        Some(instead) => {
            format!("\nThere are already other files. To give the drive a place of its own, use {instead}")
        }
        None => String::new(),
    }
}

/// The meaning of a mode, for people.
pub fn meaning(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Swap => {
            "Several computers can use drives here: if two write at the same time, both versions are kept"
        }
        StoreMode::Claim => {
            "Several computers can use drives here: if two write at the same time, both versions are kept. They take turns by\n\
             claims: each open and upload takes a few more requests, and if a computer dies while it takes a drive, the next\n\
             one waits for half a minute"
        }
        StoreMode::None => {
            "Use a drive here on one computer at a time: this store cannot stop two computers from opening a drive at the\n\
             same time. Close it on one computer before you open it on another"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::StoreFinding;

    fn login() -> StoreLogin {
        StoreLogin {
            store: "s3://b".into(),
            user: "AKIAIO…".into(),
            kept: KeptIn::File,
            drives: vec!["photos".into(), "work".into()],
            folders: vec!["music".into()],
        }
    }

    #[test]
    fn logins_are_listed_with_the_drives_that_use_them() {
        let expected = "\
STORE   USER     KEPT IN  USED BY
s3://b  AKIAIO…  file     photos, work, music
";
        assert_eq!(list(&[login()]), expected);
        assert!(list(&[]).contains("holdall store login"));
        assert!(logged_out(&login()).contains("photos, work"));
        assert!(!logged_out(&StoreLogin { drives: Vec::new(), ..login() }).contains("These drives"));
    }

    #[test]
    fn a_test_says_what_it_means() {
        let finding = StoreFinding { subject: "If-Match".into(), ok: false, detail: "it overwrites".into() };
        let tested = super::tested(
            "s3://b",
            &StoreTested {
                store: "s3://b".into(),
                store_mode: StoreMode::None,
                usable: true,
                findings: vec![finding],
                reasons: vec!["conditions of puts are not heeded".into()],
                has_drive: false,
                others: vec!["letters/".into()],
                instead: Some("s3://b/holdall".into()),
            },
            Paint(false),
        );
        assert!(tested.ends_with(
            "\nThere are already other files. To give the drive a place of its own, use s3://b/holdall"
        ));
        assert!(
            tested.starts_with("s3://b\n  ! If-Match: it overwrites\n  conditions of puts are not heeded\nUse a drive here on one computer"),
            "{tested}"
        );
    }
}
