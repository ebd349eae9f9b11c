//! The existing content of a new drive's place: a drive, or other files.

use super::Stores;
use crate::api::Failure;
use crate::daemon::failure;
use holdall_core::family;
use holdall_core::store::credentials::Credentials;
use holdall_core::store::meter::Meter;
use holdall_core::store::names::{others, own_directory};
use holdall_core::store::url::StoreUrl;

/// The content of a place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Whether it is a store with a drive.
    pub has_drive: bool,
    /// Names of some other files and directories. Empty if there is a drive: they are there already.
    pub others: Vec<String>,
    /// A place below it for a drive alone, if there are other files.
    pub instead: Option<StoreUrl>,
}

/// Looks at what is at `url`. A place that cannot be listed counts as empty: a trial reports what is wrong with the store, and a server
/// whose listing of other files cannot be understood may still work as a store.
pub async fn look(stores: &Stores, url: &StoreUrl, credentials: &Credentials) -> Result<Place, Failure> {
    let store = stores.reach(url, credentials, &Meter::default())?;
    // Asked for by name: a listing with many other entries may not include it.
    let has_drive = store.head(family::NAME).await.is_ok();
    let top = store.top().await.unwrap_or_else(|error| {
        tracing::info!(%error, "the content of a new store is unknown");
        Vec::new()
    });
    Ok(judge(url, has_drive, &top))
}

fn judge(url: &StoreUrl, has_drive: bool, top: &[String]) -> Place {
    let others = if has_drive { Vec::new() } else { others(top) };
    let instead = (!others.is_empty()).then(|| url.below(&own_directory(top)));
    Place { has_drive, others, instead }
}

/// Refuses a place with other files.
pub async fn check_not_shared(
    stores: &Stores,
    name: &str,
    url: &StoreUrl,
    credentials: &Credentials,
) -> Result<(), Failure> {
    let place = look(stores, url, credentials).await?;
    match place.instead {
        Some(instead) => Err(failure::among_others(name, url, &place.others, &instead)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::limits::Limits;
    use crate::daemon::secrets::SecretStore;

    async fn looked_at(files: &[&str]) -> (StoreUrl, Place) {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in files {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let url = StoreUrl::File(dir.path().to_owned());
        let stores = Stores::new(SecretStore::new(state.path()), Limits::load(state.path()));
        let place = look(&stores, &url, &Credentials::None).await.unwrap();
        (url, place)
    }

    #[tokio::test]
    async fn other_files_are_seen_and_a_free_place_is_offered() {
        let (url, place) = looked_at(&["letter.txt"]).await;
        assert_eq!((place.has_drive, &place.others[..]), (false, &["letter.txt".to_owned()][..]));
        assert_eq!(place.instead, Some(url.below("holdall")));
    }

    #[tokio::test]
    async fn a_drive_is_recognised_and_not_taken_for_other_files() {
        let (_, place) = looked_at(&["family.json", "letter.txt"]).await;
        assert_eq!(place, Place { has_drive: true, ..Place::default() });
        assert_eq!(looked_at(&[]).await.1, Place::default());
    }

    #[tokio::test]
    async fn a_directory_not_created_yet_counts_as_empty() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stores = Stores::new(SecretStore::new(state.path()), Limits::load(state.path()));
        let url = StoreUrl::File(dir.path().join("new"));
        assert_eq!(look(&stores, &url, &Credentials::None).await.unwrap(), Place::default());
    }
}
