//! Removes secrets from text that goes to others: a pure function.
//!
//! As far as is known, nothing that Holdall writes contains secrets; this is for what is not known. So it rather removes too much: every
//! word of the credentials that are kept here; users and queries in addresses; values with names like those of secrets; and anything that
//! looks like a key.

/// The text that replaces a secret.
pub const LEFT_OUT: &str = "[left out]";
/// Shorter secrets would remove ordinary words.
const EXACT_MIN: usize = 4;
/// A run of letters and digits of this length, with capitals, small letters and digits in it, is no word.
const RANDOM_MIN: usize = 36;
/// This many groups of four in a row are a recovery key, or a part of one.
const GROUPS_MIN: usize = 5;

/// Names whose values are secrets; matched anywhere in a name.
const NAMES: [&str; 12] = [
    "password",
    "passphrase",
    "passwd",
    "secret",
    "token",
    "credential",
    "signature",
    "authorization",
    "cookie",
    "recovery",
    "access_key",
    "accesskey",
];

/// `text` without secrets; `known` are known secrets.
pub fn redact(text: &str, known: &[String]) -> String {
    let mut known: Vec<_> = known.iter().filter(|secret| secret.len() >= EXACT_MIN).collect();
    // One secret may be part of another.
    known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let text =
        known.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), LEFT_OUT));
    let lines = text.split('\n').map(|line| keys(&values(&addresses(line))));
    lines.collect::<Vec<_>>().join("\n")
}

/// Addresses without their users and queries.
fn addresses(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || "\"'<>,)]}`".contains(c)).unwrap_or(after.len());
        let (address, next) = after.split_at(end);
        let (address, query) = address.split_once('?').map_or((address, None), |(a, q)| (a, Some(q)));
        // A password may contain a slash; then the last @ comes after what looks like the path.
        let address = address.rsplit_once('@').map_or(address, |(_, host)| host);
        out.push_str(address);
        if query.is_some() {
            out.push('?');
            out.push_str(LEFT_OUT);
        }
        rest = next;
    }
    out + rest
}

/// Values with names like those of secrets: `name=value`, `name: value`, `"name": "value"`, `Bearer value`.
fn values(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let name_len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_len);
        out.push_str(name);
        let lower = name.to_lowercase();
        let value = match NAMES.iter().any(|secret| lower.contains(secret)) {
            true => value_after(after),
            false if matches!(lower.as_str(), "bearer" | "basic") => {
                value_of(after, after.len() - after.trim_start().len())
            }
            false => None,
        };
        rest = match value {
            Some((from, to)) => {
                out.push_str(&after[..from]);
                out.push_str(LEFT_OUT);
                &after[to..]
            }
            None => {
                let other = after.chars().next().map_or(0, char::len_utf8);
                out.push_str(&after[..other]);
                &after[other..]
            }
        };
    }
    out
}

/// The range of the value that is assigned at the beginning of `text`.
fn value_after(text: &str) -> Option<(usize, usize)> {
    let assigned = text.trim_start_matches(['"', '\'', '\\', ' ']);
    let assigned = assigned.strip_prefix([':', '='])?;
    let value = assigned.trim_start();
    let from = text.len() - value.len();
    // `Authorization: Bearer value`.
    let scheme = ["bearer ", "basic "]
        .iter()
        .find(|scheme| value.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    value_of(text, from + scheme.map_or(0, |scheme| scheme.len()))
}

/// The value that begins at `from`: up to its closing quote, or to the end of a word.
fn value_of(text: &str, from: usize) -> Option<(usize, usize)> {
    let value = &text[from..];
    let plain = value.trim_start_matches('\\');
    let escapes = value.len() - plain.len();
    if let Some(quote) = plain.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let inside = &plain[1..];
        // If a log was cut, the end of the line ends the value.
        let end = inside.find(quote).unwrap_or(inside.len());
        return Some((from + escapes + 1, from + escapes + 1 + end));
    }
    let end = value.find(|c: char| c.is_whitespace() || ",;}])\"'".contains(c)).unwrap_or(value.len());
    (end > 0).then_some((from, from + end))
}

/// Removes what looks like a key.
fn keys(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(len);
        out.push_str(&keys_in(word));
        let other = after.chars().next().map_or(0, char::len_utf8);
        out.push_str(&after[..other]);
        rest = &after[other..];
    }
    out
}

