//! The daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdall::daemon::main()
}
