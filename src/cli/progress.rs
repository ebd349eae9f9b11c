//! Shows how far a request is: a bar on a terminal, lines of JSON with --json, nothing in a pipe.

use crate::api::{Line, Progress, Unit};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

/// Where progress goes.
#[derive(Debug)]
pub struct Reporter {
    json: bool,
    bar: ProgressBar,
    /// What a person who interrupts wants to know.
    last: RefCell<Option<Progress>>,
    phase: Cell<Phase>,
}

/// What an interruption can have interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing that changes anything has been asked of the daemon yet.
    Preparing,
    /// It has.
    Requested,
    /// A drive is being served, which is meant to be interrupted.
    Serving,
}

impl Reporter {
    /// Nothing is shown before there is progress.
    pub fn new(json: bool) -> Reporter {
        let visible = !json && stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        Reporter { json, bar, last: RefCell::new(None), phase: Cell::new(Phase::Preparing) }
    }

    /// It is so far now.
    pub fn show(&self, progress: Progress) {
        if self.json {
            let line = serde_json::to_string(&Line::Progress(progress.clone()));
            // Whoever closed standard error does not care, and the result still counts.
            let _ = writeln!(stderr(), "{}", line.expect("progress is made of strings and numbers"));
        } else {
            self.draw(&progress);
        }
        *self.last.borrow_mut() = Some(progress);
    }

    /// It has ended, well or not.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// How far it was when it was last heard of.
    pub fn last(&self) -> Option<Progress> {
        self.last.borrow().clone()
    }

    /// The command has got further.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// How far the command has got.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    fn draw(&self, progress: &Progress) {
        let begins = match &*self.last.borrow() {
            Some(last) => {
                (&last.stage, last.unit, last.total == 0)
                    != (&progress.stage, progress.unit, progress.total == 0)
            }
            None => true,
        };
        // Before the first drawing of a stage, or it would show what another one had.
        if begins || self.bar.is_finished() {
            self.bar.set_style(style(progress));
            self.bar.set_length(progress.total);
            self.bar.reset();
            self.bar.set_message(progress.stage.clone());
        }
        if progress.total > 0 {
            self.bar.set_length(progress.total);
        }
        self.bar.set_position(progress.done);
    }
}

/// A beginning says little about how long the rest takes.
const LEFT_AFTER: Duration = Duration::from_secs(3);

fn left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    if state.pos() > 0 && state.elapsed() >= LEFT_AFTER {
        // Where it cannot be written nothing is shown.
        let _ = write!(to, ", {} left", HumanDuration(state.eta()));
    }
}

fn style(progress: &Progress) -> ProgressStyle {
    let template = match (progress.unit, progress.total) {
        (Unit::Bytes, 0) => "{spinner} {msg} {binary_bytes}",
        (Unit::Items, 0) => "{spinner} {msg} {human_pos}",
        (Unit::Bytes, _) => "{msg} {bar:32} {binary_bytes} of {binary_total_bytes}{left}",
        (Unit::Items, _) => "{msg} {bar:32} {human_pos} of {human_len}{left}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates are literals");
    style.progress_chars("━╸─").with_key("left", left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_progress_is_known_and_every_style_is_valid() {
        let reporter = Reporter::new(false);
        for (unit, total) in [(Unit::Bytes, 0), (Unit::Bytes, 9), (Unit::Items, 0), (Unit::Items, 9)] {
            let progress = Progress { stage: "Uploading".to_owned(), done: 3, total, unit };
            reporter.show(progress.clone());
            assert_eq!(reporter.last(), Some(progress));
        }
        reporter.clear();
    }
}
