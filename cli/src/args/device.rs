//! The grammar of `holdall device`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  holdall device pair
  holdall device pair 123 456 789
  holdall device list
  holdall device unpair desk";

const PAIR_EXAMPLES: &str = "\
Examples:
  holdall device pair
  holdall device pair 123 456 789
  holdall device pair 123-456-789 --at 192.168.1.20:47113

Run it without a code on one computer, and with the code that it shows on the other one. Both ask for a confirmation. A code
is valid for two minutes and for three tries.";

/// A command for paired devices.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// Show or change the name of this computer
    #[command(after_help = "Examples:\n  holdall device name\n  holdall device name desk")]
    Name {
        /// The new name
        #[arg(value_name = "NEW")]
        new: Option<String>,
    },
    /// List the paired devices
    #[command(after_help = "Example:\n  holdall device list")]
    List,
    /// Pair this computer with another one
    #[command(after_help = PAIR_EXAMPLES)]
    Pair(PairArguments),
    /// Unpair a device, and close its connections
    #[command(after_help = "Example:\n  holdall device unpair desk")]
    Unpair {
        /// The device, as holdall device list shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Let paired devices connect to this computer, or not
    #[command(
        after_help = "Examples:\n  holdall device listen on\n  holdall device listen on --port 47200\n  holdall device listen off"
    )]
    Listen {
        /// On or off
        #[arg(value_enum)]
        switch: Switch,
        /// Use this port [default: the last one chosen, else 47113]
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
    },
}

/// `device pair`.
#[derive(Debug, Args)]
pub struct PairArguments {
    /// The code that the other device shows; without it, this one shows a code
    #[arg(value_name = "CODE", num_args = 0..=3, conflicts_with = "code_file")]
    pub code: Vec<String>,
    /// Read the code from this file (- is standard input)
    #[arg(long, value_name = "FILE")]
    pub code_file: Option<PathBuf>,
    /// The other device's address, if it is not found on the local network
    #[arg(long, value_name = "HOST:PORT")]
    pub at: Option<String>,
    /// Confirm the pairing without asking
    #[arg(long, short)]
    pub yes: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}
