//! The grammar of `holdall folder`.

use crate::args::drive::name;
use crate::args::store::CredentialsFrom;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  holdall folder open s3://my-bucket/photos
  holdall folder open https://cloud.example.org/remote.php/dav/files/ann --name cloud
  holdall folder status photos
  holdall folder close photos --wait";

const OPEN_EXAMPLES: &str = "\
Examples:
  holdall folder open s3://my-bucket/photos
  holdall folder open file:///mnt/nas/music --at ~/Music/nas --read-only
  holdall folder open photos";

const CONFLICTS_EXAMPLES: &str = "\
Examples:
  holdall folder conflicts photos
  holdall folder conflicts photos keep mine 2026/album.txt
  holdall folder conflicts photos keep both 2026/album.txt";

const DELETIONS_EXAMPLES: &str = "\
Examples:
  holdall folder deletions photos
  holdall folder deletions photos restore
  holdall folder deletions photos accept";

const PAUSE_EXAMPLES: &str = "\
Examples:
  holdall folder pause photos
  holdall folder resume photos";

const WATCH_EXAMPLES: &str = "\
Examples:
  holdall folder watch ~/Documents s3://my-bucket/documents
  holdall folder watch ~/Notes https://cloud.example.org/remote.php/dav/files/ann/Notes --two-way
  holdall folder status ~/Notes
  holdall folder unwatch ~/Notes";

/// A command for a folder.
#[derive(Debug, Subcommand)]
pub enum FolderCommand {
    /// Mount the files of a bucket, a WebDAV server or a directory as they are
    ///
    /// Each object is a file, and other programs can use them at the same time. Files are downloaded when they are read; changes are
    /// saved on this computer at once and uploaded in the background. A folder that this computer knows can be opened by its name,
    /// also without a connection. If it is already open, nothing changes, and that is not an error.
    #[command(after_help = OPEN_EXAMPLES)]
    Open(Open),
    /// Unmount a folder; uploads continue in the background
    ///
    /// If the folder is already closed, nothing changes, and that is not an error.
    #[command(after_help = "Examples:\n  holdall folder close photos\n  holdall folder close photos --wait")]
    Close(Close),
    /// List the folders on this computer
    #[command(after_help = "Example:\n  holdall folder list --json | jq -r '.[].name'")]
    List,
    /// Show the status of a folder, or of all folders
    #[command(
        after_help = "Examples:\n  holdall folder status photos\n  holdall folder status photos --json | jq .queue"
    )]
    Status {
        /// The folder, or the path of a watched directory [default: all of them]
        #[arg(value_parser = folder_or_directory)]
        name: Option<String>,
    },
    /// Upload all changes now, and wait until they are uploaded
    #[command(after_help = "Example:\n  holdall folder sync photos && systemctl suspend")]
    Sync(Folder),
    /// Show the upload queue
    #[command(
        after_help = "Example:\n  holdall folder queue photos --json | jq '.items[] | select(.state == \"failed\")'"
    )]
    Queue(Folder),
    /// Pause uploads; changes are kept on this computer
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Folder),
    /// Resume uploads
    #[command(after_help = PAUSE_EXAMPLES)]
    Resume(Folder),
    /// Show and settle conflicts: files that were changed both here and at the remote
    ///
    /// Both versions are kept until you decide: the remote's under its name, this computer's beside it.
    #[command(after_help = CONFLICTS_EXAMPLES)]
    Conflicts {
        /// Which.
        #[command(flatten)]
        folder: Folder,
        /// A decision about one file
        #[command(subcommand)]
        command: Option<ConflictsCommand>,
    },
    /// Show and settle held deletions
    ///
    /// If very many files disappear from the remote at once, they stay on this computer until you decide.
    #[command(after_help = DELETIONS_EXAMPLES)]
    Deletions {
        /// Which.
        #[command(flatten)]
        folder: Folder,
        /// The decision
        #[command(subcommand)]
        command: Option<DeletionsCommand>,
    },
    /// Keep a directory of this computer in a bucket, on a WebDAV server or in another directory
    ///
    /// The directory stays an ordinary directory: programs use it as before, also without a connection. Changed files are uploaded once they
    /// are closed. With --two-way, changes that others make at the remote come here, too. Names in a .holdallignore, in gitignore's
    /// syntax, are left out. The file .holdall-folder marks the directory: without it, nothing is uploaded and nothing is deleted.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(Watch),
    /// Stop watching a directory; its files stay, here and at the remote
    #[command(after_help = "Example:\n  holdall folder unwatch ~/Notes")]
    Unwatch {
        /// The directory
        #[arg(value_name = "LOCALDIR")]
        directory: PathBuf,
    },
    /// Remove a folder from this computer; its files at the remote stay
    ///
    /// Refused while something is only on this computer.
    #[command(after_help = "Example:\n  holdall folder forget photos")]
    Forget {
        /// Which.
        #[command(flatten)]
        folder: Folder,
        /// Also discard changes, conflicts and deleted files that are only on this computer
        #[arg(long)]
        discard_unsent: bool,
    },
}

