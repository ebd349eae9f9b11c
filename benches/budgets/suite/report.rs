//! Makes BENCHMARKS.md from the raw figures: the summary, the tables, and the appendix on the runs.

use super::record::{Row, Run};
use super::rows::{Bar, Kind, ROWS, Section, Spec};
use super::{Failure, appendix, figures, summary};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
<!-- Made by `just bench-report` from the files in benches/results. -->

# Benchmarks

## Summary

";

const METHOD: &str = "\
## How to read the tables

`just bench` measures Holdall and its peers in one run on one machine. The two sides take turns, round after round. The tables show medians, with the
least and the greatest value in brackets. A ratio is Holdall's figure divided by the other side's: the median of the ratios of the rounds. In the summary,
a ratio that rounds to 1.00 counts as equal. The measurements and their targets are in
[benches/budgets](benches/budgets); [ARCHITECTURE.md](ARCHITECTURE.md#performance) explains the figures.
";

/// The directory of the raw figures.
pub fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/results")
}

/// The report.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("BENCHMARKS.md")
}

/// The raw figures of the report: the newest run, and older ones for sections that no newer one has.
pub fn runs() -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    for entry in std::fs::read_dir(results())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            runs.push(Run::load(&path)?);
        }
    }
    runs.sort_by(|one, other| other.taken_at.cmp(&one.taken_at));
    let is_used = |at: &usize| ROWS.iter().any(|spec| of_section(&runs, spec.section) == Some(*at));
    let used: Vec<_> = (0..runs.len()).filter(is_used).collect();
    let runs = runs.into_iter().enumerate().filter(|(at, _)| used.contains(at)).map(|(_, run)| run);
    let runs: Vec<_> = runs.collect();
    if runs.is_empty() { Err("there are no figures in benches/results".into()) } else { Ok(runs) }
}

/// The first run that has a section; the newest run comes first.
pub fn of_section(runs: &[Run], section: &Section) -> Option<usize> {
    let has = |run: &Run| ROWS.iter().any(|spec| spec.section == section && run.row(spec.key).is_some());
    runs.iter().position(has)
}

/// The row of a run that has its section.
pub fn row_of<'a>(runs: &'a [Run], spec: &Spec) -> Option<&'a Row> {
    runs.get(of_section(runs, spec.section)?)?.row(spec.key)
}

fn measured(runs: &[Run]) -> Vec<summary::Measured<'_>> {
    ROWS.iter().filter_map(|spec| Some((spec, row_of(runs, spec)?))).collect()
}

/// The whole report; the newest run comes first.
pub fn markdown(runs: &[Run]) -> String {
    let summary = summary::of(&measured(runs));
    [HEAD, &summary, &taken(runs), METHOD, &table(runs), &appendix::of(runs)].concat()
}

/// When the runs were taken, with a link to more about them.
fn taken(runs: &[Run]) -> String {
    let days = runs.iter().map(|run| run.taken_at.get(..10).unwrap_or(&run.taken_at));
    let days = match (days.clone().min(), days.max()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (first, _) => first.unwrap_or_default().to_owned(),
    };
    let words: String =
        appendix::TITLE.to_lowercase().chars().filter(|c| c.is_alphanumeric() || *c == ' ').collect();
    let anchor = words.replace(' ', "-");
    format!("\nMeasured {days}. Machines, versions and sizes are in the [appendix](#{anchor}).\n\n")
}

/// The figures, section by section.
pub fn table(runs: &[Run]) -> String {
    let mut text = String::new();
    let mut section = None;
    for (spec, row) in measured(runs) {
        if section != Some(spec.section) {
            section = Some(spec.section);
            begin(&mut text, spec);
        }
        let verdict =
            || if spec.margin(row).is_some_and(|margin| margin >= 1.0) { "met" } else { "**missed**" };
        let line = match spec.bar {
            Bar::OfPeer(bar) => format!("{} | >= {bar} | {}", beside(row, spec), verdict()),
            Bar::Shown => beside(row, spec),
            Bar::AtMost(bar) => {
                let bar = format!("{bar} {}", spec.unit.name);
                format!("{} | <= {} | {}", figures::spread(&row.ours, spec.unit), bar.trim_end(), verdict())
            }
        };
        writeln!(text, "| {} | {line} |", spec.what).expect("memory takes it");
    }
    text
}

/// Begins the table that has this row as its first.
fn begin(text: &mut String, spec: &Spec) {
    let Section { peer, note, .. } = spec.section;
    let peer = peer.name();
    let better = if spec.unit.kind == Kind::Rate { "more" } else { "less" };
    let head = match spec.bar {
        Bar::OfPeer(_) => {
            format!("| | Holdall | {peer} | ratio | target | |\n| --- | --- | --- | --- | --- | --- |")
        }
        Bar::AtMost(_) => "| | Holdall | target | |\n| --- | --- | --- | --- |".to_owned(),
        Bar::Shown => {
            format!("| | Holdall | {peer} | ratio ({better} is better) |\n| --- | --- | --- | --- |")
        }
    };
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    write!(text, "\n## {}\n\n{note}{head}\n", spec.section.title()).expect("memory takes it");
}

/// Ours, the peer's, and the ratio.
fn beside(row: &Row, spec: &Spec) -> String {
    let ours = figures::spread(&row.ours, spec.unit);
    if row.peer.is_empty() {
        return format!("{ours} | not measured | ");
    }
    format!("{ours} | {} | {}", figures::spread(&row.peer, spec.unit), figures::ratios(&row.ratios()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(taken_at: &str, load: &str, rows: &[(&str, f64, f64)]) -> Run {
        let row = |(key, ours, peer): &(&str, f64, f64)| Row {
            key: (*key).to_owned(),
            ours: vec![*ours],
            peer: vec![*peer],
        };
        let machine = [("kernel", "Linux"), ("load at the start", load)];
        Run {
            format: 1,
            taken_at: taken_at.to_owned(),
            commit: "0123".to_owned(),
            machine: machine.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            versions: [("fio".to_owned(), "fio-3.33".to_owned())].into(),
            plan: [("warm_bytes".to_owned(), 1 << 30)].into(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn the_summary_comes_first_and_the_runs_come_last() {
        let (nbd, save) = (("nbd-random-1", 12.0, 10.0), ("save", 1.0, 10.0));
        let runs = [run("2026-02-03T00:00:00Z", "2", &[nbd]), run("2026-02-01T00:00:00Z", "1", &[save])];
        let text = markdown(&runs);
        let places =
            ["## Summary", "Measured 2026-02-01 to 2026-02-03.", "| >= 1 | met |", "## Appendix: the runs"]
                .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is missing in {text}")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(text.contains("| >= 0.7 | **missed** |"), "{text}");
        assert!(text.contains("[appendix](#appendix-the-runs)"), "{text}");
        let (tables, appendix) = text.split_at(places[3]);
        assert!(!tables.contains("fio-3.33") && !tables.contains("Linux"), "{tables}");
        let count = |part: &str| appendix.matches(part).count();
        assert_eq!(
            [count("- fio: fio-3.33"), count("- `warm_bytes`: 1 GiB"), count("- load at the start")],
            [1, 1, 2]
        );
    }
}
