//! Certificates that nobody trusts unless told to.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// An authority of one test.
pub struct Authority {
    directory: TempDir,
}

/// A server's certificate with its key, as PEM files.
pub struct Certificate {
    /// The certificate.
    pub chain: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

impl Authority {
    /// A new authority.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Self { directory };
        let mut command = authority.openssl("req");
        command.arg("-x509").args(KEY).args(["-keyout", "ca.key", "-out", "ca.pem", "-days", "2"]);
        command.args(["-subj", "/CN=Holdall test authority", "-addext", "basicConstraints=critical,CA:TRUE"]);
        run(&mut command);
        authority
    }

    /// A server's self-signed certificate, which also claims to be an authority, as `openssl req -x509` makes them. With negative
    /// `days` it has expired.
    pub fn of_server(host: &str, days: i32) -> Self {
        let authority = Self { directory: tempfile::tempdir().unwrap() };
        let mut command = authority.openssl("req");
        command.args(KEY).args(["-keyout", "ca.key", "-out", "ca.csr", "-subj", &format!("/CN={host}")]);
        run(&mut command);
        let kind = if host.parse::<IpAddr>().is_ok() { "IP" } else { "DNS" };
        let extensions = format!("subjectAltName={kind}:{host}\nbasicConstraints=critical,CA:TRUE\n");
        std::fs::write(authority.path("ca.ext"), extensions).unwrap();
        let mut command = authority.openssl("x509");
        command.args(["-req", "-in", "ca.csr", "-signkey", "ca.key", "-extfile", "ca.ext"]);
        command.args(["-days", &days.to_string(), "-out", "ca.pem"]);
        run(&mut command);
        authority
    }

    /// Its own certificate, used by a server.
    pub fn as_server(&self) -> Certificate {
        Certificate { chain: self.pem(), key: self.path("ca.key") }
    }

    /// Its own certificate. A client that trusts it trusts all certificates that it issues.
    pub fn pem(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A certificate for a server with this name or address, valid for `days` days. With negative `days` it has expired.
    pub fn issue(&self, host: &str, days: i32) -> Certificate {
        let [key, request, chain, extensions] =
            ["key", "csr", "pem", "ext"].map(|ending| format!("{host}{days}.{ending}"));
        let mut command = self.openssl("req");
        command.args(KEY).args(["-keyout", &key, "-out", &request, "-subj", "/CN=Holdall test server"]);
        run(&mut command);
        let kind = if host.parse::<IpAddr>().is_ok() { "IP" } else { "DNS" };
        let names = format!("subjectAltName={kind}:{host}\nbasicConstraints=CA:FALSE\n");
        std::fs::write(self.path(&extensions), names).unwrap();
        let mut command = self.openssl("x509");
        command.args(["-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]);
        command.args(["-days", &days.to_string(), "-extfile", &extensions, "-out", &chain]);
        run(&mut command);
        Certificate { chain: self.path(&chain), key: self.path(&key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn openssl(&self, command: &str) -> Command {
        let mut openssl = Command::new("openssl");
        openssl.arg(command).current_dir(self.directory.path()).stdin(Stdio::null());
        openssl
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("openssl runs; packaging/setup tests installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
