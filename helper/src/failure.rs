//! Says why an operation failed, to the caller and to people.

use super::Refused;
use super::holders::list;
use holdall_api::words::sentence;
use holdall_api::{Action, Actions, Code, Failure};
use std::io;
use std::time::Duration;

/// Why an operation was not done, or is not known to be.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegedError {
    /// The process tried, and says why it failed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It took too long.
    #[error("could not {doing}: no answer within {} s", deadline.as_secs())]
    Deadline {
        /// The operation.
        doing: &'static str,
        /// How long it had.
        deadline: Duration,
        /// Whether its process still waits in the kernel; it ends when the device answers or is taken away.
        stuck: bool,
    },
    /// There is a helper, but polkit does not allow it to do this for this user in this session.
    #[error("could not {doing}: {said}")]
    NotAuthorized {
        /// The operation.
        doing: &'static str,
        /// What the helper said.
        said: String,
    },
    /// There is a helper, but it failed.
    #[error("could not {doing}: the helper on the system bus failed: {said}")]
    Helper {
        /// The operation.
        doing: &'static str,
        /// What it, or the bus, said.
        said: String,
    },
    /// There is no sudo.
    #[error("could not {doing}: this needs root, and neither Holdall's helper nor sudo is installed")]
    NoSudo {
        /// The operation.
        doing: &'static str,
    },
    /// sudo refused.
    #[error("could not {doing}: {said}")]
    SudoRefused {
        /// The operation.
        doing: &'static str,
        /// What it said.
        said: String,
    },
    /// The process could not be started or spoken to.
    #[error("could not {doing}: no process could be started: {error}")]
    NotStarted {
        /// The operation.
        doing: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The process ended without an answer.
    #[error("could not {doing}: its process ended without an answer: {said}")]
    Died {
        /// The operation.
        doing: &'static str,
        /// What it said last, or how it ended.
        said: String,
    },
}

const SAFE: &str = "Your files are safe; nothing was changed.";
const KEPT: &str = "Your files are safe; the drive is unchanged.";

/// For when neither the helper nor sudo works. The reader may be at the app's window, where no sudo can ask for anything.
const INSTALL_HELPER: &str = "Install Holdall's helper, which does this for you: it is part of the package `holdall`, and \
    `packaging/helper` installs it from a copy of Holdall's source. Then try again.";

impl PrivilegedError {
    /// For people: cause, consequence, action.
    pub fn failure(&self) -> Failure {
        let (code, consequence, actions): (_, _, Actions) = match self {
            PrivilegedError::Refused(refused) => return refused.failure(),
            PrivilegedError::Deadline { stuck: false, .. } => {
                (Code::Failed, KEPT, try_again())
            }
            PrivilegedError::Deadline { stuck: true, .. } => (
                Code::Failed,
                "Your files are safe; the kernel still waits for the drive.",
                [Action::tell("Close the drive, or wait until the store can be reached."), Action::Doctor].into(),
            ),
            PrivilegedError::NoSudo { .. } => (Code::Privileges, SAFE, INSTALL_HELPER.into()),
            PrivilegedError::NotAuthorized { .. } => (
                Code::Privileges,
                SAFE,
                "Log in at this computer's own screen, or have its administrator run `adduser YOU holdall` and log in again.".into(),
            ),
            PrivilegedError::Helper { .. } => (
                Code::Privileges,
                SAFE,
                [
                    Action::run(&["journalctl", "-u", "holdall-helper"]),
                    Action::tell("It shows the cause. Fix that, then try again."),
                ]
                .into(),
            ),
            PrivilegedError::SudoRefused { .. } => (Code::Privileges, SAFE, INSTALL_HELPER.into()),
            PrivilegedError::NotStarted { .. } => {
                (Code::Failed, SAFE, "Check the free memory and the limit on processes, then try again.".into())
            }
            PrivilegedError::Died { .. } => (Code::Failed, KEPT, try_again()),
        };
        failure(code, self.to_string(), consequence, actions)
    }
}

