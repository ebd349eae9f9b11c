//! The state of a drive, why it is in that state, and what a person can do about it: one pure function of facts.

use crate::api::{self, Action, Actions, Code, DriveState, Failure};
use crate::daemon::failure;
use crate::daemon::stores::renewable::Hindrance;
use crate::sizes::format_bytes;
use holdall_core::family::FamilyError;
use holdall_gui::advice;

#[cfg(test)]
mod tests;

/// Shown while credentials are missing.
const UPLOADS_WAIT: &str = "your files on this computer are safe, and uploads wait";
/// Shown while the store refuses what a drive needs.
const UPLOADS_CONTINUE: &str =
    "your files on this computer are safe, and uploads continue by themselves once this is fixed";
/// Shown for a version that is only looked at, while the drive has a pending upload.
const WAITS_FOR_LOOK: &str = "changes that are only on this computer are uploaded once it is closed";
/// Shown for such a version while its store refuses requests.
const LACKS_REST: &str = "files that are not on this computer cannot be read now";
/// Shown for a drive that was open when the service ended.
const RECOVERS: &str = "it was open before a restart; saved files are being recovered";
/// From this fill level on (per mille of its limit), well before it slows writes, a filling journal is announced ...
pub const JOURNAL_WARNS: u64 = 600;
/// ... and once more when it is nearly full.
pub const JOURNAL_IS_NEARLY_FULL: u64 = 900;

/// The phase of a drive, as far as the engine does not know it.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Not open.
    Closed,
    /// Being opened.
    Connecting,
    /// The same for a drive that was open when the service ended: what was saved then is used.
    Recovering,
    /// Open.
    Open,
    /// Unmounted; the rest is being uploaded.
    Draining,
    /// It could not be opened again.
    Failed(Failure),
}

/// Everything that decides the state of a drive.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its name on this device.
    pub name: String,
    /// The address of its store.
    pub store: String,
    /// The operation under way, or what went wrong, apart from the engine.
    pub phase: Phase,
    /// The engine, while it runs.
    pub engine: Option<Engine>,
    /// Why uploads and background downloads are off.
    pub paused: Option<&'static str>,
    /// An obstacle at the store that only a person can remove.
    pub hindrance: Option<Hindrance>,
    /// Why it is open only to look at, although writing was asked for.
    pub looks_because: Option<String>,
    /// Whether changes wait for upload, those in the kernel's memory included.
    pub has_unsent: bool,
    /// The same amount, for people.
    pub unsent: String,
    /// A warning about its pins.
    pub pins: Option<String>,
    /// What its file system is short of, and the remedy.
    pub full: Option<(String, Action)>,
    /// The device that has taken the drive over, while a fork is open in its place.
    pub taken_by: Option<String>,
    /// Whether this device has forks of the drive.
    pub has_forks: bool,
}

/// What the engine says.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    /// Its uploads; `None` if it is open to look at.
    pub uploads: Option<Uploads>,
    /// Trouble with the local disk.
    pub local_trouble: Option<String>,
    /// Why the store cannot be read now.
    pub pull_trouble: Option<String>,
    /// Damage that a read has found.
    pub pull_damage: Option<String>,
    /// Bytes that wait for upload.
    pub unpushed_bytes: u64,
    /// Bytes in the journal, and the most that it takes.
    pub journal_bytes: u64,
    /// The most that the journal takes.
    pub journal_limit_bytes: u64,
    /// Whether all names of files and directories are here.
    pub has_metadata: bool,
    /// Whether there are more of them than this computer keeps.
    pub has_more_metadata: bool,
    /// Bytes of them that do not fit the cache.
    pub metadata_without_room_bytes: u64,
    /// The smallest cache that all of them fit.
    pub least_cache_bytes: u64,
    /// Whether a program that reads the beginnings of many files is slowed down.
    pub slows_scan: bool,
}

/// The uploads of an engine that was opened for writing.
#[derive(Clone, Debug, Default)]
pub struct Uploads {
    /// Why they have stopped for good.
    pub stopped: Option<Failure>,
    /// Why they make no progress now.
    pub trouble: Option<String>,
    /// Whether a batch is under way.
    pub is_pushing: bool,
}

/// The state of a drive, as people see it.
#[derive(Debug)]
pub struct Condition {
    /// The state.
    pub state: DriveState,
    /// Why it is in that state, where the state alone does not say so.
    pub why: Option<Why>,
    /// Whether a login at its store helps.
    pub needs_login: bool,
}

/// Why a drive is in its state, and what to do about it.
#[derive(Debug)]
pub struct Why {
    /// The reason, as part of a sentence or as a sentence.
    pub reason: String,
    /// What to do.
    pub advice: Option<api::Advice>,
}

impl Why {
    /// With what to do about it.
    fn and_do(reason: String, actions: impl Into<Actions>) -> Self {
        let actions = actions.into();
        let on_screen = advice::steps(&actions.0);
        Self { reason, advice: Some(api::Advice::new(None, actions, on_screen)) }
    }

