//! An authority of one's own, and a server's certificate from it.

use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIG: &str = "
[req]
distinguished_name = name
prompt = no
[name]
CN = holdall tests
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1, DNS:localhost
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
";

/// Files in PEM.
pub struct Certificates {
    /// Of the authority: what a client has to trust.
    pub ca: PathBuf,
    /// Of a server at 127.0.0.1 and localhost.
    pub certificate: PathBuf,
    /// The server's key.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes them in `dir`.
    pub fn make(dir: &Path) -> Self {
        let config = dir.join("certificates.conf");
        std::fs::write(&config, CONFIG).unwrap();
        let path = |name: &str| dir.join(name);
        let make = |section: &str, key: &Path, certificate: &Path, more: &[&Path]| {
            let mut command = Command::new("openssl");
            command.args([
                "req",
                "-x509",
                "-nodes",
                "-days",
                "2",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ]);
            command.args(["-extensions", section]).arg("-config").arg(&config);
            command.arg("-keyout").arg(key).arg("-out").arg(certificate);
            if let [ca, ca_key] = more {
                command.arg("-CA").arg(ca).arg("-CAkey").arg(ca_key);
            }
            let made = command.output().expect("packaging/setup tests installs openssl");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        let (ca, ca_key) = (path("ca.pem"), path("ca.key"));
        let (certificate, key) = (path("server.pem"), path("server.key"));
        make("authority", &ca_key, &ca, &[]);
        make("server", &key, &certificate, &[&ca, &ca_key]);
        Self { ca, certificate, key }
    }
}
