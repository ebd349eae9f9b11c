//! The pending uploads, in words.

use super::at;
use super::table::Table;
use crate::api::{Queued, QueuedKind};
use crate::sizes::format_bytes;
use jiff::tz::TimeZone;

/// The uploads under way, and those that are pending.
pub fn queue(name: &str, queue: &[Queued], zone: &TimeZone) -> String {
    if queue.is_empty() {
        return format!("{name} has nothing to upload");
    }
    let mut table = Table::new(["WHAT", "SIZE", "TRIES", "NEXT TRY", "LAST ERROR"]);
    for queued in queue {
        let (kind, now) = match queued.kind {
            QueuedKind::Segment => ("data", "now"),
            QueuedKind::Root => ("version", "now"),
            QueuedKind::Head => ("commit", "now"),
            QueuedKind::Changes => ("changes", "after these"),
        };
        table.row([
            kind.to_owned(),
            format_bytes(queued.bytes),
            queued.tries.to_string(),
            queued.next_try_at.as_ref().map_or_else(|| now.to_owned(), |time| at(time, zone)),
            queued.last_error.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queued_upload_says_how_often_it_was_tried() {
        assert_eq!(queue("work", &[], &TimeZone::UTC), "work has nothing to upload");
        let segment = Queued {
            kind: QueuedKind::Segment,
            bytes: 8 << 20,
            tries: 3,
            last_error: Some("The store is away.".to_owned()),
            next_try_at: Some("2026-11-20T12:00:00Z".to_owned()),
        };
        let text = queue("work", &[segment], &TimeZone::fixed(jiff::tz::offset(1)));
        let row = text.lines().nth(1).unwrap().trim_end();
        assert_eq!(row, "data  8 MiB  3      2026-11-20 13:00:00  The store is away.");
    }
}
