//! Requests to S3 that are signed here: those that a proxy changes, and those that set up a server.

use crate::faults::http::{Head, read_body};
use crate::s3::{ACCESS_KEY, KEEPER, READER, SECRET_KEY};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::SystemTime;

/// Headers that are not forwarded: the old signature, and what belongs to it.
const SAID_ANEW: [&str; 3] = ["authorization", "x-amz-date", "connection"];

/// Serves one request of a client: `refuses` answers it, or the server at `upstream` does, which gets it without the headers
/// `left_out`.
pub fn serve(
    client: &TcpStream,
    upstream: SocketAddr,
    left_out: &[&str],
    refuses: impl Fn(&Head) -> Option<Vec<u8>>,
) {
    let _ = one(client, upstream, left_out, refuses);
    let _ = client.shutdown(Shutdown::Both);
}

/// Puts something other than an object, such as a bucket's policy, as the owner of the server.
pub fn put(server: SocketAddr, target: &str, body: &str) {
    let answer = ask(server, "PUT", target, &[], body.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

/// Makes any request as the owner of the server. Returns the whole answer.
pub fn ask(server: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let len = body.len();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: {server}\r\ncontent-length: {len}\r\n\
         x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n{headers}\r\n"
    );
    let head = Head::read(&mut request.as_bytes()).unwrap().unwrap();
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(signed_anew(&head, &[]).as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn one(
    client: &TcpStream,
    upstream: SocketAddr,
    left_out: &[&str],
    refuses: impl Fn(&Head) -> Option<Vec<u8>>,
) -> io::Result<()> {
    let mut from = BufReader::new(client);
    let Some(head) = Head::read(&mut from)? else { return Ok(()) };
    let body = read_body(&mut from, head.request_framing()?)?;
    if let Some(refusal) = refuses(&head) {
        return (&*client).write_all(&refusal);
    }
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(signed_anew(&head, left_out).as_bytes())?;
    server.write_all(&body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    (&*client).write_all(&answer)
}

/// The key and the secret of the user who signed it.
fn signer(authorization: &str) -> (&'static str, &'static str) {
    let is_by = |name: &str| authorization.contains(&format!("Credential={name}/"));
    let user = [READER, KEEPER].into_iter().find(|user| is_by(user.name));
    user.map_or((ACCESS_KEY, SECRET_KEY), |user| (user.name, user.secret))
}

/// The head without the headers `left_out`, signed again by the same user, on a connection that ends with the answer.
fn signed_anew(head: &Head, left_out: &[&str]) -> String {
    let text = String::from_utf8_lossy(&head.bytes);
    let split = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = text.lines().skip(1).filter_map(split).collect();
    let (key, secret) = headers
        .iter()
        .find(|(name, _)| name == "authorization")
        .map_or((ACCESS_KEY, SECRET_KEY), |(_, value)| signer(value));
    let passes = |name: &str| !SAID_ANEW.contains(&name) && !left_out.contains(&name);
    let headers: Vec<_> = headers.into_iter().filter(|(name, _)| passes(name)).collect();
    let value =
        |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let hash = value("x-amz-content-sha256").unwrap_or_else(|| "UNSIGNED-PAYLOAD".into());
    let uri = format!("http://{}{}", value("host").unwrap_or_default(), head.word(1));

    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    let identity = Credentials::new(key, secret, None, None, "test").into();
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
