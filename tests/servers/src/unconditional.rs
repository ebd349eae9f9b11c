//! An S3 server without conditional writes: it takes the headers, and heeds none, as some servers do.
//!
//! A proxy that takes the conditions out of each request and signs it anew, in front of a server that has them.

use crate::acceptor::Acceptor;
use crate::faults::http::{Head, read_body};
use crate::process::any_port;
use crate::s3::{ACCESS_KEY, SECRET_KEY, url};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::SystemTime;

/// What is not passed on: the conditions, the old signature, and what is said anew.
const LEFT_OUT: [&str; 5] = ["if-match", "if-none-match", "authorization", "x-amz-date", "connection"];

/// A proxy that runs until it is dropped.
pub struct Unconditional {
    acceptor: Acceptor,
}

impl Unconditional {
    /// Puts one in front of the server at `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let serve = move |client: TcpStream, _: &_| {
            let _ = one(&client, upstream);
            let _ = client.shutdown(Shutdown::Both);
        };
        Self { acceptor: Acceptor::start(any_port(), serve) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The bucket as a store's address.
    pub fn url(&self, prefix: &str) -> String {
        url("http", self.address(), prefix)
    }
}

/// One request to a connection.
fn one(client: &TcpStream, upstream: SocketAddr) -> io::Result<()> {
    let mut from = BufReader::new(client);
    let Some(head) = Head::read(&mut from)? else { return Ok(()) };
    let body = read_body(&mut from, head.request_framing()?)?;
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(signed_anew(&head).as_bytes())?;
    server.write_all(&body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    (&*client).write_all(&answer)
}

/// The head without conditions, on a connection that ends with the answer.
fn signed_anew(head: &Head) -> String {
    let text = String::from_utf8_lossy(&head.bytes);
    let split = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = text.lines().skip(1).filter_map(split).collect();
    let headers: Vec<_> =
        headers.into_iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())).collect();
    let value =
        |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let hash = value("x-amz-content-sha256").unwrap_or_else(|| "UNSIGNED-PAYLOAD".into());
    let uri = format!("http://{}{}", value("host").unwrap_or_default(), head.word(1));

    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    let identity = Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "test").into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .unwrap();
    let lines = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let request =
        SignableRequest::new(head.word(0), &uri, lines.clone(), SignableBody::Precomputed(hash)).unwrap();
    let (signature, _) = sign(request, &params.into()).unwrap().into_parts();

    let mut written = format!("{}\r\n", head.start);
    for (name, value) in lines.chain(signature.headers()).chain([("connection", "close")]) {
        written += &format!("{name}: {value}\r\n");
    }
    written + "\r\n"
}
