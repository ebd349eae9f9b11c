//! Invitations and sessions. Sessions outlive the daemon ([`super::keeping`]), and so use the wall clock; invitations end with the daemon.
//!
//! Only hashes are kept: nothing that is read from here lets anybody in, and the time that comparing hashes takes says nothing about a
//! secret.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime};
use zeroize::Zeroizing;

/// How long an invitation is valid: time to copy an address to another window.
pub const TOKEN_LIVES: Duration = Duration::from_secs(5 * 60);
/// How long a session lasts without a request.
const SESSION_RESTS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Inviting more browsers than these drops the oldest invitations or sessions.
const INVITATIONS_MAX: usize = 8;
const SESSIONS_MAX: usize = 32;
/// Nobody guesses 256 bits.
const SECRET_BYTES: usize = 32;

type Hash = [u8; 32];

/// How much the saved time of a session's last request may lag behind: a page sends many requests a second.
const WRITTEN_DOWN_EVERY: Duration = Duration::from_secs(3600);

/// A time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    instant: Instant,
    /// Since 1970; the next daemon has the same clock.
    wall: Duration,
}

impl Now {
    /// The current time.
    pub fn read() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), wall }
    }
}

/// A session as it is saved for the next daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The BLAKE3 hash of its secret, in hex.
    hash: String,
    /// When it last sent a request, in seconds since 1970.
    heard_s: u64,
}

/// The invitations and the sessions.
#[derive(Default)]
pub struct Sessions {
    /// Oldest first, each with the time until which it is valid.
    invitations: Vec<(Hash, Instant)>,
    /// The one that has been silent for longest first, each with the time of its last request.
    sessions: Vec<(Hash, Duration)>,
    /// Whether the saved state is out of date.
    changed: bool,
}

impl Sessions {
    /// A token that is valid once.
    pub fn invite(&mut self, now: Now) -> String {
        let (token, hash) = secret();
        let now = now.instant;
        self.invitations.retain(|(_, until)| *until > now);
        push_bounded(&mut self.invitations, (hash, now + TOKEN_LIVES), INVITATIONS_MAX);
        token
    }

    /// The secret of a new session, if the token is valid. This uses the token up.
    pub fn begin(&mut self, token: &str, now: Now) -> Option<String> {
        let hash = hash(token);
        let at = self.invitations.iter().position(|(invitation, _)| *invitation == hash)?;
        let (_, until) = self.invitations.remove(at);
        (until > now.instant).then(|| self.sign_in(now))
    }

    /// The secret of a new session.
    pub fn sign_in(&mut self, now: Now) -> String {
        let (secret, hash) = secret();
        push_bounded(&mut self.sessions, (hash, now.wall), SESSIONS_MAX);
        self.changed = true;
        secret
    }

    /// Whether this is the secret of a session. Renews the session.
    pub fn is_in(&mut self, secret: &str, now: Now) -> bool {
        self.sessions.retain(|(_, heard)| now.wall.saturating_sub(*heard) < SESSION_RESTS);
        let hash = hash(secret);
        let Some(at) = self.sessions.iter().position(|(session, _)| *session == hash) else {
            return false;
        };
        let (_, heard) = self.sessions[at];
        if now.wall.abs_diff(heard) >= WRITTEN_DOWN_EVERY {
            self.changed = true;
            self.sessions.remove(at);
            self.sessions.push((hash, now.wall));
        }
        true
    }

    /// The sessions of a former daemon. A clock that was set back makes none last longer than a session that begins now.
    pub fn recall(kept: &[Kept], now: Now) -> Self {
        let session = |kept: &Kept| {
            let hash: Hash = HEXLOWER.decode(kept.hash.as_bytes()).ok()?.try_into().ok()?;
            Some((hash, Duration::from_secs(kept.heard_s).min(now.wall)))
        };
        let mut sessions: Vec<_> = kept.iter().filter_map(session).collect();
        sessions.retain(|(_, heard)| now.wall.saturating_sub(*heard) < SESSION_RESTS);
        sessions.sort_by_key(|(_, heard)| *heard);
        let surplus = sessions.len().saturating_sub(SESSIONS_MAX);
        Self { sessions: sessions.split_off(surplus), ..Self::default() }
    }

