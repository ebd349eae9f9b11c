//! Invitations and sessions, in memory: with the daemon all of them end.
//!
//! Only hashes are kept: nothing that is read from here lets anybody in, and comparing hashes tells nothing about a secret by the
//! time that it takes.

use data_encoding::BASE64URL_NOPAD;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long an invitation is good: time to copy an address to another window.
pub const TOKEN_LIVES: Duration = Duration::from_secs(5 * 60);
/// How long a session lasts without a request.
const SESSION_RESTS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Whoever invites more browsers than these loses the oldest invitations, or sessions.
const INVITATIONS_MAX: usize = 8;
const SESSIONS_MAX: usize = 32;
/// Nobody guesses 256 bits.
const SECRET_BYTES: usize = 32;

type Hash = [u8; 32];

/// Who may come in, and who is in.
#[derive(Default)]
pub struct Sessions {
    /// Oldest first, each with the moment until which it is good.
    invitations: Vec<(Hash, Instant)>,
    /// The one that was heard of longest ago first, each with that moment.
    sessions: Vec<(Hash, Instant)>,
}

impl Sessions {
    /// A token that is good once.
    pub fn invite(&mut self, now: Instant) -> String {
        let (token, hash) = secret();
        self.invitations.retain(|(_, until)| *until > now);
        push_bounded(&mut self.invitations, (hash, now + TOKEN_LIVES), INVITATIONS_MAX);
        token
    }

    /// The secret of a new session, if the token is good. It is not any more afterwards.
    pub fn begin(&mut self, token: &str, now: Instant) -> Option<String> {
        let hash = hash(token);
        let at = self.invitations.iter().position(|(invitation, _)| *invitation == hash)?;
        let (_, until) = self.invitations.remove(at);
        if until <= now {
            return None;
        }
        let (secret, hash) = secret();
        push_bounded(&mut self.sessions, (hash, now), SESSIONS_MAX);
        Some(secret)
    }

    /// Whether this is the secret of a session. It lasts from here on.
    pub fn is_in(&mut self, secret: &str, now: Instant) -> bool {
        self.sessions.retain(|(_, heard)| now.saturating_duration_since(*heard) < SESSION_RESTS);
        let hash = hash(secret);
        let Some(at) = self.sessions.iter().position(|(session, _)| *session == hash) else {
            return false;
        };
        self.sessions.remove(at);
        self.sessions.push((hash, now));
        true
    }

    /// Nobody is in any more, and nobody is invited.
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

    #[test]
    fn a_token_is_good_once() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let token = sessions.invite(now);
        assert!(sessions.begin("another", now).is_none());
        let session = sessions.begin(&token, now).unwrap();
        assert!(sessions.begin(&token, now).is_none());
        assert!(sessions.is_in(&session, now));
        assert!(!sessions.is_in(&token, now) && !sessions.is_in("", now));
    }

    #[test]
    fn a_token_is_good_for_five_minutes() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let (in_time, late) = (sessions.invite(now), sessions.invite(now));
        assert!(sessions.begin(&in_time, now + TOKEN_LIVES - Duration::from_secs(1)).is_some());
        assert!(sessions.begin(&late, now + TOKEN_LIVES).is_none());
        assert!(sessions.begin(&late, now).is_none(), "it was used up");
    }

    #[test]
    fn a_session_lasts_while_it_is_used() {
        let (mut sessions, mut now) = (Sessions::default(), Instant::now());
        let token = sessions.invite(now);
        let session = sessions.begin(&token, now).unwrap();
        for _ in 0..3 {
            now += SESSION_RESTS / 2;
            assert!(sessions.is_in(&session, now));
        }
        assert!(!sessions.is_in(&session, now + SESSION_RESTS));
    }

    #[test]
    fn there_are_only_so_many_of_both() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
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
