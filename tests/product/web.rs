//! `holdall web` as browsers and attackers see it: real HTTP on loopback.

use crate::bench::discreet;
use crate::programs;
use serde_json::Value;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A daemon that must not write down any token or cookie that it issues.
pub struct Daemon {
    pub dir: TempDir,
    process: Child,
    pub told: RefCell<Vec<String>>,
}

impl Daemon {
    /// Starts it with fake pages, so that no test of the daemon waits for the build of the real ones.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("holdall").tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("web/assets")).unwrap();
        std::fs::write(dir.path().join("web/index.html"), "<!doctype html>the page").unwrap();
        std::fs::write(dir.path().join("web/assets/app-1.js"), "// the script").unwrap();
        let process = spawn(dir.path());
        Self { dir, process, told: RefCell::default() }
    }

    /// Replaces it with a new daemon.
    pub fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(self.dir.path());
    }

    pub fn holdall(&self, arguments: &[&str]) -> Result<Value, Value> {
        let mut command = Command::new(programs::holdall());
        let output = in_directories(self.dir.path(), command.arg("--json").args(arguments)).output().unwrap();
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            false => Err(serde_json::from_slice(&output.stderr).unwrap()),
        }
    }

    /// Waits until it serves the pages on a port.
    pub fn serves(&self, port: u16) {
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
    }

    /// The port and a token.
    fn invite(&self) -> (u16, String) {
        let address = self.holdall(&["web"]).unwrap();
        let (port, url) = (address["port"].as_u64().unwrap(), address["url"].as_str().unwrap());
        let token = url.strip_prefix(&format!("http://127.0.0.1:{port}/?token=")).unwrap();
        self.told.borrow_mut().push(token.to_owned());
        (port as u16, token.to_owned())
    }

    /// A browser that is signed in.
    fn browser(&self) -> Browser {
        let (port, token) = self.invite();
        let mut browser = Browser { port, cookie: None };
        let answer = browser.ask("GET", &format!("/?token={token}"), &[]);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        browser.cookie = cookie.split(';').next().map(str::to_owned);
        let value = browser.cookie.as_ref().and_then(|cookie| cookie.split_once('='));
        self.told.borrow_mut().extend(value.map(|(_, value)| value.to_owned()));
        browser
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if !std::thread::panicking() {
            let mut places =
                vec![("the log".to_owned(), std::fs::read(self.dir.path().join("log")).unwrap())];
            discreet::files_below(&self.dir.path().join("run"), 4 << 20, &mut places);
            discreet::assert_discreet(&places, &self.told.borrow());
        }
    }
}

fn spawn(dir: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdalld"));
    let log = File::options().append(true).create(true).open(dir.join("log")).unwrap();
    let process = in_directories(dir, command.env("HOLDALL_LOG", "debug")).stderr(log).spawn().unwrap();
    while UnixStream::connect(dir.join("run/daemon.sock")).is_err() {
        std::thread::yield_now();
    }
    process
}

fn in_directories<'a>(dir: &Path, command: &'a mut Command) -> &'a mut Command {
    for (variable, name) in [
        ("HOLDALL_STATE_DIR", "state"),
        ("HOLDALL_CACHE_DIR", "cache"),
        ("HOLDALL_RUNTIME_DIR", "run"),
        ("HOLDALL_WEB_DIR", "web"),
    ] {
        command.env(variable, dir.join(name));
    }
    command.stdin(Stdio::null())
}

struct Browser {
    port: u16,
    cookie: Option<String>,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        text
    }

    fn code(self) -> String {
        let failure: Value = serde_json::from_str(&self.text()).unwrap();
        failure["code"].as_str().unwrap().to_owned()
    }
}

impl Browser {
    /// Sends a request as this browser's pages do, with `changes` to the headers: another value, or none.
    fn ask(&self, method: &str, path: &str, changes: &[(&str, Option<&str>)]) -> Answer {
        let own = format!("127.0.0.1:{}", self.port);
        let origin = format!("http://{own}");
        let mut headers = vec![("Host", Some(&*own)), ("Cookie", self.cookie.as_deref())];
        if method != "GET" {
            headers.extend([("Origin", Some(&*origin)), ("X-Holdall", Some("1"))]);
        }
        headers.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        headers.extend(changes);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // HTTP/1.0 ends a body by closing the connection, so there are no chunks to parse.
        let mut request = format!("{method} {path} HTTP/1.0\r\nContent-Length: 0\r\n");
        for (name, value) in headers {
            request.extend(value.map(|value| format!("{name}: {value}\r\n")));
        }
        stream.write_all((request + "\r\n").as_bytes()).unwrap();
        let mut body = BufReader::new(stream);
        let mut lines = std::iter::from_fn(|| {
            let mut line = String::new();
            body.read_line(&mut line).unwrap();
            Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
        });
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_lowercase(), value.to_owned()))
        });
        let headers = headers.collect();
        Answer { status, headers, body }
    }
}

