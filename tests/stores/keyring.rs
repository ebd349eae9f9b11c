//! The Secret Service: a test's own keyring, on its own bus.

use crate::bench::{Bench, run, wait_until};
use crate::person::Person;
use crate::place::Place;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An address without a server: every request fails at once.
const STORE: &str = "https://127.0.0.1:1/dav/";

/// The collection that a desktop unlocks at login.
const LOGIN: &str = "/org/freedesktop/secrets/collection/login";

/// A bus that starts no service on its own. Otherwise a client that asks while one keyring replaces another would get a third
/// one, which stays locked.
const BUS: &str = r#"<busconfig>
  <type>session</type>
  <listen>unix:tmpdir=/tmp</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// A session with an unlocked keyring.
struct Session {
    child: Child,
    bus: String,
    runtime: PathBuf,
}

impl Session {
    fn start(home: &Path) -> Self {
        let runtime = home.join("runtime");
        run("install", &["-d", "-m", "0700", &runtime.display().to_string()]);
        let script = "printf secret | gnome-keyring-daemon --unlock --components=secrets >&2\n\
                      echo $DBUS_SESSION_BUS_ADDRESS\ncat";
        let config = home.join("bus.conf");
        std::fs::write(&config, BUS).unwrap();
        let mut child = Command::new("dbus-run-session")
            .arg(format!("--config-file={}", config.display()))
            .args(["--", "bash", "-c", script])
            .env("HOME", home)
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_RUNTIME_DIR", &runtime)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-run-session and gnome-keyring-daemon; packaging/setup tests installs them");
        let mut bus = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut bus).unwrap();
        Self { child, bus: bus.trim().to_owned(), runtime }
    }

    /// The answer to a call, if the keyring is there to answer.
    fn ask(&self, object: &str, call: &[&str]) -> Option<String> {
        let mut command = Command::new("dbus-send");
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        command.args(["--session", "--print-reply", "--dest=org.freedesktop.secrets", object]).args(call);
        let output = command.output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// Locks the keyring, as a screen saver may.
    fn lock(&self) {
        let of_login = format!("array:objpath:{LOGIN}");
        self.ask("/org/freedesktop/secrets", &["org.freedesktop.Secret.Service.Lock", &of_login]).unwrap();
        assert_eq!(self.is_locked(), Some(true));
    }

    fn is_locked(&self) -> Option<bool> {
        let of = ["string:org.freedesktop.Secret.Collection", "string:Locked"];
        self.ask(LOGIN, &[&["org.freedesktop.DBus.Properties.Get"][..], &of].concat())
            .map(|answer| answer.contains("true"))
    }

    /// Unlocks it, as the desktop does at login: in another process.
    fn unlock(&self) {
        let home = self.runtime.parent().unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", "printf secret | gnome-keyring-daemon --replace --unlock --components=secrets"]);
        command.env("HOME", home).env("XDG_DATA_HOME", home.join("data"));
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus).env("XDG_RUNTIME_DIR", &self.runtime);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        wait_until("the keyring is open", || self.is_locked() == Some(false)).unwrap();
    }

    /// Ends the session and everything in it.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn keeps_credentials_in_an_unlocked_keyring() {
    let bench = Bench::new();
    let mut session = Session::start(&bench.path("home"));
    let mut a = Person::new(&bench, "a", &[("DBUS_SESSION_BUS_ADDRESS", session.bus.as_str())]);
    std::fs::write(bench.path("old"), "ann:marmalade lamp\n").unwrap();
    std::fs::write(bench.path("new"), "ann:umbrella stand\n").unwrap();
    let log_in = |person: &Person, file: &str, more: &[&str]| {
        let login = ["store", "login", STORE, "--no-check", "--credentials-file", file];
        person.ok(&[&login[..], more].concat())["kept"].clone()
    };
    let (old, new) = (bench.text("old"), bench.text("new"));
    assert_eq!(log_in(&a, &old, &["--no-keyring"]), "file");
    assert_eq!(log_in(&a, &old, &[]), "keyring");
    assert_eq!(log_in(&a, &new, &[]), "keyring");
    let kept = std::fs::read_to_string(a.logins()).unwrap();
    assert!(!kept.contains("marmalade") && !kept.contains("umbrella"), "{kept}");
    assert_eq!(a.ok(&["store", "list"])[0]["user"], "ann");
    let search = |secret: &str| {
        let mut command = Command::new("secret-tool");
        let output = command.env("DBUS_SESSION_BUS_ADDRESS", &session.bus).args([
            "search",
            "--all",
            "application",
            "holdall",
        ]);
        let output = output.output().expect("secret-tool; packaging/setup tests installs it");
        String::from_utf8_lossy(&output.stdout).contains(secret)
    };
    assert!(search("umbrella stand") && !search("marmalade lamp"));

    // They are read from the keyring: only the missing server fails.
    a.refused(&["store", "test", STORE], 5, "offline");
    session.lock();
    let failure = a.refused(&["store", "test", STORE], 6, "credentials");
    assert!(failure["message"].as_str().unwrap().contains("locked"), "{failure}");
    assert!(failure["action"].as_str().unwrap().contains(STORE), "{failure}");
    session.end();
    let failure = a.refused(&["store", "test", STORE], 6, "credentials");
    assert!(failure["message"].as_str().unwrap().contains("keyring, which does not answer"), "{failure}");

    // Without a keyring they are kept in and read from the file.
    assert_eq!(log_in(&a, &new, &[]), "file");
    a.refused(&["store", "test", STORE], 5, "offline");
    a.ok(&["store", "logout", STORE]);
    assert!(!std::fs::read_to_string(a.logins()).unwrap().contains("umbrella"));
    a.assert_discreet(&["marmalade lamp", "umbrella stand"]);
}

