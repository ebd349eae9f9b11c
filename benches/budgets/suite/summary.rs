//! The summary at the head of the report, derived from the rows alone: how many targets are met, which are missed by most,
//! and for each peer what is better and what is worse.

use super::figures::{range, ratio, share, with_unit};
use super::record::{Row, median};
use super::rows::{Bar, Kind, Peer, Spec, Topic};
use std::fmt::Write;

/// Missed targets that are named, so that the summary stays short. All are counted.
const NAMED: usize = 3;

/// A row with its figures.
pub type Measured<'a> = (&'a Spec, &'a Row);

/// The summary.
pub fn of(rows: &[Measured<'_>]) -> String {
    format!("{}\n{}", bars(rows), peers(rows))
}

/// How many targets are met, and the worst misses.
fn bars(rows: &[Measured<'_>]) -> String {
    let margins = rows.iter().filter_map(|measured| Some((measured, measured.0.margin(measured.1)?)));
    let (met, mut missed): (Vec<_>, Vec<_>) = margins.partition(|(_, margin)| *margin >= 1.0);
    let all = met.len() + missed.len();
    missed.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let mut text = match missed.len() {
        0 => format!("Holdall meets all {all} targets.\n"),
        count @ ..=NAMED => format!("Holdall meets {} of {all} targets and misses {count}:\n\n", met.len()),
        count => {
            format!("Holdall meets {} of {all} targets and misses {count}. The worst misses:\n\n", met.len())
        }
    };
    for ((spec, row), _) in missed.into_iter().take(NAMED) {
        let peer = spec.section.peer.name();
        let reached = match (spec.bar, row.ratio()) {
            (Bar::AtMost(bar), _) => {
                let [figure, bar] = [median(&row.ours), bar].map(|value| with_unit(value, spec.unit));
                format!("{figure}; the target is at most {bar}")
            }
            (Bar::OfPeer(bar), Some(reached)) => {
                format!("{} of the rate of {peer}; the target is {bar}", ratio(reached))
            }
            (Bar::OfPeer(_) | Bar::Shown, _) => format!("{peer} was not measured"),
        };
        line(&mut text, format_args!("- {} ({}): {reached}", spec.section.topic.brief, spec.what));
    }
    text
}

/// A table with one line for each peer.
fn peers(rows: &[Measured<'_>]) -> String {
    let mut text =
        "| compared with | Holdall is equal or better | Holdall is worse |\n| --- | --- | --- |\n".to_owned();
    let mut done = Vec::new();
    for (spec, _) in rows {
        let Peer::Other(name) = spec.section.peer else { continue };
        if done.contains(&name) {
            continue;
        }
        done.push(name);
        let of_peer = rows.iter().filter(|(spec, _)| spec.section.peer == Peer::Other(name));
        let [better, worse] = sides(&of_peer.copied().collect::<Vec<_>>());
        line(&mut text, format_args!("| {name} | {better} | {worse} |"));
    }
    text
}

/// The rows that are at least as good as the peer's, and the worse ones, in words.
fn sides(rows: &[Measured<'_>]) -> [String; 2] {
    let mut groups: Vec<(Topic, Kind)> = Vec::new();
    for (spec, _) in rows {
        if !groups.contains(&(spec.section.topic, spec.unit.kind)) {
            groups.push((spec.section.topic, spec.unit.kind));
        }
    }
    let mut sides = [const { Vec::<(String, String)>::new() }; 2];
    let mut lacking = 0;
    for (topic, kind) in groups {
        let group: Vec<_> =
            rows.iter().filter(|(spec, _)| (spec.section.topic, spec.unit.kind) == (topic, kind)).collect();
        let all: Vec<_> = group.iter().map(|(spec, _)| spec.what).collect();
        let measured = group.iter().filter_map(|(spec, row)| Some((spec.what, row.ratio()?)));
        let (better, worse): (Vec<_>, Vec<_>) = measured.partition(|(_, ratio)| !is_worse(*ratio, kind));
        lacking += group.len() - better.len() - worse.len();
        for (side, part) in sides.iter_mut().zip([better, worse]) {
            let (part, ratios): (Vec<_>, Vec<_>) = part.into_iter().unzip();
            if part.is_empty() {
                continue;
            }
            let (name, by) = (format!("{}{}", topic.brief, some(&part, &all)), by(kind, &ratios));
            match side.last_mut().filter(|(last, _)| *last == name) {
                Some((_, said)) => said.extend([" and ", &by]),
                None => side.push((name, by)),
            }
        }
    }
    let mut sides =
        sides.map(|side| side.into_iter().map(|(name, by)| format!("{name}: {by}")).collect::<Vec<_>>());
    if lacking > 0 {
        sides[1].push(format!("not measured: {lacking} of {} rows", rows.len()));
    }
    sides.map(|side| if side.is_empty() { "nothing".to_owned() } else { side.join("; ") })
}

/// Whether a ratio is on the wrong side of 1, as it is written in the tables.
fn is_worse(ratio: f64, kind: Kind) -> bool {
    let shown = (ratio * 100.0).round() / 100.0;
    match kind {
        Kind::Rate => shown < 1.0,
        Kind::Time | Kind::Amount(_) => shown > 1.0,
    }
}

/// Which rows of a group these are, unless they are all: what they have in common and the others have not, or their number.
fn some(part: &[&str], all: &[&str]) -> String {
    if part.len() == all.len() {
        return String::new();
    }
    let has = |what: &str, words: &str| what.split(", ").any(|other| other == words);
    let first = part.first().into_iter().flat_map(|what| what.split(", "));
    let common: Vec<_> = first
        .filter(|words| part.iter().all(|what| has(what, words)) && !all.iter().all(|what| has(what, words)))
        .collect();
    let rest = all.iter().filter(|what| common.iter().all(|words| has(what, words))).count();
    match rest == part.len() {
        true => format!(" ({})", common.join(", ")),
        false => format!(" ({} of {} rows)", part.len(), all.len()),
    }
}

/// By how much rows are better, or worse: they are all the one or all the other.
fn by(kind: Kind, ratios: &[f64]) -> String {
    let worse = ratios.iter().any(|ratio| is_worse(*ratio, kind));
    match (kind, worse) {
        (Kind::Rate, false) => format!("{} times as fast", range(ratios)),
        (Kind::Rate, true) => format!("{} of its rate", range(ratios)),
        (Kind::Time, false) => {
            format!("{} times as fast", range(&ratios.iter().map(|ratio| 1.0 / ratio).collect::<Vec<_>>()))
        }
        (Kind::Time, true) => format!("{} times as long", range(ratios)),
        (Kind::Amount(things), false) => format!("{} of the {things}", share(ratios)),
        (Kind::Amount(things), true) => format!("{} times the {things}", range(ratios)),
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("memory takes it");
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Section, Unit};
    use super::*;

    const IOPS: Unit = Unit { name: "IOPS", kind: Kind::Rate };
    const SECONDS: Unit = Unit { name: "s", kind: Kind::Time };
    const BYTES: Unit = Unit { name: "", kind: Kind::Amount("bytes") };
    const PUTS: Unit = Unit { name: "", kind: Kind::Amount("PUT requests") };

    const fn section(brief: &'static str, peer: Peer) -> Section {
        Section { topic: Topic { title: "A heading", brief }, peer, note: "" }
    }

    const READS: &Section = &section("reads", Peer::Other("left"));
    const QUERIES: &Section = &section("queries", Peer::Other("left"));
    const COST: &Section = &section("writes", Peer::Other("right"));
    const ALONE: &Section = &section("memory", Peer::None);
    const ITSELF: &Section = &section("work offline", Peer::Baseline("the same drive online"));

    fn spec(section: &'static Section, what: &'static str, unit: Unit, bar: Bar) -> Spec {
        Spec { key: what, section, what, unit, bar }
    }

    fn row(ours: &[f64], peer: &[f64]) -> Row {
        Row { key: String::new(), ours: ours.to_vec(), peer: peer.to_vec() }
    }

    fn summary(rows: &[(Spec, Row)]) -> String {
        of(&rows.iter().map(|(spec, row)| (spec, row)).collect::<Vec<_>>())
    }

    #[test]
    fn the_summary_says_what_is_better_and_what_is_worse() {
        let rows = [
            (spec(READS, "random", IOPS, Bar::OfPeer(1.0)), row(&[20.0, 30.0, 40.0], &[10.0; 3])),
            (spec(READS, "sequential", IOPS, Bar::OfPeer(0.9)), row(&[5.0], &[10.0])),
            (spec(READS, "buffered", IOPS, Bar::OfPeer(0.9)), row(&[9.98], &[10.0])),
            (spec(QUERIES, "time, near, narrow", SECONDS, Bar::Shown), row(&[1.0], &[20.0])),
            (spec(QUERIES, "time, near, wide", SECONDS, Bar::Shown), row(&[2.0], &[1.0])),
            (spec(QUERIES, "time, far, narrow", SECONDS, Bar::Shown), row(&[1.0], &[4.0])),
            (spec(QUERIES, "time, far, wide", SECONDS, Bar::Shown), row(&[3.0], &[2.0])),
            (spec(COST, "bytes", BYTES, Bar::Shown), row(&[1.5], &[60.0])),
            (spec(COST, "requests", PUTS, Bar::Shown), row(&[1.0], &[2.0])),
            (spec(ALONE, "after opening", SECONDS, Bar::AtMost(100.0)), row(&[150.0, 90.0, 160.0], &[])),
            (spec(ITSELF, "saving", IOPS, Bar::OfPeer(0.9)), row(&[8.0], &[8.0])),
        ];
        let expected = "\
Holdall meets 3 of 5 targets and misses 2:

- reads (sequential): 0.50 of the rate of left; the target is 0.9
- memory (after opening): 150 s; the target is at most 100 s

| compared with | Holdall is equal or better | Holdall is worse |
| --- | --- | --- |
| left | reads (2 of 3 rows): 1.00 to 3.00 times as fast; queries (narrow): 4.00 to 20 times as fast | \
reads (sequential): 0.50 of its rate; queries (wide): 1.50 to 2.00 times as long |
| right | writes: 1/40 of the bytes and 0.50 of the PUT requests | nothing |
";
        assert_eq!(summary(&rows), expected);
    }

    #[test]
    fn every_missed_target_is_counted_and_the_worst_are_named() {
        let missed = ["a", "b", "c", "d"].into_iter().zip([0.5, 0.2, 0.4, 0.3]);
        let mut rows: Vec<_> = missed
            .map(|(what, ours)| (spec(READS, what, IOPS, Bar::OfPeer(1.0)), row(&[ours], &[1.0])))
            .collect();
        rows.push((spec(COST, "absent", BYTES, Bar::Shown), row(&[1.0], &[])));
        let text = summary(&rows);
        assert!(text.starts_with("Holdall meets 0 of 4 targets and misses 4. The worst misses:\n"), "{text}");
        let named = |text: &str| {
            text.lines().filter(|line| line.starts_with("- ")).map(str::to_owned).collect::<Vec<_>>()
        };
        let expected = ["(b): 0.20", "(d): 0.30", "(c): 0.40"]
            .map(|miss| format!("- reads {miss} of the rate of left; the target is 1"));
        assert_eq!(named(&text), expected);
        assert!(text.contains("| left | nothing | reads: 0.20 to 0.50 of its rate |"), "{text}");
        assert!(text.contains("| right | nothing | not measured: 1 of 1 rows |"), "{text}");

        rows.push((spec(READS, "e", IOPS, Bar::OfPeer(1.0)), row(&[1.0], &[])));
        assert_eq!(named(&summary(&rows))[0], "- reads (e): left was not measured");
        let met = [(spec(READS, "f", IOPS, Bar::OfPeer(1.0)), row(&[2.0], &[1.0])), rows.remove(4)];
        assert!(summary(&met).starts_with("Holdall meets all 1 targets.\n"));
    }
}
