//! The helper on the system bus.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdall_helper::service::main()
}
