//! The command line's grammar. Its texts are those of `--help` and the man pages.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

pub mod device;
pub mod drive;
pub mod folder;
pub mod pins;
pub mod quiet;
pub mod store;

use device::DeviceCommand;
use drive::DriveCommand;
use folder::FolderCommand;
use store::StoreCommand;

/// Headings in bold; clap drops all styles where the output is not a terminal.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::White.on_default().bold())
    .literal(AnsiColor::White.on_default().bold());

/// A cloud drive for Linux that behaves like a local disk and moves between laptops
#[derive(Debug, Parser)]
#[command(name = "holdall", version, styles = STYLES, max_term_width = 100, propagate_version = false)]
#[command(after_help = EXAMPLES, after_long_help = LONG_AFTER)]
pub struct Arguments {
    /// Print results, progress and errors as JSON
    #[arg(long, global = true, help_heading = "Everywhere", display_order = 100)]
    pub json: bool,
    /// Show object names in full
    #[arg(long, short, global = true, help_heading = "Everywhere", display_order = 101)]
    pub verbose: bool,
    /// The command
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  holdall drive create work --store file:///mnt/nas/work
  holdall open work
  holdall close work --wait
  holdall status";

const LONG_AFTER: &str = "\
Examples:
  Create a drive whose data is stored in a directory of a NAS, and open it:
    holdall drive create work --store file:///mnt/nas/work
    holdall open work

