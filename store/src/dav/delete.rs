//! Deletes objects and collections.

use super::client::DavClient;
use super::http::Request;
use super::names;
use crate::StoreError;
use reqwest::{Method, StatusCode};

impl DavClient {
    /// Deletes an object, or a collection and everything in it. Whether it was there.
    pub(crate) async fn delete(&self, name: &str, is_collection: bool) -> Result<bool, StoreError> {
        let url = if is_collection {
            names::collection(self.base(), name)
        } else {
            names::object(self.base(), name)
        };
        let answer = self.send(&Request::new(Method::DELETE, url)).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(true),
            StatusCode::OK | StatusCode::ACCEPTED => {
                answer.no_page()?.drain().await;
                Ok(true)
            }
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::CONFLICT => {
                answer.drain().await;
                Ok(false)
            }
            _ => Err(answer.refusal(name)),
        }
    }
}
