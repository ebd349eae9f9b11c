//! An S3 server without conditional writes: it accepts the headers and ignores them, as some servers do.
//!
//! A proxy removes the conditions from each request, in front of a server that supports them.

use crate::acceptor::Acceptor;
use crate::process::any_port;
use crate::s3::url;
use crate::signing;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A proxy that runs until it is dropped.
pub struct Unconditional {
    acceptor: Acceptor,
    heeds: Arc<AtomicBool>,
}

impl Unconditional {
    /// Starts in front of the server at `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let heeds = Arc::new(AtomicBool::new(false));
        let is_heeding = heeds.clone();
        let serve = move |client, _: &_| {
            let conditions: &[_] =
                if is_heeding.load(Ordering::Relaxed) { &[] } else { &["if-match", "if-none-match"] };
            signing::serve(&client, upstream, conditions, |_| None);
        };
        Self { acceptor: Acceptor::start(any_port(), serve), heeds }
    }

    /// Whether it obeys conditions from now on.
    pub fn heed(&self, heeds: bool) {
        self.heeds.store(heeds, Ordering::Relaxed);
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The bucket, as a store's address.
    pub fn url(&self, prefix: &str) -> String {
        url("http", self.address(), prefix)
    }
}
