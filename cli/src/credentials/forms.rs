//! The forms of credentials. Nothing here repeats what it has read: an error says what is missing.

use crate::api::StoreCredentials;
use serde_json::Value;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The kind of credentials that a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keys.
    S3,
    /// A user and a password, or a token.
    WebDav,
}

/// Reads credentials in any of their forms; if there are several, those of `profile`. The error is the reason as part of a sentence.
pub fn parse(text: &str, kind: Kind, profile: Option<&str>) -> Result<StoreCredentials, &'static str> {
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    if text.trim_start().starts_with('{') {
        let value = serde_json::from_str(text).map_err(|_| "it begins like JSON, but is not valid JSON")?;
        return json(&value, kind);
    }
    match kind {
        Kind::WebDav => password(text),
        Kind::S3 => csv(text).or_else(|| pair(text)).map_or_else(|| settings(text, profile), Ok),
    }
}

/// Our own form, and what `aws iam create-access-key`, `aws sts` and `mc` print.
fn json(value: &Value, kind: Kind) -> Result<StoreCredentials, &'static str> {
    if value.get("kind").is_some() {
        return serde_json::from_value(value.clone()).map_err(|_| "its fields are not those of its kind");
    }
    let value = ["AccessKey", "Credentials"].iter().find_map(|outer| value.get(outer)).unwrap_or(value);
    let field = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| value.get(name)?.as_str())
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let access_key = field(&["access_key", "accessKey", "AccessKeyId", "access_key_id"]);
    let secret_key = field(&["secret_key", "secretKey", "SecretAccessKey", "secret_access_key"]);
    let session_token = field(&["session_token", "sessionToken", "SessionToken"]);
    match kind {
        Kind::S3 => s3(access_key, secret_key, session_token),
        Kind::WebDav => match (field(&["user", "username"]), field(&["password"]), field(&["token"])) {
            (Some(user), Some(password), None) => Ok(StoreCredentials::Password { user, password }),
            (None, None, Some(token)) => Ok(StoreCredentials::Bearer { token }),
            _ => Err("it contains neither a user with a password nor a token"),
        },
    }
}

fn s3(
    access_key: Option<String>,
    secret_key: Option<String>,
    session_token: Option<String>,
) -> Result<StoreCredentials, &'static str> {
    match (access_key, secret_key) {
        (Some(access_key), Some(secret_key)) => {
            Ok(StoreCredentials::S3 { access_key, secret_key, session_token })
        }
        (Some(_), None) => Err("it contains no secret key"),
        (None, Some(_)) => Err("it contains no access key"),
        (None, None) => Err("it contains no access key and no secret key"),
    }
}

/// The file that a console offers for download: a heading and one line.
fn csv(text: &str) -> Option<StoreCredentials> {
    let mut lines = text.lines();
    let heading: Vec<_> = cells(lines.next()?).iter().map(|cell| cell.to_lowercase()).collect();
    let column = |name: &str| heading.iter().position(|cell| cell == name);
    let (access, secret) = (column("access key id")?, column("secret access key")?);
    let row = cells(lines.find(|line| !line.trim().is_empty())?);
    s3(row.get(access).cloned(), row.get(secret).cloned(), None).ok()
}

fn cells(line: &str) -> Vec<String> {
    line.split(',').map(|cell| cell.trim().trim_matches('"').to_owned()).collect()
}

/// One line with `key:secret`, as s3fs uses it.
fn pair(text: &str) -> Option<StoreCredentials> {
    let line = text.trim();
    let (access, secret) = line.split_once(':')?;
    let plain = |part: &str| !part.is_empty() && !part.contains([' ', '=', ':', '\n', '[']);
    (plain(access) && plain(secret)).then(|| StoreCredentials::S3 {
        access_key: access.to_owned(),
        secret_key: secret.to_owned(),
        session_token: None,
    })
}

/// `name = value` below `[profile]`, as in `~/.aws/credentials`, or without a section, like exported shell variables.
fn settings(text: &str, profile: Option<&str>) -> Result<StoreCredentials, &'static str> {
    let wanted = profile.unwrap_or("default");
    let mut section = None;
    let (mut access_key, mut secret_key, mut session_token) = (None, None, None);
    let (mut sections, mut found) = (0, false);
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            section = Some(name.strip_prefix("profile ").map_or(name, str::trim).to_owned());
            sections += 1;
            found |= section.as_deref() == Some(wanted);
            continue;
        }
        if section.as_deref().is_some_and(|section| section != wanted) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim().trim_start_matches("export ").trim().to_lowercase();
        let value = Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty());
        match name.trim_start_matches("aws_") {
            "access_key_id" | "access_key" => access_key = value,
            "secret_access_key" | "secret_key" => secret_key = value,
            "session_token" | "security_token" => session_token = value,
            _ => {}
        }
    }
    if !found && (sections > 0 || profile.is_some()) {
        return Err(match profile {
            Some(_) => "it does not contain that profile",
            None => "it contains no [default]; choose a profile with --profile",
        });
    }
    s3(access_key, secret_key, session_token)
}