fn keys_in(word: &str) -> String {
    let is_group = |group: &&str| {
        group.len() == 4 && group.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
    };
    if word.split('-').filter(is_group).count() >= GROUPS_MIN {
        return LEFT_OUT.to_owned();
    }
    // Paths and object names consist of parts; each part is judged by itself.
    let parts = word.split_inclusive(['/', '-']);
    let told = parts.map(|part| if is_key(part.trim_end_matches(['/', '-'])) { LEFT_OUT } else { part });
    let told: String = told.collect();
    // A secret may contain slashes: a mixture of digits, small letters and capitals is no path.
    let is_random = !word.starts_with('/') && is_mixed(word) && (36..=44).contains(&word.len());
    if is_random && word.matches('/').count() <= 3 { LEFT_OUT.to_owned() } else { told }
}

fn is_key(part: &str) -> bool {
    let is_access_key = part.len() == 20
        && ["AKIA", "ASIA"].iter().any(|begin| part.starts_with(begin))
        && part.chars().all(|c| c.is_ascii_alphanumeric());
    is_access_key || (part.len() >= RANDOM_MIN && is_mixed(part))
}

fn is_mixed(text: &str) -> bool {
    let has = |kind: fn(&char) -> bool| text.chars().any(|c| kind(&c));
    has(char::is_ascii_digit) && has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_secrets_are_gone_and_the_rest_is_there() {
        let planted = [
            ("connecting to https://ann:hunt/er2@dav.example.org/files failed", "hunt"),
            ("connecting to https://ann:x@dav.example.org/files failed", "ann"),
            ("GET https://s3.example.org/b/o?X-Amz-Signature=0123abcdef&x=1 403", "0123abcdef"),
            (r#"{"passphrase": "correct horse battery", "name": "work"}"#, "correct horse"),
            (r#"told {\"secret_key\":\"s3cr3t\"}"#, "s3cr3t"),
            ("Authorization: Bearer abc.def", "abc.def"),
            ("proxy said Basic YW5uOng=", "YW5uOng"),
            ("password=tiger, user=scott", "tiger"),
            ("access key AKIAIOSFODNN7EXAMPLE is refused", "AKIAIOSFODNN7EXAMPLE"),
            ("key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY0 is refused", "wJalrXUtnFEMI"),
            ("the key 0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV is wrong", "89AB"),
            ("kept word by word: tr0ub4dor&3 and no more", "tr0ub4dor"),
            ("cookie: holdall-8420=abcdef", "abcdef"),
        ];
        let known = ["tr0ub4dor&3".to_owned(), "x".to_owned()];
        for (text, secret) in planted {
            let told = redact(text, &known);
            assert!(!told.contains(secret) && told.contains(LEFT_OUT) != text.contains("ann:"), "{told}");
        }
        let all = planted.map(|(text, _)| text).join("\n");
        let told = redact(&all, &known);
        for kept in
            ["dav.example.org/files failed", "s3.example.org/b/o?", "\"name\": \"work\"", "user=scott", "403"]
        {
            assert!(told.contains(kept), "{kept} in {told}");
        }
    }

    #[test]
    fn the_pages_say_what_stays() {
        let texts: serde_json::Value =
            serde_json::from_str(include_str!("../../../gui/texts/en.json")).unwrap();
        let told = texts["bundle.preview.text"].as_str().unwrap();
        for (noun, line) in [
            ("drives", "work: closed"),
            ("computers", "laptop-of-ann has taken the drive over"),
            ("users", "user=ann"),
            ("addresses of stores", "s3://family-photos/2026?endpoint="),
            ("paths", "pinned: /home/ann/Holdall/work/letters to Bob"),
        ] {
            let kept = redact(line, &[]);
            assert!(kept.starts_with(line.split('?').next().unwrap()), "{kept}");
            assert!(told.contains(noun), "{noun} in: {told}");
        }
        assert!(told.contains("The report contains") && !told.contains("secrets"), "{told}");
    }

    #[test]
    fn helpful_text_stays() {
        let told = [
            "2026-11-20T12:00:00.123456Z  WARN holdall_core::push: the store did not take it; trying again",
            "root/ab/0b7e2c1a-6d43-4b8e-9c55-3f1d2e4a5b6c-01-02-abcdef0123456789abcdef0123456789",
            "uuid: 0b7e2c1a-6d43-4b8e-9c55-3f1d2e4a5b6c, store: s3://bucket/prefix",
            "/home/ann/.local/state/holdall/drives/Work2026/journal is 60 % full",
            "/usr/lib/x86_64-linux-gnu/Some2Long/Path/That/Goes/On/And/On/For/Ever",
        ];
        for text in told {
            assert_eq!(redact(text, &[]), text);
        }
    }
}
