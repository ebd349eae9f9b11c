//! A computer for one test: its directories, a copy of `holdall`, and a program that runs as holdalld.

use crate::fake::{Fake, Reply};
use holdall_servers::secrets;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A part of every passphrase and password in these tests.
pub const SECRET: &str = "hunter";

pub struct Place {
    /// Its path is short, since a socket's path may have at most 108 bytes.
    home: TempDir,
    /// On the file system of the built program, so that it can be linked. A copy could not be run while another test's child
    /// still has it open for writing.
    programs: TempDir,
}

impl Place {
    /// Without a daemon.
    pub fn new() -> Place {
        let home = tempfile::tempdir().unwrap();
        for dir in ["state", "run"] {
            std::fs::create_dir(home.path().join(dir)).unwrap();
        }
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_holdall"), programs.path().join("holdall")).unwrap();
        Place { home, programs }
    }

    /// With a daemon that gives these answers.
    pub fn with_daemon(replies: &[(&str, Reply)]) -> (Place, Fake) {
        let place = Place::new();
        let fake = Fake::listen(&place.socket(), replies);
        (place, fake)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("run/daemon.sock")
    }

    /// A file with this content.
    pub fn file(&self, name: &str, content: &str) -> String {
        let words = content.split(|c: char| c.is_whitespace() || "=:".contains(c));
        words.filter(|word| word.contains(SECRET)).for_each(secrets::note);
        std::fs::write(self.path(name), content).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Puts one of `stubs` beside `holdall`.
    pub fn install(&self, stub: &str) {
        let stubs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/stubs");
        symlink(stubs.join(stub), self.programs.path().join("holdalld")).unwrap();
    }

    /// `holdall` with these arguments, separated by blanks, in a fully known environment.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(self.programs.path().join("holdall"));
        command
            .args(arguments.split_whitespace())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOLDALL_STATE_DIR", self.path("state"))
            .env("HOLDALL_CACHE_DIR", self.path("cache"))
            .env("HOLDALL_RUNTIME_DIR", self.path("run"))
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `holdall` to its end.
    pub fn run(&self, arguments: &str) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }
}

/// The exit code and the output.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The one object on standard error.
    pub fn json_error(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ran {
    /// Checks that nothing printed contains typed text or a file's secret.
    fn from(output: Output) -> Ran {
        let text = |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            assert!(!text.contains(SECRET), "a secret is printed");
            text
        };
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}
