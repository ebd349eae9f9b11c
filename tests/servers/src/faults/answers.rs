//! Answers that no server gave.

/// An answer with a status, in S3's format. WebDAV uses only the status.
pub fn status(method: &str, code: u16, error: &str, retry_after: Option<u64>) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{error}</Code><Message>{error}</Message></Error>"
    );
    let retry_after = retry_after.map_or_else(String::new, |seconds| format!("Retry-After: {seconds}\r\n"));
    whole(method, code, "application/xml", &retry_after, &body)
}

/// The login page of a hotel's network.
pub fn portal(method: &str) -> Vec<u8> {
    whole(
        method,
        200,
        "text/html",
        "",
        "<html><body>Welcome! Please log in to use the Internet.</body></html>",
    )
}

fn whole(method: &str, code: u16, kind: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {code} Answer\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n");
    let body = if method == "HEAD" { "" } else { body };
    (head + body).into_bytes()
}