  Close it, wait until everything is uploaded, then use it on another computer:
    holdall close work --wait
    holdall drive add work --store file:///mnt/nas/work
    holdall open work

With --json the result is written to standard output as one document. Progress is written to standard error, one
object per line, and so is an error: {code, message, consequence, action}.

Exit codes:
  0  done                         5  the store cannot be reached
  1  failed                       6  passphrase or access key is wrong or missing
  2  wrong usage                  7  data is damaged
  3  not found                    8  some changes are only on this computer
  4  another computer has it    130  interrupted

Environment:
  HOLDALL_STATE_DIR    data that must be kept: drives, changes waiting to upload, keys; and daemon.log
                       [default: ~/.local/state/holdall]
  HOLDALL_CACHE_DIR    data that can be downloaded again [default: ~/.cache/holdall]
  HOLDALL_RUNTIME_DIR  the daemon's socket [default: $XDG_RUNTIME_DIR/holdall]
  HOLDALL_LOG          how much the daemon logs; see holdall daemon --help
  NO_COLOR             print without colour";

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, open and manage drives
    #[command(subcommand, after_help = drive::EXAMPLES)]
    Drive(DriveCommand),
    /// Mount the files of a bucket, a WebDAV server or a directory as they are
    #[command(subcommand, after_help = folder::EXAMPLES)]
    Folder(FolderCommand),
    /// Open a drive (short for holdall drive open)
    #[command(after_help = "Examples:\n  holdall open work\n  holdall open work --at ~/Work")]
    Open(drive::Open),
    /// Close a drive (short for holdall drive close)
    #[command(after_help = "Examples:\n  holdall close work\n  holdall close work --wait")]
    Close(drive::Close),
    /// List all drives, or show one (short for holdall drive list and holdall drive status)
    #[command(after_help = "Examples:\n  holdall ls\n  holdall ls work")]
    Ls {
        /// The drive [default: all drives]
        #[arg(value_parser = drive::name)]
        name: Option<String>,
    },
    /// Pair computers, and list and unpair them
    #[command(subcommand, after_help = device::EXAMPLES)]
    Device(DeviceCommand),
    /// Log in to stores, and test them
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(StoreCommand),
    /// Show or set limits: bandwidth, cache, pauses, quiet hours, proxy
    ///
    /// Limits on bandwidth apply to all drives and stores together. Every limit takes effect at once and stays until it is
    /// changed. Data that a program waits for goes before data that is fetched in the background.
    #[command(after_help = LIMITS_EXAMPLES)]
    Limits(LimitsArguments),
    /// Always keep files on this computer, so that you can use them offline
    ///
    /// Missing files are downloaded now, and files that are added to a pinned folder later are kept too. On a terminal, the
    /// command waits until everything is here and shows progress. Ctrl-C stops the waiting; the files stay pinned.
    #[command(after_help = pins::PIN_EXAMPLES)]
    Pin(pins::Pin),
    /// Stop keeping files on this computer: they stay until the space is needed
    #[command(after_help = pins::UNPIN_EXAMPLES)]
    Unpin(pins::Which),
    /// Show which files are always kept on this computer, and how much of them is here
    #[command(
        after_help = "Examples:\n  holdall pins\n  holdall pins work --json | jq '.[] | select(.files_ready < .files_total)'"
    )]
    Pins {
        /// The drive [default: all drives]
        #[arg(value_parser = drive::name)]
        name: Option<String>,
    },
    /// Free the space that files take on this computer; they stay in the store
    ///
    /// Pending uploads, folder listings and pinned files are kept.
    #[command(after_help = pins::EVICT_EXAMPLES)]
    Evict(pins::Which),
    /// Wait until enough of a file or folder is on this computer
    ///
    /// Downloads it from the beginning, and does not pin it. Exits with 1 if the timeout ends first, and with 5 if the store cannot
    /// be reached.
    #[command(after_help = pins::WAIT_EXAMPLES)]
    Wait(pins::Wait),
    /// Show all drives and folders, and how much is still to be uploaded
    #[command(after_help = "Example:\n  holdall status --json | jq '.[] | select(.dirty_bytes > 0) | .name'")]
    Status,
    /// Look for problems on this computer
    #[command(after_help = "Examples:\n  holdall doctor\n  holdall doctor --repair")]
    Doctor {
        /// Fix problems that can be fixed safely
        #[arg(long)]
        repair: bool,
    },
    /// Show recent activity, newest first
    #[command(after_help = ACTIVITY_EXAMPLES)]
    Activity(ActivityArguments),
    /// Write a support report, without passwords and keys
    ///
    /// It contains versions, states, limits, the findings of holdall doctor, and the end of the log. Passphrases, keys and the users
    /// of stores are left out. Nothing is sent anywhere: read the report before you share it.
    #[command(after_help = "Examples:\n  holdall diagnostics | less\n  holdall diagnostics --out report.txt")]
    Diagnostics {
        /// Write it to this file, which must not exist yet
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Show events as they happen, until interrupted
    #[command(after_help = "Examples:\n  holdall events\n  holdall events --json | jq .event")]
    Events,
    /// Show the drives in a browser on this computer
    ///
    /// Prints an address that signs in one browser. It works once, within five minutes; the browser stays signed in. For another
    /// browser, run the command again. The pages are served at 127.0.0.1 only, and to your own programs only, until you run
    /// holdall web --stop. After a restart of the background service they are served again, at the same port and to the same browsers.
    #[command(after_help = WEB_EXAMPLES, after_long_help = WEB_LONG_AFTER)]
    Web(WebArguments),
    /// Run the background service in the foreground, or stop it
    ///
    /// Other commands start the background service if it is not running; it then logs to daemon.log in the state directory
    /// (~/.local/state/holdall). Use this command for service managers, or to watch the log.
    #[command(
        after_help = "Examples:\n  holdall daemon\n  holdall daemon stop",
        after_long_help = DAEMON_LONG_AFTER
    )]
    Daemon {
        /// Without a command, run the service
        #[command(subcommand)]
        command: Option<DaemonCommand>,
    },
    /// Print the completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
}

impl Command {
    /// The same, with the command that a short form stands for.
    pub fn in_full(self) -> Self {
        Self::Drive(match self {
            Self::Open(open) => DriveCommand::Open(open),
            Self::Close(close) => DriveCommand::Close(close),
            Self::Ls { name: Some(name) } => DriveCommand::Status { name: Some(name) },
            Self::Ls { name: None } => DriveCommand::List,
            command => return command,
        })
    }
}

