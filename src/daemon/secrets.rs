//! Credentials of stores: kept in the desktop's keyring if it is there and open, otherwise in a file that only its owner can read.
//!
//! `logins.json` in the state directory names every login, and holds the credentials that are in no keyring. It is one file, replaced
//! atomically: after a crash, a login is in its old or its new state. A keyring is written before the file and cleared after it, so that
//! everything the file says is in the keyring is there.
//!
//! This is the only source of credentials: the environment in which the daemon was started gives none.

use super::registry::replace;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::url::StoreUrl;
use keyring::KeyringError;
use scope::Scope;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use uuid::Uuid;
use zeroize::Zeroizing;

pub mod keyring;
pub mod scope;

const NAME: &str = "logins.json";
const VERSION: u32 = 1;

/// A login that is kept.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// The stores that it is for: a [`Scope`].
    pub store: String,
    /// The user who logs in, as far as it may be shown.
    pub user: String,
    /// Where the credentials are.
    pub kept: Kept,
}

/// Where credentials are.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// In the keyring, under this name.
    Keyring(Uuid),
    /// In this file.
    File(Credentials),
}

/// Why credentials cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// They were put into the keyring, and it does not give them.
    #[error("{}", not_given(store, error))]
    Keyring {
        /// The store that they are for.
        store: String,
        /// Why.
        error: KeyringError,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    Local(#[from] io::Error),
}

fn not_given(store: &str, error: &KeyringError) -> String {
    match error {
        KeyringError::Missing => format!("the keyring no longer has the credentials for {store}"),
        KeyringError::Away(_) | KeyringError::Locked => {
            format!("{error}, and the credentials for {store} are in it")
        }
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    logins: Vec<Login>,
}

/// Keeps the logins of this device.
pub struct SecretStore {
    path: PathBuf,
    /// Whether to ask for a keyring at all.
    keyring: bool,
    /// Held while the file is changed.
    changing: tokio::sync::Mutex<()>,
}

impl SecretStore {
    /// The keeper whose file is in the directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { path: state.join(NAME), keyring: true, changing: tokio::sync::Mutex::default() }
    }

    /// All logins, without asking a keyring.
    pub fn list(&self) -> io::Result<Vec<Login>> {
        let bytes = match std::fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => Zeroizing::new(bytes?),
        };
        // The parser's message could quote a secret, so it is dropped.
        let damaged =
            |_| io::Error::new(ErrorKind::InvalidData, format!("{} is damaged", self.path.display()));
        let file: File = serde_json::from_slice(&bytes).map_err(damaged)?;
        if file.version > VERSION {
            let message = format!("{} was written by a later version", self.path.display());
            return Err(io::Error::new(ErrorKind::Unsupported, message));
        }
        Ok(file.logins)
    }

    /// The login for `url`: the closest fit if there are several.
    pub fn find(&self, url: &StoreUrl) -> io::Result<Option<Login>> {
        let fits = |login: &Login| Scope::parse(&login.store)?.covers(url);
        let fitting = self.list()?.into_iter().filter_map(|login| Some((fits(&login)?, login)));
        Ok(fitting.max_by_key(|(fit, _)| *fit).map(|(_, login)| login))
    }

    /// The credentials of a login.
    pub async fn credentials(&self, login: &Login) -> Result<Credentials, SecretsError> {
        let item = match &login.kept {
            Kept::File(credentials) => return Ok(credentials.clone()),
            Kept::Keyring(item) => *item,
        };
        let failed = |error| SecretsError::Keyring { store: login.store.clone(), error };
        let secret = keyring::get(item).await.map_err(failed)?;
        serde_json::from_slice(&secret).map_err(|_| failed(KeyringError::Missing))
    }

    /// Keeps credentials, and replaces those of the same scope. With `keyring`, they are kept in the keyring, if there is one and it is
    /// open.
    pub async fn keep(
        &self,
        scope: &Scope,
        credentials: Credentials,
        keyring: bool,
    ) -> Result<Login, SecretsError> {
        let _changing = self.changing.lock().await;
        let mut logins = self.list()?;
        let store = scope.to_string();
        let user = shown_user(&credentials);
        let kept = match keyring && self.keyring {
            true => to_keyring(&store, credentials).await,
            false => Kept::File(credentials),
        };
        let before = take(&mut logins, &store);
        let login = Login { store, user, kept };
        logins.push(login.clone());
        logins.sort_by(|one, other| one.store.cmp(&other.store));
        self.write(logins)?;
        if let Some(before) = before {
            clear(&before).await;
        }
        Ok(login)
    }

    /// Forgets the credentials of exactly this scope. Returns them, if there were any.
    pub async fn forget(&self, scope: &Scope) -> Result<Option<Login>, SecretsError> {
        let _changing = self.changing.lock().await;
        let mut logins = self.list()?;
        let Some(login) = take(&mut logins, &scope.to_string()) else { return Ok(None) };
        self.write(logins)?;
        clear(&login).await;
        Ok(Some(login))
    }

    fn write(&self, logins: Vec<Login>) -> io::Result<()> {
        let file = File { version: VERSION, logins };
        let text = Zeroizing::new(serde_json::to_vec_pretty(&file).map_err(io::Error::from)?);
        replace(&self.path, &text)
    }
}