#[test]
fn a_token_signs_in_one_browser() {
    let daemon = Daemon::start();
    let (port, token) = daemon.invite();
    let mut browser = Browser { port, cookie: None };
    let address = format!("/?token={token}");
    // A program that checks a link before the click does not use the token up.
    assert_eq!(browser.ask("HEAD", &address, &[]).status, 200);
    assert_eq!(browser.ask("GET", &address, &[("Sec-Purpose", Some("prefetch"))]).status, 200);
    let let_in = browser.ask("GET", &address, &[]);
    assert_eq!(let_in.status, 303);
    browser.cookie = let_in.header("set-cookie").unwrap().split(';').next().map(str::to_owned);
    let drives = browser.ask("GET", "/v1/drives", &[]);
    assert_eq!((drives.status, drives.text().as_str()), (200, "[]"));

    // A second browser is refused, and told what to do.
    let again = Browser { port, cookie: None }.ask("GET", &address, &[]);
    assert_eq!((again.status, again.header("set-cookie")), (403, None));
    assert!(again.text().contains("holdall web"));
    // The command can be repeated, and the address stays.
    let (same, another) = daemon.invite();
    assert_eq!((same, another == token), (port, false));
}

#[test]
fn serves_pages_to_everyone_with_protective_headers() {
    let daemon = Daemon::start();
    let stranger = Browser { port: daemon.invite().0, cookie: None };
    for path in ["/", "/drives/work"] {
        let page = stranger.ask("GET", path, &[]);
        assert_eq!(page.status, 200);
        assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("access-control-allow-origin"), None);
        assert_eq!(page.text(), "<!doctype html>the page");
    }
    let script = stranger.ask("GET", "/assets/app-1.js", &[]);
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    for path in ["/assets/../../state/daemon.log", "/assets/%2e%2e/index.html", "/nothing.js"] {
        assert_eq!(stranger.ask("GET", path, &[]).status, 404, "{path}");
    }
}

#[test]
fn refuses_requests_of_other_origins_or_sessions() {
    let daemon = Daemon::start();
    let browser = daemon.browser();
    type Changes<'a> = &'a [(&'a str, Option<&'a str>)];
    let stop = |changes: Changes<'_>| browser.ask("POST", "/v1/daemon/stop", changes);
    let drives = |changes: Changes<'_>| browser.ask("GET", "/v1/drives", changes);
    assert_eq!(drives(&[]).status, 200);

    let evil = format!("evil.example:{}", browser.port);
    for refused in
        [drives(&[("Host", Some(&evil))]), drives(&[("Host", None)]), stop(&[("Host", Some(&evil))])]
    {
        assert_eq!((refused.status, refused.code().as_str()), (403, "foreign"));
    }
    for refused in [drives(&[("Cookie", None)]), stop(&[("Cookie", Some("holdall=x"))])] {
        assert_eq!((refused.status, refused.code().as_str()), (401, "session"));
    }
    for changes in [
        [("X-Holdall", None)],
        [("Origin", None)],
        [("Origin", Some("http://evil.example"))],
        [("Origin", Some("null"))],
        [("Origin", Some("http://127.0.0.1:1"))],
        [("Sec-Fetch-Site", Some("same-site"))],
    ] {
        let refused = stop(&changes);
        assert_eq!((refused.status, refused.code().as_str()), (403, "foreign"), "{changes:?}");
    }
    // A preflight request from a page of another origin gets no permission.
    let preflight = browser.ask("OPTIONS", "/v1/daemon/stop", &[("Origin", Some("http://evil.example"))]);
    assert!(preflight.status >= 400 && preflight.header("access-control-allow-origin").is_none());

    // None of these has stopped anything. Own requests are answered, under either name.
    let local = format!("localhost:{}", browser.port);
    let origin = format!("http://{local}");
    let by_name = [("Host", Some(&*local)), ("Origin", Some(&*origin))];
    let answer = browser.ask("POST", "/v1/drives/none/pause", &by_name);
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains(r#""code":"not_found""#));
    let unknown = browser.ask("GET", "/v1/nothing", &[]);
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "not_found"));
}

/// The answer that a process of a user gets.
pub fn asks_as(user: u32, port: u16, request: &str) -> String {
    let script = r#"exec 3<>"/dev/tcp/127.0.0.1/$1"; printf '%s' "$2" >&3; cat <&3"#;
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", &port.to_string(), request]).current_dir("/").uid(user);
    String::from_utf8(command.stderr(Stdio::null()).output().unwrap().stdout).unwrap()
}

#[test]
fn refuses_processes_of_other_users_even_with_a_session() {
    const ANOTHER: u32 = 4242;
    assert!(rustix::process::geteuid().is_root(), "only root can be another user");
    let daemon = Daemon::start();
    let browser = daemon.browser();
    let (port, cookie) = (browser.port, browser.cookie.as_deref().unwrap());
    let drives = format!("GET /v1/drives HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n");
    let page = format!("GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    for request in [&drives, &page] {
        assert_eq!(asks_as(ANOTHER, port, request), "");
        let served = asks_as(0, port, request);
        assert!(served.starts_with("HTTP/1.0 200"), "{served}");
    }
}

