//! How requests authenticate: with a bearer token, Basic or Digest, as the server wants.
//!
//! Over https the password goes with the first request (Basic); a server that wants Digest says so once. Over http nothing is sent before
//! the server asks, Digest is preferred, and credentials that others on the way could read (Basic, a token) go only to this very computer.
//! Redirects never carry credentials to another server: see [`super::client`].
//!
//! A Digest nonce serves all requests, each with the next count, until the server replaces it (`stale`, `nextnonce`). A refusal means a
//! wrong password only if the nonce was fresh: a restarted server forgets its nonces without saying so.

use super::challenge::{self, Challenge};
use super::digest::{Ask, Request};
use crate::StoreError;
use crate::connect::ConnectError;
use crate::credentials::Credentials;
use data_encoding::BASE64;
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use std::time::Duration;
use tokio::time::Instant;
use url::{Host, Url};
use zeroize::Zeroizing;

/// How long after its last use a Digest nonce counts as good. Servers keep nonces for minutes.
const NONCE_AGE_MAX: Duration = Duration::from_secs(60);

/// The credentials, and how they are sent.
pub struct Auth {
    who: Who,
    /// The server, for errors.
    host: String,
    /// Whether nobody on the way can read the requests.
    private: bool,
}

enum Who {
    Nobody,
    Bearer(HeaderValue),
    /// The mutex is held only while a header is chosen.
    User {
        user: String,
        password: Zeroizing<String>,
        way: Mutex<Scheme>,
    },
}

enum Scheme {
    Unknown,
    Basic,
    Digest(Session),
}

struct Session {
    ask: Ask,
    count: u32,
    /// When the server last accepted it.
    taken: Option<Instant>,
}

/// The credentials that a request carried.
pub enum Sent {
    /// Nothing.
    Nothing,
    /// A token, or Basic.
    Plain,
    /// Digest with this nonce.
    Digest {
        /// The server's nonce.
        nonce: String,
        /// Whether the server had accepted it before.
        proven: bool,
    },
}

impl Auth {
    /// For the server of `base`.
    pub fn new(base: &Url, credentials: &Credentials) -> Result<Self, ConnectError> {
        let setup = |reason: &str| ConnectError::Setup { reason: reason.to_owned() };
        let private = base.scheme() == "https" || is_loopback(base);
        let who = match credentials {
            Credentials::None => Who::Nobody,
            Credentials::Bearer { .. } if !private => {
                return Err(setup("A token would be readable on its way over http. Use an https address."));
            }
            Credentials::Bearer { token } => {
                let value = Zeroizing::new(format!("Bearer {}", token.as_str()));
                Who::Bearer(
                    secret(&value).ok_or_else(|| setup("The token has characters that no token has."))?,
                )
            }
            Credentials::Password { user, password } => {
                if user.contains(':')
                    || [user, password.as_str()].iter().any(|text| text.contains(char::is_control))
                {
                    return Err(setup("The user or the password has a character that cannot be sent."));
                }
                let way = if base.scheme() == "https" { Scheme::Basic } else { Scheme::Unknown };
                Who::User { user: user.clone(), password: password.clone(), way: Mutex::new(way) }
            }
            Credentials::S3 { .. } | Credentials::S3Profile { .. } => {
                return Err(setup(
                    "A WebDAV server takes a user and a password, or a token; these are credentials for S3.",
                ));
            }
        };
        Ok(Self { who, host: base.host_str().unwrap_or_default().to_owned(), private })
    }

