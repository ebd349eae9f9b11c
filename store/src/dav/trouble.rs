//! Why no answer came, in words for a person: the cause, without secrets or debug output.

use crate::proxy::through_proxy;
use rustls::{CertificateError, Error as Tls};
use std::error::Error;
use std::io::{self, ErrorKind};

/// Why a request to `host` got no answer; `proxy` is the one on the way, if any. `https` is whether TLS was used.
pub fn reason(error: &reqwest::Error, host: &str, proxy: Option<&str>, https: bool) -> String {
    let causes = || std::iter::successors(Some(error as &dyn Error), |error| inner(*error));
    if let Some(error) = causes().find_map(|error| error.downcast_ref::<Tls>()) {
        return tls(error, host);
    }
    if let (Some(proxy), true) = (proxy, error.is_connect()) {
        let why = causes().last().map(|cause| cause.to_string()).unwrap_or_default();
        return through_proxy(proxy, &why);
    }
    if error.is_connect() && causes().any(|cause| cause.to_string().starts_with("dns error")) {
        return format!("the name {host} is not known (DNS), or there is no network");
    }
    if error.is_timeout() {
        return format!("{host} does not answer");
    }
    if let Some(error) = causes().find_map(|error| error.downcast_ref::<io::Error>()) {
        return network(error, host);
    }
    let hyper = causes().find_map(|error| error.downcast_ref::<hyper::Error>());
    if hyper.is_some_and(hyper::Error::is_parse) {
        let hint = if https { "" } else { "; try an https address" };
        return format!("{host} does not speak HTTP there{hint}");
    }
    if hyper.is_some_and(|error| error.is_incomplete_message() || error.is_closed() || error.is_canceled()) {
        return closed(host);
    }
    format!("the connection to {host} failed")
}

/// Whether the server closed the connection before a byte of an answer came.
pub fn was_closed(error: &reqwest::Error) -> bool {
    let causes = || std::iter::successors(Some(error as &dyn Error), |error| inner(*error));
    let is_incomplete = |error: &hyper::Error| error.is_incomplete_message() || error.is_canceled();
    let is_broken = |error: &io::Error| {
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
        )
    };
    causes().any(|cause| {
        cause.downcast_ref().is_some_and(is_incomplete) || cause.downcast_ref().is_some_and(is_broken)
    })
}

/// The next inner error, including one inside an I/O error.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn network(error: &io::Error, host: &str) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => format!("{host} refuses the connection: nothing listens there"),
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => format!("no network leads to {host}"),
        ErrorKind::TimedOut => format!("{host} does not answer"),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => closed(host),
        kind => format!("the connection to {host} failed: {kind}"),
    }
}

fn closed(host: &str) -> String {
    format!("{host} closed the connection in the middle")
}

fn tls(error: &Tls, host: &str) -> String {
    match error {
        Tls::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired, or this computer's clock is wrong")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {host} is not valid yet, or this computer's clock is wrong")
            }
            // A trusted certificate may have the same name and another key. Or the certificate signs itself, and claims to be an authority.
            CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_) => {
                format!(
                    "the certificate of {host} is from an authority that this computer does not trust; add ?ca=/path/to/its.pem to the address"
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the certificate is not that of {host}")
            }
            CertificateError::Revoked => format!("the certificate of {host} was revoked"),
            _ => format!("the certificate of {host} is not valid"),
        },
        Tls::InvalidMessage(_) => format!("{host} does not speak TLS there; is its address http?"),
        _ => format!("no secure connection to {host} comes about"),
    }
}
