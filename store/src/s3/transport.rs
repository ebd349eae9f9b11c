//! Why a request got no answer: from a chain of errors to a few words for a person.

use super::http::WebPage;
use super::meaning::web_page;
use super::road::NoTunnel;
use super::silence::Silent;
use crate::proxy::through_proxy;
use rustls::CertificateError;
use std::error::Error;
use std::io::{self, ErrorKind};

/// The reason why a request to `host` failed. Unless the scheme is known to be right, the address may lack the s of https.
pub(super) fn reason(error: &(dyn Error + 'static), host: &str, is_right_scheme: bool) -> String {
    known(error, host, is_right_scheme).unwrap_or_else(|| match chain(error).last() {
        Some(cause) => format!("the request to {host} did not get through ({cause})"),
        None => format!("the request to {host} did not get through"),
    })
}

/// The same, if the failure has a name.
pub(super) fn known(error: &(dyn Error + 'static), host: &str, is_right_scheme: bool) -> Option<String> {
    let links: Vec<_> = chain(error).collect();
    let known = links.iter().find_map(|link| {
        let silent = link.downcast_ref::<Silent>().map(|Silent(limit)| silent(host, *limit));
        let page = || link.downcast_ref::<WebPage>().map(|_| web_page(host));
        let proxy = || link.downcast_ref::<NoTunnel>().map(no_tunnel);
        let tls = || link.downcast_ref::<rustls::Error>().map(|error| tls(error, host));
        silent.or_else(page).or_else(proxy).or_else(tls)
    });
    let known =
        known.or_else(|| links.iter().find_map(|link| http(link.downcast_ref()?, host, is_right_scheme)));
    known.or_else(|| links.iter().rev().find_map(|link| network(link.downcast_ref()?, host, is_right_scheme)))
}

fn no_tunnel(NoTunnel { proxy, why }: &NoTunnel) -> String {
    through_proxy(proxy, why)
}

fn silent(host: &str, limit: std::time::Duration) -> String {
    format!("no byte came from {host} or went to it for {} s", limit.as_secs_f64())
}

fn tls(error: &rustls::Error, host: &str) -> String {
    use rustls::Error::{InvalidCertificate, InvalidMessage};
    match error {
        InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired, or the clock of this computer is wrong")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {host} is not valid yet: the clock of this computer may be wrong")
            }
            // A trusted certificate may have the same name and another key. Or the certificate signs itself, and claims to be an authority.
            CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_) => {
                format!(
                    "nobody whom this computer trusts has signed the certificate of {host}: if it is your own \
                     server, give its authority with ca=/path/to/ca.pem in the address"
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the certificate of {host} is for another name")
            }
            error => format!("the certificate of {host} is not valid ({error})"),
        },
        InvalidMessage(_) => format!("{host} does not speak TLS: its endpoint may begin with http://"),
        error => format!("{host} and this computer cannot agree on TLS ({error})"),
    }
}

fn http(error: &hyper::Error, host: &str, is_right_scheme: bool) -> Option<String> {
    if error.is_parse() {
        Some(format!("{host} does not speak HTTP: its endpoint may begin with https://"))
    } else if error.is_incomplete_message() {
        Some(format!("{host} closed the connection without a whole answer{}", hint(is_right_scheme)))
    } else {
        None
    }
}

fn network(error: &io::Error, host: &str, is_right_scheme: bool) -> Option<String> {
    Some(match error.kind() {
        ErrorKind::ConnectionRefused => format!("{host} refuses the connection: nothing listens there"),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            format!("{host} broke the connection off{}", hint(is_right_scheme))
        }
        ErrorKind::UnexpectedEof => format!("{host} closed the connection{}", hint(is_right_scheme)),
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::NetworkDown => {
            format!("there is no way to {host} from this network")
        }
        ErrorKind::TimedOut => format!("{host} does not answer"),
        // The resolver's error has no kind.
        _ if error.to_string().starts_with("failed to lookup address") => {
            format!("the name {host} cannot be found: this computer may be offline")
        }
        _ => return None,
    })
}

/// Some servers that expect TLS do not answer a request without it.
fn hint(is_right_scheme: bool) -> &'static str {
    if is_right_scheme { "" } else { "; if it wants TLS, its endpoint begins with https://" }
}

/// An error and its causes, including the error inside an [`io::Error`], which `source` would skip.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().map(io::Error::get_ref) {
            Some(Some(inner)) => Some(inner as &(dyn Error + 'static)),
            _ => error.source(),
        }
    })
}
