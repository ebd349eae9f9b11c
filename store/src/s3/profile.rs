//! Keys from a profile in `~/.aws/credentials` and `~/.aws/config`, as Amazon's tools write them.
//!
//! Only profiles that contain keys: others need a browser, a program or another account's permission, which a background service does not
//! have.

use std::collections::BTreeMap;
use std::path::Path;
use zeroize::Zeroizing;

/// The files. The later one wins where both have a setting.
pub(super) const FILES: [&str; 2] = ["config", "credentials"];

/// The settings of a profile.
pub(super) struct Profile {
    /// The public half.
    pub access_key: String,
    /// The secret half.
    pub secret_key: Zeroizing<String>,
    /// Only for temporary credentials.
    pub session_token: Option<Zeroizing<String>>,
    /// Used if the address names none.
    pub region: Option<String>,
}

/// Settings of one profile. Some are secrets.
type Settings = BTreeMap<String, Zeroizing<String>>;

/// The profile of that name in the directory `aws` (`~/.aws`). The error says what is missing.
pub(super) fn read(aws: &Path, name: &str) -> Result<Profile, String> {
    let text = |file: &'static str| match std::fs::read_to_string(aws.join(file)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Zeroizing::default()),
        Err(error) => Err(format!("{}: {error}", aws.join(file).display())),
        Ok(text) => Ok(Zeroizing::new(text)),
    };
    let section = if name == "default" { name.to_owned() } else { format!("profile {name}") };
    let [config, credentials] = FILES.map(text);
    let (config, credentials) = (config?, credentials?);
    let found = [settings(&config, &section), settings(&credentials, name)];
    let place = aws.display();
    if found.iter().all(Option::is_none) {
        return Err(format!("there is no profile {name} in {place}/credentials or {place}/config"));
    }
    let settings: Settings = found.into_iter().flatten().flatten().collect();
    profile(settings).map_err(|reason| format!("the profile {name} in {place} {reason}"))
}

fn profile(mut settings: Settings) -> Result<Profile, String> {
    let keys = (settings.remove("aws_access_key_id"), settings.remove("aws_secret_access_key"));
    let (Some(access_key), Some(secret_key)) = keys else {
        const ELSEWHERE: [&str; 5] =
            ["sso_session", "sso_start_url", "credential_process", "role_arn", "web_identity_token_file"];
        let elsewhere = ELSEWHERE.iter().find(|setting| settings.contains_key(**setting));
        return Err(match elsewhere {
            Some(setting) => format!(
                "gets its keys by {setting}, which Holdall does not do: give a profile with aws_access_key_id and \
                 aws_secret_access_key"
            ),
            None => "has no aws_access_key_id with an aws_secret_access_key".into(),
        });
    };
    Ok(Profile {
        access_key: access_key.to_string(),
        secret_key,
        session_token: settings.remove("aws_session_token"),
        region: settings.remove("region").map(|region| region.to_string()),
    })
}

/// The settings under `[section]`, if that exists.
fn settings(text: &str, section: &str) -> Option<Settings> {
    let mut found: Option<Settings> = None;
    let mut inside = false;
    for line in text.lines() {
        let line = without_comment(line);
        if let Some(header) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = header.split_whitespace().eq(section.split_whitespace());
            if inside {
                found.get_or_insert_default();
            }
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            // Indented lines belong to the setting before them (`s3 =`).
            if !key.starts_with(char::is_whitespace) && !value.trim().is_empty() {
                let value = Zeroizing::new(value.trim().to_owned());
                found.get_or_insert_default().insert(key.trim().to_ascii_lowercase(), value);
            }
        }
    }
    found
}

/// A comment starts at the beginning of the line or after white space.
fn without_comment(line: &str) -> &str {
    let comment = |(at, _): &(usize, char)| *at == 0 || line[..*at].ends_with(char::is_whitespace);
    let start = line.char_indices().filter(|(_, c)| matches!(c, '#' | ';')).find(comment);
    start.map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
[default]
region = us-west-2
[profile work]   ; the firm's
region = eu-central-1
s3 =
    max_concurrent_requests = 20
    aws_access_key_id = not this
aws_access_key_id = AKOLD
[profile  sso]
sso_session = firm
[sso-session firm]
aws_access_key_id = not this either
";
    const CREDENTIALS: &str = "
# keys
[default]
aws_access_key_id=AKDEFAULT
aws_secret_access_key=se#cr=et
[work]
AWS_ACCESS_KEY_ID = AKWORK # mine
aws_secret_access_key = hunter2
aws_session_token = token==
[half]
aws_access_key_id = AKHALF
";

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config"), CONFIG).unwrap();
        std::fs::write(directory.path().join("credentials"), CREDENTIALS).unwrap();
        directory
    }

    fn wrong(name: &str) -> String {
        read(directory().path(), name).map(|_| ()).unwrap_err()
    }

    #[test]
    fn keys_and_region_are_found() {
        let directory = directory();
        let work = read(directory.path(), "work").unwrap();
        assert_eq!((work.access_key.as_str(), work.secret_key.as_str()), ("AKWORK", "hunter2"));
        assert_eq!(work.session_token.unwrap().as_str(), "token==");
        assert_eq!(work.region.as_deref(), Some("eu-central-1"));
        let default = read(directory.path(), "default").unwrap();
        assert_eq!((default.access_key.as_str(), default.secret_key.as_str()), ("AKDEFAULT", "se#cr=et"));
        assert!(default.session_token.is_none());
        std::fs::remove_file(directory.path().join("config")).unwrap();
        assert!(read(directory.path(), "work").unwrap().region.is_none());
    }

    #[test]
    fn errors_name_what_a_profile_lacks() {
        assert!(wrong("home").contains("there is no profile home"));
        assert!(wrong("half").contains("has no aws_access_key_id with"));
        assert!(wrong("sso").contains("sso_session, which Holdall does not do"));
        let empty = tempfile::tempdir().unwrap();
        assert!(read(empty.path(), "default").is_err());
    }
}
