//! The command line's grammar. Its texts are those of `--help` and the man pages.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

pub mod drive;
pub mod pins;
pub mod quiet;
pub mod store;

use drive::DriveCommand;
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
    /// Show the names of objects in full
    #[arg(long, short, global = true, help_heading = "Everywhere", display_order = 101)]
    pub verbose: bool,
    /// What to do
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
  Make a drive whose data lives in a directory of a NAS, and open it:
    holdall drive create work --store file:///mnt/nas/work
    holdall open work

  Close it once everything is uploaded, then use it on another computer:
    holdall close work --wait
    holdall drive add work --store file:///mnt/nas/work
    holdall open work

With --json the result goes to standard output as one document. Progress goes to standard error, one object
a line, and so does an error: {code, message, consequence, action}.

Exit codes:
  0  done                         5  the store cannot be reached
  1  failed                       6  passphrase or access key are wrong or missing
  2  wrong usage                  7  something is damaged
  3  not found                    8  some changes are only on this computer
  4  another computer has it    130  interrupted

Environment:
  HOLDALL_STATE_DIR    what must be kept: drives, changes waiting to upload, keys; and daemon.log
                       [default: ~/.local/state/holdall]
  HOLDALL_CACHE_DIR    what can be downloaded again [default: ~/.cache/holdall]
  HOLDALL_RUNTIME_DIR  the daemon's socket [default: $XDG_RUNTIME_DIR/holdall]
  HOLDALL_LOG          how much the daemon logs; see holdall daemon --help
  NO_COLOR             print without colour";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make, open and look after drives
    #[command(subcommand, after_help = drive::EXAMPLES)]
    Drive(DriveCommand),
    /// Open a drive (short for holdall drive open)
    #[command(after_help = "Examples:\n  holdall open work\n  holdall open work --at ~/Work")]
    Open(drive::Open),
    /// Close a drive (short for holdall drive close)
    #[command(after_help = "Examples:\n  holdall close work\n  holdall close work --wait")]
    Close(drive::Close),
    /// List the drives, or show one (short for holdall drive list and holdall drive status)
    #[command(after_help = "Examples:\n  holdall ls\n  holdall ls work")]
    Ls {
        /// The drive; without, all of them
        #[arg(value_parser = drive::name)]
        name: Option<String>,
    },
    /// Log in to stores, and try what they can do
    #[command(subcommand, after_help = store::EXAMPLES)]
    Store(StoreCommand),
    /// Show or set what all drives may take of the network
    ///
    /// A limit holds for all drives and stores together, at once, and stays until it is changed. What a program waits for
    /// goes before what is fetched in the background.
    #[command(after_help = LIMITS_EXAMPLES)]
    Limits(LimitsArguments),
    /// Always keep files on this computer, so that they are there offline
    ///
    /// What is missing is downloaded now; what is added later below a folder follows by itself. On a terminal this waits until
    /// all of it is here, and shows how far it is; Ctrl-C ends the wait, and not the pin.
    #[command(after_help = pins::PIN_EXAMPLES)]
    Pin(pins::Pin),
    /// Keep files no more than others: they go once the room is needed
    #[command(after_help = pins::UNPIN_EXAMPLES)]
    Unpin(pins::Which),
    /// Show what is always kept on this computer, and how far it is here
    #[command(
        after_help = "Examples:\n  holdall pins\n  holdall pins work --json | jq '.[] | select(.files_ready < .files_total)'"
    )]
    Pins {
        /// The drive; without, all of them
        #[arg(value_parser = drive::name)]
        name: Option<String>,
    },
    /// Take files out of this computer's cache, to have the room; they stay in the store
    ///
    /// What waits to be uploaded stays, and so does what is pinned.
    #[command(after_help = pins::EVICT_EXAMPLES)]
    Evict(pins::Which),
    /// Wait until enough of a file or folder is on this computer
    ///
    /// It is downloaded from its beginning meanwhile, and not pinned. Exits with 1 if the time is over before, and with 5 if the
    /// store cannot be reached.
    #[command(after_help = pins::WAIT_EXAMPLES)]
    Wait(pins::Wait),
    /// Show every drive, and what still waits to be uploaded
    #[command(after_help = "Example:\n  holdall status --json | jq '.[] | select(.dirty_bytes > 0) | .name'")]
    Status,
    /// Look for what may be wrong on this computer
    #[command(after_help = "Examples:\n  holdall doctor\n  holdall doctor --repair")]
    Doctor {
        /// Mend what can be mended without losing anything
        #[arg(long)]
        repair: bool,
    },
    /// Show what has happened, newest first
    #[command(after_help = ACTIVITY_EXAMPLES)]
    Activity(ActivityArguments),
    /// Collect what somebody who is asked for help wants to see, without secrets
    ///
    /// Versions, states, limits, what a look at this computer finds, and the end of the log. Passphrases, keys, and who logs in to
    /// stores are left out. Nothing is sent anywhere: read it before you give it away.
    #[command(after_help = "Examples:\n  holdall diagnostics | less\n  holdall diagnostics --out report.txt")]
    Diagnostics {
        /// Write it to this file, which must not be there yet
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Follow what happens, until interrupted
    #[command(after_help = "Examples:\n  holdall events\n  holdall events --json | jq .event")]
    Events,
    /// Show the drives in a browser on this computer
    ///
    /// Prints an address that lets one browser in, once and within five minutes; it stays in. Run it again for another one. The
    /// pages are served on 127.0.0.1 alone, to your own programs alone, until holdall web --stop. After a restart of the background
    /// service they are served again at the same port, to the same browsers.
    #[command(after_help = WEB_EXAMPLES, after_long_help = WEB_LONG_AFTER)]
    Web(WebArguments),
    /// Run the background service in the foreground, or stop it
    ///
    /// Other commands start the background service when it does not run; it then writes to daemon.log in the state
    /// directory (~/.local/state/holdall). This is for service managers and for a look at what it prints.
    #[command(
        after_help = "Examples:\n  holdall daemon\n  holdall daemon stop",
        after_long_help = DAEMON_LONG_AFTER
    )]
    Daemon {
        /// Without one, run it
        #[command(subcommand)]
        command: Option<DaemonCommand>,
    },
    /// Print completions for a shell
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
    /// Bytes in a second to stores, such as 500K or 2M; off is no limit
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// Bytes in a second from stores
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// Bytes of the local disk for the cache of each drive, such as 20G; auto is half of the disk
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<CacheSize>,
    /// Set --cache for this drive alone; auto makes it follow the limit for each again
    #[arg(long, value_name = "NAME", requires = "cache", value_parser = drive::name)]
    pub drive: Option<String>,
    /// The same for all drives together, also those that are closed; auto is no limit
    #[arg(long, value_name = "SIZE")]
    pub cache_total: Option<CacheSize>,
    /// How programs are served that read the beginnings of one file after another
    #[arg(long, value_name = "HOW")]
    pub indexers: Option<Indexers>,
    /// What uploads and background downloads do where the network counts what it carries
    #[arg(long, value_name = "WHAT")]
    pub on_metered: Option<OnMetered>,
    /// Pause uploads and background downloads of all drives for so long, such as 1h; off ends that
    #[arg(long, value_name = "TIME")]
    pub pause: Option<Pause>,
    /// Hours in which they wait, such as 08:00-18:00 or "mon-fri 22:00-06:00"; off is none
    #[arg(long, value_name = "HOURS")]
    pub quiet: Option<quiet::Quiet>,
    /// The HTTP proxy for stores: http://HOST:PORT, environment (HTTPS_PROXY and NO_PROXY of the service), or off
    #[arg(long, value_name = "PROXY")]
    pub proxy: Option<String>,
    /// Hosts that are asked without it, such as nas.lan,10.0.0.0/8
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
    /// Two of their reads at a time, and nothing is fetched ahead of them
    Slow,
    /// As any program
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

