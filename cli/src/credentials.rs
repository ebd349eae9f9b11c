//! Credentials of stores, in the forms in which people have them: as JSON, as AWS's tools and consoles write them, as a user and a
//! password. Nothing here repeats what it has read: an error only says which forms exist.

use crate::api::StoreCredentials;
use crate::failure::CliError;
use crate::secrets::read_text;
use crate::terminal;
use forms::{Kind, parse};
use holdall_address::StoreUrl;
use holdall_client::failure::address;
use std::path::Path;

mod forms;

/// A larger file is hardly the intended one.
const FILE_LIMIT_BYTES: u64 = 64 << 10;

/// How credentials are given on the command line.
#[derive(Clone, Copy, Default)]
pub struct Given<'a> {
    /// In this file; `-` is standard input.
    pub file: Option<&'a Path>,
    /// The profile to use, in the file or in `~/.aws`.
    pub profile: Option<&'a str>,
}

impl Given<'_> {
    /// Credentials, if any are given.
    pub fn read(&self, url: &str) -> Result<Option<StoreCredentials>, CliError> {
        // The form of the credentials depends on the kind of store.
        StoreUrl::read(url, std::env::home_dir().as_deref()).map_err(|error| {
            let (message, action) = address(&error);
            CliError::usage(message, action)
        })?;
        match (self.file, self.profile) {
            (None, None) => Ok(None),
            (None, Some(profile)) => Ok(Some(StoreCredentials::S3Profile { profile: profile.to_owned() })),
            (Some(file), profile) => {
                let text = read_text(file, "credentials", FILE_LIMIT_BYTES)?;
                let parsed = parse(&text, kind_of(url), profile);
                parsed.map(Some).map_err(|why| {
                    let action = match kind_of(url) {
                        Kind::S3 => S3_FORMS,
                        Kind::WebDav => WEBDAV_FORMS,
                    };
                    CliError::usage(
                        format!("The credentials in {} cannot be used: {why}.", shown(file)),
                        action,
                    )
                })
            }
        }
    }

    /// Reads credentials; if none are given, asks the person at the terminal.
    pub async fn read_or_ask(&self, url: &str) -> Result<StoreCredentials, CliError> {
        if let Some(given) = self.read(url)? {
            return Ok(given);
        }
        if !terminal::is_there() {
            return Err(CliError::usage(
                "No credentials were given, and there is no terminal to ask for them.",
                "Give --credentials-file FILE (- is standard input).",
            ));
        }
        match kind_of(url) {
            Kind::S3 => Ok(StoreCredentials::S3 {
                access_key: terminal::ask("Access key: ").await?.trim().to_owned(),
                secret_key: terminal::ask_secret("Secret key: ").await?.trim().to_owned(),
                session_token: None,
            }),
            Kind::WebDav => Ok(StoreCredentials::Password {
                user: terminal::ask("User: ").await?.trim().to_owned(),
                password: terminal::ask_secret("Password: ").await?,
            }),
        }
    }
}

const S3_FORMS: &str = "Give a file with [default] and aws_access_key_id = ..., aws_secret_access_key = ... as AWS's tools \
                        write it, the CSV of a console, or {\"access_key\": ..., \"secret_key\": ...}.";
const WEBDAV_FORMS: &str =
    "Give a file with user:password, or {\"user\": ..., \"password\": ...}, or {\"token\": ...}.";

fn shown(file: &Path) -> String {
    if file == Path::new("-") { "standard input".into() } else { file.display().to_string() }
}

fn kind_of(url: &str) -> Kind {
    if url.starts_with("s3:") { Kind::S3 } else { Kind::WebDav }
}
