//! Asks the person at the terminal.

use crate::api::Code;
use crate::failure::{CliError, NOTHING_DONE, why};
use crate::printable::printable;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write, stderr, stdin};

/// How often a new passphrase may be typed until both entries agree.
const TRIES: usize = 3;

/// Whether there is a person to ask. Questions go to standard error, so that standard output has only the result.
pub fn is_there() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks for a yes to `question`. Anything but y or yes is a no.
pub async fn confirm(question: &str) -> Result<bool, CliError> {
    let answer = ask(&format!("{question} [y/N] ")).await?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Prints a message that is not the result. `eprintln!` would panic if nobody reads it.
pub fn say(line: &str) {
    let line = if stderr().is_terminal() { printable(line).into() } else { Cow::from(line) };
    let _ = writeln!(stderr(), "{line}");
}

/// Reads a line that is shown while it is typed.
pub async fn ask(prompt: &str) -> Result<String, CliError> {
    read_line(prompt).await.map_err(unreadable)
}

/// Reads a line that is not shown while it is typed.
pub async fn ask_secret(prompt: &str) -> Result<String, CliError> {
    let _silence = Silence::begin().map_err(unreadable)?;
    let line = read_line(prompt).await;
    say("");
    let secret = line.map_err(unreadable)?;
    match secret.is_empty() {
        true => Err(CliError::usage("Nothing was typed.", "Run the command again.")),
        false => Ok(secret),
    }
}

/// A new passphrase, typed twice.
pub async fn ask_new_passphrase(name: &str) -> Result<String, CliError> {
    ask_new(&format!("passphrase for {name}")).await
}

/// A new secret, typed twice.
pub async fn ask_new(what: &str) -> Result<String, CliError> {
    for _ in 0..TRIES {
        let first = ask_secret(&format!("New {what}: ")).await?;
        let second = ask_secret("Repeat it: ").await?;
        if first == second {
            return Ok(first);
        }
        say("The two differ.");
    }
    Err(CliError::usage(format!("The two inputs differed {TRIES} times."), "Run the command again."))
}

async fn read_line(prompt: &str) -> io::Result<String> {
    write!(stderr(), "{}", printable(prompt))?;
    // In a separate thread, so that Ctrl-C works meanwhile and the echo is restored.
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    let line = read.await.map_err(io::Error::other)??;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

fn unreadable(error: io::Error) -> CliError {
    let message = format!("Cannot read from the terminal: {}.", why(&error));
    CliError::new(Code::Failed, message, NOTHING_DONE, "Give the passphrase in a file instead.")
}

/// Hides what is typed at the terminal while it lives.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin() -> io::Result<Silence> {
        let before = tcgetattr(stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
        Ok(Silence { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A terminal that has gone needs no echo.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
