//! A person at a computer whose whole output is kept.

use crate::bench::{Bench, Machine, discreet, failure, wait_until};
use serde_json::Value;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A computer and its output, which must not contain a secret at the end.
pub struct Person {
    pub machine: Machine,
    said: RefCell<Vec<u8>>,
    daemon: Child,
    /// The complete log, since the daemon's own log is bounded.
    log: PathBuf,
    events: Child,
    events_said: PathBuf,
}

impl Person {
    /// There is no keyring, and the environment of the daemon has keys that would work.
    pub fn new(bench: &Bench, name: &str, environment: &[(&str, &str)]) -> Self {
        let mut machine = bench.machine(name);
        let told = [("HOLDALL_LOG", "trace")];
        machine.environment.extend(
            told.iter().chain(environment).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let both_to = |mut command: Command, file: &Path| {
            let file = File::create(file).unwrap();
            command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
        };
        let (log, events_said) = (bench.path(&format!("{name}.log")), bench.path(&format!("{name}.events")));
        let daemon = both_to(machine.program(env!("CARGO_BIN_EXE_holdalld")), &log);
        let socket = machine.runtime.join("daemon.sock");
        wait_until("the daemon listens", || UnixStream::connect(&socket).is_ok()).unwrap();
        let events = both_to(machine.command(&["events"]), &events_said);
        Self { machine, said: RefCell::default(), daemon, log, events, events_said }
    }

    fn hear(&self, output: &Output) {
        let mut said = self.said.borrow_mut();
        said.extend_from_slice(&output.stdout);
        said.extend_from_slice(&output.stderr);
    }

    /// Runs a command that must succeed, and returns its result.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> Value {
        let output = self.machine.run(arguments);
        self.hear(&output);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Runs a command that must fail. Returns its exit code and the failure.
    pub fn fails(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.machine.run(arguments);
        self.hear(&output);
        (output.status.code().unwrap(), failure(&output))
    }

    /// Runs a command that must fail with this code.
    pub fn refused(&self, arguments: &[&str], code: i32, name: &str) -> Value {
        let (exit, failure) = self.fails(arguments);
        assert_eq!((exit, failure["code"].as_str()), (code, Some(name)), "{arguments:?}: {failure}");
        failure
    }

    /// Runs a command as a person does, without --json.
    pub fn reads(&self, arguments: &[&str]) -> String {
        let output = self.machine.plain_command(arguments).stdout(Stdio::piped()).output().unwrap();
        self.hear(&output);
        String::from_utf8(output.stdout).unwrap()
    }

    /// The output of `holdall events` so far.
    pub fn events(&self) -> String {
        std::fs::read_to_string(&self.events_said).unwrap()
    }

    /// Opens drive `d`.
    pub fn open(&self) -> Value {
        let at = self.machine.mountpoint().display().to_string();
        self.ok(&["drive", "open", "d", "--attach", "loop", "--at", &at])
    }

    /// The file for credentials that are in no keyring.
    pub fn logins(&self) -> PathBuf {
        self.machine.state.join("logins.json")
    }

    /// Checks that nothing printed or written contains one of the secrets, in any form, except the one file for credentials.
    pub fn assert_discreet(&mut self, secrets: &[&str]) {
        // The contents of a support report.
        for shown in [&["diagnostics"][..], &["activity"], &["status"], &["doctor"], &["store", "list"]] {
            for output in [self.machine.run(shown), self.machine.plain_command(shown).output().unwrap()] {
                assert!(!output.stdout.is_empty(), "{shown:?} says nothing");
                self.hear(&output);
            }
        }
        // Its output is read to the end.
        self.ok(&["daemon", "stop"]);
        self.daemon.wait().unwrap();
        let _ = self.events.kill();
        self.events.wait().unwrap();
        let log = std::fs::read(&self.log).unwrap();
        assert!(log.len() > 1000, "the daemon says little: {}", String::from_utf8_lossy(&log));
        let mut places = vec![("what was said".to_owned(), self.said.borrow().clone())];
        places.push(("the log".to_owned(), log));
        places.push(("events".to_owned(), std::fs::read(&self.events_said).unwrap()));
        for directory in [&self.machine.state, &self.machine.cache, &self.machine.runtime] {
            discreet::files_below(directory, 64 << 20, &mut places);
        }
        let secrets: Vec<_> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        discreet::assert_discreet(&places, &secrets);
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.events.kill();
        let _ = self.events.wait();
        if std::thread::panicking() {
            return;
        }
        let read = |file: &Path| std::fs::read(file).unwrap_or_default();
        let places = [
            ("what was said".to_owned(), self.said.take()),
            ("the log".to_owned(), read(&self.log)),
            ("events".to_owned(), read(&self.events_said)),
        ];
        discreet::assert_discreet(&places, &self.machine.secrets());
    }
}
