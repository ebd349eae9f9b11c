//! WebDAV servers: Apache, nginx and rclone, each with its own files in a temporary directory.
//!
//! If started by root, all but rclone change to `nobody`, and their directories are open to all users.

use crate::faults::http::{Head, read_body};
use crate::process::{Process, free_address};
use crate::secrets;
use crate::tls::{Authority, Certificate};
use std::fmt::Write;
use std::fs::Permissions;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The user with all rights on servers with a sign-in.
pub const USER: &str = "writer";
/// The user with read access only, with [`SignIn::Basic`].
pub const READER: &str = "reader";
/// The user who may not delete, with [`SignIn::Basic`].
pub const KEEPER: &str = "keeper";
/// The password of all users.
pub const PASSWORD: &str = "correct horse: battery";
/// The token that servers with [`SignIn::Bearer`] accept.
pub const TOKEN: &str = "staple.battery-horse_correct";

/// How a server identifies its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// Not at all.
    None,
    /// By Basic.
    Basic,
    /// By Digest.
    Digest,
    /// By a bearer token.
    Bearer,
}

/// A WebDAV server.
pub struct DavServer {
    process: Process,
    dir: TempDir,
    authority: Option<Authority>,
}

impl DavServer {
    /// Apache's mod_dav.
    pub fn apache(sign_in: SignIn) -> Self {
        Self::start_apache(sign_in, None)
    }

    /// Apache's mod_dav without a sign-in, behind a front that supports neither MOVE nor ranges.
    pub fn apache_of_little() -> Self {
        let (dir, address) = (directories(), free_address());
        let config = apache_config(dir.path(), address, SignIn::None, None) + OF_LITTLE;
        Self { process: apache_process(dir.path(), address, &config), dir, authority: None }
    }

    /// Apache's mod_dav over TLS, with a certificate for 127.0.0.1 that is valid for `days` days, from an authority that nobody
    /// trusts yet.
    pub fn apache_tls(sign_in: SignIn, days: i32) -> Self {
        let authority = Authority::new();
        let certificate = authority.issue("127.0.0.1", days);
        Self::start_apache(sign_in, Some((authority, certificate)))
    }

    /// Apache with a self-signed certificate for `host`.
    pub fn apache_self_signed(host: &str, days: i32) -> Self {
        let authority = Authority::of_server(host, days);
        let certificate = authority.as_server();
        Self::start_apache(SignIn::None, Some((authority, certificate)))
    }

    /// nginx, with the WebDAV of libnginx-mod-http-dav-ext. Every known user has all rights.
    pub fn nginx(sign_in: SignIn) -> Self {
        let (dir, address) = (directories(), free_address());
        let at = dir.path().display();
        let sign_in = match sign_in {
            SignIn::None => String::new(),
            SignIn::Basic => {
                write_users(dir.path(), &basic_users());
                format!("auth_basic holdall; auth_basic_user_file {at}/users;")
            }
            SignIn::Digest | SignIn::Bearer => panic!("nginx knows neither by itself"),
        };
        let mut temporaries = String::new();
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            let _ = writeln!(temporaries, "{kind}_temp_path {at}/tmp/{kind};");
        }
        let config = format!(
            "user nobody nogroup;
load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;
daemon off;
worker_processes 2;
pid {at}/nginx.pid;
error_log {at}/log/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_max_body_size 0;
  {temporaries}
  server {{
    listen {address};
    root {at}/root;
    location / {{
      dav_methods PUT DELETE MKCOL COPY MOVE;
      dav_ext_methods PROPFIND OPTIONS;
      dav_access user:rw group:rw all:rw;
      {sign_in}
    }}
  }}
}}
"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        // Before it has read its configuration, it would write to the system's log.
        command.arg("-c").arg(file).arg("-e").arg(dir.path().join("log/start.log"));
        Self { process: Process::start(&mut command, address), dir, authority: None }
    }

    /// `rclone serve webdav`, without a sign-in. It heeds no condition, and a PUT that breaks off damages the file.
    pub fn rclone() -> Self {
        let (dir, address) = (directories(), free_address());
        let mut command = Command::new("/usr/bin/rclone");
        command.args(["serve", "webdav", "--config", "", "--dir-cache-time", "1ms", "--addr"]);
        command.arg(address.to_string()).arg(dir.path().join("root"));
        Self { process: Process::start(&mut command, address), dir, authority: None }
    }

    fn start_apache(sign_in: SignIn, tls: Option<(Authority, Certificate)>) -> Self {
        let (dir, address) = (directories(), free_address());
        let (authority, certificate) = tls.unzip();
        let config = apache_config(dir.path(), address, sign_in, certificate.as_ref());
        Self { process: apache_process(dir.path(), address, &config), dir, authority }
    }

    /// Restarts it at the same address, with a certificate of its authority that is valid for `days` days.
    pub fn renew(&mut self, sign_in: SignIn, days: i32) {
        self.process.stop();
        let (dir, address) = (self.dir.path(), self.address());
        let certificate = self.authority.as_ref().map(|authority| authority.issue("127.0.0.1", days));
        let config = apache_config(dir, address, sign_in, certificate.as_ref());
        self.process = apache_process(dir, address, &config);
    }

    /// The address of a path, which is percent-encoded and begins with `/`.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.process.address())
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// Makes a request, as any other program would, of a server without a sign-in or TLS. `path` is percent-encoded, and begins with `/`.
    /// Returns the status and the body.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Vec<u8>) {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (address, len) = (self.address(), body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {len}\r\nconnection: close\r\n{headers}\r\n"
        );
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut from = BufReader::new(stream);
        let head = Head::read(&mut from).unwrap().expect("an answer");
        let framing = head.answer_framing(method).unwrap();
        (head.status(), read_body(&mut from, framing).unwrap())
    }

    /// The directory that it serves.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Creates a directory in it that the server may write to.
    pub fn make_directory(&self, name: &str) {
        open_directory(&self.root().join(name));
    }

    /// The authority of its certificate.
    pub fn ca(&self) -> Option<PathBuf> {
        self.authority.as_ref().map(Authority::pem)
    }

    /// Its error log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log/error.log")).unwrap_or_default()
    }
}

