//! Logging in to stores, and trying what they can do.

use super::drives::Drives;
use super::failure::{self, failure};
use super::secrets::scope::Scope;
use super::secrets::{Kept, Login};
use super::stores::{self, directory, place, trial};
use super::work::Work;
use crate::api::{self, Action, Code, Failure, KeptIn, StoreLogin};
use holdall_core::family;
use holdall_core::store::StoreError;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::file::FileStore;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe::{self, Effort};
use holdall_core::store::url::StoreUrl;

impl Drives {
    /// Keeps credentials, after trying them unless the request says otherwise.
    pub async fn log_in(&self, request: api::LogIn) -> Result<StoreLogin, Failure> {
        let url = stores::read(&request.store)?;
        let scope = stores::scope(&url)?;
        let credentials = stores::credentials(&url, request.credentials)?;
        if !request.unchecked {
            self.try_out(&url, &credentials).await?;
        }
        let kept = self.stores().secrets().keep(&scope, credentials, !request.no_keyring).await;
        let login = kept.map_err(|error| failure::secrets(&error))?;
        self.renew().await;
        Ok(self.told(&login))
    }

    /// Forgets credentials. Returns them, and the drives that used them.
    pub async fn log_out(&self, request: api::LogOut) -> Result<StoreLogin, Failure> {
        let url = stores::read(&request.store)?;
        let scope = stores::scope(&url)?;
        // Looked up before they are gone: afterwards the drives use other credentials, or none.
        let known = self.logins()?;
        let forgotten = self.stores().secrets().forget(&scope).await;
        let login =
            forgotten.map_err(|error| failure::secrets(&error))?.ok_or_else(|| not_logged_in(&scope))?;
        self.renew().await;
        let told = known.into_iter().find(|known| known.store == login.store);
        Ok(told.unwrap_or_else(|| self.told(&login)))
    }

    /// Connections in use continue with the credentials that are kept now.
    async fn renew(&self) {
        self.stores().renew().await;
        self.all().iter().for_each(|drive| drive.look_at_replicas_again());
        self.folders().all().iter().for_each(|folder| folder.renew());
        self.watched().all().iter().for_each(|directory| directory.renew());
    }

    /// All logins, without secrets.
    pub fn logins(&self) -> Result<Vec<StoreLogin>, Failure> {
        let logins = self.stores().secrets().list().map_err(|error| failure::secrets(&error.into()))?;
        Ok(logins.iter().map(|login| self.told(login)).collect())
    }

    /// Tries what a store can do.
    pub async fn test_store(&self, request: api::TestStore, work: Work) -> Result<api::StoreTested, Failure> {
        let url = stores::read(&request.store)?;
        let credentials = match request.credentials {
            Some(given) => stores::credentials(&url, given)?,
            None => self.stores().credentials(&url).await?,
        };
        if let StoreUrl::File(path) = &url {
            let found = FileStore::new(path.clone(), &DriveNames).find().await;
            found.map_err(|error| failure::no_store_directory(path, &error))?;
        }
        let meter = Meter::default();
        let trial = trial::of(self.stores(), &url, (&credentials, &meter), Effort::FULL, Some(&work));
        let report = work.unless_interrupted(failure::TRIED_IN_PART, trial).await??;
        let place = place::look(self.stores(), &url, &credentials).await?;
        Ok(api::StoreTested {
            store: url.to_string(),
            store_mode: stores::told(report.mode),
            usable: report.is_usable(),
            findings: [directory::findings(&url, report.mode).await, trial::findings(&report, &url)].concat(),
            reasons: report.reasons,
            has_drive: place.has_drive,
            others: place.others,
            instead: place.instead.map(|instead| instead.given()),
        })
    }

    /// Does `work` with the credentials of its request, if it has any, and keeps them on success. Credentials that are kept already are not
    /// replaced: another drive may use them.
    pub(super) async fn with_new_login<T>(
        &self,
        url: &StoreUrl,
        given: Option<api::StoreCredentials>,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let kept = self.keep_new(url, given).await?;
        let done = work.await;
        if let (Err(_), Some(login)) = (&done, kept) {
            self.forget_unused(&login).await;
        }
        done
    }

