//! What an error of the remote means for an action, and for people. Pure.

use crate::folder::plan::Action;
use crate::retry;
use crate::store::StoreError;
use crate::store::remote::RemoteError;
use std::time::Duration;

/// What to do about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The remote is not as it was thought to be: look at what it has.
    Look,
    /// The remote as a whole has trouble. Nothing is known about the file.
    Trouble(Trouble),
    /// This file has trouble that may pass by itself.
    Later,
    /// The same request would always fail.
    Never,
}

/// Trouble of the remote as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// It takes no more bytes, but can be read and emptied.
    pub is_full: bool,
    /// It asks to be left alone.
    pub is_busy: bool,
    /// A person has to do something before it ends.
    pub needs_person: bool,
    /// The shortest wait that it asks for.
    pub hint: Option<Duration>,
}

/// What an error means.
pub fn verdict(error: &RemoteError) -> Verdict {
    match error {
        RemoteError::Changed(_) | RemoteError::NotFound(_) | RemoteError::NotEmpty(_) => Verdict::Look,
        RemoteError::Locked { .. } | RemoteError::Local(_) => Verdict::Later,
        RemoteError::Forbidden { .. }
        | RemoteError::TooLarge(_)
        | RemoteError::BadName { .. }
        | RemoteError::Archived(_)
        | RemoteError::Unsupported(_) => Verdict::Never,
        RemoteError::Store(error) => match error {
            StoreError::NotFound { .. } | StoreError::Precondition { .. } | StoreError::Damaged { .. } => {
                Verdict::Later
            }
            StoreError::Unreachable { .. }
            | StoreError::NoPlace { .. }
            | StoreError::Elsewhere { .. }
            | StoreError::Unfit { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::UnknownCredentials { .. }
            | StoreError::Denied { .. } => Verdict::Trouble(Trouble {
                is_full: matches!(error, StoreError::Full { .. }),
                is_busy: matches!(error, StoreError::Busy { .. }),
                needs_person: !matches!(error, StoreError::Unreachable { .. } | StoreError::Busy { .. }),
                hint: retry::hint_of(error),
            }),
        },
    }
}

const SAFE: &str = "The change is safe on this computer and is not uploaded.";
const BY_ITSELF: &str = "The change is safe on this computer; Holdall tries again by itself.";
const AGAIN: &str = "then run holdall folder sync";

/// Why an action failed: the cause, what it means for the file, and what to do.
pub fn reason(action: &Action, error: &RemoteError) -> String {
    let cause = sentence(error);
    match error {
        RemoteError::Forbidden { .. } => {
            format!("{cause} {SAFE} Get the right to change it at the server, {AGAIN}.")
        }
        RemoteError::TooLarge(_) => {
            format!("{cause} {SAFE} Make the file smaller, or move it out of the folder.")
        }
        RemoteError::BadName { .. } => format!("{cause} {SAFE} Rename it."),
        RemoteError::Archived(_) => format!("{cause} {SAFE} Restore it at the provider, {AGAIN}."),
        RemoteError::Unsupported(_) if matches!(action, Action::Relocate { .. }) => {
            format!("{cause} {SAFE} Copy it to the new place, and remove the old one.")
        }
        RemoteError::Unsupported(_) => format!("{cause} {SAFE}"),
        RemoteError::Locked { .. }
        | RemoteError::Local(_)
        | RemoteError::Changed(_)
        | RemoteError::NotFound(_)
        | RemoteError::NotEmpty(_)
        | RemoteError::Store(_) => format!("{cause} {BY_ITSELF}"),
    }
}

/// Why a directory cannot be moved where the server moves files only.
pub fn too_large(cause: &str) -> String {
    format!("Not moved at the server: {cause}. {SAFE} Move what is in the directory in smaller groups.")
}

/// Why a file cannot be put together.
pub const BASE_GONE: &str = "Only a part of the file was changed here, and the server no longer has the version that the rest comes from. What was \
     changed is kept on this computer, and what others have stays at the server. Save the whole file under another name, or remove it here to \
     take theirs.";

/// Why a file cannot be put together now.
pub fn base_away(reason: &str) -> String {
    format!(
        "The part of the file that was not changed cannot be read from the server: {reason}. {SAFE} Holdall tries again by itself."
    )
}

/// Why a removal was taken back.
pub fn came_back(error: &RemoteError) -> String {
    format!(
        "{} The file was removed here, and is back. Remove it again once the server allows it.",
        sentence(error)
    )
}

/// Why nothing can be uploaded.
pub fn trouble(error: &RemoteError) -> String {
    let cause = sentence(error);
    let RemoteError::Store(error) = error else { return format!("{cause} {BY_ITSELF}") };
    let next = match error {
        StoreError::Full { .. } => "Free space at the server: uploads continue by themselves.",
        StoreError::UnknownCredentials { .. } => "Log in again with holdall store login.",
        StoreError::Denied { .. } => {
            "Log in with other credentials (holdall store login), or grant this access at the server."
        }
        StoreError::Unfit { .. } | StoreError::Elsewhere { .. } | StoreError::NoPlace { .. } => {
            "Check the folder's address."
        }
        StoreError::Unreachable { .. }
        | StoreError::Busy { .. }
        | StoreError::NotFound { .. }
        | StoreError::Precondition { .. }
        | StoreError::Damaged { .. } => "Uploads continue by themselves.",
    };
    format!("{cause} Changes are safe on this computer. {next}")
}

fn sentence(error: &RemoteError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // A path keeps its letters.
    let text = match error {
        RemoteError::Store(_)
        | RemoteError::Unsupported(_)
        | RemoteError::BadName { .. }
        | RemoteError::Local(_) => {
            format!("{first}{}", letters.as_str())
        }
        _ => text,
    };
    format!("{}.", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::remote::RemotePath;

    fn path() -> RemotePath {
        RemotePath::parse("notes/a.txt").unwrap()
    }

    #[test]
    fn full_servers_still_take_removals() {
        let full = RemoteError::Store(StoreError::Full { reason: "the quota is used up".into() });
        let Verdict::Trouble(trouble) = verdict(&full) else { panic!("{full}") };
        assert!(trouble.is_full && trouble.needs_person);
        let busy = StoreError::Busy { reason: String::new(), retry_after: Some(Duration::from_secs(9)) };
        let Verdict::Trouble(trouble) = verdict(&busy.into()) else { panic!("busy") };
        assert_eq!((trouble.is_busy, trouble.hint), (true, Some(Duration::from_secs(9))));
    }

    #[test]
    fn a_file_that_the_server_never_takes_is_no_trouble_of_the_server() {
        let reason = "no".to_owned();
        for error in [
            RemoteError::TooLarge(path()),
            RemoteError::Forbidden { path: path(), reason: reason.clone() },
            RemoteError::BadName { path: path(), reason },
            RemoteError::Unsupported("keep links"),
        ] {
            assert_eq!(verdict(&error), Verdict::Never, "{error}");
        }
        assert_eq!(verdict(&RemoteError::Locked { path: path(), by: None }), Verdict::Later);
        assert_eq!(verdict(&RemoteError::Changed(path())), Verdict::Look);
    }

    #[test]
    fn reasons_say_the_cause_the_consequence_and_the_next_step() {
        let at = crate::folder::node::Place::new(
            crate::folder::node::Ino::ROOT,
            crate::store::remote::Name::new("a.txt").unwrap(),
        );
        let action = Action::RemoveDirectory { at };
        let error = RemoteError::Forbidden { path: path(), reason: "read only".into() };
        assert_eq!(
            reason(&action, &error),
            "notes/a.txt may not be changed: read only. The change is safe on this computer and is not uploaded. Get the right to change it \
             at the server, then run holdall folder sync."
        );
        let full = RemoteError::Store(StoreError::Full { reason: "the quota is used up".into() });
        assert_eq!(
            trouble(&full),
            "The store is full: the quota is used up. Changes are safe on this computer. Free space at the server: uploads continue by \
             themselves."
        );
    }
}