const LIMITS_EXAMPLES: &str = "\
Examples:
  holdall limits
  holdall limits --up 500K --down 2M
  holdall limits --up off
  holdall limits --quiet \"mon-fri 08:00-18:00\"
  holdall limits --on-metered go-on
  holdall limits --indexers full
  holdall limits --pause 1h
  holdall limits --proxy http://proxy.example.org:3128 --proxy-except nas.lan";

/// `limits`.
#[derive(Clone, Debug, clap::Args)]
pub struct LimitsArguments {
    /// Most bytes per second to stores, such as 500K or 2M; off removes the limit
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// Most bytes per second from stores
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// Most disk space for the cache of each drive and folder, such as 20G; auto is half of the disk
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<CacheSize>,
    /// Set --cache for this drive or folder only; auto makes it follow the limit for all of them again
    #[arg(long, value_name = "NAME", requires = "cache", value_parser = drive::name)]
    pub drive: Option<String>,
    /// Most disk space for the caches of all drives and folders together, open or closed; auto removes the limit
    #[arg(long, value_name = "SIZE")]
    pub cache_total: Option<CacheSize>,
    /// How to serve programs that read the beginnings of one file after another, such as indexers
    #[arg(long, value_name = "HOW")]
    pub indexers: Option<Indexers>,
    /// How to treat uploads and background downloads on a metered network
    #[arg(long, value_name = "WHAT")]
    pub on_metered: Option<OnMetered>,
    /// Pause uploads and background downloads of all drives for this time, such as 1h; off ends the pause
    #[arg(long, value_name = "TIME")]
    pub pause: Option<Pause>,
    /// Pause uploads and background downloads at these hours, such as 08:00-18:00 or "mon-fri 22:00-06:00"; off removes the hours
    #[arg(long, value_name = "HOURS")]
    pub quiet: Option<quiet::Quiet>,
    /// The HTTP proxy for stores: http://HOST:PORT, environment (HTTPS_PROXY and NO_PROXY of the service), or off
    #[arg(long, value_name = "PROXY")]
    pub proxy: Option<String>,
    /// Hosts to reach without the proxy, such as nas.lan,10.0.0.0/8
    #[arg(long, value_name = "HOSTS", requires = "proxy")]
    pub proxy_except: Option<String>,
    /// A file with USER:PASSWORD for the proxy; - is standard input
    #[arg(long, value_name = "FILE", requires = "proxy")]
    pub proxy_login_file: Option<PathBuf>,
}

/// How long a pause is, in ms; 0 ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause(pub u64);

impl std::str::FromStr for Pause {
    type Err = crate::sizes::SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self(0)),
            text => {
                let time = crate::sizes::parse_duration(text)?;
                Ok(Self(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
            }
        }
    }
}

/// Bytes of cache; 0 is what is usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize(pub u64);

impl std::str::FromStr for CacheSize {
    type Err = crate::sizes::SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self(0)),
            text => crate::sizes::parse_size(text).map(Self),
        }
    }
}

/// Bytes in a second; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

impl std::str::FromStr for Rate {
    type Err = crate::sizes::SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" | "none" => Ok(Self(0)),
            text => crate::sizes::parse_size(text.strip_suffix("/s").unwrap_or(text)).map(Self),
        }
    }
}

/// How programs that scan a drive are served.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Indexers {
    /// Serve two reads at a time, and do not read ahead
    Slow,
    /// Serve them like any program
    Full,
}

impl From<Indexers> for crate::api::Indexers {
    fn from(how: Indexers) -> Self {
        match how {
            Indexers::Slow => Self::Slow,
            Indexers::Full => Self::Full,
        }
    }
}

/// How uploads and background downloads are treated on a metered network.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OnMetered {
    /// Wait for another network
    Pause,
    /// Continue as on any network
    GoOn,
}

impl From<OnMetered> for crate::api::OnMetered {
    fn from(what: OnMetered) -> Self {
        match what {
            OnMetered::Pause => Self::Pause,
            OnMetered::GoOn => Self::GoOn,
        }
    }
}

const WEB_EXAMPLES: &str = "\
Examples:
  holdall web --open
  holdall web --port 8420
  holdall web --stop";

