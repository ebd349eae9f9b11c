//! Credentials, as people keep them in files. Their readers are private to their crates and are compiled here from the same
//! files, so that nothing is made public for tests alone.

#[path = "../../../cli/src/credentials/forms.rs"]
mod forms;
#[path = "../../../store/src/s3/profile.rs"]
mod profile;

use forms::Kind;
use holdall_core::store::credentials::Credentials;

/// A file of any form. Credentials that are understood can be written in our own form and read back as the same.
pub fn credentials(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let json = |value: &holdall_api::StoreCredentials| serde_json::to_value(value).expect("plain fields");
    for kind in [Kind::S3, Kind::WebDav] {
        for profile in [None, Some("work")] {
            match forms::parse(text, kind, profile) {
                Ok(read) => {
                    let ours = json(&read);
                    let again = forms::parse(&ours.to_string(), kind, profile).expect("it is well-formed");
                    assert_eq!(json(&again), ours);
                    let kept: Credentials =
                        serde_json::from_value(ours.clone()).expect("the engine takes it");
                    assert_eq!(serde_json::to_value(&kept).expect("plain fields"), ours);
                }
                Err(reason) => assert_repeats_nothing(reason, text),
            }
        }
    }
}

/// Panics if an error repeats a word of its input, which may be a secret. The errors' own words have no digits, so a word
/// with a digit can only come from the input.
fn assert_repeats_nothing(reason: &str, input: &str) {
    let words = input.split(|c: char| !c.is_alphanumeric());
    for word in words.filter(|word| word.contains(char::is_numeric)) {
        assert!(!reason.contains(word), "{reason}");
    }
}

/// Credentials in all the forms that people have.
pub fn credential_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"kind": "s3", "access_key": "A", "secret_key": "S/+=", "session_token": "T"}"#,
        r#"{"kind": "bearer", "token": "t"}"#,
        r#"{"kind": "s3_profile", "profile": "work"}"#,
        r#"{"AccessKey": {"UserName": "u", "AccessKeyId": "A", "SecretAccessKey": "S/+="}}"#,
        r#"{"user": "ann", "password": "hunter2"}"#,
        "[other]\naws_access_key_id = B\n[profile work]\naws_access_key_id = A\naws_secret_access_key = S/+=\n",
        "export AWS_ACCESS_KEY_ID=A\nexport AWS_SECRET_ACCESS_KEY='S/+='\n",
        "\u{feff}Access key ID,Secret access key\r\nA,\"S/+=\"\r\n",
        "A:S/+\n",
        "ann: two:words \n",
        "ann\nhunter2\n",
    ]
    .map(Vec::from)
    .into()
}

/// The two files in `~/.aws`, separated by a line of their own.
pub fn aws_profile(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (config, credentials) = text.split_once("\n----\n").unwrap_or((text, ""));
    let aws = tempfile::tempdir().expect("a directory for a moment");
    std::fs::write(aws.path().join("config"), config).expect("a file in it");
    std::fs::write(aws.path().join("credentials"), credentials).expect("a file in it");
    for name in ["default", "work", "so so", ""] {
        match profile::read(aws.path(), name) {
            Ok(found) => {
                // Values in a request's header are on one line.
                for part in [&found.access_key, &*found.secret_key].into_iter().chain(found.region.as_ref()) {
                    assert!(!part.is_empty() && !part.contains('\n'), "{part:?}");
                }
                assert!(found.session_token.is_none_or(|token| !token.is_empty()));
            }
            Err(reason) => {
                let place = aws.path().to_string_lossy();
                assert!(reason.contains(&*place), "{reason}");
                assert_repeats_nothing(&reason.replace(&*place, ""), text);
            }
        }
    }
}

/// With sections, comments and nested settings.
pub fn aws_profile_seeds() -> Vec<Vec<u8>> {
    [
        "[default]\nregion = us-west-2\n[profile work]   ; the firm's\nregion = eu-central-1\ns3 =\n    aws_access_key_id = not this\n\
         [profile  so  so]\nsso_session = firm\n----\n# keys\n[default]\naws_access_key_id=AK\naws_secret_access_key=se#cr=et\n\
         [work]\nAWS_ACCESS_KEY_ID = AKWORK # mine\naws_secret_access_key = hunter2\naws_session_token = token==\n",
        "[profile work]\r\nrole_arn = x\r\nsource_profile=default\r\naws_secret_access_key = hunter2\r\n",
    ]
    .map(Vec::from)
    .into()
}