    /// The value of `Authorization` for a request, and its kind.
    pub fn header(&self, method: &str, url: &Url) -> (Option<HeaderValue>, Sent) {
        match &self.who {
            Who::Nobody => (None, Sent::Nothing),
            Who::Bearer(value) => (Some(value.clone()), Sent::Plain),
            Who::User { user, password, way } => match &mut *way.lock() {
                Scheme::Unknown => (None, Sent::Nothing),
                Scheme::Basic => {
                    let pair = Zeroizing::new(format!("{user}:{}", password.as_str()));
                    let value = Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes())));
                    (secret(&value), Sent::Plain)
                }
                Scheme::Digest(session) => {
                    session.count += 1;
                    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
                    let request = Request { user, password, method, target };
                    let client_nonce = format!("{:032x}", crate::entropy::u128());
                    let value = session.ask.answer(&request, session.count, &client_nonce);
                    let nonce = session.ask.nonce.clone();
                    let value = Zeroizing::new(session.ask.wire(&value));
                    (secret_bytes(&value), Sent::Digest { nonce, proven: session.taken.is_some() })
                }
            },
        }
    }

    /// Whether the server is likely to accept a request at once, so that a large body is not sent in vain.
    pub fn is_settled(&self) -> bool {
        match &self.who {
            Who::Nobody | Who::Bearer(_) => true,
            Who::User { way, .. } => match &*way.lock() {
                Scheme::Unknown => false,
                Scheme::Basic => true,
                Scheme::Digest(session) => session.taken.is_some_and(|taken| taken.elapsed() < NONCE_AGE_MAX),
            },
        }
    }

    /// The server accepted the credentials.
    pub fn taken(&self, sent: &Sent, headers: &HeaderMap) {
        let (Who::User { way, .. }, Sent::Digest { nonce, .. }) = (&self.who, sent) else { return };
        if let Scheme::Digest(session) = &mut *way.lock()
            && session.ask.nonce == *nonce
        {
            session.taken = Some(Instant::now());
            let info = headers.get("authentication-info").and_then(|value| value.to_str().ok());
            if let Some(next) =
                info.map(challenge::parameters).as_ref().and_then(|info| info.get("nextnonce"))
            {
                session.ask.nonce = next.to_owned();
                session.count = 0;
            }
        }
    }

    /// The server refused the credentials (401). `Ok` means: send the request again with what [`Self::header`] returns now.
    pub fn refused(&self, sent: &Sent, headers: &HeaderMap) -> Result<(), StoreError> {
        let denied = |reason: String| Err(StoreError::Denied { reason });
        let unknown = |reason: String| Err(StoreError::UnknownCredentials { reason });
        let host = &self.host;
        let (Who::User { way, .. }, offered) = (&self.who, challenges(headers)) else {
            return match &self.who {
                Who::Bearer(_) => unknown(format!("{host} does not take the token; it may have expired")),
                _ => denied(format!("{host} asks for a user and a password")),
            };
        };
        let way = &mut *way.lock();
        let wrong = || unknown(format!("{host} does not take this user with this password"));
        if let Some(ask) = offered.iter().filter_map(Ask::new).max_by_key(Ask::hash) {
            match (sent, &*way) {
                // The nonce was fresh, and its age is not the reason.
                (Sent::Digest { nonce, proven: false }, Scheme::Digest(session))
                    if session.ask.nonce == *nonce && !ask.stale =>
                {
                    wrong()
                }
                _ => {
                    *way = Scheme::Digest(Session { ask, count: 0, taken: None });
                    Ok(())
                }
            }
        } else if offered.iter().any(|challenge| challenge.scheme == "basic") {
            match sent {
                Sent::Plain => wrong(),
                _ if !self.private => denied(format!(
                    "{host} wants the password in a form that everybody on the way can read; use its https address"
                )),
                _ => {
                    *way = Scheme::Basic;
                    Ok(())
                }
            }
        } else if matches!(sent, Sent::Plain) {
            wrong()
        } else {
            denied(format!("{host} asks for a kind of sign-in that is not supported; Basic and Digest are"))
        }
    }
}

fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter();
    values.flat_map(|value| challenge::parse_bytes(value.as_bytes())).collect()
}

/// A header value that is never printed.
fn secret(value: &str) -> Option<HeaderValue> {
    secret_bytes(value.as_bytes())
}

