//! WebDAV servers as people have them, in memory: each works, and has one unusual habit.
//!
//! A new habit takes a row in a test's table, a field here if there is none for it, and the place that obeys it.

use crate::fake::{Asked, Fake, Reply};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The habits of a server. `Habits::default()` is a perfect server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// The answer to a MKCOL of an existing collection; 405 by default.
    pub made_before: Option<u16>,
    /// Whether this answer redirects to the same address.
    pub redirects: bool,
    /// It refuses a PROPFIND of a collection alone, and shows collections only as pages.
    pub refuses_propfind: bool,
    /// The bytes of the realm that needs a password.
    pub realm: Option<&'static [u8]>,
    /// It closes each connection at its second request.
    pub forgets_connections: bool,
    /// It lists at most this many names, and claims that this is all.
    pub lists_at_most: Option<usize>,
}

/// The file at each path. A collection has none, and its path ends with a slash.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// Starts one with the collection `/s/`.
pub fn start(habits: Habits) -> Fake {
    let tree = Mutex::new(Tree::from([("/".to_owned(), None), ("/s/".to_owned(), None)]));
    let answer = move |asked: &Asked| answer(habits, asked, &mut tree.lock().unwrap());
    match habits.forgets_connections {
        true => Fake::start_forgetful(answer),
        false => Fake::start(answer),
    }
}

fn answer(habits: Habits, asked: &Asked, tree: &mut Tree) -> Reply {
    if let (Some(realm), None) = (habits.realm, asked.header("authorization")) {
        let head =
            b"HTTP/1.1 401 Who\r\ncontent-length: 0\r\nconnection: close\r\nwww-authenticate: Basic realm=\"";
        return Reply::Raw([&head[..], realm, b"\"\r\n\r\n"].concat());
    }
    let path = asked.path.clone();
    let as_collection = format!("{}/", path.trim_end_matches('/'));
    let has_parent = |path: &str| {
        let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
        tree.contains_key(&format!("{parent}/"))
    };
    match &*asked.method {
        "MKCOL" if tree.contains_key(&as_collection) => {
            let reply = Reply::status(habits.made_before.unwrap_or(405));
            if habits.redirects { reply.with("location", &as_collection) } else { reply }
        }
        "MKCOL" | "PUT" if !has_parent(&path) => Reply::status(409),
        "MKCOL" => {
            tree.insert(as_collection, None);
            Reply::status(201)
        }
        "PUT" => match tree.insert(path, Some(asked.body.clone())) {
            None => Reply::status(201),
            Some(_) => Reply::status(204),
        },
        "MOVE" => {
            let to = asked.header("destination").unwrap_or_default();
            let to =
                to.split_once("://").map_or(to, |(_, rest)| &rest[rest.find('/').unwrap_or(0)..]).to_owned();
            if asked.header("overwrite") == Some("f") && tree.contains_key(&to) {
                return Reply::status(412);
            }
            if !has_parent(&to) {
                return Reply::status(409);
            }
            match tree.remove(&path) {
                None => Reply::status(404),
                Some(body) => {
                    tree.insert(to, body);
                    Reply::status(201)
                }
            }
        }
        "DELETE" => {
            let gone: Vec<_> = tree
                .keys()
                .filter(|name| **name == path || name.starts_with(&as_collection))
                .cloned()
                .collect();
            gone.iter().for_each(|name| drop(tree.remove(name)));
            Reply::status(if gone.is_empty() { 404 } else { 204 })
        }
        "PROPFIND" if habits.refuses_propfind && asked.header("depth") == Some("1") => Reply::status(403),
        "PROPFIND" if tree.contains_key(&as_collection) => list(habits, &as_collection, tree),
        "GET" | "HEAD" => match tree.get(&path) {
            Some(Some(body)) => part(asked, body),
            Some(None) => Reply::status(200),
            None => Reply::status(404),
        },
        "OPTIONS" => Reply::status(200).with("dav", "1"),
        _ => Reply::status(404),
    }
}

fn part(asked: &Asked, body: &[u8]) -> Reply {
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = range else { return Reply::status(200).body(body) };
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    if from >= body.len() {
        return Reply::status(416);
    }
    let to = to.min(body.len() - 1);
    let told = format!("bytes {from}-{to}/{}", body.len());
    Reply::status(206).with("content-range", &told).body(&body[from..=to])
}

fn list(habits: Habits, collection: &str, tree: &Tree) -> Reply {
    let is_child = |name: &str| {
        let rest = name.strip_prefix(collection).map(|rest| rest.trim_end_matches('/'));
        rest.is_some_and(|rest| !rest.contains('/'))
    };
    let mut body = String::from("<multistatus xmlns=\"DAV:\">");
    // The collection itself does not count as a name.
    let most = habits.lists_at_most.map_or(usize::MAX, |most| most + 1);
    for (name, content) in tree.iter().filter(|(name, _)| is_child(name)).take(most) {
        let kind = match content {
            None => "<resourcetype><collection/></resourcetype>".to_owned(),
            Some(bytes) => format!("<resourcetype/><getcontentlength>{}</getcontentlength>", bytes.len()),
        };
        body += &format!(
            "<response><href>{name}</href><propstat><prop>{kind}</prop><status>HTTP/1.1 200 OK</status></propstat></response>"
        );
    }
    body += "</multistatus>";
    Reply::status(207).with("content-type", "application/xml").body(body.as_bytes())
}