/// What is done on a metered network.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OnMetered {
    /// They wait for another network
    Pause,
    /// They go on as everywhere
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
  holdall web --listen 0.0.0.0:8443            or serve them to other computers, with a password

Whoever knows that password can do everything with your drives. It is kept as a hash.
Without --certificate the service makes a certificate of its own: browsers warn of it once, and you
compare its fingerprint. Run the command again after a certificate of yours was renewed. The service
listens again after each restart, until holdall web --stop.";

/// `web`.
#[derive(Clone, Debug, clap::Args)]
pub struct WebArguments {
    /// The port of 127.0.0.1; without, the one that is served already, else the last one, else any that is free
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Open it in the default browser
    #[arg(long)]
    pub open: bool,
    /// Serve the pages no more; every browser is out
    #[arg(long, conflicts_with_all = ["port", "open", "listen"])]
    pub stop: bool,
    /// Serve them to browsers of other computers too, at this address of this computer (0.0.0.0: at all of them)
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["port", "open"])]
    pub listen: Option<String>,
    /// Read the password for other computers from this file (- is standard input)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub password_file: Option<PathBuf>,
    /// The certificate for other computers, in PEM; without, one that is made here
    #[arg(long, value_name = "FILE", requires = "listen", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The private key of --certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Without TLS, for a proxy on this computer that does it and passes on Host and X-Forwarded-For: only at an address of loopback
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
    /// The drive; without, all of them
    #[arg(value_parser = drive::name)]
    pub name: Option<String>,
    /// Only of this kind: opened, closed, uploaded, snapshot, pin, conflict, network, attention, drive
    #[arg(long, value_name = "KIND", value_parser = activity_kind)]
    pub kind: Option<crate::api::ActivityKind>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

fn activity_kind(text: &str) -> Result<crate::api::ActivityKind, String> {
    serde_json::from_value(text.into()).map_err(|_| "it is none of the kinds that there are".to_owned())
}

const DAEMON_LONG_AFTER: &str = "\
Examples:
  holdall daemon
  holdall daemon stop
  HOLDALL_LOG=debug holdall daemon

Log:
  In the foreground it goes to the terminal, under systemd to the journal (journalctl _UID=$(id -u)
  _COMM=holdalld), else to daemon.log in the state directory: at 4 MiB that becomes daemon.log.old, and a new one begins.
  HOLDALL_LOG says how much of it [default: info,sled=warn]: error, warn, info, debug or trace, for everything or for
  a part, such as info,holdall_core::push=debug. No passphrase or key is ever logged.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  holdall completions bash > ~/.local/share/bash-completion/completions/holdall
  holdall completions fish > ~/.config/fish/completions/holdall.fish";

/// What to do with the daemon.
#[derive(Debug, Subcommand)]
pub enum DaemonCommand {
    /// Stop it; open drives stay mounted for the next one where that is possible
    #[command(after_help = "Example:\n  holdall daemon stop")]
    Stop,
    /// Show whether it runs
    #[command(after_help = "Example:\n  holdall daemon status")]
    Status,
    /// Print what programs can ask of it, as an OpenAPI document; it need not run
    #[command(after_help = "Example:\n  holdall daemon openapi | jq '.paths | keys'")]
    Openapi,
}
