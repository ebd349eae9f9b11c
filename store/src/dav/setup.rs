//! How a WebDAV server is reached: the settings of the HTTP client, of which one is made again when its connections are of no use.

use crate::proxy::Proxy;
use reqwest::header::HeaderValue;
use reqwest::{Client, redirect};
use rustls::ClientConfig;
use std::time::Duration;

/// Servers close idle connections after some time; ours close first.
const IDLE_CONNECTION_AGE_MAX: Duration = Duration::from_secs(30);

/// The settings of its clients.
pub(super) struct Setup {
    pub(super) connect: Duration,
    pub(super) idle: Duration,
    /// The trusted certificates, if they are not just the system's.
    pub(super) trusted: Option<ClientConfig>,
    pub(super) is_plain: bool,
    /// The proxy on the way to this server.
    pub(super) proxy: Option<Proxy>,
}

impl Setup {
    /// A client without connections.
    pub(super) fn client(&self) -> Result<Client, reqwest::Error> {
        let mut client = Client::builder()
            .user_agent(concat!("holdall/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(self.connect)
            .tcp_user_timeout(self.idle)
            .pool_idle_timeout(IDLE_CONNECTION_AGE_MAX)
            // The environment of this process is ignored.
            .no_proxy();
        if let Some(proxy) = &self.proxy {
            let mut through = reqwest::Proxy::all(proxy.url())?;
            let login = proxy.authorization().and_then(|login| HeaderValue::from_str(&login).ok());
            if let Some(mut login) = login {
                login.set_sensitive(true);
                through = through.custom_http_auth(login);
            }
            client = client.proxy(through);
        }
        if let Some(trusted) = &self.trusted {
            client = client.tls_backend_preconfigured(trusted.clone());
        }
        if self.is_plain && self.trusted.is_none() {
            client = client.tls_certs_only([]);
        }
        client.build()
    }
}