/// The name of a folder, or the path of a watched directory, which is made absolute.
fn folder_or_directory(text: &str) -> Result<String, String> {
    let home = || std::env::var("HOME").ok();
    let path = match text.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => PathBuf::from(home).join(rest),
        None if text.contains('/') || text == "." || text == ".." => PathBuf::from(text),
        None => return name(text),
    };
    // A directory that is away is named by the path that it had.
    let path = path.canonicalize().or_else(|_| std::path::absolute(&path));
    let path = path.map_err(|error| format!("{text} cannot be used: {error}"))?;
    path.into_os_string().into_string().map_err(|_| format!("the name of {text} is not UTF-8"))
}

/// `folder watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// The directory to keep
    #[arg(value_name = "LOCALDIR")]
    pub directory: PathBuf,
    /// Where its files are kept: s3://BUCKET/PREFIX, https://HOST/PATH (WebDAV) or a directory
    #[arg(value_name = "URL")]
    pub url: String,
    /// Bring changes of the remote here, too
    #[arg(long)]
    pub two_way: bool,
    /// Credentials to keep for the remote; without, those of holdall store login are used.
    #[command(flatten)]
    pub credentials: CredentialsFrom,
}

/// Names one folder.
#[derive(Debug, Args)]
pub struct Folder {
    /// The folder, or the path of a watched directory
    #[arg(value_parser = folder_or_directory)]
    pub name: String,
}

/// `folder open`.
#[derive(Debug, Args)]
pub struct Open {
    /// Where the files are: s3://BUCKET/PREFIX, https://HOST/PATH (WebDAV) or a directory; or the name of a known folder
    #[arg(value_name = "URL")]
    pub folder: String,
    /// Where to mount it [default: the last place, or ~/Holdall/NAME]
    #[arg(long, value_name = "DIR")]
    pub at: Option<PathBuf>,
    /// Its name on this computer [default: the last part of the address]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Change nothing at the remote
    #[arg(long)]
    pub read_only: bool,
    /// Let the background service read and write every file, instead of the kernel where it can
    #[arg(long)]
    pub no_passthrough: bool,
    /// Credentials to keep for the remote; without, those of holdall store login are used.
    #[command(flatten)]
    pub credentials: CredentialsFrom,
}

/// `folder close`.
#[derive(Debug, Args)]
pub struct Close {
    /// The folder
    #[arg(value_parser = name)]
    pub name: String,
    /// Wait until everything is uploaded
    #[arg(long)]
    pub wait: bool,
}

/// What to do about a conflict.
#[derive(Debug, Subcommand)]
pub enum ConflictsCommand {
    /// Keep one version of a file, or both
    #[command(after_help = CONFLICTS_EXAMPLES)]
    Keep {
        /// Which version
        #[arg(value_name = "mine|theirs|both", hide_possible_values = true)]
        which: Which,
        /// The file's path in the folder
        path: String,
    },
}

/// The versions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// This computer's
    Mine,
    /// The remote's
    Theirs,
    /// Both, each under its name
    Both,
}

