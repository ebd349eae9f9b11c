//! Families: the contents of one store prefix, and the keys that unlock them.

use crate::format::FormatError;
use crate::format::family::Difference;
use crate::format::head::HeadState;
use crate::format::id::ObjectId;
use crate::keys::device::DevicePublic;
use crate::keys::{self, RecoveryKey, Secret, WrappedKey};
use crate::map::ReadError;
use crate::retry::{self, Backoff};
use crate::seal::{Cipher, DataKey, Sealer};
use crate::store::{Listed, Store, StoreError, When, immutable};
use crate::units::Epoch;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

pub use crate::format::family::{Family, Mode, NAME};

/// Tries of a put without an answer: about four seconds.
const TRIES: u32 = 5;
/// How long the maker of a family may take until there is something in it: a key takes a moment to wrap, and each put may have to be
/// repeated.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most wrapped keys to try. A family has two, and for a moment more while they are replaced; each costs time and memory.
const KEYS_TRIED_MAX: usize = 32;
/// The most wrapped keys to read: beside those of people there is one for each device that was paired.
const KEYS_READ_MAX: usize = 256;
/// How often to look while waiting for a maker.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A family whose keys are known.
#[derive(Clone)]
pub struct Unlocked {
    /// Its description.
    pub family: Family,
    /// Its data key.
    pub key: DataKey,
    /// Its seal.
    pub sealer: Arc<Sealer>,
}

/// Why a family cannot be made or unlocked.
#[derive(Debug, thiserror::Error)]
pub enum FamilyError {
    /// The store already has one.
    #[error("the store holds a drive already")]
    Exists,
    /// All its drives were removed, and the given secret or mode does not fit what is left.
    #[error("the store holds what is left of a drive that was removed")]
    Left,
    /// The store has an unfinished family: making it was interrupted.
    #[error("the store holds the beginning of a drive that was never finished")]
    Unfinished,
    /// The store has no family.
    #[error("the store holds no drive")]
    None,
    /// The family is encrypted, and no secret was given.
    #[error("the drive is encrypted: its passphrase or its recovery key is needed")]
    SecretNeeded,
    /// The given secret opens no key.
    #[error("the passphrase or recovery key is wrong")]
    WrongSecret,
    /// A passphrase or recovery key was given, and the store says that nothing is encrypted.
    #[error("the store says that the drive is not encrypted, and something to unlock it was given")]
    SecretUnused,
    /// The store's description of the family differs from the known one.
    #[error("the store has changed what it says of the drive: {0}")]
    Changed(Difference),
    /// There is no passphrase or recovery key to change.
    #[error("the drive is not encrypted")]
    NotEncrypted,
    /// The store failed, or an object is damaged or too new.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for FamilyError {
    fn from(error: StoreError) -> Self {
        FamilyError::Read(error.into())
    }
}

impl Unlocked {
    /// A family with a remembered data key. The key proves whether the family is encrypted, whatever the store says: the key of an
    /// encrypted family is random, and that of any other follows from the family's identity.
    pub fn with_key(family: Family, key: DataKey) -> Result<Self, FamilyError> {
        let is_public = *key.0 == *keys::public_data_key(family.family).0;
        match is_public == (family.cipher == Cipher::None) {
            true => Ok(Self::new(family, key)),
            false => Err(FamilyError::Changed(Difference::Cipher { now: family.cipher })),
        }
    }

    fn new(family: Family, key: DataKey) -> Self {
        let sealer = Arc::new(Sealer::new(family.cipher, &key));
        Self { family, key, sealer }
    }
}

