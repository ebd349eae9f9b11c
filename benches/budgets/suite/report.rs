//! BENCHMARKS.md out of the raw figures.

use super::Failure;
use super::record::{Row, Run, median};
use super::rows::{Bar, ROWS, Spec};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
<!-- Made by `just bench-report` from the newest file in benches/results. -->

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

/// The newest raw figures, by their names, which are dates.
pub fn newest() -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(results())?.map(|entry| Ok(entry?.path()));
    let mut found = entries.collect::<Result<Vec<_>, std::io::Error>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    found.into_iter().max().ok_or_else(|| "there are no figures in benches/results".into())
}

/// The whole report.
pub fn markdown(run: &Run) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&table(run));
    text.push_str("\n## The run\n\n");
    let mut line = |name: &str, value: &str| writeln!(text, "- {name}: {value}").expect("memory takes it");
    line("taken", &run.taken_at);
    line("commit", &run.commit);
    for (name, value) in run.machine.iter().chain(&run.versions) {
        line(name, value);
    }
    let plan = run.plan.iter().map(|(name, value)| format!("{name} {}", short(name, *value)));
    line("plan", &plan.collect::<Vec<_>>().join(", "));
    text
}

/// The figures, section by section.
pub fn table(run: &Run) -> String {
    let mut text = String::new();
    let mut section = "";
    for spec in ROWS {
        let Some(row) = run.row(spec.key) else { continue };
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
                let verdict = verdict(median(&ratios(row)) >= bar);
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
    let [ours, peer] = [&row.ours, &row.peer].map(|figures| spread(figures, spec));
    let ratios = ratios(row);
    format!("{ours} | {peer} | **{:.2}** {}", median(&ratios), range(&ratios, 2))
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "**below**" }
}

/// The median with its unit, and the least and the most where there are several.
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
