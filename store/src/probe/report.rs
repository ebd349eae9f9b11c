//! The findings of a probe, for people and for programs.

use serde::{Deserialize, Serialize};

/// How several devices are kept apart on this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only the people who use them keep devices apart: one device at a time.
    None,
    /// By claims: of all devices that create the same name one wins, and every device sees it at once.
    Claim,
    /// By compare-and-swap on one object.
    Swap,
}

/// The abilities of a store, and the observations that show them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How several devices are kept apart.
    pub mode: Mode,
    /// Why the mode is not a better one, and what else a person should know.
    pub reasons: Vec<String>,
    /// The shortest round trip, in microseconds.
    pub latency_us: u64,
    /// The protocol that protects the connection.
    pub tls: Option<String>,
    /// How far the server's clock is ahead of this computer's, in ms; HTTP gives whole seconds.
    pub clock_ahead_ms: Option<i64>,
    /// Bytes that can still be stored, if the store says so.
    pub free_bytes: Option<u64>,
    /// The rights of the credentials. Unless they may read, write and list, little else was tried.
    pub rights: Rights,
    /// Whether parts of objects are exactly the ones asked for.
    pub ranges_exact: bool,
    /// One connection's view of another one's changes.
    pub seen: Seen,
    /// Whether the store refuses what it must refuse.
    pub refused: Refusals,
    /// The winners of the races.
    pub races: Races,
    /// How many names a listing shows, if that was tried.
    #[serde(default)]
    pub names: Option<Names>,
}

impl Report {
    /// Whether the store can be used at all.
    pub fn is_usable(&self) -> bool {
        let Rights { read, write, list, delete: _ } = self.rights;
        // Its users need other devices to see objects at once, and listings to show at once all that exist.
        read && write
            && list
            && self.ranges_exact
            && self.seen.created
            && self.seen.listed
            && self.lists_whole()
    }

    /// Whether a listing showed every name, as far as that was tried.
    pub fn lists_whole(&self) -> bool {
        self.names.is_none_or(|names| names.shown == names.put)
    }
}

/// How many of the existing names a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// How many names there were.
    pub put: u32,
    /// How many of them the listing showed.
    pub shown: u32,
}

/// The rights of credentials.
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

/// The second connection's immediate view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// A new object.
    pub created: bool,
    /// A new version of one.
    pub replaced: bool,
    /// Existing objects are listed, and deleted ones are not.
    pub listed: bool,
    /// A deletion.
    pub deleted: bool,
}

impl Seen {
    /// The observations that every look made.
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

/// Whether the store refuses what it must refuse, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// To create an object that exists.
    pub absent: bool,
    /// To replace a version that is not the current one.
    pub matches: bool,
    /// To claim what another device has claimed.
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
    /// How many racers took part in each round.
    pub ways: u32,
    /// How many racers per round got the answer that they had won.
    pub winners: Vec<u32>,
    /// Whether an object held other bytes than those of its only winner.
    pub overwritten: bool,
}
