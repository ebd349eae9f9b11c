//! docs/SEMANTICS.md is a promise: each operation of the adapter has a row, and each row the tests that show it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// They promise nothing to programs.
const SILENT: [&str; 2] = ["init", "forget"];

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(tree().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of the tables of a section.
fn rows(section: &str) -> Vec<Vec<String>> {
    let lines = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn section(text: &str, heading: &str) -> String {
    let (_, rest) =
        text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().unwrap().to_owned()
}

/// What is between backquotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The operations of the FUSE adapter.
fn operations() -> BTreeSet<String> {
    let adapter = text("fuse/src/folder/adapter.rs");
    let (_, body) = adapter.split_once("impl fuser::Filesystem for Adapter {").expect("the adapter");
    let body = body.split("\n}\n").next().unwrap();
    let names = body.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next());
    names.filter(|name| !SILENT.contains(name)).map(str::to_owned).collect()
}

fn is_test(file: &str, name: &str) -> bool {
    let code = text(file);
    let Some((before, _)) = code.split_once(&format!("fn {name}(")) else { return false };
    before.lines().rev().take(3).any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

#[test]
fn each_operation_has_a_row_and_each_row_a_test() {
    let semantics = text("docs/SEMANTICS.md");
    let described: BTreeSet<String> = ["Names and directories", "Bytes", "Attributes"]
        .iter()
        .flat_map(|heading| rows(&section(&semantics, heading)))
        .map(|cells| cells[0].clone())
        .filter(|name| name != "operation")
        .collect();
    let tested = rows(&section(&semantics, "Which tests show it"));
    let (mut covered, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for cells in tested.iter().filter(|cells| cells[0] != "row") {
        let [row, requests, tests] = &cells[..] else { panic!("three cells: {cells:?}") };
        assert!(described.contains(row), "no table has the row {row}");
        assert!(shown.insert(row.clone()), "{row} is there twice");
        covered.extend(quoted(requests));
        let tests = quoted(tests);
        assert!(!tests.is_empty(), "{row} has no test");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test} is not FILE::TEST"));
            assert!(is_test(file, name), "{row}: there is no test {name} in {file}");
        }
    }
    let untested: Vec<_> = described.difference(&shown).collect();
    assert!(untested.is_empty(), "rows without a test: {untested:?}");
    let operations = operations();
    assert!(operations.len() > 25, "{operations:?}");
    assert_eq!(operations.symmetric_difference(&covered).collect::<Vec<_>>(), Vec::<&String>::new());
}
