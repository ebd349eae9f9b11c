//! A test's own system bus.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use zbus::blocking::connection::Builder;

/// It runs until this is dropped.
pub struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    pub fn start() -> Self {
        let command = ["--session", "--nofork", "--print-address=1"];
        let mut daemon = Command::new("dbus-daemon").args(command).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { daemon, address: address.trim().to_owned() }
    }

    /// The value for DBUS_SYSTEM_BUS_ADDRESS.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The start of a service on it. The caller adds its name and objects.
    pub fn connection(&self) -> Builder<'_> {
        Builder::address(self.address()).unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
