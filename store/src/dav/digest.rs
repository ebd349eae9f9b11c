//! Digest authentication, the client's half (RFC 7616; RFC 2069 if a server offers no `qop`). Pure.
//!
//! Our own code, because the crates for it are no longer maintained. `auth-int`, which would hash each body, is left out: servers that
//! offer it offer `auth` too.

use super::challenge::Challenge;
use data_encoding::HEXLOWER;
use md5::Md5;
use sha2::{Digest as _, Sha256};
use std::fmt::Write;

/// A server's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    realm: String,
    /// The server's nonce.
    pub nonce: String,
    opaque: Option<String>,
    hash: Hash,
    /// The algorithm's name as the server wrote it, if it did.
    algorithm: Option<String>,
    /// Whether the user's hash is made again for each nonce.
    session: bool,
    qop: bool,
    latin1: bool,
    /// Whether the refusal means only that the nonce was too old.
    pub stale: bool,
}

/// The better hash is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    /// Used if the server offers nothing better.
    Md5,
    /// From RFC 7616.
    Sha256,
}

impl Hash {
    fn hex(self, text: &[u8]) -> String {
        match self {
            Hash::Md5 => HEXLOWER.encode(&Md5::digest(text)),
            Hash::Sha256 => HEXLOWER.encode(&Sha256::digest(text)),
        }
    }
}

/// The user and the request.
pub struct Request<'a> {
    /// The user.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// The method.
    pub method: &'a str,
    /// The path and query as they go over the wire.
    pub target: &'a str,
}

impl Ask {
    /// Reads a challenge; `None` if it is not Digest, or needs something that this client does not support.
    pub fn new(challenge: &Challenge) -> Option<Self> {
        if challenge.scheme != "digest" {
            return None;
        }
        let algorithm = challenge.get("algorithm");
        let (hash, session) = match algorithm.unwrap_or("MD5").to_ascii_uppercase().as_str() {
            "MD5" => (Hash::Md5, false),
            "MD5-SESS" => (Hash::Md5, true),
            "SHA-256" => (Hash::Sha256, false),
            "SHA-256-SESS" => (Hash::Sha256, true),
            _ => return None,
        };
        let qop = match challenge.get("qop") {
            None => false,
            Some(offered) => {
                let auth = offered.split(',').any(|qop| qop.trim().eq_ignore_ascii_case("auth"));
                auth.then_some(true)?
            }
        };
        Some(Self {
            realm: challenge.get("realm")?.to_owned(),
            nonce: challenge.get("nonce")?.to_owned(),
            opaque: challenge.get("opaque").map(str::to_owned),
            hash,
            algorithm: algorithm.map(str::to_owned),
            session,
            qop,
            latin1: challenge.latin1,
            stale: challenge.get("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
        })
    }

    /// The challenge's hash, to compare it with others.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// A text in this server's encoding, for the wire and for hashes.
    pub fn wire(&self, text: &str) -> Vec<u8> {
        let byte = |c: char| u8::try_from(u32::from(c)).ok();
        match self.latin1 {
            false => text.as_bytes().to_vec(),
            true => text
                .chars()
                .flat_map(|c| byte(c).map_or_else(|| c.to_string().into_bytes(), |byte| vec![byte]))
                .collect(),
        }
    }

    /// The value of `Authorization`. `count` is how often the nonce was used, including this request.
    pub fn answer(&self, request: &Request<'_>, count: u32, client_nonce: &str) -> String {
        let Request { user, password, method, target } = request;
        let hex = |text: String| self.hash.hex(&self.wire(&text));
        let Self { realm, nonce, .. } = self;
        let mut secret = hex(format!("{user}:{realm}:{password}"));
        if self.session {
            secret = hex(format!("{secret}:{nonce}:{client_nonce}"));
        }
        let what = hex(format!("{method}:{target}"));
        let response = if self.qop {
            hex(format!("{secret}:{nonce}:{count:08x}:{client_nonce}:auth:{what}"))
        } else {
            hex(format!("{secret}:{nonce}:{what}"))
        };
        let [quoted_user, realm, nonce] = [user, realm.as_str(), nonce].map(quote);
        let mut value = format!(
            r#"Digest username="{quoted_user}", realm="{realm}", nonce="{nonce}", uri="{target}", response="{response}""#
        );
        // Writing to a String cannot fail.
        if let Some(algorithm) = &self.algorithm {
            let _ = write!(value, ", algorithm={algorithm}");
        }
        if let Some(opaque) = &self.opaque {
            let _ = write!(value, r#", opaque="{}""#, quote(opaque));
        }
        if self.qop {
            let _ = write!(value, r#", qop=auth, nc={count:08x}"#);
        }
        if self.qop || self.session {
            let _ = write!(value, r#", cnonce="{client_nonce}""#);
        }
        value
    }
}

fn quote(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::super::challenge;
    use super::*;

    const REQUEST: Request<'static> =
        Request { user: "Mufasa", password: "Circle of Life", method: "GET", target: "/dir/index.html" };

    fn ask(header: &str) -> Ask {
        challenge::parse(header).iter().find_map(Ask::new).unwrap()
    }

    fn response(value: &str) -> &str {
        let (_, rest) = value.split_once("response=\"").unwrap();
        rest.split_once('"').unwrap().0
    }

    /// RFC 7616, section 3.9.1.
    #[test]
    fn the_example_of_the_rfc() {
        let nonce = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let client_nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        for (algorithm, expected) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let ask = ask(&format!(
                r#"Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={algorithm}, nonce="{nonce}", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#
            ));
            let answer = ask.answer(&REQUEST, 1, client_nonce);
            assert_eq!(response(&answer), expected);
            assert!(answer.contains("nc=00000001") && answer.contains("opaque=\"FQhe"), "{answer}");
        }
    }

    /// RFC 2617, section 3.5. Without `qop` the answer is that of RFC 2069.
    #[test]
    fn without_qop_the_older_digest_is_used() {
        let ask = ask(
            r#"Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", stale=true"#,
        );
        assert!(ask.stale);
        let request = Request { password: "Circle Of Life", ..REQUEST };
        let answer = ask.answer(&request, 1, "x");
        assert_eq!(response(&answer), "670fd8c2df070c60b045671b8b24ff02");
        assert!(!answer.contains("cnonce") && !answer.contains("qop"), "{answer}");
    }

    #[test]
    fn unknown_challenges_are_not_answered() {
        for header in [
            r#"Basic realm="x""#,
            r#"Digest realm="x", nonce="n", algorithm=SHA-512-256"#,
            r#"Digest realm="x", nonce="n", qop="auth-int""#,
            r#"Digest realm="x""#,
        ] {
            assert_eq!(challenge::parse(header).iter().find_map(Ask::new), None, "{header}");
        }
        assert!(Hash::Sha256 > Hash::Md5);
    }
}
