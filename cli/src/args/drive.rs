//! The grammar of `holdall drive`.

use crate::api::AttachMode;
use crate::args::store::CredentialsFrom;
use crate::sizes::{SizeError, parse_size};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  holdall drive create work --store file:///mnt/nas/work
  holdall drive open work --at ~/Work
  holdall drive snapshot create work before-upgrade
  holdall drive close work --wait";

/// A command for a drive.
#[derive(Debug, Subcommand)]
pub enum DriveCommand {
    /// Create a drive
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// Use a drive that was created on another computer
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// Open a drive: take it and mount it
    ///
    /// If the drive is already open, nothing changes, and that is not an error. An open drive cannot be mounted elsewhere or made
    /// read-only.
    #[command(after_help = OPEN_EXAMPLES)]
    Open(Open),
    /// Unmount a drive; uploads continue in the background
    ///
    /// If the drive is already closed, nothing changes, and that is not an error.
    #[command(after_help = "Examples:\n  holdall drive close work\n  holdall drive close work --wait")]
    Close(Close),
    /// Upload all changes now, and wait until they are uploaded
    #[command(after_help = "Example:\n  holdall drive sync work && systemctl suspend")]
    Sync(Drive),
    /// Pause uploads; changes are kept on this computer
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Drive),
    /// Resume uploads
    #[command(after_help = PAUSE_EXAMPLES)]
    Resume(Drive),
    /// List the drives on this computer
    #[command(after_help = "Example:\n  holdall drive list --json | jq -r '.[].name'")]
    List,
    /// Show the status of a drive, or of all drives
    #[command(
        after_help = "Examples:\n  holdall drive status work\n  holdall drive status work --json | jq .state"
    )]
    Status {
        /// The drive [default: all drives]
        #[arg(value_parser = name)]
        name: Option<String>,
    },
    /// Show which parts of a drive are on this computer
    #[command(after_help = "Example:\n  holdall drive map work")]
    Map(Drive),
    /// Show the upload queue
    #[command(
        after_help = "Example:\n  holdall drive queue work --json | jq '.[] | select(.last_error != null)'"
    )]
    Queue(Drive),
    /// Start uploading pending changes and retry failed uploads; returns at once
    #[command(after_help = "Example:\n  holdall drive upload-now work")]
    UploadNow(Drive),
    /// Stop fetching data ahead of programs
    ///
    /// After opening, a drive fetches in the background the data that programs read first the last times. Data that a program
    /// reads is still fetched.
    #[command(after_help = "Example:\n  holdall drive stop-prefetch work")]
    StopPrefetch(Drive),
    /// Read and verify everything that a drive has in its store
    ///
    /// This downloads the whole drive. Nothing is changed. Exits with 7 if data is damaged.
    #[command(after_help = "Example:\n  holdall drive check work")]
    Check(Drive),
    /// Delete data from a drive's store that no version needs
    ///
    /// Holdall does this by itself when there is much to delete, or once a week.
    #[command(after_help = "Examples:\n  holdall drive gc work\n  holdall drive gc work --stop")]
    Gc {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// Stop a cleanup that is running; the rest is deleted later
        #[arg(long)]
        stop: bool,
    },
    /// Make a drive larger
    #[command(after_help = "Example:\n  holdall drive resize work 200G")]
    Resize {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// Its new size, such as 200G
        size: Size,
    },
    /// Take, list and delete snapshots
    #[command(subcommand, after_help = SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotCommand),
    /// Keep copies of a drive in additional stores
    #[command(subcommand, after_help = REPLICA_EXAMPLES)]
    Replica(ReplicaCommand),
    /// Restore a drive to a snapshot
    ///
    /// Changes made since then are discarded, unless another snapshot contains them.
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The snapshot
        #[arg(value_parser = label)]
        label: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Create a new drive from a version of this one; nothing is copied
    #[command(after_help = "Example:\n  holdall drive clone work experiment --snapshot before-upgrade")]
    Clone {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The new drive's name
        #[arg(value_parser = name, value_name = "NEW")]
        new: String,
        /// The version [default: the current one]
        #[arg(long, value_name = "LABEL", value_parser = label)]
        snapshot: Option<String>,
    },
    /// List, compare, open, keep and discard forks
    ///
    /// When another computer takes a drive over, changes that were only on this one become a fork: a separate drive that contains
    /// them. Nothing is merged, and nothing is lost.
    #[command(after_help = FORKS_EXAMPLES)]
    Forks {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// A command for one fork
        #[command(subcommand)]
        command: Option<ForkCommand>,
    },
    /// Change the passphrase
    #[command(after_help = PASSPHRASE_EXAMPLES)]
    Passphrase {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// Read the new passphrase from this file (- is standard input) instead of asking
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: Option<PathBuf>,
    },
    /// Create a new recovery key; the old one stops working
    #[command(after_help = RECOVERY_KEY_EXAMPLES)]
    RecoveryKey {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// Write the key to this new file instead of showing it
        #[arg(long, value_name = "FILE")]
        recovery_key_out: Option<PathBuf>,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove a drive from this computer; its data in the store stays
    #[command(
        after_help = "Examples:\n  holdall drive remove work\n  holdall drive remove work --delete-data"
    )]
    Remove {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// Also delete its data in the store, for all computers
        #[arg(long)]
        delete_data: bool,
        /// Delete changes that are not uploaded
        #[arg(long)]
        discard_unsent: bool,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Serve a drive to NBD clients, without mounting it, until interrupted
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  holdall drive create work --store file:///mnt/nas/work
  holdall drive create work --store s3://my-bucket/work --credentials-file ~/accessKeys.csv
  holdall drive create work --store file:///mnt/nas/work --size 1.5T \\
      --passphrase-file ~/work.passphrase --recovery-key-out ~/work.recovery-key

Sizes: 10G and 10GiB are binary, 10GB is decimal. A drive takes only the space that its files use. You can make it larger
later (holdall drive resize).";

const ADD_EXAMPLES: &str = "\
Examples:
  holdall drive add work --store file:///mnt/nas/work
  holdall drive add work --store file:///mnt/nas/work --recovery-key-file ~/work.recovery-key";

const OPEN_EXAMPLES: &str = "\
Examples:
  holdall drive open work
  holdall drive open work --at ~/Work
  holdall drive open work --snapshot before-upgrade
  holdall drive open work --take-over";

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  holdall drive snapshot create work before-upgrade
  holdall drive snapshot list work
  holdall drive snapshot delete work before-upgrade";

const ROLLBACK_EXAMPLES: &str = "\
Example:
  holdall drive snapshot list work
  holdall drive rollback work before-upgrade";

const FORKS_EXAMPLES: &str = "\
Examples:
  holdall drive forks work
  holdall drive forks work open 1 --at ~/Mine
  holdall drive forks work keep 1 --as work-mine
  holdall drive forks work discard 1";

const PASSPHRASE_EXAMPLES: &str = "\
Examples:
  holdall drive passphrase work
  holdall drive passphrase work --new-passphrase-file - < new-passphrase";

const RECOVERY_KEY_EXAMPLES: &str = "\
Examples:
  holdall drive recovery-key work
  holdall drive recovery-key work --recovery-key-out ~/work.recovery-key --yes";

const PAUSE_EXAMPLES: &str = "\
Examples:
  holdall drive pause work
  holdall drive resume work";

const SERVE_EXAMPLES: &str = "\
Examples:
  holdall drive serve work --socket /run/user/1000/work.sock
  holdall drive serve work --tcp 127.0.0.1:10809";

/// Names one drive.
#[derive(Debug, Args)]
pub struct Drive {
    /// The drive
    #[arg(value_parser = name)]
    pub name: String,
}

/// `drive create`.
#[derive(Debug, Args)]
pub struct Create {
    /// The drive's name on this computer
    #[arg(value_parser = name)]
    pub name: String,
    /// Where to store its data, such as s3://bucket/work, https://host/dav/work or file:///mnt/nas/work
    #[arg(long, value_name = "URL")]
    pub store: String,
    /// Its size, such as 100G [default: 1T]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Read the passphrase from this file (- is standard input) instead of asking
    #[arg(long, value_name = "FILE", conflicts_with = "no_encryption")]
    pub passphrase_file: Option<PathBuf>,
    /// Do not encrypt: anyone who can read the store can read the drive
    #[arg(long)]
    pub no_encryption: bool,
    /// Write the recovery key to this new file instead of showing it
    #[arg(long, value_name = "FILE", conflicts_with = "no_encryption")]
    pub recovery_key_out: Option<PathBuf>,
    /// Credentials to keep for the store; without, those of holdall store login are used.
    #[command(flatten)]
    pub credentials: CredentialsFrom,
    /// Do not ask for confirmation if the store allows only one computer at a time
    #[arg(long, short)]
    pub yes: bool,
    /// Allow a directory that Syncthing, Dropbox or Nextcloud keeps in sync; only one computer may ever use the drive
    #[arg(long)]
    pub in_synced_folder: bool,
    /// Store the drive beside other files, instead of in a directory of its own
    #[arg(long)]
    pub beside_other_files: bool,
}

/// `drive add`.
#[derive(Debug, Args)]
pub struct Add {
    /// The drive's name on this computer
    #[arg(value_parser = name)]
    pub name: String,
    /// Where its data is stored, such as s3://bucket/work, https://host/dav/work or file:///mnt/nas/work
    #[arg(long, value_name = "URL")]
    pub store: String,
    /// Which drive to use if the store has several, such as forks: its name there, or its identifier
    #[arg(long, value_name = "NAME")]
    pub drive: Option<String>,
    /// Read the passphrase from this file (- is standard input) instead of asking
    #[arg(long, value_name = "FILE", conflicts_with = "recovery_key_file")]
    pub passphrase_file: Option<PathBuf>,
    /// Use the recovery key in this file (- is standard input) instead of a passphrase
    #[arg(long, value_name = "FILE")]
    pub recovery_key_file: Option<PathBuf>,
    /// Credentials to keep for the store; without, those of holdall store login are used.
    #[command(flatten)]
    pub credentials: CredentialsFrom,
}

/// `drive open`.
#[derive(Debug, Args)]
pub struct Open {
    /// The drive
    #[arg(value_parser = name)]
    pub name: String,
    /// Where to mount it [default: where it was last mounted, or ~/Holdall/NAME]
    #[arg(long, value_name = "DIR")]
    pub at: Option<PathBuf>,
    /// How to attach the block device
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Attach::Auto)]
    pub attach: Attach,
    /// Open read-only: other computers can still take the drive, and nothing is uploaded
    #[arg(long)]
    pub read_only: bool,
    /// Open this snapshot, read-only
    #[arg(long, value_name = "LABEL", value_parser = label)]
    pub snapshot: Option<String>,
    /// Take the drive even if another computer has it open
    ///
    /// Changes that the other computer has not uploaded become a fork there: both versions are kept.
    #[arg(long, conflicts_with_all = ["read_only", "snapshot"])]
    pub take_over: bool,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "take_over")]
    pub yes: bool,
    /// Open the store's version even if it lacks changes that this computer has seen there
    ///
    /// For a store that was restored from a backup. Changes that only this computer has are kept in a separate directory.
    #[arg(long, conflicts_with_all = ["read_only", "snapshot"])]
    pub set_aside: bool,
}

