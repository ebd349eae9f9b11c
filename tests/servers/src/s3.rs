//! An S3 server with one bucket: versitygw, which checks signatures, and keeps the promises of conditional puts under a race.

use crate::process::{Process, free_address};
use crate::secrets;
use crate::signing;
use crate::tls::Certificate;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The bucket of every server.
pub const BUCKET: &str = "holdall";
/// The access key of its owner.
pub const ACCESS_KEY: &str = "holdall-test";
/// The owner's secret key.
pub const SECRET_KEY: &str = "correct-horse-battery-staple";

/// Another user of the bucket of [`S3Server::start_with_users`].
pub struct User {
    /// The access key.
    pub name: &'static str,
    /// Its secret.
    pub secret: &'static str,
    /// The actions that the bucket's policy allows.
    actions: &'static str,
}

/// May only read.
pub const READER: User = User {
    name: "holdall-reader",
    secret: "glasses-bookmark-lamp",
    actions: r#""s3:GetObject", "s3:ListBucket""#,
};
/// May not delete.
pub const KEEPER: User = User {
    name: "holdall-keeper",
    secret: "attic-basement-shelf",
    actions: r#""s3:GetObject", "s3:ListBucket", "s3:PutObject""#,
};

impl User {
    /// The user's keys as a store's credentials, in JSON.
    pub fn credentials(&self) -> String {
        keys(self.name, self.secret)
    }
}

/// A server that runs until this is dropped, and then deletes its data.
pub struct S3Server {
    process: Process,
    scheme: &'static str,
    directory: TempDir,
}

/// The name of the server.
pub const NAME: &str = "versitygw";

impl S3Server {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// Starts one that stores its data on the disk of `parent`.
    pub fn start_in(parent: &Path) -> Self {
        Self::start_with("http", &[], tempfile::tempdir_in(parent).unwrap())
    }

    /// Starts one that speaks only TLS.
    pub fn start_tls(certificate: &Certificate) -> Self {
        Self::start_with("https", &tls(certificate), tempfile::tempdir().unwrap())
    }

    /// Starts one in a region. It accepts no signature for another.
    pub fn start_in_region(region: &str) -> Self {
        Self::start_with("http", &["--region".as_ref(), region.as_ref()], tempfile::tempdir().unwrap())
    }

    /// Starts one whose buckets are also hosts below `domain`.
    pub fn start_below(domain: &str) -> Self {
        Self::start_with(
            "http",
            &["--virtual-domain".as_ref(), domain.as_ref()],
            tempfile::tempdir().unwrap(),
        )
    }

    /// Starts one that also knows [`READER`] and [`KEEPER`].
    pub fn start_with_users() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let known = directory.path().join(".users");
        std::fs::create_dir(&known).unwrap();
        let server = Self::start_with("http", &["--iam-dir".as_ref(), known.as_ref()], directory);
        let mut statements = Vec::new();
        for User { name, secret, actions } in [&READER, &KEEPER] {
            server.make_user(name, secret);
            statements.push(format!(
                r#"{{"Effect": "Allow", "Principal": {{"AWS": ["{name}"]}}, "Action": [{actions}],
                    "Resource": ["arn:aws:s3:::{BUCKET}", "arn:aws:s3:::{BUCKET}/*"]}}"#
            ));
        }
        let policy = format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", "));
        signing::put(server.address(), &format!("/{BUCKET}?policy="), &policy);
        server
    }

    fn make_user(&self, name: &str, secret: &str) {
        secrets::note(secret);
        let mut command = Command::new(program(NAME).unwrap_or_else(|| NAME.into()));
        command.arg("admin").args(["--access", ACCESS_KEY, "--secret", SECRET_KEY]);
        command.arg("--endpoint-url").arg(format!("http://{}", self.address()));
        command.args(["create-user", "--access", name, "--secret", secret, "--role", "user"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn start_with(scheme: &'static str, options: &[&OsStr], directory: TempDir) -> Self {
        std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
        Self { process: process_at(free_address(), options, directory.path()), scheme, directory }
    }

    /// Restarts it at the same address, with another certificate.
    pub fn renew(&mut self, certificate: &Certificate) {
        self.process.stop();
        self.process = process_at(self.address(), &tls(certificate), self.directory.path());
    }

    /// Makes a request about a key as the owner of the bucket, as any other program would. `key` is percent-encoded, and may have a query.
    /// Returns the whole answer.
    pub fn ask(&self, method: &str, key: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        signing::ask(self.address(), method, &format!("/{BUCKET}/{key}"), headers, body)
    }

    /// The directory of its bucket.
    pub fn bucket(&self) -> PathBuf {
        self.directory.path().join(BUCKET)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// Its bucket, as a store's address. `prefix` is percent-encoded.
    pub fn url(&self, prefix: &str) -> String {
        url(self.scheme, self.address(), prefix)
    }
}

fn tls(Certificate { chain, key }: &Certificate) -> [&OsStr; 4] {
    ["--cert".as_ref(), chain.as_os_str(), "--key".as_ref(), key.as_os_str()]
}

fn process_at(address: SocketAddr, options: &[&OsStr], directory: &Path) -> Process {
    secrets::note(SECRET_KEY);
    let mut command = Command::new(program(NAME).unwrap_or_else(|| NAME.into()));
    command.env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY);
    command.arg("--port").arg(address.to_string()).args(["--keep-alive", "--quiet"]).args(options);
    command.arg("posix").arg(directory);
    Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()), address)
}

/// The bucket of a server, or of a proxy in front of one, as a store's address.
pub fn url(scheme: &str, address: SocketAddr, prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}?endpoint={scheme}%3A%2F%2F{address}&region=us-east-1")
}

/// The owner's keys as a store's credentials, in JSON.
pub fn credentials() -> String {
    keys(ACCESS_KEY, SECRET_KEY)
}

fn keys(access: &str, secret: &str) -> String {
    format!(r#"{{"kind": "s3", "access_key": "{access}", "secret_key": "{secret}"}}"#)
}

/// The path of a program: in PATH, or where packaging/setup installs it.
fn program(name: &str) -> Option<PathBuf> {
    let home = std::env::home_dir().unwrap_or_default();
    let gopath = std::env::var_os("GOPATH").map_or_else(|| home.join("go"), PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = [gopath.join("bin"), home.join(".local/share/holdall-tests/bin")];
    std::env::split_paths(&path).chain(installed).map(|place| place.join(name)).find(|path| path.is_file())
}
