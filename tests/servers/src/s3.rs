//! An S3 server with one bucket: versitygw, or moto where there is none.

use crate::process::{Process, free_address};
use crate::tls::Certificate;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Every server's bucket.
pub const BUCKET: &str = "holdall";
/// Who may use it.
pub const ACCESS_KEY: &str = "holdall-test";
/// That one's secret.
pub const SECRET_KEY: &str = "correct-horse-battery-staple";

/// A server that runs until this is dropped, and takes what it stores with it.
pub struct S3Server {
    process: Process,
    kind: Kind,
    scheme: &'static str,
    _directory: TempDir,
}

/// Which server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Checks signatures, and keeps the promises of conditional puts under a race.
    Versitygw,
    /// Keeps them too, and lets everybody in.
    Moto,
}

impl Kind {
    /// The better one of those that are installed.
    pub fn installed() -> Self {
        if program("versitygw").is_some() { Kind::Versitygw } else { Kind::Moto }
    }
}

impl S3Server {
    /// Starts the better one of those that are installed, and says which it is.
    pub fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// The same, which stores on the disk that `parent` is on.
    pub fn start_in(parent: &Path) -> Self {
        let kind = Kind::installed();
        eprintln!("The S3 server is {kind:?}.");
        Self::start_kind_in(kind, None, tempfile::tempdir_in(parent).unwrap())
    }

    /// Starts one that speaks TLS and nothing else.
    pub fn start_tls(certificate: &Certificate) -> Self {
        Self::start_kind(Kind::Versitygw, Some(certificate))
    }

    /// Starts this one.
    pub fn start_kind(kind: Kind, certificate: Option<&Certificate>) -> Self {
        Self::start_kind_in(kind, certificate, tempfile::tempdir().unwrap())
    }

    fn start_kind_in(kind: Kind, certificate: Option<&Certificate>, directory: TempDir) -> Self {
        let address = free_address();
        let name = match kind {
            Kind::Versitygw => "versitygw",
            Kind::Moto => "moto_server",
        };
        let mut command = Command::new(program(name).unwrap_or_else(|| name.into()));
        match kind {
            Kind::Versitygw => {
                std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
                command.env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY);
                command.arg("--port").arg(address.to_string()).args(["--keep-alive", "--quiet"]);
                if let Some(Certificate { chain, key }) = certificate {
                    command.arg("--cert").arg(chain).arg("--key").arg(key);
                }
                command.arg("posix").arg(directory.path());
            }
            Kind::Moto => {
                assert!(certificate.is_none(), "TLS is versitygw's; packaging/setup tests installs it");
                command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
            }
        }
        let process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()), address);
        if kind == Kind::Moto {
            make_bucket(address);
        }
        let scheme = if certificate.is_some() { "https" } else { "http" };
        Self { process, kind, scheme, _directory: directory }
    }

    /// Which one it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// Its bucket as a store's address; `prefix` is percent-encoded.
    pub fn url(&self, prefix: &str) -> String {
        url(self.scheme, self.address(), prefix)
    }
}

/// The bucket of a server, or of a proxy before one, as a store's address.
pub fn url(scheme: &str, address: SocketAddr, prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}?endpoint={scheme}%3A%2F%2F{address}&region=us-east-1")
}

/// What [`SECRET_KEY`] and the rest are as a store's credentials, in JSON.
pub fn credentials() -> String {
    format!(r#"{{"kind": "s3", "access_key": "{ACCESS_KEY}", "secret_key": "{SECRET_KEY}"}}"#)
}

/// Where a program is: on the path, or where packaging/setup installs it.
fn program(name: &str) -> Option<PathBuf> {
    let home = std::env::home_dir().unwrap_or_default();
    let gopath = std::env::var_os("GOPATH").map_or_else(|| home.join("go"), PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = [gopath.join("bin"), home.join(".local/share/holdall-tests/bin")];
    std::env::split_paths(&path).chain(installed).map(|place| place.join(name)).find(|path| path.is_file())
}

/// Without a signature, which moto does not miss.
fn make_bucket(address: SocketAddr) {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!(
        "PUT /{BUCKET} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.split(' ').nth(1) == Some("200"), "{answer}");
}
