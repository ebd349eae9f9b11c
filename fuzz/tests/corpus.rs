//! Runs every target for a moment: on the inputs under `corpus/`, the well-formed seeds, and inputs that a seeded mutator
//! makes from both.
//!
//! `HOLDALL_FUZZ=name` runs one target alone, `HOLDALL_SEED=n` changes the mutator's seed, `HOLDALL_FUZZ_SECONDS=n` sets
//! how long each runs. A failing input is written to `fuzz/artifacts/<target>/`; once the bug is fixed, the input belongs
//! in the corpus.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod allocated;
mod mutator;

use holdall_fuzz::{TARGETS, Target};
use mutator::Mutator;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocated::Counting = allocated::Counting;

/// Inputs of one target in a run of all tests.
const INPUTS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn at(directory: &str, target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).join(target.name)
}

/// The inputs of the corpus, in a fixed order.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(at("corpus", target)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn feed(target: &Target, input: &[u8]) {
    let outcome = catch_unwind(|| allocated::most(|| (target.run)(input)));
    let held = match outcome {
        Ok(held) if held <= target.memory_bytes => return,
        Ok(held) => format!("held {held} bytes where {} are allowed", target.memory_bytes),
        Err(_) => "panicked".to_owned(),
    };
    let directory = at("artifacts", target);
    let path = directory.join(&blake3::hash(input).to_hex()[..16]);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(&path, input).unwrap();
    panic!("the target {} {held}; the input is in {}", target.name, path.display());
}

#[test]
fn no_input_does_harm() {
    let only = std::env::var("HOLDALL_FUZZ").ok();
    let seconds = number("HOLDALL_FUZZ_SECONDS").map(Duration::from_secs);
    let chosen = |target: &&Target| only.as_ref().is_none_or(|only| target.name == *only);
    for target in TARGETS.iter().filter(chosen) {
        let mut known = corpus(target);
        known.extend((target.seeds)());
        known.iter().for_each(|input| feed(target, input));
        feed(target, &[]);
        let mut mutator = Mutator::new(number("HOLDALL_SEED").unwrap_or(1), known);
        let (begun, mut count) = (Instant::now(), 0);
        while seconds.map_or(count < INPUTS, |seconds| begun.elapsed() < seconds) {
            feed(target, &mutator.next());
            count += 1;
        }
        println!("{}: {count} inputs in {:?}", target.name, begun.elapsed());
    }
}

/// Writes the inputs that `just fuzz` begins with.
#[test]
#[ignore = "writes the well-formed seeds to fuzz/learnt: just fuzz"]
fn write_seeds() {
    for target in TARGETS {
        std::fs::create_dir_all(at("learnt", target)).unwrap();
        for (index, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(at("learnt", target).join(format!("seed-{index}")), seed).unwrap();
        }
    }
}

#[test]
fn targets_have_seeds_unique_names_and_known_corpora() {
    for target in TARGETS {
        assert!(!(target.seeds)().is_empty(), "{} begins from nothing", target.name);
    }
    let names: std::collections::BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len(), "each target has its own name");
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(holdall_fuzz::find(&name).is_some(), "corpus/{name} belongs to no target");
    }
}

/// Otherwise the target would never get past the header.
#[test]
fn journal_seeds_open_with_all_their_records() {
    let target = holdall_fuzz::find("journal_file").unwrap();
    let found: Vec<_> = (target.seeds)().iter().map(|seed| holdall_fuzz::journal_records(seed)).collect();
    assert_eq!(found, [Some(3), Some(4), Some(3), Some(3)]);
}
