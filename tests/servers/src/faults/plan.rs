//! Faults, and when they happen.

use std::time::Duration;

/// The fault of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut after the request's head. Nothing reaches the server.
    CutBeforeBody,
    /// Half of the body reaches the server, then both connections are cut.
    CutInBody,
    /// The whole request reaches the server, and both connections are cut at once: it may or may not take effect.
    CutAfterBody,
    /// The request takes effect, and its answer is discarded.
    LostAnswer,
    /// The connection is cut after half of the answer's body; without a body, after half of the head.
    ShortAnswer,
    /// The answer comes in this many pieces, with a pause before each.
    Drip {
        /// The number of pieces.
        pieces: usize,
        /// The pause.
        pause: Duration,
    },
    /// No answer, and the connection stays open. Nothing reaches the server.
    Silence,
    /// This status, without asking the server.
    Status {
        /// The status.
        code: u16,
        /// The name of the error in S3.
        error: &'static str,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// The connection is cut, and the request reaches the server after this many later ones, or when
    /// [`super::FaultProxy::release`] is called.
    Zombie {
        /// The number of requests that overtake it.
        later: u64,
    },
    /// The server is asked twice, and the second answer is returned.
    Replayed,
    /// The answer of a hotel's network: 200, and a login page.
    Portal,
    /// The server's answer, under another name (`Server`). Not a fault: it must make no difference.
    Disguised(&'static str),
}

impl Fault {
    /// The credentials are no longer valid (401).
    pub const UNKNOWN: Self = Self::status(401, "Unauthorized");
    /// The credentials do not allow it (403).
    pub const DENIED: Self = Self::status(403, "AccessDenied");
    /// The bucket, or the collection, is gone.
    pub const GONE: Self = Self::status(404, "NoSuchBucket");
    /// The store is full.
    pub const FULL: Self = Self::status(507, "InsufficientStorage");
    /// Come back later, without a time.
    pub const BUSY: Self = Self::status(503, "SlowDown");
    /// The server failed.
    pub const BROKEN: Self = Self::status(500, "InternalError");
    /// Another request was in progress.
    pub const CONFLICT: Self = Self::status(409, "ConditionalRequestConflict");
    /// The server says that a condition did not hold, even if it did.
    pub const PRECONDITION: Self = Self::status(412, "PreconditionFailed");

    const fn status(code: u16, error: &'static str) -> Self {
        Self::Status { code, error, retry_after: None }
    }

    /// Come back in this many seconds: 429 or 503.
    pub const fn come_back(code: u16, seconds: u64) -> Self {
        Self::Status { code, error: "SlowDown", retry_after: Some(seconds) }
    }
}

/// A request, as a plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its number among all requests since the plan was set, from 0.
    pub number: u64,
    /// Its method.
    pub method: String,
    /// Path and query.
    pub target: String,
}

impl Asked {
    /// Whether it changes something.
    pub fn changes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND")
    }
}

/// Gives the fault of each request; none forwards it unharmed.
pub type Plan = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

/// No faults.
pub fn none() -> Plan {
    Box::new(|_| None)
}

/// One request fails.
pub fn at(number: u64, fault: Fault) -> Plan {
    Box::new(move |asked| (asked.number == number).then(|| fault.clone()))
}

/// All requests from this one on fail.
pub fn from(number: u64, fault: Fault) -> Plan {
    Box::new(move |asked| (asked.number >= number).then(|| fault.clone()))
}

/// The first `count` requests that match `which` fail.
pub fn first(count: u64, fault: Fault, which: impl Fn(&Asked) -> bool + Send + 'static) -> Plan {
    let mut left = count;
    Box::new(move |asked| {
        let hit = left > 0 && which(asked);
        left -= u64::from(hit);
        hit.then(|| fault.clone())
    })
}

/// A random `per_mille` of the requests fail, each in one of these ways. The same seed gives the same plan.
pub fn seeded(seed: u64, per_mille: u64, faults: Vec<Fault>) -> Plan {
    let mut state = seed;
    // SplitMix64 (Steele, Lea, Flood 2014): good enough to spread faults, and the same everywhere.
    let mut draw = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    Box::new(move |_| {
        let (hit, which) = (draw() % 1000 < per_mille, draw());
        hit.then(|| faults[which as usize % faults.len()].clone())
    })
}