/// `drive close`.
#[derive(Debug, Args)]
pub struct Close {
    /// The drive
    #[arg(value_parser = name)]
    pub name: String,
    /// Wait until all changes are uploaded, so that another computer can open it
    #[arg(long)]
    pub wait: bool,
}

/// A size, and how it was typed.
#[derive(Clone, Debug)]
pub struct Size {
    /// As it was typed.
    pub text: String,
    /// The same in bytes.
    pub bytes: u64,
}

impl std::str::FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), bytes: parse_size(text)? })
    }
}

/// How the kernel gets at a drive.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Attach {
    /// nbd if the kernel has it, else loop
    Auto,
    /// The kernel's NBD client
    Nbd,
    /// A loop device over a one-file FUSE disk
    Loop,
}

impl From<Attach> for AttachMode {
    fn from(attach: Attach) -> AttachMode {
        match attach {
            Attach::Auto => AttachMode::Auto,
            Attach::Nbd => AttachMode::Nbd,
            Attach::Loop => AttachMode::Loop,
        }
    }
}

/// `drive snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Take a snapshot of the drive as it is now
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Create {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The snapshot's name [default: the local time, such as 2026-11-20-101500]
        #[arg(value_parser = label)]
        label: Option<String>,
    },
    /// List a drive's snapshots
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    List {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// Also list versions that are kept only for computers which may have unsent changes on top of them
        #[arg(long)]
        all: bool,
    },
    /// Delete a snapshot; the drive stays as it is
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Delete {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The snapshot
        #[arg(value_parser = label)]
        label: String,
    },
}

