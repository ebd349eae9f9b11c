//! S3 servers as people have them, in memory: each works, and has one unusual habit.
//!
//! A new habit takes a row in a test's table, a field here if there is none for it, and the place that obeys it.

use crate::fake::{Asked, Fake, Reply};
use crate::s3::url;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The habits of a server. `Habits::default()` is a perfect server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// The refusal of every conditional put: a status, and an S3 code or an empty one.
    pub refuses_conditions: Option<(u16, &'static str)>,
    /// The refusal of a put without a digest in a header.
    pub wants_digest: Option<(u16, &'static str)>,
    /// The refusal of deletes.
    pub keeps: Option<(u16, &'static str)>,
    /// It closes each connection at its second request.
    pub forgets_connections: bool,
    /// It lists at most this many names, and claims that this is all.
    pub lists_at_most: Option<usize>,
    /// Objects that it has from the beginning, each with [`HOSTILE`] in it. It lists them only when it is asked for their area.
    pub has: &'static [&'static str],
}

/// The content of the objects that a server has from the beginning.
pub const HOSTILE: &[u8] = b"written by the store";

/// Objects: their contents, and how many puts came before them.
type Objects = BTreeMap<String, (Vec<u8>, u64)>;

/// Starts one, with the bucket of [`crate::s3`].
pub fn start(habits: Habits) -> Fake {
    let has = habits.has.iter().map(|key| ((*key).to_owned(), (HOSTILE.to_vec(), 0)));
    let objects = Mutex::new((has.collect::<Objects>(), 0));
    let answer = move |asked: &Asked| {
        let (objects, puts) = &mut *objects.lock().unwrap();
        answer(habits, asked, objects, puts)
    };
    match habits.forgets_connections {
        true => Fake::start_forgetful(answer),
        false => Fake::start(answer),
    }
}

/// Its bucket, as a store's address.
pub fn address(fake: &Fake) -> String {
    url("http", fake.address(), "p")
}

fn answer(habits: Habits, asked: &Asked, objects: &mut Objects, puts: &mut u64) -> Reply {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    // /bucket/key
    let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key).to_owned();
    let etag = |version: u64| format!("\"{version}\"");
    match &*asked.method {
        "GET" if query.contains("list-type=2") => list(habits, query, objects),
        "GET" | "HEAD" => match objects.get(&key) {
            None => error(404, "NoSuchKey"),
            Some((body, version)) => part(asked, body).with("etag", &etag(*version)),
        },
        "DELETE" => match habits.keeps {
            Some((status, code)) => error(status, code),
            None => {
                objects.remove(&key);
                Reply::status(204)
            }
        },
        "PUT" => {
            let (absent, matches) = (asked.header("if-none-match"), asked.header("if-match"));
            let has_digest = asked.header("content-md5").is_some();
            if let (Some((status, code)), true) = (habits.refuses_conditions, absent.or(matches).is_some()) {
                return error(status, code);
            }
            if let (Some((status, code)), false) = (habits.wants_digest, has_digest) {
                return error(status, code);
            }
            let there = objects.get(&key).map(|(_, version)| etag(*version));
            if absent.is_some() && there.is_some()
                || matches.is_some_and(|wanted| there.as_deref() != Some(wanted))
            {
                return error(412, "PreconditionFailed");
            }
            *puts += 1;
            objects.insert(key, (asked.body.clone(), *puts));
            Reply::status(200).with("etag", &etag(*puts))
        }
        _ => error(501, "NotImplemented"),
    }
}

fn part(asked: &Asked, body: &[u8]) -> Reply {
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = range else { return Reply::status(200).body(body) };
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    if from >= body.len() {
        return error(416, "InvalidRange");
    }
    let to = to.min(body.len() - 1);
    let told = format!("bytes {from}-{to}/{}", body.len());
    Reply::status(206).with("content-range", &told).body(&body[from..=to])
}

fn list(habits: Habits, query: &str, objects: &Objects) -> Reply {
    let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = prefix.replace("%2F", "/");
    let mut body = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
    let is_area = prefix.matches('/').count() > 1;
    let is_shown = |key: &str| is_area || !habits.has.contains(&key);
    let found = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && is_shown(key));
    for (key, (content, _)) in found.take(habits.lists_at_most.unwrap_or(usize::MAX)) {
        let len = content.len();
        body += &format!("<Contents><Key>{key}</Key><Size>{len}</Size></Contents>");
    }
    body += "</ListBucketResult>";
    Reply::status(200).with("content-type", "application/xml").body(body.as_bytes())
}

/// An error in S3's format, or without a body if there is no code.
fn error(status: u16, code: &str) -> Reply {
    match code {
        "" => Reply::status(status),
        code => Reply::status(status)
            .with("content-type", "application/xml")
            .body(format!("<Error><Code>{code}</Code><Message>as told</Message></Error>").as_bytes()),
    }
}
