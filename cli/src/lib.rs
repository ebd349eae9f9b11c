//! The command line: a thin client of the daemon, and of nothing else.
//!
//! The path of a command: `args` parses it, `drive` (or `events`, `service`) turns it into a request, `client` sends the request by
//! `holdall_client` (which starts the daemon if none runs), `show` puts the result into words, `output` prints it. Errors are returned as
//! `CliError`, and only here become an exit code.

// They panic if the output cannot be written, such as a log on a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use crate::api::{Code, Failure};
use crate::args::{Arguments, Command, DaemonCommand};
use crate::client::Client;
use crate::drive::Session;
use crate::failure::{CliError, NOTHING_DONE};
use crate::output::Output;
use crate::progress::Reporter;
use clap::Parser;
use holdall_client::api::{self, sizes};
use holdall_client::paths::Paths;
use std::process::ExitCode;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

mod activity;
pub mod args;
mod client;
mod credentials;
mod device;
mod diagnostics;
mod drive;
mod events;
mod failure;
mod folder;
mod interrupted;
mod limits;
mod objects;
mod output;
mod pins;
mod printable;
mod progress;
mod secrets;
mod service;
mod shells;
mod show;
mod store;
mod suggest;
mod terminal;
mod web;

/// Runs `holdall` with the process's arguments.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(error),
    };
    let arguments = Arguments { command: arguments.command.in_full(), ..arguments };
    let output = Output::new(arguments.json, arguments.verbose);
    let progress = Reporter::new(arguments.json);
    let code = match run(&arguments, output, &progress) {
        Ok(Ended::Done) => 0,
        Ok(Ended::Interrupted(signal)) => interrupted::tell(&arguments.command, signal, &progress, output),
        Err(CliError::ReaderLeft) => 0,
        Err(CliError::BadNews(code)) => code.exit_code(),
        Err(CliError::Failed(failure)) => {
            output.failure(&failure);
            failure.code.exit_code()
        }
    };
    ExitCode::from(code)
}

/// How a command ended that did not fail.
enum Ended {
    Done,
    /// By the signal with this number.
    Interrupted(i32),
}

fn run(arguments: &Arguments, output: Output, progress: &Reporter) -> Result<Ended, CliError> {
    match &arguments.command {
        Command::Completions { shell } => shells::completions(*shell, output).map(|()| Ended::Done),
        Command::Man { dir } => shells::man(dir).map(|()| Ended::Done),
        Command::Daemon { command: None } => Err(service::become_daemon()),
        Command::Daemon { command: Some(DaemonCommand::Openapi) } => Err(service::print_openapi()),
        Command::Drive(_)
        | Command::Open(_)
        | Command::Close(_)
        | Command::Ls { .. }
        | Command::Folder(_)
        | Command::Device(_)
        | Command::Store(_)
        | Command::Limits(_)
        | Command::Pin(_)
        | Command::Unpin(_)
        | Command::Pins { .. }
        | Command::Evict(_)
        | Command::Wait(_)
        | Command::Status
        | Command::Doctor { .. }
        | Command::Activity(_)
        | Command::Diagnostics { .. }
        | Command::Events
        | Command::Web(_)
        | Command::Daemon { command: Some(DaemonCommand::Stop | DaemonCommand::Status) } => {
            talk(arguments, output, progress)
        }
    }
}

/// Runs a command that talks to the daemon, until it ends or a signal comes.
fn talk(arguments: &Arguments, output: Output, progress: &Reporter) -> Result<Ended, CliError> {
    let paths = Paths::from_environment()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(no_runtime)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(no_runtime)?;
        tokio::select! {
            result = dispatch(arguments, &paths, output, progress) => result.map(|()| Ended::Done),
            _ = interrupt.recv() => Ok(Ended::Interrupted(SignalKind::interrupt().as_raw_value())),
            _ = terminate.recv() => Ok(Ended::Interrupted(SignalKind::terminate().as_raw_value())),
        }
    });
    progress.clear();
    // A thread may still wait for a line from the terminal.
    runtime.shutdown_background();
    ended
}

fn no_runtime(error: std::io::Error) -> CliError {
    let message = format!("Cannot wait for events of the system: {error}.");
    CliError::new(Code::Failed, message, NOTHING_DONE, "Check the limit on open files (ulimit -n).")
}

async fn dispatch(
    arguments: &Arguments,
    paths: &Paths,
    output: Output,
    progress: &Reporter,
) -> Result<(), CliError> {
    let session = Session { client: Client::new(paths, progress), progress, output };
    match &arguments.command {
        Command::Drive(command) => drive::run(command, &session).await,
        Command::Folder(command) => folder::run(command, &session).await,
        Command::Device(command) => device::run(command, &session).await,
        Command::Store(command) => store::run(command, &session).await,
        Command::Limits(arguments) => limits::run(arguments, &session).await,
        Command::Pin(pin) => pins::pin(pin, &session).await,
        Command::Unpin(which) => pins::unpin(which, &session).await,
        Command::Pins { name } => pins::list(name.as_deref(), &session).await,
        Command::Evict(which) => pins::evict(which, &session).await,
        Command::Wait(wait) => pins::wait(wait, &session).await,
        Command::Status => drive::status_of_everything(&session).await,
        Command::Doctor { repair } => service::doctor(*repair, &session).await,
        Command::Activity(arguments) => activity::run(arguments, &session).await,
        Command::Diagnostics { out } => diagnostics::run(out.as_deref(), &session).await,
        Command::Events => events::follow(paths, output).await,
        Command::Web(arguments) => web::run(arguments, &session).await,
        Command::Daemon { command: Some(DaemonCommand::Stop) } => service::stop(paths, output).await,
        Command::Daemon { command: Some(DaemonCommand::Status) } => service::status(paths, output).await,
        Command::Open(_) | Command::Close(_) | Command::Ls { .. } => {
            unreachable!("short forms are written out first")
        }
        Command::Daemon { command: None | Some(DaemonCommand::Openapi) }
        | Command::Completions { .. }
        | Command::Man { .. } => {
            unreachable!("these do not talk to the daemon")
        }
    }
}

/// Help and version succeed; everything else is wrong usage, which clap explains better than we could.
fn not_parsed(error: clap::Error) -> ExitCode {
    let error = suggest::where_it_is(error);
    let asked_for_json = std::env::args_os().any(|argument| argument == "--json");
    if asked_for_json && error.use_stderr() {
        // clap's first paragraph is the error, the others are usage; missing arguments are on separate lines.
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let message = failure::sentence(&first.split_whitespace().collect::<Vec<_>>().join(" "));
        let action = "Run the command with --help.";
        Output::new(true, false).failure(&Failure::new(Code::Usage, message, NOTHING_DONE, action));
    } else {
        // It is no error if the reader of the help closes the pipe early.
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        let mut commands = vec![Arguments::command()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example") || command.is_hide_set(), "{}", command.get_name());
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
