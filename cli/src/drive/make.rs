//! New drives on this computer: created, added, cloned.

use crate::api::{self, Action, Code, Created, Failure, Secrets, StoreMode};
use crate::args::drive::{Add, Create};
use crate::drive::remove::must_have_terminal;
use crate::drive::{Session, declined, route};
use crate::failure::{CliError, why};
use crate::secrets::{self, RecoveryKeyFile};
use crate::sizes::format_bytes;
use crate::{show, store, terminal};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// Said of every drive that is not encrypted: a person who adds it may not know, since only the store says so.
const CLEAR: &str = "The drive is not encrypted: anyone who can read the store can read the files\n";

/// `drive create`.
pub async fn create(create: &Create, session: &Session<'_>) -> Result<(), CliError> {
    // Everything that can be refused here is refused before anybody has to think of a passphrase.
    only_one_from_standard_input(&[&create.passphrase_file, &create.credentials.credentials_file])?;
    let credentials = store::given(&create.credentials).read(&create.store)?;
    let key_file = create.recovery_key_out.as_deref().map(RecoveryKeyFile::create).transpose()?;
    let passphrase = match create.no_encryption {
        true => None,
        false => {
            let option = "--passphrase-file FILE, or --no-encryption to store the drive without encryption";
            Some(secrets::new_passphrase(create.passphrase_file.as_deref(), &create.name, option).await?)
        }
    };
    let mut request = api::Create {
        name: create.name.clone(),
        store: create.store.clone(),
        size_bytes: create.size.as_ref().map(|size| size.bytes),
        encrypt: passphrase.is_some(),
        secrets: Secrets { passphrase, recovery_key: None },
        credentials,
        weakest: if create.yes { StoreMode::None } else { StoreMode::Claim },
        in_synced_folder: create.in_synced_folder,
        beside_others: create.beside_other_files,
    };
    let value = loop {
        match session.client.post("/v1/drives", &request).await {
            Err(CliError::Failed(failure)) if terminal::is_there() => settle(failure, &mut request).await?,
            result => break result?,
        }
    };
    let what = format!("{} is created: {}in {}", create.name, size(create, &value), request.store);
    tell(&value, &what, &create.name, key_file, session)
}

/// The size as it was typed; if none was, the one that the daemon has chosen.
fn size(create: &Create, made: &Value) -> String {
    let chosen = || made.get("size_bytes").and_then(Value::as_u64).map(format_bytes);
    let size = create.size.as_ref().map(|size| size.text.clone()).or_else(chosen);
    size.map_or_else(String::new, |size| format!("{size} "))
}

/// If a person can decide how to create the drive after this failure, asks, and changes the request. If only an option can decide, fails.
async fn settle(failure: Failure, request: &mut api::Create) -> Result<(), CliError> {
    let instead = failure.actions.iter().find_map(|action| match action {
        Action::UseSubdirectory { store, .. } => store.clone(),
        _ => None,
    });
    if let Some(store) = instead.filter(|store| *store != request.store) {
        terminal::say(&failure.message);
        if !terminal::confirm(&format!("Use {store} instead?")).await? {
            return Err(CliError::Failed(failure));
        }
        request.store = store;
        return Ok(());
    }
    // Only an option accepts a folder that a tool keeps in sync.
    let is_synced = failure.actions.contains(&Action::AcceptSyncedFolder);
    if failure.code != Code::WeakStore || is_synced {
        return Err(CliError::Failed(failure));
    }
    terminal::say(&failure.message);
    terminal::say(&format!("{}.", show::store::meaning(StoreMode::None)));
    if !terminal::confirm(&format!("Create {} anyway?", request.name)).await? {
        return Err(declined());
    }
    request.weakest = StoreMode::None;
    Ok(())
}

/// `drive add`. A drive that is not encrypted needs no secret, and only the daemon knows that; so if no secret was given, it is asked for
/// only after the daemon has missed it.
pub async fn add(add: &Add, session: &Session<'_>) -> Result<(), CliError> {
    only_one_from_standard_input(&[
        &add.passphrase_file,
        &add.recovery_key_file,
        &add.credentials.credentials_file,
    ])?;
    let credentials = store::given(&add.credentials).read(&add.store)?;
    let read = |path: Option<&_>, what| path.map(|path| secrets::read(path, what)).transpose();
    let given = Secrets {
        passphrase: read(add.passphrase_file.as_deref(), "passphrase")?,
        recovery_key: read(add.recovery_key_file.as_deref(), "recovery key")?,
    };
    let nothing_given = given.passphrase.is_none() && given.recovery_key.is_none();
    let mut request = api::Add {
        name: add.name.clone(),
        store: add.store.clone(),
        drive: add.drive.clone(),
        secrets: given,
        credentials,
    };
    let value = match session.client.post("/v1/drives/add", &request).await {
        Err(CliError::Failed(failure)) if nothing_given && failure.code == Code::PassphraseNeeded => {
            request.secrets.passphrase = Some(missed_passphrase(&add.name, failure).await?);
            session.client.post("/v1/drives/add", &request).await?
        }
        result => result?,
    };
    tell(&value, &format!("{} is added to this computer", add.name), &add.name, None, session)
}

