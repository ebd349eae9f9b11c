//! The keys of a profile, as its files contain them now: a tool that gets temporary keys for a person writes the next ones there.

use super::profile::{self, FILES, Profile};
use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_sdk_s3::config::{Credentials as Keys, ProvideCredentials};
use parking_lot::Mutex;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Keys that are read again once their files change.
pub(super) struct ProfileKeys {
    aws: PathBuf,
    name: String,
    // Held while looking at the files, and while reading them after a change.
    known: Mutex<(Stamps, Keys)>,
}

/// The marks of a file that show a change. `None` for a missing file.
type Stamps = [Option<(SystemTime, u64, u64)>; 2];

impl ProfileKeys {
    /// The keys of the profile `name` in the directory `aws` (`~/.aws`), and its region. The error says what is missing.
    pub fn new(aws: PathBuf, name: &str) -> Result<(Self, Option<String>), String> {
        let stamps = stamps(&aws);
        let profile = profile::read(&aws, name)?;
        let known = Mutex::new((stamps, keys(&profile)));
        Ok((Self { aws, name: name.to_owned(), known }, profile.region))
    }

    fn now(&self) -> Keys {
        let mut known = self.known.lock();
        let stamps = stamps(&self.aws);
        if known.0 != stamps {
            known.0 = stamps;
            match profile::read(&self.aws, &self.name) {
                Ok(profile) => known.1 = keys(&profile),
                // The files are being written, or are gone. The store decides whether the former keys still work.
                Err(reason) => tracing::warn!(reason, "the former keys of the profile are used"),
            }
        }
        known.1.clone()
    }
}

impl ProvideCredentials for ProfileKeys {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::ready(Ok(self.now()))
    }
}

impl fmt::Debug for ProfileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileKeys")
            .field("aws", &self.aws)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn keys(profile: &Profile) -> Keys {
    let token = profile.session_token.as_ref().map(|token| token.to_string());
    Keys::new(&*profile.access_key, profile.secret_key.as_str(), token, None, "Holdall")
}

fn stamps(aws: &Path) -> Stamps {
    FILES.map(|file| {
        let metadata = aws.join(file).metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(secret: &str, token: &str) -> String {
        format!("[work]\naws_access_key_id = AK\naws_secret_access_key = {secret}\n{token}")
    }

    #[test]
    fn new_keys_in_the_files_are_used_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let credentials = directory.path().join("credentials");
        std::fs::write(&credentials, profile("hunter2", "aws_session_token = token==\n")).unwrap();
        let (keys, _) = ProfileKeys::new(directory.path().to_owned(), "work").unwrap();
        let now =
            || (keys.now().secret_access_key().to_owned(), keys.now().session_token().map(str::to_owned));
        assert_eq!(now(), ("hunter2".into(), Some("token==".into())));
        std::fs::write(directory.path().join("next"), profile("hunter3", "")).unwrap();
        std::fs::rename(directory.path().join("next"), &credentials).unwrap();
        assert_eq!(now(), ("hunter3".into(), None));
        std::fs::remove_file(&credentials).unwrap();
        assert_eq!(now(), ("hunter3".into(), None));
        std::fs::write(&credentials, profile("hunter4", "")).unwrap();
        assert_eq!(now(), ("hunter4".into(), None));
        assert!(!format!("{keys:?}").contains("hunter"));
    }
}
