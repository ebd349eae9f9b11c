//! The command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdall::cli::main()
}