/// `user:password`, or each on a line of its own.
fn password(text: &str) -> Result<StoreCredentials, &'static str> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let (user, password) = match first.split_once(':') {
        Some(both) => both,
        None => (first, lines.next().unwrap_or_default()),
    };
    if user.trim().is_empty() || password.is_empty() {
        return Err("it contains no user with a password");
    }
    if lines.any(|line| !line.trim().is_empty()) {
        return Err("it contains more than a user and a password");
    }
    Ok(StoreCredentials::Password { user: user.trim().to_owned(), password: password.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, kind: Kind, profile: Option<&str>) -> Result<Value, &'static str> {
        // As a value that can be compared, and that a failed assertion can print.
        parse(text, kind, profile).map(|credentials| serde_json::to_value(credentials).unwrap())
    }

    fn s3(text: &str) -> Result<Value, &'static str> {
        read(text, Kind::S3, None)
    }

    fn pair(access: &str, secret: &str) -> Value {
        serde_json::json!({"kind": "s3", "access_key": access, "secret_key": secret})
    }

    #[test]
    fn keys_are_read_in_all_the_forms_that_people_have() {
        for text in [
            r#"{"kind": "s3", "access_key": "A", "secret_key": "S/+="}"#,
            r#"{"access_key": "A", "secret_key": "S/+="}"#,
            r#"{"AccessKey": {"UserName": "u", "AccessKeyId": "A", "Status": "Active", "SecretAccessKey": "S/+="}}"#,
            r#"{"url": "https://h", "accessKey": "A", "secretKey": "S/+=", "api": "s3v4"}"#,
            "[other]\naws_access_key_id = B\n[default]\naws_access_key_id = A\naws_secret_access_key = S/+=\n",
            "# mine\n[default]\r\naws_access_key_id=A\r\naws_secret_access_key=S/+=\r\n",
            "[default]\naccess_key = A\nsecret_key = S/+=\nhost_base = h\n",
            "export AWS_ACCESS_KEY_ID=A\nexport AWS_SECRET_ACCESS_KEY='S/+='\n",
            "\u{feff}Access key ID,Secret access key\r\nA,S/+=\r\n",
            "User name,Password,Access key ID,Secret access key,Console login link\n\"u\",,\"A\",\"S/+=\",https://h\n",
            "A:S/+\n",
        ] {
            let secret = if text.starts_with("A:") { "S/+" } else { "S/+=" };
            assert_eq!(s3(text), Ok(pair("A", secret)), "{text}");
        }
        let temporary =
            r#"{"Credentials": {"AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T"}}"#;
        assert_eq!(s3(temporary).unwrap()["session_token"], "T");
    }

    #[test]
    fn a_profile_is_the_one_that_is_asked_for() {
        let text = "[default]\naws_access_key_id = A\naws_secret_access_key = S\n\
                    [work]\naws_access_key_id = B\naws_secret_access_key = T\naws_session_token = U\n";
        assert_eq!(s3(text), Ok(pair("A", "S")));
        let work = read(text, Kind::S3, Some("work")).unwrap();
        assert_eq!((&work["access_key"], &work["session_token"]), (&"B".into(), &"U".into()));
        assert!(read(text, Kind::S3, Some("home")).unwrap_err().contains("profile"));
        assert!(s3("[work]\naws_access_key_id = B\n").unwrap_err().contains("--profile"));
    }

    #[test]
    fn a_user_and_a_password_are_read_as_they_are() {
        let password = |user: &str, password: &str| serde_json::json!({"kind": "password", "user": user, "password": password});
        for (text, expected) in [
            ("ann:hunter2\n", password("ann", "hunter2")),
            ("ann: two:words \n", password("ann", " two:words ")),
            ("ann\nhunter2", password("ann", "hunter2")),
            (r#"{"user": "ann", "password": "hunter2"}"#, password("ann", "hunter2")),
            (r#"{"token": "t"}"#, serde_json::json!({"kind": "bearer", "token": "t"})),
        ] {
            assert_eq!(read(text, Kind::WebDav, None), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused_without_repeating_it() {
        for (text, kind) in [
            ("", Kind::S3),
            ("hunter2", Kind::S3),
            ("{hunter2", Kind::S3),
            (r#"{"kind": "s3", "access_key": "hunter2"}"#, Kind::S3),
            ("aws_access_key_id = hunter2", Kind::S3),
            ("hunter2", Kind::WebDav),
            (":hunter2", Kind::WebDav),
            ("ann:hunter2\nand more", Kind::WebDav),
            (r#"{"user": "hunter2"}"#, Kind::WebDav),
        ] {
            let why = read(text, kind, None).unwrap_err();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }
}