    fn and(self, more: &str) -> Self {
        Self { reason: format!("{}; {more}", self.reason), ..self }
    }
}

impl From<&str> for Why {
    fn from(reason: &str) -> Self {
        Self { reason: reason.to_owned(), advice: None }
    }
}

impl From<Failure> for Why {
    fn from(failure: Failure) -> Self {
        let Failure { message, consequence, actions, on_screen, .. } = advice::shown(failure);
        let advice = api::Advice::new(Some(consequence), actions, on_screen.into_vec());
        Self { reason: message, advice: Some(advice) }
    }
}

/// The state of a drive. The engine and the phase come first; what a person must do about the store, a fork and warnings then change it.
pub fn condition(facts: &Facts) -> Condition {
    let is_directory = failure::is_directory(&facts.store);
    let (state, why) = of_phase(facts);
    let lacks_login = matches!(&facts.phase, Phase::Failed(failure) if failure.code == Code::Credentials);
    let condition = Condition { state, why, needs_login: !is_directory && lacks_login };
    let condition = match state {
        DriveState::Offline => offline(condition, facts),
        DriveState::ReadOnly => read_only(condition, facts),
        DriveState::Ready | DriveState::Syncing => warned(condition, facts),
        _ => condition,
    };
    let mut condition = forked(condition, facts);
    // Only with a fork are both versions kept, and can be compared.
    if condition.state == DriveState::Conflict && !facts.has_forks {
        condition.state = DriveState::NeedsAttention;
    }
    condition
}

/// The obstacle at the store. A directory has no login: the file system that it is on must let this user in.
fn hindrance(facts: &Facts) -> Option<Hindrance> {
    match facts.hindrance.clone()? {
        Hindrance::Credentials(what) if failure::is_directory(&facts.store) => Some(Hindrance::Store(what)),
        hindrance => Some(hindrance),
    }
}

/// An open drive whose store cannot be used. If waiting does not help, a person must act.
fn offline(condition: Condition, facts: &Facts) -> Condition {
    let Some(hindrance) = hindrance(facts).filter(|_| facts.engine.is_some()) else { return condition };
    let (why, needs_login) = match hindrance {
        Hindrance::Credentials(what) => {
            let login = Action::LogIn { store: Some(facts.store.clone()) };
            (Why::and_do(format!("{what}; {UPLOADS_WAIT}"), login), true)
        }
        Hindrance::Keyring { what, actions } => {
            (Why::and_do(format!("{what}; {UPLOADS_WAIT}"), actions), condition.needs_login)
        }
        Hindrance::Store(what) => (Why::from(&*what).and(UPLOADS_CONTINUE), condition.needs_login),
        Hindrance::Emptied => {
            let emptied = failure::known_family(&FamilyError::None);
            (failure::named(emptied, &facts.name, &facts.store).into(), condition.needs_login)
        }
    };
    Condition { state: DriveState::NeedsAttention, why: Some(why), needs_login }
}

/// A drive that is open to look at, or that another device holds.
fn read_only(condition: Condition, facts: &Facts) -> Condition {
    let Condition { state, why, mut needs_login } = condition;
    let mut why = facts.looks_because.as_deref().map(Why::from).or(why);
    let hindrance = hindrance(facts);
    let engine = facts.engine.as_ref();
    if let Some(trouble) = engine.and_then(|engine| engine.pull_trouble.as_ref()) {
        needs_login |= matches!(hindrance, Some(Hindrance::Credentials(_)));
        let trouble = match &hindrance {
            Some(Hindrance::Credentials(what) | Hindrance::Store(what) | Hindrance::Keyring { what, .. }) => {
                what
            }
            Some(Hindrance::Emptied) | None => trouble,
        };
        why = why.map(|why| why.and(&format!("{LACKS_REST}: {trouble}")));
    } else if let Some(damage) = engine.and_then(|engine| engine.pull_damage.as_ref()) {
        why = why.map(|why| why.and(damage));
    }
    if facts.has_unsent {
        why = why.map(|why| why.and(WAITS_FOR_LOOK));
    }
    Condition { state, why, needs_login }
}

/// A drive that works, with warnings about its pins and its free space.
fn warned(condition: Condition, facts: &Facts) -> Condition {
    let kept = || [Action::Pins { drive: Some(facts.name.clone()) }, Action::GrowCache { size: None }];
    let pins = facts.pins.clone().map(|reason| Why::and_do(reason, kept()));
    // The names of files may never arrive if what is kept leaves no space for them.
    let waits = facts.engine.as_ref().is_some_and(|engine| !engine.has_metadata);
    let why = if waits { pins.or(condition.why) } else { condition.why.or(pins) };
    let full = facts.full.clone().map(|(reason, action)| Why::and_do(reason, action));
    Condition { why: why.or(full), ..condition }
}