/// `drive forks`.
#[derive(Debug, Subcommand)]
pub enum ForkCommand {
    /// Mount a fork, to read it or to work with it
    #[command(after_help = "Example:\n  holdall drive forks work open 1 --at ~/fork")]
    Open {
        /// The fork's name, or its number in the list
        #[arg(value_parser = name)]
        fork: String,
        /// Where to mount it [default: ~/Holdall/NAME OF THE FORK]
        #[arg(long, value_name = "DIR")]
        at: Option<PathBuf>,
        /// How to attach the block device
        #[arg(long, value_name = "HOW", value_enum, default_value_t = Attach::Auto)]
        attach: Attach,
    },
    /// Show which files differ between a fork and the drive's current version
    #[command(after_help = "Example:\n  holdall drive forks work compare 1")]
    Compare {
        /// The fork's name, or its number in the list
        #[arg(value_parser = name)]
        fork: String,
        /// How to attach the block devices
        #[arg(long, value_name = "HOW", value_enum, default_value_t = Attach::Auto)]
        attach: Attach,
    },
    /// Keep a fork as an ordinary drive on this computer
    #[command(after_help = "Example:\n  holdall drive forks work keep 1 --as work-laptop")]
    Keep {
        /// The fork's name, or its number in the list
        #[arg(value_parser = name)]
        fork: String,
        /// The name of the new drive
        #[arg(long = "as", value_name = "NEW", value_parser = name)]
        new: String,
    },
    /// Delete a fork, and all changes that only it contains
    #[command(after_help = "Example:\n  holdall drive forks work discard 1")]
    Discard {
        /// The fork's name, or its number in the list
        #[arg(value_parser = name)]
        fork: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// `drive serve`.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("where").required(true))]
pub struct Serve {
    /// The drive
    #[arg(value_parser = name)]
    pub name: String,
    /// Serve on this Unix socket
    #[arg(long, value_name = "PATH", group = "where")]
    pub socket: Option<PathBuf>,
    /// Serve on this TCP address, such as 127.0.0.1:10809
    #[arg(long, value_name = "ADDR", group = "where")]
    pub tcp: Option<String>,
    /// Allow an address that other computers can reach: they can then read and change the drive
    #[arg(long, conflicts_with = "socket")]
    pub insecure: bool,
}

/// A drive's name: a part of a path, in the socket's routes and under ~/Holdall.
pub(crate) fn name(text: &str) -> Result<String, String> {
    part_of_a_path(text).ok_or_else(|| format!("\"{text}\" cannot be a drive's name"))
}

fn label(text: &str) -> Result<String, String> {
    part_of_a_path(text).ok_or_else(|| format!("\"{text}\" cannot be a snapshot's label"))
}

/// The daemon may refuse the name for further reasons.
fn part_of_a_path(text: &str) -> Option<String> {
    let odd =
        text.is_empty() || text == "." || text == ".." || text.contains(|c: char| c == '/' || c.is_control());
    (!odd).then(|| text.to_owned())
}

const REPLICA_EXAMPLES: &str = "\
Examples:
  holdall drive replica add work s3://backup/work
  holdall drive replica status work
  holdall drive replica promote work s3://backup/work";

/// A command for replicas.
#[derive(Debug, Subcommand)]
pub enum ReplicaCommand {
    /// Copy the drive to another store, and keep the copy up to date
    ///
    /// Changes count as uploaded once they are in the drive's own store: a replica that is slow or cannot be reached delays
    /// nothing, and is brought up to date while the drive is open. It is encrypted like the drive, with the same passphrase.
    #[command(after_help = "Example:\n  holdall drive replica add work s3://backup/work")]
    Add {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The address of the replica; it must be empty
        #[arg(value_name = "URL")]
        store: String,
        /// The credentials.
        #[command(flatten)]
        credentials: CredentialsFrom,
    },
    /// Stop updating a replica; its data stays there
    #[command(after_help = "Example:\n  holdall drive replica remove work s3://backup/work")]
    Remove {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The address of the replica
        #[arg(value_name = "URL")]
        store: String,
    },
    /// Show the status of each replica
    #[command(after_help = "Example:\n  holdall drive replica status work --json | jq '.[].behind_bytes'")]
    Status(Drive),
    /// Switch a drive to a replica, after its store is lost or to move it
    ///
    /// Close the drive first. Nothing is deleted anywhere. If the replica lacks the latest uploads, the command says so and
    /// refuses, unless --accept-loss is given.
    #[command(after_help = "Example:\n  holdall drive replica promote work s3://backup/work")]
    Promote {
        /// Which.
        #[command(flatten)]
        drive: Drive,
        /// The address of the replica
        #[arg(value_name = "URL")]
        store: String,
        /// Switch even if the replica lacks the latest uploads
        #[arg(long)]
        accept_loss: bool,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}
