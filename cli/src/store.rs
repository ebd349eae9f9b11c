//! `holdall store`: each command is a request, and its result in words.

use crate::api::{Code, LogIn, LogOut, StoreLogin, StoreTested, TestStore};
use crate::args::store::{CredentialsFrom, Login, StoreCommand};
use crate::credentials::Given;
use crate::drive::Session;
use crate::failure::CliError;
use crate::show::store;

/// Runs a command on a store.
pub async fn run(command: &StoreCommand, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    match command {
        StoreCommand::Login(login) => log_in(login, session).await,
        StoreCommand::Logout { store } => {
            let value = client.post("/v1/stores/logout", &LogOut { store: store.clone() }).await?;
            output.result(&value, |login: &StoreLogin, _| store::logged_out(login)).map(drop)
        }
        StoreCommand::List => {
            let value = client.get("/v1/stores").await?;
            output.result(&value, |logins: &Vec<StoreLogin>, _| store::list(logins)).map(drop)
        }
        StoreCommand::Test { store: at, credentials } => {
            let credentials = given(credentials).read(at)?;
            let request = TestStore { store: at.clone(), credentials };
            let value = client.post("/v1/stores/test", &request).await?;
            let tested =
                output.result(&value, |tested: &StoreTested, paint| store::tested(at, tested, paint))?;
            if tested.usable { Ok(()) } else { Err(CliError::BadNews(Code::Failed)) }
        }
    }
}

async fn log_in(login: &Login, session: &Session<'_>) -> Result<(), CliError> {
    let request = LogIn {
        store: login.store.clone(),
        credentials: given(&login.credentials).read_or_ask(&login.store).await?,
        unchecked: login.no_check,
        no_keyring: login.no_keyring,
    };
    let value = session.client.post("/v1/stores/login", &request).await?;
    session.output.result(&value, |login: &StoreLogin, _| store::logged_in(login)).map(drop)
}

/// The credentials' options as they were typed.
pub fn given(from: &CredentialsFrom) -> Given<'_> {
    Given { file: from.credentials_file.as_deref(), profile: from.profile.as_deref() }
}
