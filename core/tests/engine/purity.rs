//! Code that decides is pure: no clock, no I/O, no lock, no runtime. So a decision can be tested by its arguments alone, and the
//! simulation replays from a seed.

use std::path::Path;

/// Every decision, every format, and the structures that they consist of, in `core/src`.
const PURE: &[&str] = &[
    "evict.rs",
    "ext4.rs",
    "ext4/agenda.rs",
    "ext4/attributes.rs",
    "ext4/block_map.rs",
    "ext4/checksum.rs",
    "ext4/claims.rs",
    "ext4/claims/answers.rs",
    "ext4/fields.rs",
    "ext4/groups.rs",
    "ext4/inode.rs",
    "ext4/kind.rs",
    "ext4/limits.rs",
    "ext4/nodes.rs",
    "ext4/superblock.rs",
    "ext4/tree.rs",
    "fence.rs",
    "format/family.rs",
    "format/head.rs",
    "format/id.rs",
    "format/page.rs",
    "format/root.rs",
    "format/segment.rs",
    "format/usage.rs",
    "format/wire.rs",
    "folder/outbox/desk.rs",
    "folder/outbox/failure.rs",
    "folder/outbox/lanes.rs",
    "folder/outbox/quiet.rs",
    "folder/outcome.rs",
    "folder/tree.rs",
    "formats.rs",
    "formats/matroska.rs",
    "formats/mp4.rs",
    "formats/pdf.rs",
    "formats/sqlite.rs",
    "formats/zip.rs",
    "grant.rs",
    "heads/transition.rs",
    "journal/tracker.rs",
    "log/marks.rs",
    "log/record.rs",
    "migrate.rs",
    "migrate/leecher.rs",
    "migrate/leecher/taking.rs",
    "migrate/leecher/vocabulary.rs",
    "migrate/message.rs",
    "migrate/phase.rs",
    "migrate/rounds.rs",
    "migrate/seeder.rs",
    "migrate/seeder/handing.rs",
    "migrate/seeder/sending.rs",
    "migrate/seeder/vocabulary.rs",
    "migrate/volatility.rs",
    "migrate/wire.rs",
    "pull/neighbours.rs",
    "pull/queue.rs",
    "pull/scans.rs",
    "pull/streams.rs",
    "pull/strides.rs",
    "pull/window.rs",
    "push/policy.rs",
    "replica/plan.rs",
    "runs.rs",
    "store/claims/names.rs",
    "store/names.rs",
    "units.rs",
];

/// The same in `store/src`.
const PURE_IN_STORES: &[&str] = &[
    "dav/names.rs",
    "dav/there.rs",
    "file/kinds.rs",
    "names.rs",
    "probe/verdict.rs",
    "retry.rs",
    "s3/body.rs",
    "s3/limits.rs",
    "s3/meaning.rs",
];

/// Names that none of them may contain.
const IMPURE: &[&str] = &[
    ".await",
    "Atomic",
    "File",
    "Mutex",
    "OnceLock",
    "RefCell",
    "RwLock",
    "SystemTime",
    "async fn",
    "async move",
    "elapsed()",
    "now()",
    "parking_lot",
    "rand::",
    "rustix",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "thread_local",
    "tokio",
    "tracing",
];

/// The impure names in a source file, except in its tests and comments.
fn impurities(directory: &str, file: &str) -> Vec<String> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(tree.join(directory).join(file)).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let named = lines.flat_map(|(at, line)| {
        let words = IMPURE.iter().filter(move |word| contains_word(line, word));
        words.map(move |word| format!("{file}:{}: {word}", at + 1))
    });
    named.collect()
}

/// Whether the line contains the word by itself, not as the end of another one (FileHeader is not File).
fn contains_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(inside);
        let after = line[at + word.len()..].chars().next().is_some_and(inside);
        let is_part = before && word.starts_with(inside) || after && word == "File";
        !is_part
    })
}

#[test]
fn deciding_code_uses_no_clock_io_lock_or_runtime() {
    let engine = PURE.iter().flat_map(|file| impurities("core/src", file));
    let stores = PURE_IN_STORES.iter().flat_map(|file| impurities("store/src", file));
    let found: Vec<_> = engine.chain(stores).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn detects_the_impurity_of_performing_code() {
    for (directory, file) in [
        ("core/src", "push/task.rs"),
        ("core/src", "pull.rs"),
        ("core/src", "cache.rs"),
        ("store/src", "file.rs"),
        ("core/src", "volume/keeper.rs"),
        ("core/src", "push/commit.rs"),
    ] {
        let is_pure = impurities(directory, file).is_empty();
        assert!(!is_pure, "{file} is found to be pure, so that nothing would be found at all");
    }
}