/// Puts credentials into the keyring; if it does not accept them, they must be written to the file.
async fn to_keyring(store: &str, credentials: Credentials) -> Kept {
    let text = serde_json::to_vec(&credentials).expect("credentials are made of strings");
    let item = Uuid::new_v4();
    match keyring::put(item, &format!("Holdall: {store}"), &Zeroizing::new(text)).await {
        Ok(()) => Kept::Keyring(item),
        Err(error) => {
            tracing::info!(%error, store, "credentials are saved in a file, because the keyring does not accept them");
            Kept::File(credentials)
        }
    }
}

fn take(logins: &mut Vec<Login>, store: &str) -> Option<Login> {
    let at = logins.iter().position(|login| login.store == store)?;
    Some(logins.remove(at))
}

/// Deletes credentials from the keyring that no login names any longer.
async fn clear(login: &Login) {
    let Kept::Keyring(item) = &login.kept else { return };
    if let Err(error) = keyring::delete(*item).await {
        tracing::warn!(%error, store = login.store, "old credentials stay in the keyring");
    }
}

/// The part of a user that may be shown: enough to distinguish two keys.
fn shown_user(credentials: &Credentials) -> String {
    const SHOWN_CHARACTERS: usize = 6;
    match credentials {
        Credentials::None => String::new(),
        Credentials::S3 { access_key, .. } => {
            let shown: String = access_key.chars().take(SHOWN_CHARACTERS).collect();
            if shown.len() < access_key.len() { format!("{shown}…") } else { shown }
        }
        Credentials::S3Profile { profile } => format!("profile {profile}"),
        Credentials::Password { user, .. } => user.clone(),
        Credentials::Bearer { .. } => "(token)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn secrets(dir: &tempfile::TempDir) -> SecretStore {
        // No test touches the keyring of the person who runs it.
        SecretStore { keyring: false, ..SecretStore::new(dir.path()) }
    }

    fn scope(text: &str) -> Scope {
        Scope::parse(text).unwrap()
    }

    fn password(password: &str) -> Credentials {
        Credentials::Password { user: "ann".into(), password: Zeroizing::new(password.into()) }
    }

    async fn found(secrets: &SecretStore, url: &str) -> Option<Credentials> {
        let login = secrets.find(&StoreUrl::parse(url).unwrap()).unwrap()?;
        Some(secrets.credentials(&login).await.unwrap())
    }

    #[tokio::test]
    async fn a_login_is_found_by_the_closest_fit_and_survives() {
        let dir = tempfile::tempdir().unwrap();
        assert!(found(&secrets(&dir), "https://h/a/").await.is_none());
        for (store, secret) in [("https://h/", "one"), ("https://h/a/", "two"), ("https://h/", "three")] {
            secrets(&dir).keep(&scope(store), password(secret), true).await.unwrap();
        }
        let secrets = secrets(&dir);
        assert_eq!(found(&secrets, "https://h/a/b").await, Some(password("two")));
        assert_eq!(found(&secrets, "https://h/b").await, Some(password("three")));
        assert_eq!(found(&secrets, "http://h/a/").await, None);
        assert_eq!(secrets.list().unwrap().len(), 2);
        assert!(secrets.forget(&scope("https://h/a")).await.unwrap().is_some());
        assert!(secrets.forget(&scope("https://h/a")).await.unwrap().is_none());
        assert_eq!(found(&secrets, "https://h/a/b").await, Some(password("three")));
    }

    #[tokio::test]
    async fn the_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = secrets(&dir);
        let login = secrets.keep(&scope("https://h/"), password("hunter2"), true).await.unwrap();
        assert!(matches!(login.kept, Kept::File(_)));
        let file = dir.path().join(NAME);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing temporary is left");
    }

    #[tokio::test]
    async fn a_damaged_file_is_left_alone_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = secrets(&dir);
        let damaged = r#"{"version": 1, "logins": ["hunter2"]}"#;
        std::fs::write(dir.path().join(NAME), damaged).unwrap();
        let error = secrets.keep(&scope("https://h/"), password("x"), true).await.err().unwrap();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(std::fs::read_to_string(dir.path().join(NAME)).unwrap(), damaged);
        std::fs::write(dir.path().join(NAME), r#"{"version": 2, "logins": []}"#).unwrap();
        assert!(secrets.list().is_err());
    }

    #[test]
    fn a_user_is_shown_and_no_secret() {
        let key = |access_key: &str| Credentials::S3 {
            access_key: access_key.into(),
            secret_key: Zeroizing::new("secret".into()),
            session_token: None,
        };
        assert_eq!(shown_user(&key("AKIAIOSFODNN7EXAMPLE")), "AKIAIO…");
        assert_eq!(shown_user(&key("admin")), "admin");
        assert_eq!(shown_user(&password("hunter2")), "ann");
        assert_eq!(shown_user(&Credentials::Bearer { token: Zeroizing::new("t".into()) }), "(token)");
    }
}
