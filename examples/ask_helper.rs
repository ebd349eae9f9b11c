//! Asks for one operation that takes root's rights, as a daemon would, and with whatever is said here: for tests of what the
//! helper refuses.
//!
//!     ask_helper OPERATION [FILE]    the operation as JSON; FILE is opened and goes along
//!
//! Prints the outcome, or fails with what a person would be told.

use holdall_helper::{Deputy, Privileged};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|argument| argument == holdall_helper::SUBCOMMAND) {
        return holdall_helper::main();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ask_helper: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let (operation, file) = match arguments {
        [operation] => (operation, None),
        [operation, file] => (operation, Some(File::open(file)?)),
        _ => return Err("see the head of its source".into()),
    };
    let operation: Privileged = serde_json::from_str(operation)?;
    let fds: Vec<_> = file.iter().map(AsFd::as_fd).collect();
    match Deputy::this_program()?.perform(&operation, &fds, DEADLINE) {
        Ok(outcome) => println!("{}", serde_json::to_string(&outcome)?),
        Err(error) => {
            let failure = error.failure();
            return Err(format!("{} {}", failure.message, failure.action).into());
        }
    }
    Ok(())
}