fn directories() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    for name in ["root", "lock", "log", "tmp"] {
        open_directory(&dir.path().join(name));
    }
    dir
}

fn open_directory(path: &Path) {
    std::fs::create_dir(path).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
}

fn apache_process(dir: &Path, address: SocketAddr, config: &str) -> Process {
    let file = dir.join("apache.conf");
    std::fs::write(&file, config).unwrap();
    Process::start(Command::new("/usr/sbin/apache2").arg("-DFOREGROUND").arg("-f").arg(file), address)
}

/// All users with the password, in a form that both servers read.
fn basic_users() -> String {
    [USER, READER, KEEPER].map(|user| format!("{user}:{{SHA}}9GhyoftjpdqzBywCDABhFP4MvCM=\n")).concat()
}

fn write_users(dir: &Path, users: &str) {
    std::fs::write(dir.join("users"), users).unwrap();
    [PASSWORD, TOKEN].iter().for_each(|secret| secrets::note(secret));
}

/// As on some servers, and with some gateways in front of others.
const OF_LITTLE: &str = "<Location />
  RewriteEngine on
  RewriteCond %{REQUEST_METHOD} =MOVE
  RewriteRule ^ - [R=405,L]
  RequestHeader unset Range
  Header always unset Accept-Ranges
</Location>
";

/// The rights of each user. A forbidden request is answered like one of an unknown user (401), as Apache does it by default.
const MAY_BE_LITTLE: &str = "AuthType Basic
<RequireAll>
  Require valid-user
  Require expr %{REQUEST_METHOD} in {'GET', 'HEAD', 'OPTIONS', 'PROPFIND'} || %{REMOTE_USER} != 'reader'
  Require expr %{REQUEST_METHOD} != 'DELETE' || %{REMOTE_USER} != 'keeper'
</RequireAll>";

fn apache_config(
    dir: &Path,
    address: SocketAddr,
    sign_in: SignIn,
    certificate: Option<&Certificate>,
) -> String {
    let at = dir.display();
    let mut config = String::new();
    let modules = "mpm_event authz_core authz_user authn_core authn_file auth_basic auth_digest dav dav_fs dav_lock ssl rewrite headers";
    for module in modules.split(' ') {
        let _ = writeln!(config, "LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so");
    }
    let (sign_in, users) = match sign_in {
        SignIn::None => ("Require all granted".to_owned(), String::new()),
        SignIn::Basic => (MAY_BE_LITTLE.to_owned(), basic_users()),
        SignIn::Digest => (
            "AuthType Digest\nAuthDigestDomain /\nRequire valid-user".to_owned(),
            "writer:holdall:c5156d9ae1f9a8bd89aa9d3dc8d59834\n".to_owned(),
        ),
        // Apache itself knows no tokens.
        SignIn::Bearer => (
            format!(
                "Require all granted
  RewriteEngine on
  RewriteCond %{{HTTP:Authorization}} \"!=Bearer {TOKEN}\"
  RewriteRule ^ - [R=401,L]
  Header always set WWW-Authenticate \"Bearer realm=\\\"holdall\\\"\" \"expr=%{{REQUEST_STATUS}} == 401\""
            ),
            String::new(),
        ),
    };
    write_users(dir, &users);
    let tls = certificate.map_or(String::new(), |Certificate { chain, key }| {
        let [chain, key] = [chain, key].map(|path| path.display());
        format!("SSLEngine on\nSSLCertificateFile {chain}\nSSLCertificateKeyFile {key}\n")
    });
    let _ = write!(
        config,
        "ServerRoot {at}
ServerName localhost
DefaultRuntimeDir {at}/tmp
Listen {address}
PidFile {at}/apache.pid
ErrorLog {at}/log/error.log
User nobody
Group nogroup
StartServers 2
ThreadsPerChild 32
MaxRequestWorkers 128
DavLockDB {at}/lock/db
DocumentRoot {at}/root
LimitRequestBody 0
{tls}
<Directory {at}/root>
  Dav On
  AllowOverride None
  AuthName holdall
  AuthUserFile {at}/users
  {sign_in}
</Directory>
"
    );
    config
}
