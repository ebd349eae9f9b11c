//! When the keeper starts a daemon again, and when it stops trying. Nothing here waits, starts or kills: the state machine gets events with
//! their times, and returns actions.
//!
//! A daemon that dies leaves every program on its drives waiting, and with them each global `sync` of the computer. So it is started again
//! within a second. If no daemon came back, or each died as soon as it served, programs would wait forever. So after [`FAILURES_MAX`]
//! failed starts, or [`DEATHS_MAX`] deaths within [`DEATHS_WITHIN`], the keeper closes what it keeps, and programs get errors instead.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Pauses before a start: first so short that programs hardly notice, then longer after failed starts.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(8)];
/// This many starts in a row may fail: no daemon came, or it answered nothing. One more would be of no use.
const FAILURES_MAX: usize = 5;
/// This many deaths of daemons that had come and answered are tolerated: killing one now and then, by hand or for lack of memory, loses
/// nothing.
const DEATHS_MAX: usize = 100;
/// Within this time, a daemon that keeps dying within seconds reaches the limit.
const DEATHS_WITHIN: Duration = Duration::from_secs(600);
/// How long a daemon may take to come: it comes before it opens any drive.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How often to ask a daemon whether it lives.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// A daemon that leaves this many questions unanswered hangs: a minute of running time, on a busy computer as on one that was suspended.
const UNANSWERED_MAX: u32 = 12;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A daemon came and wants to be watched. `ours`: nobody else, such as systemd, starts it again.
    Came {
        /// Whether the keeper must start it again.
        ours: bool,
    },
    /// It answered a question.
    Answered,
    /// It said that it ends on purpose.
    Leaves,
    /// Its connection ended.
    Died,
    /// A started daemon ended with an error.
    Failed,
    /// Time has passed.
    Tick,
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask the daemon whether it lives.
    Ask,
    /// Kill the daemon, which hangs. Its death then arrives as an event like any other.
    Kill,
    /// Start a daemon, because the one before ended like this.
    Start(Why),
    /// Close what is kept, so that requests fail.
    LetGo,
}

/// Why a daemon is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The one before was killed, or crashed.
    Died,
    /// The one before no longer answered.
    Hung,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No daemon is to be started: none ever came, it left on purpose, or somebody else starts it.
    Idle,
    /// A daemon serves.
    Watching { asked: Instant, unanswered: u32 },
    /// A daemon was killed because it hung.
    Killing,
    /// A daemon will be started at that time.
    Pausing { until: Instant, why: Why },
    /// A daemon was started.
    Starting { since: Instant, why: Why },
}

/// The keeper's view of the daemon.
#[derive(Debug)]
pub(super) struct Supervision {
    state: State,
    /// Failed starts in a row.
    failures: usize,
    deaths: VecDeque<Instant>,
}

impl Supervision {
    /// Before any daemon has come.
    pub(super) fn new() -> Self {
        Self { state: State::Idle, failures: 0, deaths: VecDeque::new() }
    }

    /// The action that the event requires.
    pub(super) fn apply(&mut self, now: Instant, event: Event) -> Option<Action> {
        match (event, self.state) {
            (Event::Came { ours: true }, _) => {
                self.state = State::Watching { asked: now, unanswered: 1 };
                Some(Action::Ask)
            }
            (Event::Came { ours: false } | Event::Leaves, _) => {
                (self.state, self.failures) = (State::Idle, 0);
                None
            }
            (Event::Answered, State::Watching { asked, .. }) => {
                self.failures = 0;
                self.state = State::Watching { asked, unanswered: 0 };
                None
            }
            (Event::Died, State::Watching { .. }) => self.failed(now, Why::Died),
            (Event::Died, State::Killing) => self.failed(now, Why::Hung),
            (Event::Failed, State::Starting { why, .. }) => self.failed(now, why),
            (Event::Tick, state) => self.tick(now, state),
            (Event::Answered | Event::Died | Event::Failed, _) => None,
        }
    }

