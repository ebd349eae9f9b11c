//! Somebody at a computer, of whom everything that is said is remembered.

use crate::bench::{Bench, Machine};
use serde_json::Value;
use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

/// A computer, and what it has said.
pub struct Person {
    pub machine: Machine,
    said: RefCell<Vec<u8>>,
    events: Child,
    events_said: PathBuf,
}

impl Person {
    /// No keyring is there, and whoever started the daemon has keys in the environment that would do.
    pub fn new(bench: &Bench, name: &str, environment: &[(&str, &str)]) -> Self {
        let mut machine = bench.machine(name);
        let told = [("HOLDALL_LOG", "trace")];
        machine.environment.extend(
            told.iter().chain(environment).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let events_said = bench.path(&format!("{name}.events"));
        let file = File::create(&events_said).unwrap();
        let errors = file.try_clone().unwrap();
        let mut events = machine.command(&["events"]);
        let events = events.stdout(file).stderr(errors).spawn().unwrap();
        Self { machine, said: RefCell::default(), events, events_said }
    }

    fn hear(&self, output: &Output) {
        let mut said = self.said.borrow_mut();
        said.extend_from_slice(&output.stdout);
        said.extend_from_slice(&output.stderr);
    }

    /// Runs a command that must succeed, and returns its result.
    pub fn ok(&self, arguments: &[&str]) -> Value {
        let output = self.machine.run(arguments);
        self.hear(&output);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Runs a command that must fail; its exit code, and the failure.
    pub fn fails(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.machine.run(arguments);
        self.hear(&output);
        let errors = String::from_utf8_lossy(&output.stderr);
        let failure: Value =
            errors.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        for part in ["code", "message", "consequence", "action"] {
            assert!(failure[part].as_str().is_some_and(|text| !text.is_empty()), "{arguments:?}: {errors}");
        }
        (output.status.code().unwrap(), failure)
    }

    /// Runs a command that must fail with this code.
    pub fn refused(&self, arguments: &[&str], code: i32, name: &str) -> Value {
        let (exit, failure) = self.fails(arguments);
        assert_eq!((exit, failure["code"].as_str()), (code, Some(name)), "{arguments:?}: {failure}");
        failure
    }

    /// Runs a command as a person reads it, without --json.
    pub fn reads(&self, arguments: &[&str]) -> String {
        let output = self.machine.plain_command(arguments).stdout(Stdio::piped()).output().unwrap();
        self.hear(&output);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Opens drive `d`.
    pub fn open(&self) -> Value {
        let at = self.machine.mountpoint().display().to_string();
        self.ok(&["drive", "open", "d", "--attach", "loop", "--at", &at])
    }

    /// Where credentials are that are in no keyring.
    pub fn logins(&self) -> PathBuf {
        self.machine.state.join("logins.json")
    }

    /// Nothing that was said or written says one of the secrets, but for the one file that is there for it.
    pub fn assert_discreet(&mut self, secrets: &[&str]) {
        // It is heard to its end.
        let _ = self.ok(&["daemon", "stop"]);
        let _ = self.events.kill();
        let _ = self.events.wait();
        let mut places = vec![("what was said".to_owned(), self.said.borrow().clone())];
        places.push(("events".to_owned(), std::fs::read(&self.events_said).unwrap()));
        for directory in [&self.machine.state, &self.machine.cache, &self.machine.runtime] {
            collect(directory, &self.logins(), &mut places);
        }
        let log = places.iter().find(|(name, _)| name.ends_with("daemon.log")).expect("the daemon has a log");
        assert!(log.1.len() > 1000, "the daemon says little: {}", String::from_utf8_lossy(&log.1));
        for (place, bytes) in places {
            for secret in secrets {
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{place} says a secret");
            }
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.events.kill();
        let _ = self.events.wait();
    }
}

/// Files below `directory`, apart from `but`; large ones are data.
fn collect(directory: &Path, but: &Path, places: &mut Vec<(String, Vec<u8>)>) {
    const LARGE_BYTES: u64 = 64 << 20;
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            collect(&path, but, places);
        } else if kind.is_file() && path != but && path.metadata().is_ok_and(|it| it.len() < LARGE_BYTES) {
            places.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()));
        }
    }
}
