//! Makes a remote from an address.

use super::Remote;
use super::RemoteError;
use super::file::{self, FileRemote, RootId};
use super::opening::holds_store;
use crate::StoreError;
use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::pace::Pacer;
use crate::url::StoreUrl;
use std::sync::Arc;
use uuid::Uuid;

/// How a remote is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// This device. What it leaves at the remote under way carries its name.
    pub device: Uuid,
    /// The identity of a directory at an earlier opening. Other remotes have none.
    pub root: Option<RootId>,
    /// Change nothing, not even to find out what the remote does.
    pub read_only: bool,
}

/// A remote that answers.
pub struct Connected {
    /// The remote.
    pub remote: Arc<dyn Remote>,
    /// The identity of a directory, for the next opening.
    pub root: Option<RootId>,
}

/// Why a place cannot be opened as a folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The remote takes another kind of credentials, or its certificates cannot be read.
    #[error("{reason}")]
    Setup {
        /// The cause.
        reason: String,
    },
    /// A Holdall store is there. Its objects are no files.
    #[error(
        "{place} holds a Holdall store, whose objects are no files: nothing was changed. Open its drives instead, or choose \
         another place for the folder"
    )]
    IsStore {
        /// Its address.
        place: String,
    },
    /// There is no answer, or no access.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl From<super::s3::OpenError> for ConnectError {
    fn from(error: super::s3::OpenError) -> Self {
        match error {
            super::s3::OpenError::Setup { reason } => Self::Setup { reason },
            super::s3::OpenError::Remote(error) => Self::Remote(error),
        }
    }
}

impl From<super::dav::OpenError> for ConnectError {
    fn from(error: super::dav::OpenError) -> Self {
        match error {
            super::dav::OpenError::Setup { reason } => Self::Setup { reason },
            super::dav::OpenError::Remote(error) => Self::Remote(error),
        }
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        Self::Remote(error.into())
    }
}

/// Opens the place at `url` as a remote, and finds out what it does. `pacer` paces its bodies, and `meter` counts its requests. A place that
/// holds a Holdall store is refused.
pub async fn connect_remote(
    url: &StoreUrl,
    credentials: &Credentials,
    options: Options,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Connected, ConnectError> {
    let connected = open(url, credentials, options, pacer, meter).await?;
    match holds_store(&*connected.remote).await? {
        true => Err(ConnectError::IsStore { place: url.to_string() }),
        false => Ok(connected),
    }
}

async fn open(
    url: &StoreUrl,
    credentials: &Credentials,
    options: Options,
    pacer: &Pacer,
    meter: &Meter,
) -> Result<Connected, ConnectError> {
    let Options { device, root, read_only } = options;
    match url {
        StoreUrl::File(path) => {
            let limits = crate::file::Limits::default();
            let options = file::Options { device, root, read_only, limits, pacer: pacer.clone() };
            let remote = FileRemote::open(path, options).await?;
            let root = Some(remote.root_id().clone());
            Ok(Connected { remote: Arc::new(remote), root })
        }
        StoreUrl::S3(url) => {
            let (options, limits) = (super::s3::Options { device, read_only }, crate::s3::Limits::default());
            let remote = super::s3::S3Remote::open(url, credentials, options, limits, (pacer, meter)).await?;
            Ok(Connected { remote: Arc::new(remote), root: None })
        }
        StoreUrl::Dav(url) => {
            let (options, limits) =
                (super::dav::Options { device, read_only }, crate::dav::http::Limits::default());
            let remote =
                super::dav::DavRemote::open(url, credentials, options, limits, (pacer, meter)).await?;
            Ok(Connected { remote: Arc::new(remote), root: None })
        }
    }
}
