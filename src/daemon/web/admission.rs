//! Which requests of a browser are admitted: a pure decision.

use super::sessions::{Now, Sessions};
use crate::api::{Action, Code, Failure};
use crate::daemon::failure::{self, failure};
use axum::http::{HeaderMap, Method, Uri, header};

/// A page must send this header to change something. A page of another origin cannot: the browser would ask first.
pub const OWN_HEADER: &str = "x-holdall";

/// Where the pages are served.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    /// The port.
    pub port: u16,
    /// The browsers that are admitted, and how.
    pub to: To,
}

/// The browsers that are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Browsers on this computer, by an invitation.
    Invited,
    /// Browsers of any computer, by a password and TLS.
    Known {
        /// Whether a proxy on this computer does TLS.
        by_proxy: bool,
    },
}

impl Ours {
    /// Whether this origin is one of our pages, requested under the name `host`.
    fn is_origin(self, origin: &str, host: &str) -> bool {
        let scheme = if self.to == To::Invited { "http://" } else { "https://" };
        origin.strip_prefix(scheme) == Some(host)
    }

    /// The `Set-Cookie` of a session.
    pub fn cookie(self, secret: &str) -> String {
        let secure = if self.to == To::Invited { "" } else { "; Secure" };
        format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}", self.cookie_name())
    }

    /// Browsers send a cookie to all ports of a host: two daemons must not overwrite each other's.
    fn cookie_name(self) -> String {
        format!("holdall-{}", self.port)
    }
}

/// The path for choosing the password.
const LISTEN_PATH: &str = "/v1/web/listen";

/// The parts of a request that matter here.
#[derive(Clone, Debug, Default)]
pub struct Asks<'a> {
    changes: bool,
    path: &'a str,
    token: Option<&'a str>,
    /// The browser fetches it in advance, for a click that may not come.
    is_prefetch: bool,
    host: Option<&'a str>,
    origin: Option<&'a str>,
    own_header: Option<&'a str>,
    fetch_site: Option<&'a str>,
    cookies: Vec<&'a str>,
}

/// The decision on a request.
pub enum Verdict {
    /// It is served.
    Pass,
    /// A session begins with this cookie.
    Begin {
        /// The whole `Set-Cookie`.
        cookie: String,
    },
    /// The token in the address is no longer valid.
    BadInvitation,
    /// The browser must sign in first.
    SignIn,
    /// It is refused.
    Refuse(Failure),
}

impl<'a> Asks<'a> {
    /// The parts of a request.
    pub fn of(method: &Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        // If a header comes twice, it is unclear which one counts.
        let one = |name: &str| {
            let mut values = headers.get_all(name).iter();
            let first = values.next()?.to_str().ok()?;
            values.next().is_none().then_some(first)
        };
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        Self {
            changes: !matches!(*method, Method::GET | Method::HEAD),
            path: uri.path(),
            token: uri
                .query()
                .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("token="))),
            is_prefetch: *method == Method::HEAD || headers.contains_key("sec-purpose"),
            host: one("host"),
            origin: headers.contains_key(header::ORIGIN).then(|| one("origin").unwrap_or_default()),
            own_header: one(OWN_HEADER),
            fetch_site: one("sec-fetch-site"),
            cookies: cookies.flat_map(|cookies| cookies.split(';')).map(str::trim).collect(),
        }
    }
}

/// Whether a path belongs to the API and not to the pages.
pub fn is_api(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Decides on a request to the port.
pub fn judge(asks: &Asks<'_>, ours: Ours, sessions: &mut Sessions, now: Now) -> Verdict {
    let host = match ours.to {
        To::Invited => {
            let hosts = [format!("127.0.0.1:{}", ours.port), format!("localhost:{}", ours.port)];
            let Some(host) = asks.host.filter(|host| hosts.iter().any(|ours| ours == host)) else {
                return Verdict::Refuse(foreign("the address used another name than 127.0.0.1 or localhost"));
            };
            host
        }
        // If somebody else made a name lead here, the browser has no cookie for it, as cookies are kept for each name, and no certificate
        // matches it.
        To::Known { .. } => match asks.host {
            Some(host) => host,
            None => return Verdict::Refuse(foreign("it has no Host header")),
        },
    };
    if ours.to != To::Invited && asks.path == LISTEN_PATH {
        return Verdict::Refuse(only_here());
    }
    if asks.origin.is_some_and(|origin| !ours.is_origin(origin, host)) && (is_api(asks.path) || asks.changes)
    {
        return Verdict::Refuse(foreign("it comes from a page of another origin"));
    }
    let cookie = format!("{}=", ours.cookie_name());
    let mut secrets = asks.cookies.iter().filter_map(|given| given.strip_prefix(&cookie));
    if !is_api(asks.path) {
        return match (ours.to, asks.token) {
            (To::Invited, Some(token)) if !asks.changes && !asks.is_prefetch => {
                invited(token, ours, sessions, now)
            }
            // The frame of the pages, which is the same for everybody. Without a session it has nothing to show.
            (To::Known { .. }, _)
                if is_page(asks.path) && !secrets.any(|secret| sessions.is_in(secret, now)) =>
            {
                Verdict::SignIn
            }
            _ => Verdict::Pass,
        };
    }
    // To browsers, pages of another port of this computer are "same-site".
    if asks.fetch_site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Verdict::Refuse(foreign("it comes from a page of another origin"));
    }
    if asks.changes && (asks.origin.is_none() || asks.own_header != Some("1")) {
        return Verdict::Refuse(foreign("it has no Origin, or no header X-Holdall: 1"));
    }
    match secrets.any(|secret| sessions.is_in(secret, now)) {
        true => Verdict::Pass,
        false => Verdict::Refuse(not_signed_in(ours.to)),
    }
}

