//! The command line's program. It belongs to a package of its own, which cargo does not build for a test of this one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The crates that it is built from.
const CRATES: [&str; 5] = ["address", "api", "cli", "client", "gui"];

/// The path of `holdall`, beside `holdalld`. Panics if it is missing or older than its source: a test of it would say nothing.
pub fn holdall() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_holdalld")).with_file_name("holdall");
        let built = program.metadata().and_then(|it| it.modified());
        let built = built.unwrap_or_else(|_| panic!("{} is missing: cargo build", program.display()));
        let newest = CRATES
            .iter()
            .filter_map(|name| newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name).join("src")))
            .max();
        assert!(
            newest.is_some_and(|newest| newest <= built),
            "{} is older than its source: cargo build",
            program.display()
        );
        program.into_os_string().into_string().expect("cargo's own paths are text")
    })
}

/// When a file below `directory` was last written.
fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let of = |entry: std::fs::DirEntry| match entry.file_type().ok()?.is_dir() {
        true => newest(&entry.path()),
        false => entry.metadata().ok()?.modified().ok(),
    };
    entries.filter_map(of).max()
}