const WEB_LONG_AFTER: &str = "\
Examples:
  holdall web --open
  holdall web --port 8420
  holdall web --stop

On a computer without a screen:
  holdall web --port 8420
  ssh -L 8420:127.0.0.1:8420 that-computer     on the computer where you are; then open the address there
  holdall web --listen 0.0.0.0:8443            or serve the pages to other computers, with a password

Anyone who knows the password can do everything with your drives. It is stored as a hash.
Without --certificate the service creates its own certificate: browsers warn about it once, and you
compare its fingerprint. After you renew a certificate of your own, run the command again. The service
listens again after each restart, until you run holdall web --stop.";

/// `web`.
#[derive(Clone, Debug, clap::Args)]
pub struct WebArguments {
    /// The port at 127.0.0.1 [default: the one in use, else the last one, else any free port]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Open the address in the default browser
    #[arg(long)]
    pub open: bool,
    /// Stop serving the pages, and sign out all browsers
    #[arg(long, conflicts_with_all = ["port", "open", "listen"])]
    pub stop: bool,
    /// Serve the pages to browsers on other computers too, at this address of this computer (0.0.0.0: all its addresses)
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["port", "open"])]
    pub listen: Option<String>,
    /// Read the password for other computers from this file (- is standard input)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub password_file: Option<PathBuf>,
    /// The certificate for other computers, in PEM [default: one that Holdall creates]
    #[arg(long, value_name = "FILE", requires = "listen", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The private key of --certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Serve without TLS, only at a loopback address: for a proxy on this computer that adds TLS and passes on Host and X-Forwarded-For
    #[arg(long, requires = "listen", conflicts_with = "certificate")]
    pub no_tls: bool,
}

const ACTIVITY_EXAMPLES: &str = "\
Examples:
  holdall activity
  holdall activity work --kind conflict
  holdall activity --limit 1000 --json | jq '.[] | select(.kind == \"network\")'";

/// `activity`.
#[derive(Clone, Debug, clap::Args)]
pub struct ActivityArguments {
    /// The drive or folder [default: all]
    #[arg(value_parser = drive::name)]
    pub name: Option<String>,
    /// Only this kind: opened, closed, uploaded, snapshot, pin, conflict, deletions, network, attention, drive, folder
    #[arg(long, value_name = "KIND", value_parser = activity_kind)]
    pub kind: Option<crate::api::ActivityKind>,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

fn activity_kind(text: &str) -> Result<crate::api::ActivityKind, String> {
    serde_json::from_value(text.into()).map_err(|_| {
        "unknown kind: use opened, closed, uploaded, snapshot, pin, conflict, deletions, network, attention, drive or folder"
            .to_owned()
    })
}

const DAEMON_LONG_AFTER: &str = "\
Examples:
  holdall daemon
  holdall daemon stop
  HOLDALL_LOG=debug holdall daemon

Log:
  In the foreground the service logs to the terminal, under systemd to the journal (journalctl _UID=$(id -u)
  _COMM=holdalld), else to daemon.log in the state directory. At 4 MiB that file becomes daemon.log.old, and a new one begins.
  HOLDALL_LOG sets how much is logged [default: info,sled=warn]: error, warn, info, debug or trace, for everything or for
  a part, such as info,holdall_core::push=debug. Passphrases and keys are never logged.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  holdall completions bash > ~/.local/share/bash-completion/completions/holdall
  holdall completions fish > ~/.config/fish/completions/holdall.fish";

/// A command for the daemon.
#[derive(Debug, Subcommand)]
pub enum DaemonCommand {
    /// Stop the background service; open drives stay mounted for the next one if possible
    #[command(after_help = "Example:\n  holdall daemon stop")]
    Stop,
    /// Show whether the background service is running
    #[command(after_help = "Example:\n  holdall daemon status")]
    Status,
    /// Print the API as an OpenAPI document; the service need not run
    #[command(after_help = "Example:\n  holdall daemon openapi | jq '.paths | keys'")]
    Openapi,
}
