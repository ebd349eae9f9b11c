//! Follows the files of a certificate that a person provides: a renewed certificate is used without a restart.
//!
//! Programs that renew certificates replace the certificate and the key one after the other, and no signal comes when both are there. So
//! files that cannot be used are read again a little later before anybody is told, and the certificate in use stays.

use super::tls::{self, Identity};
use crate::api::CertificateFiles;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Certificates are renewed weeks before they expire. A person who replaces one by hand waits no longer than this.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Distinguishes two states of a file: inode, length, and when its data and its inode changed. `None` if there is no file.
type Stamp = Option<(u64, u64, (i64, i64), (i64, i64))>;

/// The files, and what is known of them.
pub struct Followed {
    files: CertificateFiles,
    /// The fingerprint of the certificate in use.
    fingerprint: String,
    /// The files whose certificate is in use, or about which a person was told.
    settled: Option<[Stamp; 2]>,
    /// Files that could not be used when they were last seen.
    doubtful: Option<[Stamp; 2]>,
}

impl Followed {
    /// Follows the files whose certificate with this fingerprint is in use.
    pub fn new(files: CertificateFiles, fingerprint: String) -> Self {
        Self { files, fingerprint, settled: None, doubtful: None }
    }

    /// The renewed certificate, or why the files cannot be used, each once. Reads files, so it may block.
    pub fn look(&mut self) -> Option<Result<Identity, String>> {
        // Before the files are read: a change in between is seen by the next look.
        let now = Some([&self.files.certificate, &self.files.key].map(|path| stamp(path)));
        if now == self.settled {
            return None;
        }
        match tls::given(&self.files) {
            Ok(identity) => {
                (self.settled, self.doubtful) = (now, None);
                (identity.fingerprint != self.fingerprint).then(|| {
                    self.fingerprint.clone_from(&identity.fingerprint);
                    Ok(identity)
                })
            }
            Err(why) if self.doubtful == now => {
                (self.settled, self.doubtful) = (now, None);
                Some(Err(why))
            }
            Err(_) => {
                self.doubtful = now;
                None
            }
        }
    }
}

fn stamp(path: &str) -> Stamp {
    let data = fs::metadata(path).ok()?;
    let (modified, changed) = ((data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec()));
    Some((data.ino(), data.len(), modified, changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::path::Path;

    fn made() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn followed(directory: &Path) -> (Followed, CertificateFiles) {
        let (certificate, key) = made();
        let path = |name| directory.join(name).to_string_lossy().into_owned();
        let files = CertificateFiles { certificate: path("cert.pem"), key: path("key.pem") };
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
        let fingerprint = tls::given(&files).unwrap().fingerprint;
        (Followed::new(files.clone(), fingerprint), files)
    }

    #[test]
    fn a_renewed_certificate_is_found_once() {
        let directory = tempfile::tempdir().unwrap();
        let (mut followed, files) = followed(directory.path());
        assert!(followed.look().is_none() && followed.look().is_none());
        let (certificate, key) = made();
        fs::write(&files.certificate, certificate).unwrap();
        assert!(followed.look().is_none(), "its key may come in a moment");
        fs::write(&files.key, key).unwrap();
        let found = followed.look().unwrap().unwrap();
        assert_eq!(found.fingerprint, tls::given(&files).unwrap().fingerprint);
        assert!(followed.look().is_none());
    }

    #[test]
    fn broken_files_are_told_once_and_followed_on() {
        let directory = tempfile::tempdir().unwrap();
        let (mut followed, files) = followed(directory.path());
        assert!(followed.look().is_none());
        let key = fs::read(&files.key).unwrap();
        for broken in [Some("nonsense"), None] {
            match broken {
                Some(text) => fs::write(&files.key, text).unwrap(),
                None => fs::remove_file(&files.key).unwrap(),
            }
            assert!(followed.look().is_none(), "it may be replaced just now");
            assert!(followed.look().unwrap().err().unwrap().starts_with(&files.key));
            assert!(followed.look().is_none(), "it was told");
        }
        // The certificate that is in use anyway.
        fs::write(&files.key, key).unwrap();
        assert!(followed.look().is_none());
        let (certificate, key) = made();
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
        assert!(followed.look().unwrap().is_ok());
    }
}
