//! An S3 server that accepts only temporary credentials: those with a session token, which is part of the signature.
//!
//! A proxy removes the token from each request, in front of a server with permanent keys.

use crate::acceptor::Acceptor;
use crate::faults::answers;
use crate::faults::http::Head;
use crate::process::any_port;
use crate::s3::url;
use crate::signing;
use std::net::SocketAddr;

/// The only token that it accepts.
pub const SESSION_TOKEN: &str = "staple/horse+battery/correct==";

const TOKEN_HEADER: &str = "x-amz-security-token";

/// A proxy that runs until it is dropped.
pub struct Temporary {
    acceptor: Acceptor,
}

impl Temporary {
    /// Starts in front of the server at `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let serve = move |client, _: &_| signing::serve(&client, upstream, &[TOKEN_HEADER], refusal);
        Self { acceptor: Acceptor::start(any_port(), serve) }
    }

    /// The bucket, as a store's address.
    pub fn url(&self, prefix: &str) -> String {
        url("http", self.acceptor.address(), prefix)
    }
}

fn refusal(head: &Head) -> Option<Vec<u8>> {
    let is_signed = head.header("authorization").is_some_and(|it| it.contains(TOKEN_HEADER));
    let is_taken = is_signed && head.header(TOKEN_HEADER) == Some(SESSION_TOKEN);
    (!is_taken).then(|| answers::status(head.word(0), 403, "InvalidToken", None))
}