/// Makes a family. With a passphrase it is encrypted, and gets a recovery key too. The family's object comes first: its name decides who
/// makes the family. A crash right after that leaves an encrypted family without keys, which nobody can use and which reports itself as
/// unfinished. A lost answer does not: the put is repeated. Once the keys are there, the same passphrase continues an unfinished family.
/// `store` must change HEADs as `mode` says.
pub async fn create(
    store: &dyn Store,
    passphrase: Option<Zeroizing<String>>,
    mode: Mode,
) -> Result<(Unlocked, Option<RecoveryKey>), FamilyError> {
    let cipher = if passphrase.is_some() { Cipher::XChaCha20Poly1305 } else { Cipher::None };
    let family = Family::new(crate::entropy::uuid(), cipher, mode);
    match put_patiently(store, NAME, Bytes::from(family.encode())).await {
        Err(StoreError::Precondition { .. }) => {
            return match go_on(store, passphrase.clone(), mode).await {
                Err(FamilyError::Exists) => use_again(store, passphrase, mode).await,
                gone_on => gone_on,
            };
        }
        put => put?,
    }
    let Some(passphrase) = passphrase else {
        let key = keys::public_data_key(family.family);
        return Ok((Unlocked::new(family, key), None));
    };
    let key = keys::new_data_key();
    let recovery = RecoveryKey::generate();
    add_key(store, &family, &key, &Secret::Recovery(recovery.clone())).await?;
    add_key(store, &family, &key, &Secret::Passphrase(passphrase).normal()).await?;
    Ok((Unlocked::new(family, key), Some(recovery)))
}

/// Continues a family that somebody began and that still has no drive after a while. If its maker lives after all, the family has two
/// drives. The maker's recovery key stays valid, since a person may have seen it.
async fn go_on(
    store: &dyn Store,
    passphrase: Option<Zeroizing<String>>,
    mode: Mode,
) -> Result<(Unlocked, Option<RecoveryKey>), FamilyError> {
    let family = begun(store).await?;
    let is_encrypted = family.cipher != Cipher::None;
    if family.mode != mode || is_encrypted != passphrase.is_some() {
        return Err(FamilyError::Unfinished);
    }
    let unlocked = match unlock_described(store, family, passphrase.map(Secret::Passphrase)).await {
        Err(FamilyError::WrongSecret) => return Err(FamilyError::Unfinished),
        unlocked => unlocked?,
    };
    if !is_encrypted {
        return Ok((unlocked, None));
    }
    let recovery = RecoveryKey::generate();
    add_key(store, &unlocked.family, &unlocked.key, &Secret::Recovery(recovery.clone())).await?;
    Ok((unlocked, Some(recovery)))
}

/// Uses a family again whose drives were all removed. Their tombstones stay, so that other computers see what happened to them. The
/// family's keys stay too: a new drive there needs the old passphrase. Another passphrase is refused, because nobody could say whose keys
/// the family has. Nothing is deleted, so a crash or a second maker at the same moment does no harm: the family then has two drives.
async fn use_again(
    store: &dyn Store,
    passphrase: Option<Zeroizing<String>>,
    mode: Mode,
) -> Result<(Unlocked, Option<RecoveryKey>), FamilyError> {
    for prefix in ["seg/", "ref/", "replica/"] {
        if !store.list(prefix).await?.is_empty() {
            return Err(FamilyError::Exists);
        }
    }
    // Somebody may have begun to make a drive there without putting its HEAD yet.
    let roots = store.list("root/").await?;
    if !roots.iter().all(is_first_root) {
        return Err(FamilyError::Exists);
    }
    // Every drive has a root. If there are roots, only the HEADs say what became of their drives, and without keys nobody can read those.
    let unfit = || if roots.is_empty() { FamilyError::Left } else { FamilyError::Exists };
    let family = describe(store).await?;
    let is_encrypted = family.cipher != Cipher::None;
    if family.mode != mode || is_encrypted != passphrase.is_some() {
        return Err(unfit());
    }
    let unlocked = match unlock(store, passphrase.map(Secret::Passphrase)).await {
        Err(FamilyError::WrongSecret | FamilyError::Unfinished) => return Err(unfit()),
        unlocked => unlocked?,
    };
    // A drive that has moved shows others where to, and one that is here may have no data yet: neither was removed.
    let heads = crate::drive::all_heads(store, &unlocked.sealer).await?;
    if heads.iter().any(|head| head.state != HeadState::Removed) {
        return Err(FamilyError::Exists);
    }
    if !is_encrypted {
        return Ok((unlocked, None));
    }
    let (recovery, _former) = new_recovery_key(store, &unlocked).await?;
    Ok((unlocked, Some(recovery)))
}

/// Puts an object that only this caller writes, or whose name decides who wins. Tries again if no answer came.
async fn put_patiently(store: &dyn Store, name: &str, body: Bytes) -> Result<(), StoreError> {
    let mut backoff = Backoff::new();
    loop {
        let put = match store.put(name, body.clone(), When::Absent).await {
            // Perhaps an earlier try of this put has won.
            Err(taken @ StoreError::Precondition { .. }) => immutable::holds(store, name, &body)
                .await
                .and_then(|ours| if ours { Ok(()) } else { Err(taken) }),
            put => put.map(drop),
        };
        let again = put.as_ref().err();
        match again.and_then(|error| retry::while_waited_for(&mut backoff, TRIES, error)) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return put,
        }
    }
}

