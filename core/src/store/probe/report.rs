//! What a probe found, for people and for programs.

use serde::{Deserialize, Serialize};

/// How several devices keep apart on this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing keeps them apart but the people who use them: one device at a time.
    None,
    /// By claims: one of all who create the same name wins, and everyone sees it at once.
    Claim,
    /// By compare-and-swap on one object.
    Swap,
}

impl Mode {
    /// What it means for who has a drive there.
    pub fn meaning(self) -> &'static str {
        match self {
            Mode::Swap => "several computers may try to open a drive at once: exactly one gets it",
            Mode::Claim => {
                "several computers may try to open a drive at once: exactly one gets it, by claims that each save looks at"
            }
            Mode::None => {
                "one computer at a time: this store cannot keep two apart, so close a drive on one computer before you open it on another; if two write all the same, both versions are kept"
            }
        }
    }
}

/// What a store can do, and how that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How several devices keep apart.
    pub mode: Mode,
    /// Why it is not a better mode, and what else a person should know.
    pub reasons: Vec<String>,
    /// The shortest round trip, in microseconds.
    pub latency_us: u64,
    /// The protocol that protects the connection.
    pub tls: Option<String>,
    /// How far the server's clock is ahead of this computer's, in ms; to a second by HTTP.
    pub clock_ahead_ms: Option<i64>,
    /// Bytes that may still be stored, where the store says so.
    pub free_bytes: Option<u64>,
    /// What the credentials allow. Where they may not write, nothing else was tried.
    pub rights: Rights,
    /// Whether parts of objects are what was asked for.
    pub ranges_exact: bool,
    /// What one connection sees of what another did.
    pub seen: Seen,
    /// Whether what must be refused is.
    pub refused: Refusals,
    /// Who won.
    pub races: Races,
    /// How many names a listing shows, where that was tried.
    #[serde(default)]
    pub names: Option<Names>,
}

impl Report {
    /// Whether a drive can live there at all.
    pub fn is_usable(&self) -> bool {
        let Rights { read, write, list, delete: _ } = self.rights;
        // All protocols rest on what is there being seen, and listed, by others at once, and all of it.
        read && write
            && list
            && self.ranges_exact
            && self.seen.created
            && self.seen.listed
            && self.lists_whole()
    }

    /// Whether a listing has shown all that was there, as far as that was tried.
    pub fn lists_whole(&self) -> bool {
        self.names.is_none_or(|names| names.shown == names.put)
    }
}

/// How many names a listing shows of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// How many there were.
    pub put: u32,
    /// How many of them it showed.
    pub shown: u32,
}

/// What credentials allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// To read objects.
    pub read: bool,
    /// To store them.
    pub write: bool,
    /// To list them.
    pub list: bool,
    /// To delete them.
    pub delete: bool,
}

/// What was seen at once over the second connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// A new object.
    pub created: bool,
    /// A new version of one.
    pub replaced: bool,
    /// Both ways: what is there is listed, and what is not is not.
    pub listed: bool,
    /// That one is gone.
    pub deleted: bool,
}

impl Seen {
    /// What was seen each time.
    pub(super) fn always(looks: &[Seen]) -> Self {
        let all = |seen: fn(&Seen) -> bool| !looks.is_empty() && looks.iter().all(seen);
        Self {
            created: all(|seen| seen.created),
            replaced: all(|seen| seen.replaced),
            listed: all(|seen| seen.listed),
            deleted: all(|seen| seen.deleted),
        }
    }
}

/// Whether what must be refused is, and what must not be is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// To create what is there.
    pub absent: bool,
    /// To replace a version that is not the current one.
    pub matches: bool,
    /// To claim what another has claimed.
    pub claim: bool,
}

/// The races that were run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Races {
    /// To create an object.
    pub absent: Option<Race>,
    /// To replace one version of an object.
    pub matches: Option<Race>,
    /// To make a claim.
    pub claim: Option<Race>,
}

/// A race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Race {
    /// How many took part in each round.
    pub ways: u32,
    /// How many were told in each round that they had won.
    pub winners: Vec<u32>,
    /// Whether an object held other bytes than the only winner's.
    pub overwritten: bool,
}
