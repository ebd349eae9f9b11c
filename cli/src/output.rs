//! Prints results: a JSON document or text on standard output, errors on standard error.

use super::objects::shortened;
use super::printable::{printable, printable_json};
use crate::api::{Actions, Failure};
use crate::failure::CliError;
use holdall_client::failure::not_understood;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write, stderr, stdout};

/// How results are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// As JSON.
    pub json: bool,
    /// With colour.
    pub paint: Paint,
    /// With the full names of objects.
    pub verbose: bool,
}

impl Output {
    /// Colour only for a person who has not declined it (<https://no-color.org>).
    pub fn new(json: bool, verbose: bool) -> Output {
        let declined = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Output { json, paint: Paint(stdout().is_terminal() && !declined && !json), verbose }
    }

    /// Prints a daemon's result: unchanged with --json, otherwise in the words of `show`.
    pub fn result<T: DeserializeOwned>(
        &self,
        value: &Value,
        show: impl FnOnce(&T, Paint) -> String,
    ) -> Result<T, CliError> {
        // Parsed even if it is printed unchanged: commands derive their exit codes from it.
        let typed: T =
            serde_json::from_value(value.clone()).map_err(|error| not_understood(&error.to_string()))?;
        match self.json {
            true => self.line(&value.to_string())?,
            false => self.words(&show(&typed, self.paint))?,
        }
        Ok(typed)
    }

    /// Prints a result that only says that the work is done.
    pub fn done(&self, value: &Value, text: &str) -> Result<(), CliError> {
        if self.json { self.line(&value.to_string()) } else { self.words(text) }
    }

    /// Prints text for people.
    pub fn words(&self, text: &str) -> Result<(), CliError> {
        self.line(&self.readable(text))
    }

    fn readable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.verbose { text.into() } else { shortened(text) }
    }

    /// Prints text with a line end; prints nothing if it is empty.
    pub fn line(&self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        let text = match (stdout().is_terminal(), self.json) {
            (false, _) => text.into(),
            (true, true) => Cow::from(printable_json(text)),
            (true, false) => Cow::from(printable(text)),
        };
        let mut out = stdout().lock();
        // Flushed here, because an error at exit would go unnoticed.
        writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()).map_err(CliError::from)
    }

    /// Prints a failure: three lines, or one object.
    pub fn failure(&self, failure: &Failure) {
        let text = match self.json {
            true => serde_json::to_string(failure).expect("a failure is made of strings"),
            false => {
                let text = three_lines(&failure.message, &failure.consequence, &failure.action);
                self.readable(&text).into_owned()
            }
        };
        complain(&text);
    }

    /// Prints the consequence of an interruption. The contract does not count it as a failure, so its code is not an `api::Code`.
    pub fn interrupted(&self, message: &str, consequence: &str, actions: Actions) {
        let action = &*actions.sentences();
        complain(&match self.json {
            true => {
                json!({"code": "interrupted", "message": message, "consequence": consequence, "action": action, "actions": actions.0})
                    .to_string()
            }
            false => three_lines(message, consequence, action),
        });
    }
}

fn three_lines(message: &str, consequence: &str, action: &str) -> String {
    let lines = [message, consequence, action];
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn complain(text: &str) {
    let text = if stderr().is_terminal() { Cow::from(printable(text)) } else { text.into() };
    // There is nowhere left to report that this failed.
    let _: io::Result<()> = writeln!(stderr(), "{text}");
}

/// Whether to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(pub bool);

/// The meaning of a colour; it only repeats what an icon and a word say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// All is well.
    Good,
    /// Something is under way, or waits.
    Busy,
    /// A person has to act.
    Bad,
    /// Not in use.
    Dim,
}

impl Hue {
    /// The terminal's code for each, in order, and the one that ends them.
    pub(super) const CODES: [&str; 5] = ["\x1b[32m", "\x1b[33m", "\x1b[31;1m", "\x1b[2m", "\x1b[0m"];
}

impl Paint {
    /// `text` in a colour.
    pub fn hue(self, hue: Hue, text: &str) -> String {
        let [good, busy, bad, dim, end] = Hue::CODES;
        let code = match hue {
            Hue::Good => good,
            Hue::Busy => busy,
            Hue::Bad => bad,
            Hue::Dim => dim,
        };
        if self.0 { format!("{code}{text}{end}") } else { text.to_owned() }
    }
}