/// `drive clone`.
pub async fn clone(
    name: &str,
    new: &str,
    snapshot: Option<&str>,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let request = api::Clone { name: new.to_owned(), snapshot: snapshot.map(str::to_owned) };
    let value = session.client.post(&route(name, "clone"), &request).await?;
    let of = snapshot.map(|label| format!(" as of {label}")).unwrap_or_default();
    tell(&value, &format!("{new} is created from {name}{of}"), new, None, session)
}

/// Standard input that was read to its end for one secret has nothing left for another.
fn only_one_from_standard_input(files: &[&Option<PathBuf>]) -> Result<(), CliError> {
    let from_it = files.iter().filter(|file| file.as_deref() == Some(Path::new("-"))).count();
    match from_it {
        0 | 1 => Ok(()),
        _ => Err(CliError::usage(
            "Standard input can supply only one of these.",
            "Use - for one of them, and files for the others.",
        )),
    }
}

async fn missed_passphrase(name: &str, failure: Failure) -> Result<String, CliError> {
    if terminal::is_there() {
        terminal::say(&failure.message);
        return terminal::ask_secret(&format!("Passphrase for {name}: ")).await;
    }
    let failure = failure.with_actions("Give --passphrase-file FILE or --recovery-key-file FILE.");
    Err(CliError::Failed(Failure { code: Code::Usage, ..failure }))
}

/// Reports the new drive, and saves or shows the recovery key, which the daemon gives only this once.
fn tell(
    value: &Value,
    what: &str,
    name: &str,
    key_file: Option<RecoveryKeyFile>,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let key = value.get("recovery_key").and_then(Value::as_str);
    let written = match (key, key_file) {
        (Some(key), Some(file)) => Some(file.write(key)),
        (Some(_), None) | (None, _) => None,
    };
    session.output.result(value, |created: &Created, _| {
        let mut text = format!("{what}\n");
        if created.store_mode == StoreMode::None {
            text.push_str(&format!("{}\n", show::store::meaning(created.store_mode)));
        }
        if !created.encrypted {
            text.push_str(CLEAR);
        }
        match (&created.recovery_key, &written) {
            (Some(_), Some(Ok(()))) => {
                text.push_str("The recovery key is written to the file; keep a copy elsewhere\n")
            }
            (Some(key), Some(Err(_)) | None) => text.push_str(&advice(key)),
            (None, _) => {}
        }
        text.push_str(&format!("Open it: holdall drive open {name}"));
        text
    })?;
    match written {
        Some(Err(error)) => Err(unwritten(&error, "The drive is created, and works.")),
        Some(Ok(())) | None => Ok(()),
    }
}

/// `drive recovery-key`.
pub async fn recovery_key(
    name: &str,
    out: Option<&Path>,
    sure: bool,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let key_file = out.map(RecoveryKeyFile::create).transpose()?;
    if !sure {
        must_have_terminal("A new recovery key replaces the old one.")?;
        let question = format!("Create a new recovery key for {name}? The old one stops working.");
        if !terminal::confirm(&question).await? {
            return Err(declined());
        }
    }
    let value = session.client.post(&route(name, "recovery-key"), &json!({})).await?;
    let key = value.get("recovery_key").and_then(Value::as_str);
    let written = key.zip(key_file).map(|(key, file)| file.write(key));
    session.output.result(&value, |made: &api::RecoveryKey, _| {
        let mut what = format!("{name} has a new recovery key. The passphrase stays the same");
        if made.former_stays {
            what.push_str(
                "\nThe old key could not be revoked and still works: run this command again once the store works",
            );
        }
        match &written {
            Some(Ok(())) => format!("{what}\nThe recovery key is written to the file; keep a copy elsewhere"),
            Some(Err(_)) | None => format!("{what}\n{}", advice(&made.recovery_key).trim_end()),
        }
    })?;
    match written {
        Some(Err(error)) => Err(unwritten(&error, "The new key is created, and opens the drive.")),
        Some(Ok(())) | None => Ok(()),
    }
}

/// The key is in the result, and not in its file.
fn unwritten(error: &io::Error, consequence: &str) -> CliError {
    CliError::new(
        Code::Failed,
        format!("Cannot write the recovery key: {}.", why(error)),
        consequence,
        "The recovery key is in the result above: copy it from there.",
    )
}

fn advice(key: &str) -> String {
    format!(
        "\nRecovery key:\n\n    {key}\n\n\
         Write it down and keep it away from this computer. It opens the drive if you forget the passphrase,\n\
         and it is not shown again. Without both, nobody can read the drive.\n\n"
    )
}
