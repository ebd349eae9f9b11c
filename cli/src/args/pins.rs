//! The grammar of `holdall pin`, `unpin`, `pins`, `evict` and `wait`.

use crate::args::drive::name;
use crate::sizes::parse_duration;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const PIN_EXAMPLES: &str = "\
Examples:
  holdall pin ~/Holdall/work/letters ~/Holdall/work/plan.odt
  holdall pin --dry-run ~/Holdall/photos/2025
  holdall pin --drive work";

pub(super) const UNPIN_EXAMPLES: &str = "\
Examples:
  holdall unpin ~/Holdall/work/letters
  holdall unpin --drive work";

pub(super) const EVICT_EXAMPLES: &str = "\
Examples:
  holdall evict ~/Holdall/photos/2019
  holdall evict --drive photos";

pub(super) const WAIT_EXAMPLES: &str = "\
Examples:
  holdall wait film.mkv --ready 20% && mpv film.mkv
  holdall wait ~/Holdall/work/data --timeout 5min";

/// Files, or a whole drive or folder.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["paths", "drive"]))]
pub struct Which {
    /// Files and directories on open drives and in open folders
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// All of this drive or folder
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub drive: Option<String>,
}

/// `pin`.
#[derive(Debug, Args)]
pub struct Pin {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Only show how much would be downloaded
    #[arg(long)]
    pub dry_run: bool,
    /// Only show how much of them is here, even if they do not fit the cache
    #[arg(long, conflicts_with = "dry_run")]
    pub status: bool,
    /// Wait until everything is here, even without a terminal
    #[arg(long, conflicts_with_all = ["no_wait", "dry_run", "status"])]
    pub wait: bool,
    /// Do not wait: download in the background
    #[arg(long)]
    pub no_wait: bool,
}

/// `wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// A file or directory on an open drive or in an open folder
    pub path: PathBuf,
    /// How much of it to wait for
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "100%")]
    pub ready: u8,
    /// How long to wait at most, such as 60s [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|number| (1..=100).contains(number))
        .ok_or_else(|| format!("\"{text}\" is not a percentage: write a number from 1% to 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_between_one_and_a_hundred_percent() {
        assert_eq!((percent("80%"), percent("1"), percent("100%")), (Ok(80), Ok(1), Ok(100)));
        for text in ["0%", "101%", "eighty", "-1", "%", "8.5%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