#[test]
fn stopping_the_pages_signs_everyone_out() {
    let daemon = Daemon::start();
    let browser = daemon.browser();
    // An open event stream ends, too.
    let events = browser.ask("GET", "/v1/events", &[]);
    assert_eq!((events.status, events.header("content-type")), (200, Some("text/event-stream")));
    daemon.holdall(&["web", "--stop"]).unwrap();
    events.text();
    assert!(TcpStream::connect(("127.0.0.1", browser.port)).is_err());
    // On the same port, but the cookie no longer works.
    daemon.holdall(&["web", "--port", &browser.port.to_string()]).unwrap();
    assert_eq!(browser.ask("GET", "/v1/drives", &[]).code(), "session");
}

#[test]
fn the_next_daemon_keeps_the_port_of_the_pages() {
    let mut daemon = Daemon::start();
    let (port, _) = daemon.invite();
    daemon.restart();
    assert_eq!(daemon.invite().0, port);
    daemon.holdall(&["web", "--stop"]).unwrap();
    assert_eq!(daemon.invite().0, port);

    // Another program has the port now: another port is found, and used from then on.
    daemon.holdall(&["web", "--stop"]).unwrap();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (another, _) = daemon.invite();
    assert_ne!(another, port);
    drop(taken);
    daemon.restart();
    assert_eq!(daemon.invite().0, another);

    // The pages are served whatever the file contains.
    daemon.holdall(&["web", "--stop"]).unwrap();
    for damaged in ["", "seventy", "1", "70000"] {
        std::fs::write(daemon.dir.path().join("state/web-port"), damaged).unwrap();
        daemon.invite();
        daemon.holdall(&["web", "--stop"]).unwrap();
    }
}

#[test]
fn a_session_survives_a_restart_and_admits_nobody_else() {
    let mut daemon = Daemon::start();
    let browser = daemon.browser();
    let (_, unused) = daemon.invite();
    let file = daemon.dir.path().join("state/web-sessions.json");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let kept = [("the sessions".to_owned(), std::fs::read(&file).unwrap())];
    discreet::assert_discreet(&kept, &daemon.told.borrow());
    daemon.restart();
    // `holdall web` is not run.
    daemon.serves(browser.port);
    let drives = browser.ask("GET", "/v1/drives", &[]);
    assert_eq!((drives.status, drives.text().as_str()), (200, "[]"));
    let stranger = Browser { port: browser.port, cookie: None };
    assert_eq!(stranger.ask("GET", &format!("/?token={unused}"), &[]).status, 403);
    assert_eq!(stranger.ask("GET", "/v1/drives", &[]).status, 401);

    daemon.holdall(&["web", "--stop"]).unwrap();
    assert!(!file.exists(), "nobody is in any more");
    daemon.restart();
    daemon.holdall(&["daemon", "status"]).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", browser.port)).is_err(), "what was stopped stays so");
    assert_eq!(daemon.invite().0, browser.port);
    assert_eq!(browser.ask("GET", "/v1/drives", &[]).code(), "session");
}

#[test]
fn the_socket_serves_no_pages_and_needs_no_cookie() {
    let daemon = Daemon::start();
    daemon.browser();
    let ask = |path: &str| {
        let mut stream = UnixStream::connect(daemon.dir.path().join("run/daemon.sock")).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: holdall\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("/v1/drives").starts_with("HTTP/1.0 200 "));
    assert!(ask("/").starts_with("HTTP/1.0 404 "));
    assert!(!ask("/v1/drives").to_lowercase().contains("content-security-policy"));
}

#[test]
fn says_how_to_get_missing_pages() {
    let daemon = Daemon::start();
    std::fs::remove_file(daemon.dir.path().join("web/index.html")).unwrap();
    let failure = daemon.holdall(&["web"]).unwrap_err();
    assert_eq!(failure["code"], "not_found");
    assert!(failure["action"].as_str().unwrap().contains("npm run build"), "{failure}");
}

#[test]
fn lists_directories_only_for_signed_in_browsers() {
    let daemon = Daemon::start();
    let browser = daemon.browser();
    std::fs::create_dir(daemon.dir.path().join("<img src=x>")).unwrap();
    let here = daemon.dir.path().display().to_string();
    let list = format!("/v1/directories?path={here}");
    for stranger in [("Cookie", None), ("Host", Some("evil.example"))] {
        let answer = browser.ask("GET", &list, &[stranger]).text();
        assert!(!answer.contains("img"), "{answer}");
    }
    let cross = browser.ask("GET", &list, &[("sec-fetch-site", Some("cross-site"))]).text();
    assert!(!cross.contains("img"), "{cross}");
    let answer = browser.ask("GET", &list, &[]);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let found: Value = serde_json::from_str(&answer.text()).unwrap();
    assert!(found["names"].as_array().unwrap().contains(&"<img src=x>".into()), "{found}");
    assert!(!found["names"].as_array().unwrap().contains(&"file".into()));
}
