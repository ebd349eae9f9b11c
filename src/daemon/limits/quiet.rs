//! Hours in which uploads and background downloads wait.

use crate::api::{Code, Failure, QuietHours};
use crate::daemon::failure::{self, failure};

const MINUTES_OF_DAY: u16 = 24 * 60;

/// A time of the week by this computer's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Days since Monday.
    pub day: usize,
    /// Minutes since midnight.
    pub minute: u16,
}

/// The time of the week now.
pub(super) fn now() -> Moment {
    let now = jiff::Zoned::now();
    let day = now.weekday().to_monday_zero_offset().unsigned_abs();
    let minute = u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs());
    Moment { day: day.into(), minute }
}

/// Whether the quiet hours have begun and not ended.
pub(super) fn holds(hours: &QuietHours, at: Moment) -> bool {
    let QuietHours { from_minute: from, until_minute: until, days } = *hours;
    let (today, yesterday) = (days[at.day], days[(at.day + 6) % 7]);
    match from < until {
        true => today && (from..until).contains(&at.minute),
        false => today && at.minute >= from || yesterday && at.minute < until,
    }
}

/// The quiet hours after a change; without any day there are none.
pub(super) fn changed(
    before: Option<QuietHours>,
    change: Option<QuietHours>,
) -> Result<Option<QuietHours>, Failure> {
    match change {
        None => Ok(before),
        Some(hours) if !hours.days.contains(&true) => Ok(None),
        Some(hours) if hours.from_minute >= MINUTES_OF_DAY || hours.until_minute >= MINUTES_OF_DAY => {
            Err(failure(
                Code::Usage,
                "A day has 1440 minutes, from 0 to 1439.",
                failure::NOTHING_CHANGED,
                "Give the hours as minutes from midnight.",
            ))
        }
        Some(hours) => Ok(Some(hours)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKDAYS: [bool; 7] = [true, true, true, true, true, false, false];
    const FRIDAY: usize = 4;

    fn quiet(hours: (u16, u16), day: usize, hour: u16) -> bool {
        let hours = QuietHours { from_minute: hours.0 * 60, until_minute: hours.1 * 60, days: WORKDAYS };
        holds(&hours, Moment { day, minute: hour * 60 })
    }

    #[test]
    fn quiet_hours_hold_from_the_first_minute_to_the_last() {
        assert_eq!([7, 8, 17, 18].map(|hour| quiet((8, 18), FRIDAY, hour)), [false, true, true, false]);
        assert!(!quiet((8, 18), FRIDAY + 1, 12));
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_they_begin() {
        assert_eq!([21, 22, 23].map(|hour| quiet((22, 6), FRIDAY, hour)), [false, true, true]);
        assert_eq!([5, 6, 22].map(|hour| quiet((22, 6), FRIDAY + 1, hour)), [true, false, false]);
        assert_eq!([5, 22].map(|hour| quiet((22, 6), 0, hour)), [false, true], "Sunday has none");
    }

    #[test]
    fn the_same_time_twice_is_a_day() {
        assert_eq!([11, 12].map(|hour| quiet((12, 12), FRIDAY, hour)), [true, true]);
        assert_eq!([11, 12].map(|hour| quiet((12, 12), FRIDAY + 1, hour)), [true, false]);
    }
}
