//! Connections to a server: direct, or through a proxy's tunnel.

use super::limits::Limits;
use crate::proxy::Proxy;
use aws_sdk_s3::error::BoxError;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

/// Idle time after which a connection is probed, so that a dead one is not used again.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A proxy refused or failed to make a tunnel.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} did not get through: {why}")]
pub(super) struct NoTunnel {
    /// The proxy's address.
    pub(super) proxy: String,
    /// The proxy's answer.
    pub(super) why: String,
}

/// How servers are reached.
#[derive(Clone)]
pub(super) struct Road {
    tcp: TcpConnector,
    proxy: Option<(Proxy, Tunnel<TcpConnector>)>,
}

impl Road {
    /// Through `proxy`, for the servers that it serves.
    pub(super) fn new(limits: Limits, proxy: Option<Proxy>) -> Self {
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limits.connect));
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(2));
        let proxy = proxy.and_then(|proxy| {
            let mut tunnel = Tunnel::new(proxy.url().parse::<Uri>().ok()?, tcp.clone());
            let login = proxy.authorization().and_then(|login| HeaderValue::from_str(&login).ok());
            if let Some(mut login) = login {
                login.set_sensitive(true);
                tunnel = tunnel.with_auth(login);
            }
            Some((proxy, tunnel))
        });
        Self { tcp, proxy }
    }
}

impl Service<Uri> for Road {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The tunnel is ready when the connector inside it is.
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let host = to.host().unwrap_or_default();
        match &mut self.proxy {
            Some((proxy, tunnel)) if proxy.serves(host) => {
                let (proxy, made) = (proxy.address(), tunnel.call(to));
                Box::pin(async move {
                    made.await.map_err(|error| NoTunnel { proxy, why: error.to_string() }.into())
                })
            }
            _ => {
                let made = self.tcp.call(to);
                Box::pin(async move { made.await.map_err(Into::into) })
            }
        }
    }
}
