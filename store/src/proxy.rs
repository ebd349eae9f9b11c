//! An HTTP proxy on the way to stores.
//!
//! The environment is ignored unless a person has said otherwise: a daemon's environment depends on how it happened to be started. TLS
//! requests go through a tunnel (CONNECT), so the proxy sees a name and a port, and nothing else. This computer itself is never reached
//! through a proxy.

use data_encoding::BASE64;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use url::{Host, Url};
use zeroize::Zeroizing;

/// The proxy's address, its login, and the hosts that are reached without it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    login: Option<(String, Zeroizing<String>)>,
    except: Vec<String>,
}

/// Why a text is not a proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Not readable as an address.
    #[error("the address of a proxy is http://HOST:PORT")]
    Address,
    /// Only HTTP proxies are supported.
    #[error("a proxy of the kind {0} is not supported: http:// is")]
    Kind(String),
    /// The address contains a login, which other processes and logs would see.
    #[error("the address of a proxy holds no user and no password")]
    Secret,
}

impl Proxy {
    /// Reads an address: `http://host:port`, or without the scheme. It may contain no login.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let proxy = Self::with_any_login(text)?;
        if proxy.login.is_some() { Err(ProxyError::Secret) } else { Ok(proxy) }
    }

    fn with_any_login(text: &str) -> Result<Self, ProxyError> {
        let text = text.trim();
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&url).map_err(|_| ProxyError::Address)?;
        if url.scheme() != "http" {
            return Err(ProxyError::Kind(url.scheme().to_owned()));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ProxyError::Address)?.to_owned();
        if !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err(ProxyError::Address);
        }
        let decoded =
            |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = Some(decoded(url.username())).filter(|user| !user.is_empty());
        let password = Zeroizing::new(decoded(url.password().unwrap_or_default()));
        let login = user.map(|user| (user, password));
        Ok(Self { host, port: url.port().unwrap_or(80), login, except: Vec::new() })
    }

    /// The same with a login.
    pub fn with_login(self, user: String, password: Zeroizing<String>) -> Self {
        Self { login: Some((user, password)), ..self }
    }

    /// The same except for these hosts, separated by commas: names with everything below them, addresses, `10.0.0.0/8`, or `*` for all.
    pub fn except(self, hosts: &str) -> Self {
        let hosts = hosts.split([',', ' ']).map(|host| host.trim().to_ascii_lowercase());
        Self { except: hosts.filter(|host| !host.is_empty()).collect(), ..self }
    }

    /// Reads the environment: `HTTPS_PROXY` or `ALL_PROXY`, and `NO_PROXY`, in upper or lower case.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ProxyError> {
        let either = |name: &str| {
            let found = get(name).or_else(|| get(&name.to_ascii_lowercase()));
            found.filter(|value| !value.trim().is_empty())
        };
        let Some(text) = either("HTTPS_PROXY").or_else(|| either("ALL_PROXY")) else { return Ok(None) };
        let proxy = Self::with_any_login(&text)?;
        Ok(Some(proxy.except(&either("NO_PROXY").unwrap_or_default())))
    }

    /// The proxy's host and port, for people. Never the login.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The same as an address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The value of `Proxy-Authorization`.
    pub fn authorization(&self) -> Option<Zeroizing<String>> {
        let (user, password) = self.login.as_ref()?;
        let pair = Zeroizing::new(format!("{user}:{}", password.as_str()));
        Some(Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes()))))
    }

    /// Whether a server is reached through the proxy.
    pub fn serves(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let is_here = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        !is_here && !self.except.iter().any(|except| covers(except, &host, address))
    }

    /// The same for a server's address.
    pub fn serves_url(&self, url: &Url) -> bool {
        url.host().is_some_and(|host| match host {
            Host::Domain(name) => self.serves(name),
            Host::Ipv4(address) => self.serves(&address.to_string()),
            Host::Ipv6(address) => self.serves(&address.to_string()),
        })
    }
}

/// Explains why the proxy at an address made no tunnel; `why` is a library's words.
pub fn through_proxy(address: &str, why: &str) -> String {
    match why.contains("authorization") || why.contains("407") {
        true => format!(
            "the proxy {address} asks for a login, or does not take the one it gets (holdall limits --proxy-login-file)"
        ),
        false => format!("the proxy {address} does not get through ({why}); see holdall limits --proxy"),
    }
}

/// Whether an exception covers a host.
fn covers(except: &str, host: &str, address: Option<IpAddr>) -> bool {
    if except == "*" || except == host {
        return true;
    }
    if let Some((network, bits)) = except.split_once('/') {
        let (Ok(network), Ok(bits), Some(IpAddr::V4(address))) =
            (network.parse::<Ipv4Addr>(), bits.parse::<u32>(), address)
        else {
            return false;
        };
        let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
        return u32::from(network) & mask == u32::from(address) & mask;
    }
    let name = except.trim_start_matches("*.").trim_start_matches('.');
    address.is_none() && host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_logins_never_shown() {
        for (text, address) in [
            ("http://p:3128", "p:3128"),
            ("p:3128", "p:3128"),
            ("http://p/", "p:80"),
            (" [::1]:8080 ", "[::1]:8080"),
        ] {
            assert_eq!(Proxy::parse(text).map(|proxy| proxy.address()), Ok(address.to_owned()), "{text}");
        }
        assert_eq!(Proxy::parse("socks5://p:1080"), Err(ProxyError::Kind("socks5".into())));
        assert_eq!(Proxy::parse("http://me:hunter2@p:1"), Err(ProxyError::Secret));
        for text in ["", "http://", "http://p/path", "http://p?x"] {
            assert!(Proxy::parse(text).is_err(), "{text}");
        }
        let proxy = Proxy::parse("p:1").unwrap().with_login("me".into(), Zeroizing::new("hunter2".into()));
        assert_eq!(proxy.authorization().unwrap().as_str(), "Basic bWU6aHVudGVyMg==");
        assert!(!format!("{proxy:?} {} {}", proxy.address(), proxy.url()).contains("hunter2"));
    }

    #[test]
    fn some_hosts_are_asked_without_it() {
        let proxy = Proxy::parse("p:1").unwrap().except("example.org, .corp,10.0.0.0/8 192.168.1.7,*.lan");
        for (host, through) in [
            ("s3.amazonaws.com", true),
            ("example.org", false),
            ("a.example.org", false),
            ("notexample.org", true),
            ("Nas.Corp", false),
            ("nas.lan", false),
            ("10.1.2.3", false),
            ("11.1.2.3", true),
            ("192.168.1.7", false),
            ("192.168.1.8", true),
            ("localhost", false),
            ("127.0.0.1", false),
            ("[::1]", false),
        ] {
            assert_eq!(proxy.serves(host), through, "{host}");
        }
        assert!(!Proxy::parse("p:1").unwrap().except("*").serves("x"));
    }

    #[test]
    fn an_environment_is_read_where_it_names_a_proxy() {
        let of = |pairs: &'static [(&str, &str)]| {
            Proxy::from_environment(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("HTTPS_PROXY", " ")]), Ok(None));
        let proxy = of(&[("https_proxy", "http://me:a%40b@p:3128"), ("NO_PROXY", "nas")]).unwrap().unwrap();
        assert_eq!((proxy.address(), proxy.serves("nas")), ("p:3128".to_owned(), false));
        assert_eq!(proxy.authorization().unwrap().as_str(), "Basic bWU6YUBi");
        assert!(of(&[("ALL_PROXY", "socks5://p:1")]).is_err());
    }
}