impl Refused {
    /// For people: cause, consequence, action.
    pub fn failure(&self) -> Failure {
        let (code, consequence, actions): (_, _, Actions) = match self {
            Refused::NotOurs { .. } => (Code::State, "Nothing was changed.", Action::Doctor.into()),
            Refused::NotYours { .. } => (
                Code::Privileges,
                "Nothing was changed.",
                "Open the drive as the user who owns it, at a directory of that user.".into(),
            ),
            Refused::Unfit { .. } => (
                Code::State,
                "Nothing was changed.",
                "Open the drive at a directory among your files, such as one in your home directory.".into(),
            ),
            Refused::TooMany { .. } => (
                Code::State,
                SAFE,
                [
                    Action::tell(
                        "Close a drive. If fewer drives are open, remove leftovers of earlier ones.",
                    ),
                    Action::Repair,
                ]
                .into(),
            ),
            Refused::ToolMissing { package, .. } => {
                (Code::Failed, SAFE, Action::run_as_root(&["apt-get", "install", package]).into())
            }
            Refused::ToolFailed { .. } | Refused::NoDescriptor => (Code::Failed, KEPT, try_again()),
            Refused::NoNbd { .. } => (
                Code::Failed,
                SAFE,
                [
                    Action::run_as_root(&["modprobe", "nbd"]),
                    Action::tell("Or attach the drive by loop, which needs no module."),
                ]
                .into(),
            ),
            Refused::NotBlank { .. } => (
                Code::State,
                "The data on it is unchanged.",
                "If you do not need the data, remove the drive and create it again.".into(),
            ),
            Refused::Damaged { .. } => (
                Code::Corrupt,
                "The drive was not mounted; its earlier versions in the store are not affected.",
                "Roll back to a snapshot, or run `e2fsck` on the block device and answer its questions."
                    .into(),
            ),
            Refused::Busy { holders, .. } => {
                (Code::State, KEPT, format!("Close what uses it{}, then try again.", list(holders)).into())
            }
            Refused::AlreadyFrozen { .. } => (
                Code::State,
                KEPT,
                "Another program froze it: wait until it is done, or run `fsfreeze -u` on the mount point."
                    .into(),
            ),
            Refused::NotFrozen { .. } => (Code::Failed, KEPT, "Try again.".into()),
            Refused::System { errno, .. } => match errno {
                Some(libc::EPERM | libc::EACCES) => {
                    (Code::Privileges, SAFE, "Run holdalld as root, or with CAP_SYS_ADMIN.".into())
                }
                Some(libc::EUCLEAN | libc::EIO) => (
                    Code::Corrupt,
                    "The drive could not be read correctly; nothing was written to it.",
                    [Action::Check { drive: None }, Action::Doctor].into(),
                ),
                _ => (Code::Failed, KEPT, try_again()),
            },
        };
        failure(code, self.to_string(), consequence, actions)
    }
}

fn failure(code: Code, message: String, consequence: &str, actions: Actions) -> Failure {
    Failure::new(code, sentence(&message), consequence, actions)
}

fn try_again() -> Actions {
    [Action::tell("Try again."), Action::Doctor].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader may be at the app's window, where there is no terminal and nothing that could ask.
    #[test]
    fn without_a_helper_the_error_says_how_to_install_it() {
        let doing = "attach an nbd device";
        let said = "sudo: a password is required".to_owned();
        for error in [PrivilegedError::NoSudo { doing }, PrivilegedError::SudoRefused { doing, said }] {
            let Failure { code, action, .. } = error.failure();
            assert_eq!(code, Code::Privileges);
            assert!(
                action.contains("`packaging/helper`") && action.contains("package `holdall`"),
                "{action}"
            );
            assert!(!action.contains("terminal") && !action.contains("Run "), "{action}");
        }
    }
}