    /// When the passing of time next requires an action.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.state {
            State::Idle | State::Killing => None,
            State::Watching { asked, .. } => Some(asked + ASK_EVERY),
            State::Pausing { until, .. } => Some(until),
            State::Starting { since, .. } => Some(since + START_PATIENCE),
        }
    }

    /// Whether a daemon was started that has not come yet.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting { .. })
    }

    fn tick(&mut self, now: Instant, state: State) -> Option<Action> {
        if self.next().is_none_or(|next| now < next) {
            return None;
        }
        match state {
            State::Watching { unanswered, .. } if unanswered >= UNANSWERED_MAX => {
                self.state = State::Killing;
                Some(Action::Kill)
            }
            State::Watching { unanswered, .. } => {
                self.state = State::Watching { asked: now, unanswered: unanswered + 1 };
                Some(Action::Ask)
            }
            State::Pausing { why, .. } => {
                self.state = State::Starting { since: now, why };
                Some(Action::Start(why))
            }
            State::Starting { why, .. } => self.failed(now, why),
            State::Idle | State::Killing => None,
        }
    }

    fn failed(&mut self, now: Instant, why: Why) -> Option<Action> {
        self.failures += 1;
        self.deaths.push_back(now);
        self.deaths.retain(|death| now.duration_since(*death) < DEATHS_WITHIN);
        if self.failures > FAILURES_MAX || self.deaths.len() > DEATHS_MAX {
            *self = Self::new();
            return Some(Action::LetGo);
        }
        let pause = PAUSES[(self.failures - 1).min(PAUSES.len() - 1)];
        self.state = State::Pausing { until: now + pause, why };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Event = Event::Came { ours: true };

    /// Lets time pass until there is an action.
    fn wait(supervision: &mut Supervision, now: &mut Instant) -> Option<Action> {
        *now = supervision.next()?.max(*now);
        supervision.apply(*now, Event::Tick)
    }

    /// A daemon comes, and answers the first question at once.
    fn comes(supervision: &mut Supervision, now: Instant) {
        assert_eq!(supervision.apply(now, OURS), Some(Action::Ask));
        supervision.apply(now, Event::Answered);
    }

    #[test]
    fn a_daemon_that_dies_is_started_again_within_a_second() {
        let (mut supervision, begun) = (Supervision::new(), Instant::now());
        let mut now = begun;
        supervision.apply(now, OURS);
        assert_eq!(supervision.apply(now, Event::Died), None);
        assert_eq!(wait(&mut supervision, &mut now), Some(Action::Start(Why::Died)));
        assert!(now - begun <= Duration::from_secs(1));
        comes(&mut supervision, now);
        assert_eq!(wait(&mut supervision, &mut now), Some(Action::Ask));
    }

    #[test]
    fn a_daemon_that_leaves_or_is_systemds_is_not_started() {
        for event in [Event::Leaves, Event::Came { ours: false }] {
            let (mut supervision, now) = (Supervision::new(), Instant::now());
            supervision.apply(now, OURS);
            supervision.apply(now, event);
            assert_eq!((supervision.apply(now, Event::Died), supervision.next()), (None, None));
        }
        let mut supervision = Supervision::new();
        assert_eq!((supervision.apply(Instant::now(), Event::Died), supervision.next()), (None, None));
    }

    #[test]
    fn gives_up_in_time_on_a_daemon_that_never_comes() {
        let (mut supervision, begun) = (Supervision::new(), Instant::now());
        let mut now = begun;
        supervision.apply(now, OURS);
        supervision.apply(now, Event::Died);
        let mut starts = 0;
        let last = loop {
            match wait(&mut supervision, &mut now) {
                Some(Action::Start(_)) => starts += 1,
                Some(other) => break other,
                None => assert!(supervision.next().is_some(), "it forgets"),
            }
        };
        assert_eq!((last, starts), (Action::LetGo, FAILURES_MAX));
        assert!(now - begun < Duration::from_secs(300), "programs wait for it");
        assert_eq!(supervision.next(), None);
        // A daemon that a person starts afterwards is watched as before.
        supervision.apply(now, OURS);
        supervision.apply(now, Event::Died);
        assert_eq!(wait(&mut supervision, &mut now), Some(Action::Start(Why::Died)));
    }

    #[test]
    fn gives_up_soon_on_a_daemon_that_fails_at_once() {
        let (mut supervision, begun) = (Supervision::new(), Instant::now());
        let mut now = begun;
        supervision.apply(now, OURS);
        supervision.apply(now, Event::Died);
        let last = loop {
            assert_eq!(wait(&mut supervision, &mut now), Some(Action::Start(Why::Died)));
            if let Some(action) = supervision.apply(now, Event::Failed) {
                break action;
            }
        };
        assert_eq!(last, Action::LetGo);
        assert!(now - begun < Duration::from_secs(60), "programs wait for it");
    }

    #[test]
    fn gives_up_on_frequent_deaths_but_not_on_rare_kills() {
        let deaths = |apart: Duration, answers: bool| {
            let (mut supervision, mut now) = (Supervision::new(), Instant::now());
            for death in 1..=300 {
                match answers {
                    true => comes(&mut supervision, now),
                    false => drop(supervision.apply(now, OURS)),
                }
                now += apart;
                if supervision.apply(now, Event::Died) == Some(Action::LetGo) {
                    return Some(death);
                }
                assert_eq!(wait(&mut supervision, &mut now), Some(Action::Start(Why::Died)));
            }
            None
        };
        assert_eq!(deaths(Duration::from_secs(1), false), Some(FAILURES_MAX + 1));
        assert_eq!(deaths(Duration::from_secs(2), true), Some(DEATHS_MAX + 1));
        assert_eq!(deaths(Duration::from_secs(10), true), None);
    }

    #[test]
    fn a_hanging_daemon_is_killed_in_time_and_started_again() {
        let (mut supervision, begun) = (Supervision::new(), Instant::now());
        let mut now = begun;
        comes(&mut supervision, now);
        while wait(&mut supervision, &mut now) == Some(Action::Ask) {}
        assert_eq!(supervision.next(), None, "it was killed");
        assert!(now - begun <= Duration::from_secs(90));
        assert_eq!(supervision.apply(now, Event::Died), None);
        assert_eq!(wait(&mut supervision, &mut now), Some(Action::Start(Why::Hung)));
    }

    #[test]
    fn late_answers_and_a_sleeping_computer_cause_no_restart() {
        let (mut supervision, mut now) = (Supervision::new(), Instant::now());
        comes(&mut supervision, now);
        for _ in 0..10 {
            for _ in 0..UNANSWERED_MAX {
                assert_eq!(wait(&mut supervision, &mut now), Some(Action::Ask));
            }
            supervision.apply(now, Event::Answered);
        }
        // The keeper itself did not run for a day.
        now += Duration::from_secs(86_400);
        assert_eq!(supervision.apply(now, Event::Tick), Some(Action::Ask));
        assert_eq!(supervision.apply(now, Event::Tick), None);
    }
}
