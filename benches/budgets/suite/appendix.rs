//! The appendix of the report: where, when and with what each run was taken.

use super::record::Run;
use super::report::of_section;
use super::rows::ROWS;
use std::fmt::Write;

/// The heading of the appendix.
pub const TITLE: &str = "Appendix: the runs";

/// The appendix; the newest run comes first.
pub fn of(runs: &[Run]) -> String {
    let mut text = format!(
        "\n## {TITLE}\n\nEach table is of the newest run that has it. The same in all runs that record it:\n\n"
    );
    let all: Vec<_> = runs.iter().map(facts).collect();
    let mut known: Vec<&Fact> = Vec::new();
    for fact in all.iter().flatten() {
        if !known.iter().any(|known| known.name == fact.name) {
            known.push(fact);
        }
    }
    let is_shared =
        |fact: &Fact| all.iter().flatten().filter(|other| other.name == fact.name).all(|other| other == fact);
    known
        .into_iter()
        .filter(|fact| is_shared(fact))
        .for_each(|fact| list(&mut text, &fact.name, &fact.value));
    for (at, (run, facts)) in runs.iter().zip(&all).enumerate() {
        write!(text, "\n### Run of {}\n\n", run.taken_at).expect("memory takes it");
        let mut sections: Vec<_> = ROWS.iter().map(|spec| spec.section).collect();
        sections.dedup();
        sections.retain(|section| of_section(runs, section) == Some(at));
        let titles: Vec<_> = sections.into_iter().map(|section| section.title()).collect();
        list(&mut text, "tables", &titles.join("; "));
        list(&mut text, "commit", &run.commit);
        facts
            .iter()
            .filter(|fact| !is_shared(fact))
            .for_each(|fact| list(&mut text, &fact.name, &fact.value));
    }
    text
}

#[derive(PartialEq)]
struct Fact {
    name: String,
    value: String,
}

/// The machine, the programs, and the sizes of a run.
fn facts(run: &Run) -> Vec<Fact> {
    let about = run.machine.iter().chain(&run.versions);
    let about = about.map(|(name, value)| Fact { name: name.clone(), value: value.clone() });
    let plan =
        run.plan.iter().map(|(name, value)| Fact { name: format!("`{name}`"), value: short(name, *value) });
    about.chain(plan).collect()
}

fn short(name: &str, value: u64) -> String {
    match name.ends_with("_bytes") {
        true if value >= 1 << 30 => format!("{} GiB", value >> 30),
        true => format!("{} MiB", value >> 20),
        false => value.to_string(),
    }
}

fn list(text: &mut String, name: &str, value: &str) {
    writeln!(text, "- {name}: {value}").expect("memory takes it");
}
