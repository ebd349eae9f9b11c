//! Quiet hours as people write them: `08:00-18:00`, `mon-fri 08:00-18:00`, `sat,sun 22:00-06:00`, `off`.

use crate::api::QuietHours;
use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;
use std::str::FromStr;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Quiet hours; without any day there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet(pub QuietHours);

/// The text is not quiet hours.
#[derive(Debug, thiserror::Error)]
#[error(
    "these are not hours: write 08:00-18:00, or \"mon-fri 08:00-18:00\", or \"sat,sun 22:00-06:00\", or off"
)]
pub struct NoHours;

impl FromStr for Quiet {
    type Err = NoHours;

    fn from_str(text: &str) -> Result<Self, NoHours> {
        let text = text.trim().to_lowercase();
        if text == "off" {
            return Ok(Self(QuietHours { from_minute: 0, until_minute: 0, days: [false; 7] }));
        }
        let (on, hours) = text.rsplit_once(' ').unwrap_or(("mon-sun", &text));
        let (from, until) = hours.split_once('-').ok_or(NoHours)?;
        let mut days = [false; 7];
        for range in on.split(',') {
            days[days_of(range.trim())?].fill(true);
        }
        Ok(Self(QuietHours { from_minute: minute(from)?, until_minute: minute(until)?, days }))
    }
}

fn days_of(range: &str) -> Result<RangeInclusive<usize>, NoHours> {
    let day = |name: &str| DAYS.iter().position(|day| *day == name).ok_or(NoHours);
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let days = day(first)?..=day(last)?;
    if days.is_empty() { Err(NoHours) } else { Ok(days) }
}

/// Minutes from midnight; 24:00 is midnight.
fn minute(time: &str) -> Result<u16, NoHours> {
    let (hours, minutes) = time.split_once(':').ok_or(NoHours)?;
    match (hours.parse(), minutes.parse()) {
        (Ok(24), Ok(0)) => Ok(0),
        (Ok(hours @ 0..24), Ok(minutes @ 0..60)) => Ok(hours * 60 + minutes),
        _ => Err(NoHours),
    }
}

impl Display for Quiet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let QuietHours { from_minute, until_minute, days } = self.0;
        if days != [true; 7] {
            write!(f, "{} ", shown(&days))?;
        }
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        write!(f, "{}-{}", time(from_minute), time(until_minute))
    }
}

fn shown(days: &[bool; 7]) -> String {
    let runs = days.chunk_by(|a, b| a == b).scan(0, |begin, run| {
        let first = *begin;
        *begin += run.len();
        Some((run[0], first, *begin - 1))
    });
    let names = runs.filter(|(on, ..)| *on).map(|(_, first, last)| match last - first {
        0 => DAYS[first].to_owned(),
        _ => format!("{}-{}", DAYS[first], DAYS[last]),
    });
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_shown_as_they_are_written() {
        for text in
            ["08:00-18:00", "mon-fri 22:30-06:00", "sat-sun 00:00-00:00", "mon,wed-thu,sun 01:05-02:00"]
        {
            assert_eq!(text.parse::<Quiet>().expect("hours").to_string(), text);
        }
        let night: Quiet = "Sat,Sun 8:00-24:00".parse().expect("hours");
        assert_eq!(night.to_string(), "sat-sun 08:00-00:00");
        assert_eq!("off".parse::<Quiet>().expect("none").0.days, [false; 7]);
    }

    #[test]
    fn malformed_hours_are_refused() {
        for text in
            ["", "8-18", "08:00", "25:00-26:00", "08:60-09:00", "fri-mon 08:00-09:00", "day 08:00-09:00"]
        {
            assert!(text.parse::<Quiet>().is_err(), "{text}");
        }
    }
}
