//! The command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdall_cli::main()
}
