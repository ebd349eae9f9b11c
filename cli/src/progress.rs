//! Shows a request's progress: a bar on a terminal, lines of JSON with --json, nothing in a pipe.

use crate::api::{Line, Progress, Unit};
use crate::printable::printable;
use crate::sizes::format_duration;
use holdall_gui::rates::Meter;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Where progress goes.
#[derive(Debug)]
pub struct Reporter {
    json: bool,
    bar: ProgressBar,
    /// Measures the rate, with times since `begun`.
    meter: RefCell<Meter>,
    begun: Instant,
    /// For a person who interrupts the command.
    last: RefCell<Option<Progress>>,
    phase: Cell<Phase>,
}

/// How far a command has got, for its interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing that changes anything has been requested yet.
    Preparing,
    /// The daemon has got the request.
    Requested,
    /// A drive is being served, until it is interrupted.
    Serving,
}

impl Reporter {
    /// Shows nothing before there is progress.
    pub fn new(json: bool) -> Reporter {
        let visible = !json && stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        Reporter {
            json,
            bar,
            meter: RefCell::default(),
            begun: Instant::now(),
            last: RefCell::new(None),
            phase: Cell::new(Phase::Preparing),
        }
    }

    /// Shows new progress.
    pub fn show(&self, progress: Progress) {
        if self.json {
            let line = serde_json::to_string(&Line::Progress(progress.clone()));
            // If standard error was closed, nobody wants the progress, but the result still counts.
            let _ = writeln!(stderr(), "{}", line.expect("progress is made of strings and numbers"));
        } else {
            self.draw(&progress);
        }
        *self.last.borrow_mut() = Some(progress);
    }

    /// The work has ended, well or not.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// The last known progress.
    pub fn last(&self) -> Option<Progress> {
        self.last.borrow().clone()
    }

    /// Enters the next phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// The present phase.
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
        // Before the first drawing of a stage, or it would show the numbers of another stage.
        if begins || self.bar.is_finished() {
            self.bar.set_style(style(progress));
            self.bar.set_length(progress.total);
            self.bar.reset();
            self.bar.set_message(printable(&progress.stage));
            self.meter.borrow_mut().clear();
        }
        if progress.total > 0 {
            self.bar.set_length(progress.total);
        }
        let mut meter = self.meter.borrow_mut();
        meter.sample(self.begun.elapsed(), progress.done);
        self.bar.set_prefix(left(&meter, progress));
        self.bar.set_position(progress.done);
    }
}

/// The remaining time in words: empty unless the estimate can be trusted.
fn left(meter: &Meter, progress: &Progress) -> String {
    let time = meter.time_left(progress.total.saturating_sub(progress.done));
    time.map_or_else(String::new, |time| format!(", {} left", format_duration(time)))
}

fn style(progress: &Progress) -> ProgressStyle {
    let template = match (progress.unit, progress.total) {
        (Unit::Bytes, 0) => "{spinner} {msg} {binary_bytes}",
        (Unit::Items, 0) => "{spinner} {msg} {human_pos}",
        (Unit::Bytes, _) => "{msg} {bar:32} {binary_bytes} of {binary_total_bytes}{prefix}",
        (Unit::Items, _) => "{msg} {bar:32} {human_pos} of {human_len}{prefix}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates are literals");
    style.progress_chars("━╸─")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_remaining_time_is_shown_while_progress_is_steady() {
        let told = |done: fn(u64) -> u64| {
            let (mut meter, mut last) = (Meter::default(), 0);
            for second in 0..=10 {
                last = done(second);
                meter.sample(Duration::from_secs(second), last);
            }
            let progress =
                Progress { stage: "Uploading".to_owned(), done: last, total: 100, unit: Unit::Items };
            left(&meter, &progress)
        };
        assert_eq!(told(|second| second), ", 2 min left");
        // Progress all at once, as of data that was here already, says nothing about the rest.
        assert_eq!(told(|second| if second == 0 { 0 } else { 50 }), "");
        assert_eq!(told(|_| 0), "");
    }

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