fn secret_bytes(value: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether the server is this very computer.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(domain)) => domain == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(base: &str, credentials: &Credentials) -> Result<Auth, String> {
        Auth::new(&Url::parse(base).unwrap(), credentials).map_err(|error| error.to_string())
    }

    fn me() -> Credentials {
        Credentials::Password { user: "me".into(), password: Zeroizing::new("hunter2".into()) }
    }

    fn asks(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (WWW_AUTHENTICATE, HeaderValue::from_static(value))).collect()
    }

    fn header(auth: &Auth) -> (String, Sent) {
        let (value, sent) = auth.header("GET", &Url::parse("https://h/x").unwrap());
        (value.map_or(String::new(), |value| value.to_str().unwrap().to_owned()), sent)
    }

    #[test]
    fn over_https_the_password_goes_at_once() {
        let auth = auth("https://h/", &me()).unwrap();
        let (value, sent) = header(&auth);
        assert_eq!(value, "Basic bWU6aHVudGVyMg==");
        let error = auth.refused(&sent, &asks(&["Basic realm=\"x\""])).unwrap_err().to_string();
        assert!(error.contains("does not take this user") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn over_http_nothing_readable_leaves_this_computer() {
        let far = auth("http://h/", &me()).unwrap();
        let (value, sent) = header(&far);
        assert_eq!(value, "");
        let error = far.refused(&sent, &asks(&["Basic realm=\"x\""])).unwrap_err();
        assert!(error.to_string().contains("https"), "{error}");
        far.refused(&sent, &asks(&["Basic realm=\"x\"", "Digest realm=\"x\", nonce=\"n\", qop=\"auth\""]))
            .unwrap();
        assert!(header(&far).0.starts_with("Digest "));
        let near = auth("http://127.0.0.1:80/", &me()).unwrap();
        near.refused(&header(&near).1, &asks(&["Basic realm=\"x\""])).unwrap();
        assert!(header(&near).0.starts_with("Basic "));
        let bearer = Credentials::Bearer { token: Zeroizing::new("hunter2".into()) };
        assert!(auth("http://h/", &bearer).is_err_and(|error| !error.contains("hunter2")));
        assert_eq!(header(&auth("https://h/", &bearer).unwrap()).0, "Bearer hunter2");
    }

    #[test]
    fn the_better_digest_is_taken_and_counted() {
        let auth = auth("http://h/", &me()).unwrap();
        let both = [
            "Digest realm=\"x\", nonce=\"a\", qop=\"auth\"",
            "Digest realm=\"x\", nonce=\"b\", qop=\"auth\", algorithm=SHA-256",
        ];
        auth.refused(&Sent::Nothing, &asks(&both)).unwrap();
        assert!(!auth.is_settled());
        let (first, sent) = header(&auth);
        assert!(first.contains("algorithm=SHA-256") && first.contains("nc=00000001"), "{first}");
        auth.taken(&sent, &HeaderMap::new());
        assert!(auth.is_settled());
        assert!(header(&auth).0.contains("nc=00000002"));
        let next = HeaderMap::from_iter([(
            "authentication-info".parse().unwrap(),
            HeaderValue::from_static("nextnonce=\"c\""),
        )]);
        auth.taken(&sent, &next);
        let (third, _) = header(&auth);
        assert!(third.contains("nonce=\"c\"") && third.contains("nc=00000001"), "{third}");
    }

    #[test]
    fn an_old_nonce_is_no_wrong_password() {
        let ask = |nonce: &'static str| asks(&[nonce]);
        let auth = auth("http://h/", &me()).unwrap();
        auth.refused(&Sent::Nothing, &ask("Digest realm=\"x\", nonce=\"a\", qop=\"auth\"")).unwrap();
        let (_, fresh) = header(&auth);
        auth.taken(&fresh, &HeaderMap::new());
        let (_, used) = header(&auth);
        // Not stale, but the nonce worked a moment ago: the server was restarted.
        auth.refused(&used, &ask("Digest realm=\"x\", nonce=\"b\", qop=\"auth\"")).unwrap();
        let (_, sent) = header(&auth);
        auth.refused(&sent, &ask("Digest realm=\"x\", nonce=\"c\", qop=\"auth\", stale=true")).unwrap();
        let (_, sent) = header(&auth);
        assert!(auth.refused(&sent, &ask("Digest realm=\"x\", nonce=\"d\", qop=\"auth\"")).is_err());
        // Another request has got a new nonce in the meantime.
        auth.refused(&used, &ask("Digest realm=\"x\", nonce=\"d\", qop=\"auth\"")).unwrap();
    }

    #[test]
    fn a_realm_outside_ascii_is_answered_as_it_came() {
        for realm in ["Wölkchen".as_bytes(), &b"W\xf6lkchen"[..]] {
            for scheme in ["Basic", "Digest"] {
                let auth = auth("http://127.0.0.1/", &me()).unwrap();
                let asked =
                    [format!("{scheme} realm=\"").as_bytes(), realm, b"\", nonce=\"n\", qop=\"auth\""]
                        .concat();
                let asks =
                    HeaderMap::from_iter([(WWW_AUTHENTICATE, HeaderValue::from_bytes(&asked).unwrap())]);
                auth.refused(&Sent::Nothing, &asks).unwrap();
                let (value, _) = auth.header("GET", &Url::parse("http://127.0.0.1/x").unwrap());
                let value = value.unwrap();
                let echoes = value.as_bytes().windows(realm.len()).any(|part| part == realm);
                assert!(value.as_bytes().starts_with(scheme.as_bytes()), "{scheme} {realm:?}");
                assert_eq!(echoes, scheme == "Digest", "{scheme} {realm:?}");
            }
        }
    }

    #[test]
    fn wrong_kinds_of_credentials_are_reported() {
        let s3 = Credentials::S3Profile { profile: "p".into() };
        assert!(auth("https://h/", &s3).is_err_and(|error| error.contains("for S3")));
        let nobody = auth("https://h/", &Credentials::None).unwrap();
        let error = nobody.refused(&Sent::Nothing, &asks(&["Basic realm=\"x\""])).unwrap_err();
        assert!(error.to_string().contains("asks for a user"), "{error}");
    }
}
