//! Stores by their addresses.

use super::failure;
use crate::api::{Code, Failure};
use holdall_core::store::Store;
use holdall_core::store::connect::{self, ConnectError};
use holdall_core::store::credentials::Credentials;
use holdall_core::store::url::StoreUrl;
use std::sync::Arc;

/// The store at `url`. Nothing is contacted yet.
pub fn connect(url: &str) -> Result<Arc<dyn Store>, Failure> {
    let url = StoreUrl::parse(url).map_err(|error| failure::url(&error))?;
    connect::connect(&url, &Credentials::None).map_err(|error| match error {
        ConnectError::Url(error) => failure::url(&error),
        ConnectError::Setup { reason } => failure::failure(
            Code::Failed,
            reason,
            "Nothing was changed.",
            "Check the address and its credentials.",
        ),
    })
}