    /// The sessions to save for the next daemon.
    pub fn kept(&self) -> Vec<Kept> {
        let kept =
            |(hash, heard): &(Hash, Duration)| Kept { hash: HEXLOWER.encode(hash), heard_s: heard.as_secs() };
        self.sessions.iter().map(kept).collect()
    }

    /// Whether they differ from what was last saved.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The sessions to save, if something has changed since the last call.
    pub fn take_changed(&mut self) -> Option<Vec<Kept>> {
        std::mem::take(&mut self.changed).then(|| self.kept())
    }

    /// Ends all sessions and invitations.
    pub fn end_all(&mut self) {
        *self = Self::default();
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T, max: usize) {
    if list.len() == max {
        list.remove(0);
    }
    list.push(item);
}

fn secret() -> (String, Hash) {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    holdall_core::entropy::fill(&mut *bytes);
    let text = BASE64URL_NOPAD.encode(&*bytes);
    let hash = hash(&text);
    (text, hash)
}

fn hash(text: &str) -> Hash {
    blake3::hash(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl std::ops::Add<Duration> for Now {
        type Output = Now;

        fn add(self, later: Duration) -> Now {
            Now { instant: self.instant + later, wall: self.wall + later }
        }
    }

    #[test]
    fn a_token_is_good_once() {
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let token = sessions.invite(now);
        assert!(sessions.begin("another", now).is_none());
        let session = sessions.begin(&token, now).unwrap();
        assert!(sessions.begin(&token, now).is_none());
        assert!(sessions.is_in(&session, now));
        assert!(!sessions.is_in(&token, now) && !sessions.is_in("", now));
    }

    #[test]
    fn a_token_is_good_for_five_minutes() {
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let (in_time, late) = (sessions.invite(now), sessions.invite(now));
        assert!(sessions.begin(&in_time, now + (TOKEN_LIVES - Duration::from_secs(1))).is_some());
        assert!(sessions.begin(&late, now + TOKEN_LIVES).is_none());
        assert!(sessions.begin(&late, now).is_none(), "it was used up");
    }

    #[test]
    fn a_session_lasts_while_it_is_used() {
        let (mut sessions, mut now) = (Sessions::default(), Now::read());
        let token = sessions.invite(now);
        let session = sessions.begin(&token, now).unwrap();
        for _ in 0..3 {
            now = now + SESSION_RESTS / 2;
            assert!(sessions.is_in(&session, now));
        }
        assert!(!sessions.is_in(&session, now + SESSION_RESTS));
    }

    #[test]
    fn the_next_daemon_knows_sessions_and_no_invitations() {
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let (token, unused) = (sessions.invite(now), sessions.invite(now));
        let session = sessions.begin(&token, now).unwrap();
        let kept = sessions.take_changed().expect("somebody is in who was not");
        assert!(!format!("{kept:?}").contains(&session), "only hashes are kept");
        let mut next = Sessions::recall(&kept, now + Duration::from_secs(60));
        assert!(next.begin(&unused, now).is_none());
        assert!(next.is_in(&session, now + Duration::from_secs(60)));
        assert!(next.take_changed().is_none(), "a minute is not written down");
        assert!(next.is_in(&session, now + WRITTEN_DOWN_EVERY));
        assert!(next.take_changed().is_some());
        let mut late = Sessions::recall(&kept, now + SESSION_RESTS);
        assert!(!late.is_in(&session, now + SESSION_RESTS), "time goes on without a daemon");
    }

    #[test]
    fn setting_the_clock_back_makes_no_session_last_longer() {
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let ahead = now + SESSION_RESTS * 100;
        let token = sessions.invite(ahead);
        let session = sessions.begin(&token, ahead).unwrap();
        let mut next = Sessions::recall(&sessions.kept(), now);
        assert!(!next.is_in(&session, now + SESSION_RESTS));
    }

    #[test]
    fn the_number_of_invitations_and_sessions_is_limited() {
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let first = sessions.invite(now);
        let others: Vec<_> = (0..INVITATIONS_MAX).map(|_| sessions.invite(now)).collect();
        assert!(sessions.begin(&first, now).is_none());
        let oldest = sessions.begin(&others[0], now).unwrap();
        for _ in 0..SESSIONS_MAX {
            let token = sessions.invite(now);
            sessions.begin(&token, now).unwrap();
        }
        assert!(!sessions.is_in(&oldest, now));
        sessions.end_all();
        assert!(sessions.begin(&others[1], now).is_none());
    }
}
