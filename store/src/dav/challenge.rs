//! A server's challenges in `WWW-Authenticate` (RFC 9110, section 11.6.1). Pure.

/// One way to authenticate that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// In lower case: `basic`, `digest` ...
    pub scheme: String,
    /// Whether it came in Latin-1; then the server expects answers in Latin-1 too.
    pub latin1: bool,
    /// Names in lower case, values without their quotes.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// A parameter's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The challenges of one header, as bytes. A realm may be in any language: in UTF-8, or in Latin-1 from old servers.
pub fn parse_bytes(header: &[u8]) -> Vec<Challenge> {
    match std::str::from_utf8(header) {
        Ok(text) => parse(text),
        Err(_) => {
            let text: String = header.iter().map(|byte| char::from(*byte)).collect();
            parse(&text).into_iter().map(|challenge| Challenge { latin1: true, ..challenge }).collect()
        }
    }
}

/// The challenges of one header, without those that cannot be read.
pub fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = Rest(header);
    while let Some(token) = rest.token() {
        match (rest.value(), challenges.last_mut()) {
            (Some(value), Some(challenge)) => challenge.parameters.push((token, value)),
            (Some(_), None) => {}
            (None, _) => {
                challenges.push(Challenge { scheme: token, latin1: false, parameters: Vec::new() });
            }
        }
    }
    challenges
}

/// The parameters of a header without schemes, such as `Authentication-Info`.
pub fn parameters(header: &str) -> Challenge {
    let parsed = parse(&format!("info {header}")).into_iter().next();
    parsed.unwrap_or(Challenge { scheme: String::new(), latin1: false, parameters: Vec::new() })
}

struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// The next token, in lower case.
    fn token(&mut self) -> Option<String> {
        let text = self.0.trim_start_matches(|c: char| !is_token(c));
        let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
        let (token, rest) = text.split_at(end);
        self.0 = rest;
        (!token.is_empty()).then(|| token.to_ascii_lowercase())
    }

    /// The value after a token, if the token is a parameter's name.
    fn value(&mut self) -> Option<String> {
        let text = self.0.trim_start().strip_prefix('=')?.trim_start();
        if let Some(quoted) = text.strip_prefix('"') {
            let (value, rest) = unquote(quoted);
            self.0 = rest;
            return Some(value);
        }
        let end = text.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        self.0 = rest;
        Some(value.to_owned())
    }
}

/// The text up to the closing quote, and the text after it.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_challenges_in_one_header() {
        let header = r#"Negotiate YII=, Basic realm="a, \"b\"", charset="UTF-8", Digest realm = "x", nonce="n==",qop="auth,auth-int",algorithm=SHA-256, stale=TRUE"#;
        let parsed = parse(header);
        let schemes: Vec<_> = parsed.iter().map(|challenge| &*challenge.scheme).collect();
        assert!(schemes.contains(&"negotiate") && schemes.contains(&"basic"), "{schemes:?}");
        let basic = parsed.iter().find(|challenge| challenge.scheme == "basic").unwrap();
        assert_eq!((basic.get("realm"), basic.get("charset")), (Some("a, \"b\""), Some("UTF-8")));
        let digest = parsed.last().unwrap();
        assert_eq!(digest.scheme, "digest");
        assert_eq!((digest.get("nonce"), digest.get("realm")), (Some("n=="), Some("x")));
        assert_eq!((digest.get("qop"), digest.get("algorithm")), (Some("auth,auth-int"), Some("SHA-256")));
        assert_eq!(digest.get("stale"), Some("TRUE"));
    }

    #[test]
    fn a_realm_may_be_in_any_language() {
        for (header, latin1) in
            [("Basic realm=\"Wölkchen\"".as_bytes(), false), (&b"Basic realm=\"W\xf6lkchen\""[..], true)]
        {
            let parsed = parse_bytes(header);
            assert_eq!(parsed.len(), 1, "{header:?}");
            assert_eq!((parsed[0].get("realm"), parsed[0].latin1), (Some("Wölkchen"), latin1));
        }
        assert_eq!(parse_bytes(&[0xff; 9]), []);
    }

    #[test]
    fn broken_headers_end() {
        for header in ["", ",,,", "Digest realm=\"", "=", "Basic realm=", "\\\"", "Digest é=ü, nonce=\"\\"]
        {
            parse(header);
        }
        assert_eq!(parameters(r#"nextnonce="abc", rspauth="1""#).get("nextnonce"), Some("abc"));
    }
}