    /// Keeps credentials, and returns them if they were not kept before.
    async fn keep_new(
        &self,
        url: &StoreUrl,
        given: Option<api::StoreCredentials>,
    ) -> Result<Option<Login>, Failure> {
        let Some(given) = given else { return Ok(None) };
        let (scope, credentials) = (stores::scope(url)?, stores::credentials(url, given)?);
        let secrets = self.stores().secrets();
        let known = secrets.list().map_err(|error| failure::secrets(&error.into()))?;
        if let Some(known) = known.iter().find(|known| known.store == scope.to_string()) {
            let same = secrets.credentials(known).await.is_ok_and(|known| known == credentials);
            return if same { Ok(None) } else { Err(logged_in_otherwise(&scope)) };
        }
        self.try_out(url, &credentials).await?;
        let login = secrets.keep(&scope, credentials, true).await;
        login.map(Some).map_err(|error| failure::secrets(&error))
    }

    /// Forgets a login that was kept for work that failed, unless a drive or folder uses it by now.
    async fn forget_unused(&self, login: &Login) {
        let told = self.told(login);
        if !told.drives.is_empty() || !told.folders.is_empty() {
            return;
        }
        let Some(scope) = Scope::parse(&login.store) else { return };
        if let Err(error) = self.stores().secrets().forget(&scope).await {
            tracing::warn!(store = login.store, %error, "its credentials stay, although it was not created");
        }
    }

    /// Makes the requests that every drive makes: a listing, and a read of an object that may not exist.
    async fn try_out(&self, url: &StoreUrl, credentials: &Credentials) -> Result<(), Failure> {
        let store = self.stores().reach(url, credentials, &Meter::default())?;
        // An area that can be listed before there is a drive: in an empty store, everything else is reported missing.
        let tried = match store.list(probe::AREA).await {
            Ok(_) => store.get(family::NAME, None).await.map(drop),
            Err(error) => Err(error),
        };
        match tried {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(StoreError::UnknownCredentials { reason }) => Err(failure(
                Code::Credentials,
                format!("The store refused these credentials: {reason}."),
                "They were not saved, and nothing was changed.",
                "Check the access key and its secret, or the user and the password, and that they are still valid.",
            )),
            Err(StoreError::Denied { reason }) => Err(failure(
                Code::Credentials,
                format!("The store refused these credentials: {reason}."),
                "They were not saved, and nothing was changed.",
                "Check the access key or the password, and that it may list and read what is at this address.",
            )),
            Err(
                error
                @ (StoreError::NoPlace { .. } | StoreError::Elsewhere { .. } | StoreError::Unfit { .. }),
            ) => Err(failure::new_store(&error)),
            Err(error) => {
                let failure = failure::store(&error);
                let consequence = "They were not saved, and nothing was changed.".into();
                let check = Action::tell("Check the address and the connection.");
                let failure = Failure { consequence, ..failure }.with_actions([check, Action::KeepUntried]);
                Err(failure::at_new_store(failure, url))
            }
        }
    }

    fn told(&self, login: &Login) -> StoreLogin {
        let uses = |url: &str| {
            let url = StoreUrl::parse(url).ok()?;
            let found = self.stores().secrets().find(&url).ok()??;
            (found.store == login.store).then_some(())
        };
        let drives = self.addresses().into_iter().filter(|(_, url)| uses(url).is_some());
        let folders = self.folders().all();
        let folders = folders.iter().filter(|folder| uses(&folder.url()).is_some());
        StoreLogin {
            store: login.store.clone(),
            user: login.user.clone(),
            kept: match login.kept {
                Kept::Keyring(_) => KeptIn::Keyring,
                Kept::File(_) => KeptIn::File,
            },
            drives: drives.map(|(name, _)| name).collect(),
            folders: folders.map(|folder| folder.name.clone()).collect(),
        }
    }
}

fn not_logged_in(scope: &Scope) -> Failure {
    failure(
        Code::NotFound,
        format!("No credentials are saved for {scope}."),
        failure::NOTHING_CHANGED,
        Action::ListLogins,
    )
}

fn logged_in_otherwise(scope: &Scope) -> Failure {
    failure(
        Code::Exists,
        format!("Other credentials are already saved for {scope}."),
        failure::NOTHING_CHANGED,
        [Action::UseKept, Action::tell("Or replace them."), Action::LogIn { store: Some(scope.to_string()) }],
    )
}