/// A service that starts while the keyring is locked, as before a login to the desktop.
#[test]
fn a_locked_keyring_delays_uploads_but_not_opening() {
    let bench = Bench::new();
    let session = Session::start(&bench.path("home"));
    let server = DavServer::apache(SignIn::Basic);
    let login = format!("{USER}:{PASSWORD}");
    let place = Place::with_credentials(&bench, &server.url("/d/"), "claim", &login, Box::new(()));
    let environment = [("DBUS_SESSION_BUS_ADDRESS", session.bus.as_str())];
    let a = Person::new(&bench, "a", &environment);
    assert_eq!(a.ok(&place.store("login"))["kept"], "keyring");
    a.ok(&["drive", "create", "d", "--store", &place.url, "--size", "64M", "--no-encryption"]);
    a.open();
    let note = a.machine.mountpoint().join("note");
    std::fs::write(&note, "before").unwrap();
    // An open drive already has its credentials.
    session.lock();
    a.ok(&["drive", "sync", "d"]);
    a.ok(&["drive", "close", "d", "--wait"]);
    a.ok(&["daemon", "stop"]);

    a.open();
    assert_eq!(std::fs::read(&note).unwrap(), b"before");
    std::fs::write(&note, "meanwhile").unwrap();
    File::open(&note).unwrap().sync_all().unwrap();
    let status = a.machine.status_when("it says what is missing", |status| {
        status["state"] != "Ready" && status["reason"].to_string().contains("keyring")
    });
    assert!(status["unpushed_bytes"].as_u64().unwrap() > 0, "{status}");
    // Nobody needs to log in to the store, since its credentials are good.
    assert_eq!(
        (&status["state"], &status["needs_login"]),
        (&"Needs attention".into(), &false.into()),
        "{status}"
    );
    let action = status["advice"]["action"].as_str().unwrap();
    assert!(action.starts_with("Unlock the keyring") && action.contains(&place.url), "{status}");
    let action = status["advice"]["on_screen"][0]["text"].as_str().unwrap();
    assert!(action.to_lowercase().contains("keyring"), "{status}");
    session.unlock();
    a.machine.status_when("uploaded by itself", |status| {
        status["state"] == "Ready" && status["unpushed_bytes"] == 0
    });
    a.ok(&["drive", "close", "d", "--wait"]);

    let b = Person::new(&bench, "b", &[]);
    b.ok(&place.drive(&["add"]));
    b.open();
    assert_eq!(std::fs::read(b.machine.mountpoint().join("note")).unwrap(), b"meanwhile");
    b.ok(&["drive", "close", "d", "--wait"]);
}
