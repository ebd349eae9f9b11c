//! A terminal with a person at it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command};

/// How long a command may be silent.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

pub struct Pty {
    screen: File,
    terminal: File,
    seen: String,
}

impl Pty {
    pub fn open() -> Pty {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
        Pty { screen: screen.into(), terminal, seen: String::new() }
    }

    /// Runs a command on the terminal.
    pub fn spawn(&self, mut command: Command) -> Child {
        let terminal = || self.terminal.try_clone().unwrap();
        command.stdin(terminal()).stdout(terminal()).stderr(terminal()).env("TERM", "xterm");
        command.spawn().unwrap()
    }

    /// Waits until the screen shows `text` after the text found before; fails if it does not appear.
    pub fn wait_for(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let mut more = [PollFd::new(&self.screen, PollFlags::IN)];
            let shown = poll(&mut more, Some(&PATIENCE)).unwrap();
            assert!(shown > 0, "no {text:?} in {:?}", self.seen);
            let mut bytes = [0; 1024];
            let got =
                self.screen.read(&mut bytes).unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..got]));
        }
    }

    /// Types a line.
    pub fn type_line(&mut self, line: &str) {
        self.screen.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Whether typed text is shown.
    pub fn echoes(&self) -> bool {
        rustix::termios::tcgetattr(&self.terminal)
            .unwrap()
            .local_modes
            .contains(rustix::termios::LocalModes::ECHO)
    }

    /// Waits until the command has ended. Returns its exit code, and the screen after the text found before.
    pub fn finish(self, mut child: Child) -> (Option<i32>, String) {
        let Pty { mut screen, terminal, mut seen } = self;
        // With the last terminal descriptor closed, reading ends with EIO.
        drop(terminal);
        let mut bytes = [0; 4096];
        while let Ok(got) = screen.read(&mut bytes) {
            if got == 0 {
                break;
            }
            seen.push_str(&String::from_utf8_lossy(&bytes[..got]));
        }
        (child.wait().unwrap().code(), seen)
    }
}
