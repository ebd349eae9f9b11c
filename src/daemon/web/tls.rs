//! The certificate that browsers of other computers see.

use crate::api::CertificateFiles;
use crate::daemon::registry;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// In the state directory.
const CERTIFICATE: &str = "web-certificate.pem";
const KEY: &str = "web-key.pem";

/// How long our own certificate is valid. Apple's browsers refuse a longer time.
const GOOD_DAYS: i64 = 825;

/// More than any chain of certificates takes.
const BYTES_MAX: u64 = 1 << 20;

/// A certificate and its key, ready for use.
pub struct Identity {
    /// The server's configuration with it.
    pub config: Arc<ServerConfig>,
    /// SHA-256, as browsers show it.
    pub fingerprint: String,
}

/// Reads a certificate that a person provides.
pub fn given(files: &CertificateFiles) -> Result<Identity, String> {
    let told = |path: &str, error: &dyn std::fmt::Display| format!("{path}: {error}");
    let read = |path: &str| read(path).map_err(|error| told(path, &error));
    let certificates = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| told(&files.certificate, &error))?;
    if certificates.is_empty() {
        return Err(told(&files.certificate, &"it contains no certificate"));
    }
    let key = Zeroizing::new(read(&files.key)?);
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| told(&files.key, &error))?;
    identity(certificates, key).map_err(|error| told(&files.certificate, &error))
}

/// Reads at most `BYTES_MAX` of a file, and only of a regular file: reading anything else may never end.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The daemon's own certificate for `names`, if its fingerprint is this one; otherwise a new certificate.
pub fn own(state: &Path, names: &[String], fingerprint: Option<&str>) -> io::Result<Identity> {
    let (certificate, key) = (state.join(CERTIFICATE), state.join(KEY));
    let files = CertificateFiles {
        certificate: certificate.to_string_lossy().into_owned(),
        key: key.to_string_lossy().into_owned(),
    };
    if let (Some(fingerprint), Ok(identity)) = (fingerprint, given(&files))
        && identity.fingerprint == fingerprint
    {
        return Ok(identity);
    }
    let (made, made_key) = make(names).map_err(io::Error::other)?;
    // A crash in between leaves a key and a certificate that do not match: then both are made again.
    registry::replace(&key, made_key.as_bytes())?;
    registry::replace(&certificate, made.as_bytes())?;
    given(&files).map_err(io::Error::other)
}

fn make(names: &[String]) -> Result<(String, String), rcgen::Error> {
    let day = |days: i64| {
        let at = Timestamp::now().to_zoned(TimeZone::UTC).saturating_add(days.days());
        date_time_ymd(i32::from(at.year()), at.month().unsigned_abs(), at.day().unsigned_abs())
    };
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "Holdall");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // The clocks of other computers may be a little behind.
    (params.not_before, params.not_after) = (day(-1), day(GOOD_DAYS - 2));
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Whether our own certificate, made at this time, should be made again.
pub fn is_old(made_s: i64) -> bool {
    Timestamp::now().as_second().saturating_sub(made_s) > (GOOD_DAYS - 30) * 24 * 3600
}

fn identity(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Identity, rustls::Error> {
    let fingerprint = fingerprint(&certificates[0]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Identity { config: Arc::new(config), fingerprint })
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let hash = Sha256::digest(certificate);
    hash.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

/// The names by which other computers may reach this one, if it listens at `address`.
pub fn names(address: IpAddr) -> Vec<String> {
    let host = host_name();
    let mut names = vec![host.clone(), "localhost".to_owned()];
    if !host.contains('.') {
        names.push(format!("{host}.local"));
    }
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names
}

/// This computer's name.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // A name that is not valid in the DNS cannot be in a certificate.
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if !name.is_empty() && name.chars().all(is_name) { name } else { "localhost".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_own_certificate_stays_until_it_is_renewed() {
        let state = tempfile::tempdir().unwrap();
        let names = names("192.0.2.7".parse().unwrap());
        let first = own(state.path(), &names, None).unwrap().fingerprint;
        assert_eq!((first.len(), first.matches(':').count()), (95, 31));
        assert_eq!(std::fs::metadata(state.path().join(KEY)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(own(state.path(), &names, Some(&first)).unwrap().fingerprint, first);
        let next = own(state.path(), &names, None).unwrap().fingerprint;
        assert_ne!(next, first);
        assert_ne!(
            own(state.path(), &names, Some(&first)).unwrap().fingerprint,
            next,
            "no page has shown that one"
        );
    }

    #[test]
    fn a_mismatched_certificate_and_key_are_replaced() {
        let state = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned()];
        let first = own(state.path(), &names, None).unwrap().fingerprint;
        for key in [KeyPair::generate().unwrap().serialize_pem(), String::new()] {
            std::fs::write(state.path().join(KEY), key).unwrap();
            assert_ne!(own(state.path(), &names, Some(&first)).unwrap().fingerprint, first);
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_named_in_the_error() {
        let files =
            CertificateFiles { certificate: "/nowhere/cert.pem".to_owned(), key: "/nowhere/key".to_owned() };
        let Err(told) = given(&files) else { panic!("there is none") };
        assert!(told.starts_with("/nowhere/cert.pem: "), "{told}");
        let files = CertificateFiles { certificate: "/dev/zero".to_owned(), ..files };
        assert_eq!(given(&files).err().unwrap(), "/dev/zero: it is not a file");
    }
}