impl From<Which> for crate::api::WhichVersion {
    fn from(which: Which) -> Self {
        match which {
            Which::Mine => Self::Mine,
            Which::Theirs => Self::Theirs,
            Which::Both => Self::Both,
        }
    }
}

/// What to do about held deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum DeletionsCommand {
    /// The deletions are right: delete the files here too
    #[command(after_help = DELETIONS_EXAMPLES)]
    Accept,
    /// The deletions are wrong: upload the files again
    #[command(after_help = DELETIONS_EXAMPLES)]
    Restore,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    fn parsed(words: &[&str]) -> Result<FolderCommand, clap::Error> {
        let words = ["holdall", "folder"].iter().chain(words);
        match Arguments::try_parse_from(words)?.command {
            Command::Folder(command) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_folder_is_opened_by_its_address_or_name() {
        let words =
            ["open", "s3://b/photos", "--at", "/mnt/p", "--name", "p", "--read-only", "--no-passthrough"];
        let FolderCommand::Open(open) = parsed(&words).unwrap() else { panic!("not open") };
        assert_eq!((open.folder.as_str(), open.name.as_deref()), ("s3://b/photos", Some("p")));
        assert!(open.read_only && open.no_passthrough && open.at == Some("/mnt/p".into()));
        assert!(parsed(&["open"]).is_err());
        assert!(parsed(&["open", "s3://b", "--name", "a/b"]).is_err());
    }

    #[test]
    fn a_decision_comes_after_the_name() {
        let FolderCommand::Conflicts { folder, command } =
            parsed(&["conflicts", "photos", "keep", "theirs", "a b.txt"]).unwrap()
        else {
            panic!("not conflicts")
        };
        assert_eq!(folder.name, "photos");
        let Some(ConflictsCommand::Keep { which, path }) = command else { panic!("no decision") };
        assert_eq!((which, path.as_str()), (Which::Theirs, "a b.txt"));
        assert!(parsed(&["conflicts", "photos", "keep", "ours", "a"]).is_err());
        assert!(matches!(
            parsed(&["conflicts", "photos"]),
            Ok(FolderCommand::Conflicts { command: None, .. })
        ));
        let decision = |word| match parsed(&["deletions", "photos", word]) {
            Ok(FolderCommand::Deletions { command, .. }) => command,
            other => panic!("{other:?}"),
        };
        assert_eq!(decision("accept"), Some(DeletionsCommand::Accept));
        assert_eq!(decision("restore"), Some(DeletionsCommand::Restore));
    }

    #[test]
    fn a_watched_directory_is_named_by_its_path() {
        let named = |word| match parsed(&["sync", word]) {
            Ok(FolderCommand::Sync(folder)) => folder.name,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (named("photos"), named("/nowhere/photos")),
            ("photos".to_owned(), "/nowhere/photos".to_owned())
        );
        assert!(named("./photos").starts_with('/'));
        let Ok(FolderCommand::Watch(watch)) = parsed(&["watch", "Notes", "s3://b/notes", "--two-way"]) else {
            panic!("not watch")
        };
        assert_eq!(
            (watch.directory.to_str(), &*watch.url, watch.two_way),
            (Some("Notes"), "s3://b/notes", true)
        );
        assert!(parsed(&["watch", "Notes"]).is_err());
        assert!(matches!(parsed(&["unwatch", "Notes"]), Ok(FolderCommand::Unwatch { .. })));
    }

    #[test]
    fn commands_on_one_folder_need_its_name() {
        for verb in ["close", "sync", "queue", "pause", "resume", "conflicts", "deletions", "forget"] {
            assert!(parsed(&[verb]).is_err(), "{verb}");
            assert!(parsed(&[verb, "photos"]).is_ok(), "{verb}");
        }
        assert!(parsed(&["list"]).is_ok() && parsed(&["status"]).is_ok());
        assert!(matches!(
            parsed(&["close", "p", "--wait"]),
            Ok(FolderCommand::Close(Close { wait: true, .. }))
        ));
        let forget = parsed(&["forget", "p", "--discard-unsent"]);
        assert!(matches!(forget, Ok(FolderCommand::Forget { discard_unsent: true, .. })));
    }
}