/// A drive with a fork in its place.
fn forked(condition: Condition, facts: &Facts) -> Condition {
    let Some(by) = facts.taken_by.as_ref().filter(|_| condition.state != DriveState::NeedsAttention) else {
        return condition;
    };
    let uploads = match facts.has_unsent {
        false => "all of it is uploaded".to_owned(),
        true => format!("{} are being uploaded", facts.unsent),
    };
    let reason =
        format!("{by} has taken the drive over; your changes continue here as a fork, and {uploads}");
    let why = Why::and_do(reason, Action::Forks { drive: Some(facts.name.clone()) });
    Condition { state: DriveState::Conflict, why: Some(why), ..condition }
}

fn of_phase(facts: &Facts) -> (DriveState, Option<Why>) {
    match (&facts.phase, &facts.engine) {
        (Phase::Connecting, _) => (DriveState::Connecting, None),
        (Phase::Recovering, _) => (DriveState::Recovering, Some(RECOVERS.into())),
        (Phase::Failed(failure), _) => {
            let state = match failure.code {
                Code::Offline => DriveState::Offline,
                Code::Conflict => DriveState::Conflict,
                Code::Held => DriveState::ReadOnly,
                _ => DriveState::NeedsAttention,
            };
            (state, Some(failure.clone().into()))
        }
        (Phase::Closed, _) | (_, None) => (DriveState::Closed, None),
        // Without uploads, nothing is left to do but to close.
        (Phase::Draining, Some(engine)) if engine.uploads.is_none() => (DriveState::Closed, None),
        (Phase::Draining, Some(engine)) => match of_engine(engine, facts) {
            (DriveState::Ready | DriveState::Syncing, _) => {
                let waiting = format!("{} is still being uploaded", format_bytes(engine.unpushed_bytes));
                (DriveState::Closed, (engine.unpushed_bytes > 0).then(|| Why::from(&*waiting)))
            }
            trouble => trouble,
        },
        (Phase::Open, Some(engine)) => of_engine(engine, facts),
    }
}

fn of_engine(engine: &Engine, facts: &Facts) -> (DriveState, Option<Why>) {
    let Some(uploads) = &engine.uploads else {
        return (DriveState::ReadOnly, Some("it was opened read-only".into()));
    };
    if let Some(stopped) = &uploads.stopped {
        let stopped = failure::named(stopped.clone(), &facts.name, &facts.store);
        return (DriveState::NeedsAttention, Some(stopped.into()));
    }
    if let Some(trouble) = &engine.local_trouble {
        return (DriveState::NeedsAttention, Some((&**trouble).into()));
    }
    let filling = filling(engine);
    // A person can do something about the cause of the filling.
    let because = |why: Why| match &filling {
        Some(filling) => Some(why.and(filling)),
        None => Some(why),
    };
    if let Some(trouble) = uploads.trouble.as_ref().or(engine.pull_trouble.as_ref()) {
        return (DriveState::Offline, because((&**trouble).into()));
    }
    if let Some(damage) = &engine.pull_damage {
        let why = Why::and_do(damage.clone(), Action::Check { drive: Some(facts.name.clone()) });
        return (DriveState::NeedsAttention, because(why));
    }
    if let Some(why) = facts.paused {
        return (DriveState::Paused, because(why.into()));
    }
    let too_small = (engine.metadata_without_room_bytes > 0).then(|| too_small(engine));
    let too_many = engine.has_more_metadata.then(|| {
        Why::from(
            "the drive has more folders than this computer keeps: without the store, some cannot be listed",
        )
    });
    if !engine.has_metadata && too_small.is_none() && too_many.is_none() {
        let why = filling.as_deref().unwrap_or("folder listings are being downloaded");
        return (DriveState::Syncing, Some(why.into()));
    }
    let slowed = engine.slows_scan.then(|| {
        Why::and_do(
            "a program reads the beginnings of many files and is slowed down".to_owned(),
            Action::Indexers,
        )
    });
    let filling = filling.as_deref().map(Why::from);
    match uploads.is_pushing {
        true => (DriveState::Syncing, filling.or(too_small).or(too_many)),
        false => (DriveState::Ready, filling.or(too_small).or(too_many).or(slowed)),
    }
}

/// A warning about a journal that fills up.
fn filling(engine: &Engine) -> Option<String> {
    let per_mille = engine.journal_bytes * 1000 / engine.journal_limit_bytes.max(1);
    (per_mille >= JOURNAL_WARNS).then(|| {
        format!(
            "the space for pending uploads is {} % full; at 100 %, saving waits for uploads",
            per_mille / 10
        )
    })
}

fn too_small(engine: &Engine) -> Why {
    let (lacking, least) = (engine.metadata_without_room_bytes, engine.least_cache_bytes);
    let (lacking, least) = (format_bytes(lacking), format_bytes(least + least / 10));
    Why::and_do(
        format!(
            "the cache is too small for all folder listings ({lacking} does not fit): it needs {least} or more"
        ),
        Action::GrowCache { size: Some(least) },
    )
}
