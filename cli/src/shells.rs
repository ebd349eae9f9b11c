//! Completions and man pages, made from the grammar.

use crate::api::Code;
use crate::args::Arguments;
use crate::failure::{CliError, NOTHING_DONE, why};
use crate::output::Output;
use clap::CommandFactory;
use std::path::Path;

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell, output: Output) -> Result<(), CliError> {
    // Into memory first: the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "holdall", &mut script);
    output.line(&String::from_utf8_lossy(&script))
}

/// Writes `holdall.1`, `holdall-drive.1`, `holdall-drive-create.1` and so on into `dir`.
pub fn man(dir: &Path) -> Result<(), CliError> {
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Arguments::command(), dir));
    written.map_err(|error| {
        let message = format!("Cannot write man pages to {}: {}.", dir.display(), why(&error));
        CliError::new(Code::Failed, message, NOTHING_DONE, "Give a directory that you may write to.")
    })
}