/// The family that somebody began, if there is still nothing in it after a while.
async fn begun(store: &dyn Store) -> Result<Family, FamilyError> {
    let looked_since = Instant::now();
    loop {
        let found = match describe(store).await {
            // Its maker is decided and has not finished yet.
            Err(FamilyError::None) => None,
            found => Some(found?),
        };
        if found.is_some() && has_drives(store).await? {
            return Err(FamilyError::Exists);
        }
        if looked_since.elapsed() >= PATIENCE {
            return found.ok_or(FamilyError::Unfinished);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether the store contains objects of an existing or former drive. The very first version does not count, since a maker puts it before
/// the HEAD.
async fn has_drives(store: &dyn Store) -> Result<bool, StoreError> {
    for prefix in ["head/", "replica/", "seg/"] {
        if !store.list(prefix).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(!store.list("root/").await?.iter().all(is_first_root))
}

/// Whether it is the very first version of a drive.
fn is_first_root(listed: &Listed) -> bool {
    ObjectId::parse(&listed.name).is_some_and(|(_, id)| id.epoch == Epoch(0) && id.seq == 0)
}

/// Reads a family's description.
pub async fn describe(store: &dyn Store) -> Result<Family, FamilyError> {
    let bytes = match store.get(NAME, None).await {
        Err(StoreError::NotFound { .. }) => return Err(FamilyError::None),
        fetched => fetched?.bytes,
    };
    Ok(Family::decode(&bytes).map_err(|error| damaged(NAME, error))?)
}

/// Reads a family's description, and unlocks it.
pub async fn unlock(store: &dyn Store, secret: Option<Secret>) -> Result<Unlocked, FamilyError> {
    unlock_described(store, describe(store).await?, secret).await
}

/// Unlocks a family whose description was read before. Does not read it again, so a store that gives another answer the second time decides
/// nothing.
///
/// A secret that opens a wrapped key proves that the family is encrypted, and which family it is. So a given secret must be used: otherwise
/// the store alone could decide that everything is written in the clear.
pub async fn unlock_described(
    store: &dyn Store,
    family: Family,
    secret: Option<Secret>,
) -> Result<Unlocked, FamilyError> {
    if family.cipher == Cipher::None {
        if secret.is_some() {
            return Err(FamilyError::SecretUnused);
        }
        let key = keys::public_data_key(family.family);
        return Ok(Unlocked::new(family, key));
    }
    let secret = secret.ok_or(FamilyError::SecretNeeded)?;
    let listed = store.list("keys/").await?;
    if listed.is_empty() {
        return Err(FamilyError::Unfinished);
    }
    // One unreadable key does not keep another from opening the family.
    let (mut wrapped, mut odd) = (Vec::new(), None);
    for listed in listed.into_iter().take(KEYS_READ_MAX) {
        match read_key(store, &listed.name).await {
            // Kinds that this secret cannot open cost nothing.
            Ok(key) if !key.is_for(&secret) || wrapped.len() == KEYS_TRIED_MAX => {}
            Ok(key) => wrapped.push((key, listed.name)),
            Err(FamilyError::Read(error @ ReadError::Format { .. })) => odd = Some(error),
            Err(error) => return Err(error),
        }
    }
    for secret in secret.spellings() {
        for (wrapped, name) in &wrapped {
            match wrapped.unwrap(&secret, family.family, name.trim_start_matches("keys/")) {
                Ok(Some(key)) => return Ok(Unlocked::new(family, key)),
                Ok(None) => {}
                Err(error) => odd = Some(damaged(name, error)),
            }
        }
    }
    Err(odd.map_or(FamilyError::WrongSecret, FamilyError::Read))
}

/// Replaces the passphrase. The new one is in the store before the old ones are deleted.
pub async fn change_passphrase(
    store: &dyn Store,
    unlocked: &Unlocked,
    passphrase: Zeroizing<String>,
) -> Result<(), FamilyError> {
    let former = former_keys(store, unlocked, true).await?;
    add_key(store, &unlocked.family, &unlocked.key, &Secret::Passphrase(passphrase).normal()).await?;
    Ok(delete_keys(store, &former).await?)
}

/// Makes another recovery key. The new one is in the store before the former ones are deleted, and is returned even if deleting them fails.
/// If a crash or a lost answer loses it, the passphrase still opens the family, and another one can be made.
pub async fn new_recovery_key(
    store: &dyn Store,
    unlocked: &Unlocked,
) -> Result<(RecoveryKey, Result<(), StoreError>), FamilyError> {
    let former = former_keys(store, unlocked, false).await?;
    let recovery = RecoveryKey::generate();
    add_key(store, &unlocked.family, &unlocked.key, &Secret::Recovery(recovery.clone())).await?;
    Ok((recovery, delete_keys(store, &former).await))
}

/// Lets a device open the family with its own secret. If it can already, nothing changes.
pub async fn add_device(
    store: &dyn Store,
    unlocked: &Unlocked,
    device: &DevicePublic,
) -> Result<(), FamilyError> {
    if !keys_of(store, unlocked, device).await?.is_empty() {
        return Ok(());
    }
    let id = format!("{:032x}", crate::entropy::u128());
    let name = format!("keys/{id}");
    let wrapped = WrappedKey::wrap_for_device(&unlocked.key, device, unlocked.family.family, &id);
    let wrapped = wrapped.map_err(|error| damaged(&name, error))?;
    Ok(put_patiently(store, &name, Bytes::from(wrapped.encode())).await?)
}

/// Deletes the wraps for a device. It may still remember the data key.
pub async fn remove_device(
    store: &dyn Store,
    unlocked: &Unlocked,
    device: &DevicePublic,
) -> Result<(), FamilyError> {
    let names = keys_of(store, unlocked, device).await?;
    Ok(delete_keys(store, &names).await?)
}

/// The names of the wraps for a device.
async fn keys_of(
    store: &dyn Store,
    unlocked: &Unlocked,
    device: &DevicePublic,
) -> Result<Vec<String>, FamilyError> {
    if unlocked.family.cipher == Cipher::None {
        return Err(FamilyError::NotEncrypted);
    }
    let mut names = Vec::new();
    for listed in store.list("keys/").await?.into_iter().take(KEYS_READ_MAX) {
        match read_key(store, &listed.name).await {
            Ok(wrapped) if wrapped.device() == Some(*device) => names.push(listed.name),
            Ok(_) | Err(FamilyError::Read(ReadError::Format { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

/// The names of the wrapped keys of one kind.
async fn former_keys(
    store: &dyn Store,
    unlocked: &Unlocked,
    of_passphrases: bool,
) -> Result<Vec<String>, FamilyError> {
    if unlocked.family.cipher == Cipher::None {
        return Err(FamilyError::NotEncrypted);
    }
    let mut names = Vec::new();
    for listed in store.list("keys/").await? {
        match read_key(store, &listed.name).await {
            Ok(wrapped) if wrapped.is_passphrase() && of_passphrases => names.push(listed.name),
            Ok(wrapped) if wrapped.is_recovery() && !of_passphrases => names.push(listed.name),
            Ok(_) => {}
            // It opens nothing, and is not ours to delete.
            Err(FamilyError::Read(error @ ReadError::Format { .. })) => {
                tracing::warn!(%error, "a wrapped key cannot be read: it is left as it is");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(names)
}

async fn delete_keys(store: &dyn Store, names: &[String]) -> Result<(), StoreError> {
    for name in names {
        store.delete(name).await?;
    }
    Ok(())
}

async fn add_key(
    store: &dyn Store,
    family: &Family,
    key: &DataKey,
    secret: &Secret,
) -> Result<(), StoreError> {
    let id = format!("{:032x}", crate::entropy::u128());
    let wrapped = WrappedKey::wrap(key, secret, family.family, &id);
    put_patiently(store, &format!("keys/{id}"), Bytes::from(wrapped.encode())).await
}

async fn read_key(store: &dyn Store, name: &str) -> Result<WrappedKey, FamilyError> {
    let bytes = store.get(name, None).await?.bytes;
    Ok(WrappedKey::decode(&bytes).map_err(|error| damaged(name, error))?)
}

fn damaged(name: &str, error: FormatError) -> ReadError {
    ReadError::Format { name: name.to_owned(), error }
}
