//! Makes the SDK's client from an address and credentials. The environment has no influence: neither its variables nor the addresses that
//! exist only on Amazon's own computers.

use super::http::{Http, ServerClock};
use super::keys::ProfileKeys;
use super::limits::Limits;
use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::pace::Pacer;
use crate::trust;
use crate::url::S3Url;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Config, Credentials as Keys, IdentityCache, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, SharedCredentialsProvider, StalledStreamProtectionConfig,
};

/// The default region to sign for: all servers that are not Amazon's accept it.
const REGION: &str = "us-east-1";

/// The client. The error says what is wrong with the credentials or the certificates.
pub(super) fn client(
    url: &S3Url,
    credentials: &Credentials,
    limits: Limits,
    (pacer, meter): (&Pacer, &Meter),
    clock: ServerClock,
) -> Result<Client, String> {
    let trust = trust::config(url.ca.as_deref())?;
    let (keys, profile_region) = keys(credentials)?;
    let region = url.region.clone().or(profile_region).unwrap_or_else(|| REGION.into());
    let mut config = Config::builder()
        .http_client(Http::new(trust, limits, (pacer.clone(), meter.clone()), clock))
        .region(Region::new(region))
        .force_path_style(url.path_style)
        // A profile's keys may have changed by the next request.
        .identity_cache(IdentityCache::no_cache())
        // The caller retries: it knows what a lost answer means.
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // Many servers do not support the newer checksums. Requests are signed over the hashes of their bodies, and objects carry hashes
        // that are checked after reading.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &url.endpoint {
        config = config.endpoint_url(endpoint.as_str().trim_end_matches('/'));
    }
    config = match keys {
        Some(keys) => config.credentials_provider(keys),
        None => config.allow_no_auth(),
    };
    Ok(Client::from_conf(config.build()))
}

/// The keys to sign with, and the region that goes with them.
fn keys(credentials: &Credentials) -> Result<(Option<SharedCredentialsProvider>, Option<String>), String> {
    match credentials {
        Credentials::None => Ok((None, None)),
        Credentials::S3 { access_key, secret_key, session_token } => {
            let token = session_token.as_ref().map(|token| token.to_string());
            let keys = Keys::new(access_key, secret_key.as_str(), token, None, "Holdall");
            Ok((Some(SharedCredentialsProvider::new(keys)), None))
        }
        Credentials::S3Profile { profile } => {
            let home = std::env::home_dir()
                .ok_or("the profile's files cannot be found: there is no home directory")?;
            let (keys, region) = ProfileKeys::new(home.join(".aws"), profile)?;
            Ok((Some(SharedCredentialsProvider::new(keys)), region))
        }
        Credentials::Password { .. } | Credentials::Bearer { .. } => {
            Err(format!("an S3 store takes an access key and a secret key, and was given {credentials:?}"))
        }
    }
}