/// Whether a path is a page, and not a part of one.
fn is_page(path: &str) -> bool {
    matches!(path, "/" | "/index.html")
}

fn invited(token: &str, ours: Ours, sessions: &mut Sessions, now: Now) -> Verdict {
    match sessions.begin(token, now) {
        Some(secret) => Verdict::Begin { cookie: ours.cookie(&secret) },
        None => Verdict::BadInvitation,
    }
}

fn foreign(why: &str) -> Failure {
    failure(Code::Foreign, format!("The request was refused: {why}."), failure::NOTHING_CHANGED, Action::Web)
}

/// A person with a stolen session must not be able to choose the password.
fn only_here() -> Failure {
    failure(
        Code::Foreign,
        "The password can be changed on that computer only.",
        failure::NOTHING_CHANGED,
        Action::tell("Run holdall web --listen there."),
    )
}

fn not_signed_in(to: To) -> Failure {
    let action = match to {
        To::Invited => Action::Web,
        To::Known { .. } => Action::tell("Reload the page, and sign in."),
    };
    failure(
        Code::Session,
        "This browser is not signed in.",
        "Nothing was changed. Your drives are not affected.",
        action,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Ours = Ours { port: 4711, to: To::Invited };

    /// A signed-in browser, and its requests.
    struct Inside {
        sessions: Sessions,
        cookie: String,
        now: Now,
    }

    impl Inside {
        fn new() -> Self {
            let (mut sessions, now) = (Sessions::default(), Now::read());
            let token = sessions.invite(now);
            let asks =
                Asks { token: Some(&token), host: Some("localhost:4711"), path: "/", ..Asks::default() };
            let Verdict::Begin { cookie } = judge(&asks, OURS, &mut sessions, now) else {
                panic!("the token is good");
            };
            assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
            let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
            Self { sessions, cookie, now }
        }

        /// The code of the refusal, if any.
        fn asks(&mut self, change: impl FnOnce(&mut Asks<'_>)) -> Option<Code> {
            let cookie = self.cookie.clone();
            let mut asks = Asks {
                path: "/v1/drives",
                host: Some("127.0.0.1:4711"),
                cookies: vec!["theme=dark", &cookie],
                ..Asks::default()
            };
            change(&mut asks);
            match judge(&asks, OURS, &mut self.sessions, self.now) {
                Verdict::Pass => None,
                Verdict::Refuse(failure) => Some(failure.code),
                Verdict::Begin { .. } | Verdict::BadInvitation | Verdict::SignIn => {
                    panic!("there is no token")
                }
            }
        }
    }

    fn changes(asks: &mut Asks<'_>) {
        asks.changes = true;
        asks.origin = Some("http://127.0.0.1:4711");
        asks.own_header = Some("1");
    }

    #[test]
    fn a_signed_in_browser_may_look_and_change() {
        let mut inside = Inside::new();
        assert_eq!(inside.asks(|_| {}), None);
        assert_eq!(inside.asks(|asks| asks.fetch_site = Some("same-origin")), None);
        assert_eq!(inside.asks(changes), None);
    }

    #[test]
    fn other_names_for_this_computer_are_refused() {
        let mut inside = Inside::new();
        for host in
            ["evil.example:4711", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:4711", "[::1]:4711"]
        {
            assert_eq!(inside.asks(|asks| asks.host = Some(host)), Some(Code::Foreign), "{host}");
        }
        assert_eq!(inside.asks(|asks| asks.host = None), Some(Code::Foreign));
        // The pages too: nobody could distinguish a page under another name from ours.
        let page = |asks: &mut Asks<'_>| (asks.path, asks.host) = ("/", Some("evil.example:4711"));
        assert_eq!(inside.asks(page), Some(Code::Foreign));
    }

    #[test]
    fn without_the_cookie_only_pages_are_served() {
        let mut inside = Inside::new();
        assert_eq!(inside.asks(|asks| asks.cookies.clear()), Some(Code::Session));
        assert_eq!(
            inside.asks(|asks| asks.cookies = vec!["holdall-4711=", "holdall-4711=x"]),
            Some(Code::Session)
        );
        assert_eq!(inside.asks(|asks| (asks.path, asks.cookies) = ("/index.html", Vec::new())), None);
        assert_eq!(inside.asks(|asks| (asks.path, asks.cookies) = ("/v1", Vec::new())), Some(Code::Session));
    }

    #[test]
    fn other_origins_are_refused() {
        let mut inside = Inside::new();
        for origin in ["http://evil.example", "https://127.0.0.1:4711", "http://127.0.0.1:4712", "null", ""] {
            let refused = inside.asks(|asks| {
                changes(asks);
                asks.origin = Some(origin);
            });
            assert_eq!(refused, Some(Code::Foreign), "{origin}");
            assert_eq!(inside.asks(|asks| asks.origin = Some(origin)), Some(Code::Foreign), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(inside.asks(|asks| asks.fetch_site = Some(site)), Some(Code::Foreign), "{site}");
        }
    }

    #[test]
    fn a_change_needs_the_header_and_the_origin() {
        let mut inside = Inside::new();
        let without = |inside: &mut Inside, take: fn(&mut Asks<'_>)| {
            inside.asks(|asks| {
                changes(asks);
                take(asks);
            })
        };
        assert_eq!(without(&mut inside, |asks| asks.own_header = None), Some(Code::Foreign));
        assert_eq!(without(&mut inside, |asks| asks.own_header = Some("0")), Some(Code::Foreign));
        assert_eq!(without(&mut inside, |asks| asks.origin = None), Some(Code::Foreign));
        assert_eq!(without(&mut inside, |asks| asks.cookies.clear()), Some(Code::Session));
    }

    #[test]
    fn prefetching_uses_up_no_invitation() {
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let token = sessions.invite(now);
        let mut asks =
            Asks { token: Some(&token), host: Some("localhost:4711"), path: "/", ..Asks::default() };
        asks.is_prefetch = true;
        assert!(matches!(judge(&asks, OURS, &mut sessions, now), Verdict::Pass));
        asks.is_prefetch = false;
        assert!(matches!(judge(&asks, OURS, &mut sessions, now), Verdict::Begin { .. }));
        assert!(matches!(judge(&asks, OURS, &mut sessions, now), Verdict::BadInvitation));
    }

    #[test]
    fn other_computers_sign_in_by_any_name_of_one_origin() {
        const THEIRS: Ours = Ours { port: 8443, to: To::Known { by_proxy: false } };
        let (mut sessions, now) = (Sessions::default(), Now::read());
        let token = sessions.invite(now);
        let mut judged = |change: fn(&mut Asks<'_>), cookies: Vec<&str>| {
            let mut asks = Asks { path: "/v1/drives", host: Some("nas:8443"), cookies, ..Asks::default() };
            asks.token = Some(&token);
            change(&mut asks);
            judge(&asks, THEIRS, &mut sessions, now)
        };
        // An invitation is for this computer's browsers.
        for path in ["/", "/index.html"] {
            let page: fn(&mut Asks<'_>) =
                if path == "/" { |asks| asks.path = "/" } else { |asks| asks.path = "/index.html" };
            assert!(matches!(judged(page, Vec::new()), Verdict::SignIn), "{path}");
        }
        assert!(matches!(judged(|asks| asks.path = "/assets/app.js", Vec::new()), Verdict::Pass));
        let Verdict::Refuse(failure) = judged(|_| (), Vec::new()) else { panic!("it is let in") };
        assert_eq!(failure.code, Code::Session);
        let foreign = |verdict| matches!(verdict, Verdict::Refuse(Failure { code: Code::Foreign, .. }));
        let sign_in = |asks: &mut Asks<'_>| (asks.path, asks.changes) = ("/sign-in", true);
        assert!(matches!(judged(sign_in, Vec::new()), Verdict::Pass));
        assert!(foreign(judged(
            |asks| (asks.path, asks.changes, asks.origin) = ("/sign-in", true, Some("https://evil.example")),
            Vec::new()
        )));
        assert!(foreign(judged(|asks| asks.host = None, Vec::new())));
        assert!(foreign(judged(|asks| asks.path = "/v1/web/listen", Vec::new())));

        let mut sessions = Sessions::default();
        let cookie = THEIRS.cookie(&sessions.sign_in(now));
        assert!(cookie.ends_with("; Secure"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        let mut judged = |origin| {
            let asks = Asks {
                changes: true,
                path: "/v1/limits",
                host: Some("nas:8443"),
                origin: Some(origin),
                own_header: Some("1"),
                cookies: vec![cookie],
                ..Asks::default()
            };
            judge(&asks, THEIRS, &mut sessions, now)
        };
        assert!(matches!(judged("https://nas:8443"), Verdict::Pass));
        for origin in ["http://nas:8443", "https://nas", "https://127.0.0.1:8443", "null"] {
            assert!(foreign(judged(origin)), "{origin}");
        }
    }
}
