//! Makes BENCHMARKS.md from the raw figures.

use super::Failure;
use super::record::{Row, Run, median};
use super::rows::{Bar, ROWS, Spec};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
<!-- Made by `just bench-report` from the files in benches/results. -->

# Benchmarks

`just bench` measures the built product and its peers in one run on one machine: both sides take turns, round after round, and the table has the
medians, with the least and the most in brackets. A ratio is the median of the ratios of the rounds. What is measured, and against what it has to hold, is in
[benches/budgets](benches/budgets); why the figures are what they are is in [ARCHITECTURE.md](ARCHITECTURE.md#performance).
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
fn of_section(runs: &[Run], section: &str) -> Option<usize> {
    let has = |run: &Run| ROWS.iter().any(|spec| spec.section == section && run.row(spec.key).is_some());
    runs.iter().position(has)
}

/// The row of a run that has its section.
pub fn row_of<'a>(runs: &'a [Run], spec: &Spec) -> Option<&'a Row> {
    runs.get(of_section(runs, spec.section)?)?.row(spec.key)
}

/// The whole report; the newest run comes first.
pub fn markdown(runs: &[Run]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&table(runs));
    runs.iter().enumerate().for_each(|(at, run)| about(&mut text, runs, at, run));
    text
}

/// Adds the facts about one of the runs.
fn about(text: &mut String, runs: &[Run], at: usize, run: &Run) {
    let title = if runs.len() == 1 { "The run".to_owned() } else { format!("The run of {}", run.taken_at) };
    write!(text, "\n## {title}\n\n").expect("memory takes it");
    if runs.len() > 1 {
        let mut sections: Vec<_> = ROWS.iter().map(|spec| spec.section).collect();
        sections.dedup();
        sections.retain(|section| of_section(runs, section) == Some(at));
        writeln!(text, "- sections: {}", sections.join("; ")).expect("memory takes it");
    }
    let mut line = |name: &str, value: &str| writeln!(text, "- {name}: {value}").expect("memory takes it");
    line("taken", &run.taken_at);
    line("commit", &run.commit);
    for (name, value) in run.machine.iter().chain(&run.versions) {
        line(name, value);
    }
    let plan = run.plan.iter().map(|(name, value)| format!("{name} {}", short(name, *value)));
    line("plan", &plan.collect::<Vec<_>>().join(", "));
}

/// The figures, section by section.
pub fn table(runs: &[Run]) -> String {
    let mut text = String::new();
    let mut section = "";
    for spec in ROWS {
        let Some(row) = row_of(runs, spec) else { continue };
        if spec.section != section {
            section = spec.section;
            let head = match spec.bar {
                Bar::OfPeer(_) => {
                    "| | Holdall | peer | ratio | bar | |\n| --- | --- | --- | --- | --- | --- |"
                }
                Bar::AtMost(_) => "| | Holdall | bar | |\n| --- | --- | --- | --- |",
                Bar::Shown => "| | Holdall | peer | ratio |\n| --- | --- | --- | --- |",
            };
            write!(text, "\n## {section}\n\n{head}\n").expect("memory takes it");
        }
        let line = match spec.bar {
            Bar::OfPeer(bar) => {
                let verdict = verdict(!row.peer.is_empty() && median(&ratios(row)) >= bar);
                format!("{} | >= {bar} | {verdict}", beside(row, spec))
            }
            Bar::Shown => beside(row, spec),
            Bar::AtMost(bar) => {
                let verdict = verdict(median(&row.ours) <= bar);
                format!("{} | <= {bar} {} | {verdict}", spread(&row.ours, spec), spec.unit)
            }
        };
        writeln!(text, "| {} | {line} |", spec.what).expect("memory takes it");
    }
    text
}

fn ratios(row: &Row) -> Vec<f64> {
    row.ours.iter().zip(&row.peer).map(|(ours, peer)| ours / peer).collect()
}

/// Ours, the peer's, and the ratio.
fn beside(row: &Row, spec: &Spec) -> String {
    if row.peer.is_empty() {
        return format!("{} | did not take part | ", spread(&row.ours, spec));
    }
    let ratios = ratios(row);
    let [ours, peer] = [&row.ours, &row.peer].map(|figures| spread(figures, spec));
    format!("{ours} | {peer} | **{:.2}** {}", median(&ratios), range(&ratios, 2))
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "**below**" }
}

/// The median with its unit, and the least and the greatest value if there are several.
fn spread(figures: &[f64], spec: &Spec) -> String {
    let middle = median(figures);
    let digits = if middle < 10.0 { 2 } else { 0 };
    let shown = format!("{middle:.digits$} {}", spec.unit);
    if figures.len() < 2 {
        shown.trim().to_owned()
    } else {
        format!("{} {}", shown.trim(), range(figures, digits))
    }
}

fn range(figures: &[f64], digits: usize) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("({least:.digits$} to {most:.digits$})")
}

fn short(name: &str, value: u64) -> String {
    match name.ends_with("_bytes") {
        true if value >= 1 << 30 => format!("{} GiB", value >> 30),
        true => format!("{} MiB", value >> 20),
        false => value.to_string(),
    }
}
