//! `holdall activity`.

use crate::api::{ActivityKind, ActivityRow};
use crate::args::ActivityArguments;
use crate::drive::Session;
use crate::failure::CliError;
use crate::show::{table::Table, when};
use holdall_client::request::segment;
use jiff::Zoned;

/// Shows what has happened.
pub async fn run(arguments: &ActivityArguments, session: &Session<'_>) -> Result<(), CliError> {
    let mut path = format!("/v1/activity?limit={}", arguments.limit);
    if let Some(name) = &arguments.name {
        path.push_str(&format!("&drive={}", segment(name)));
    }
    if let Some(kind) = arguments.kind {
        path.push_str(&format!("&kind={}", word(kind)));
    }
    let value = session.client.get(&path).await?;
    session.output.result(&value, |rows: &Vec<ActivityRow>, _| shown(rows, &Zoned::now())).map(drop)
}

fn shown(rows: &[ActivityRow], now: &Zoned) -> String {
    if rows.is_empty() {
        return "No activity of this kind".to_owned();
    }
    let mut table = Table::new(["WHEN", "WHERE", "KIND", "WHAT"]);
    for row in rows {
        let name = place(row).unwrap_or("-").to_owned();
        table.row([when(&row.at, now), name, word(row.kind), row.message.clone()]);
    }
    table.to_string()
}

/// The drive or folder that it is about.
fn place(row: &ActivityRow) -> Option<&str> {
    row.drive.as_deref().or(row.folder.as_deref())
}

/// A row on its own.
pub fn row(row: &ActivityRow) -> String {
    match place(row) {
        Some(name) => format!("{name}: {}", row.message),
        None => row.message.clone(),
    }
}

/// The kind's name in the API.
fn word(kind: ActivityKind) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| Some(kind.as_str()?.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_listed_with_their_age() {
        let now = "2026-11-20T12:00:00+00:00[UTC]".parse().unwrap();
        let rows = [ActivityRow {
            id: 7,
            at: "2026-11-20T11:58:00Z".to_owned(),
            drive: Some("work".to_owned()),
            folder: None,
            kind: ActivityKind::Opened,
            message: "Opened at /mnt.".to_owned(),
        }];
        let text = shown(&rows, &now);
        assert_eq!(text.lines().nth(1).unwrap().trim_end(), "2 min ago  work   opened  Opened at /mnt.");
        assert_eq!(row(&rows[0]), "work: Opened at /mnt.");
    }
}
