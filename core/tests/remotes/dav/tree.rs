//! A WebDAV server in memory that does everything as it should, and what a test wants otherwise.

use super::{DEVICE, Other, open};
use holdall_core::store::remote::RemotePath;
use holdall_core::store::remote::dav::DavRemote;
use holdall_servers::fake::{Asked, Fake, Reply};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The collection of the remote.
pub const ROOT: &str = "/remote.php/dav/files/ada/";
/// Where chunks go.
const UPLOADS: &str = "/remote.php/dav/uploads/ada/";

/// What is at an address. A collection's ends with `/`.
#[derive(Clone, Default)]
struct Node {
    /// `None` for a collection.
    bytes: Option<Vec<u8>>,
    tag: u64,
    /// Seconds since 1970.
    modified: u64,
    /// Holdall's properties, by name.
    properties: BTreeMap<String, String>,
}

#[derive(Default)]
struct World {
    nodes: BTreeMap<String, Node>,
    tags: u64,
    /// Whether it takes chunks.
    has_chunks: bool,
}

type Habit = dyn Fn(&Asked) -> Option<Reply> + Send + Sync;

/// The server.
#[derive(Clone)]
pub struct Tree {
    world: Arc<Mutex<World>>,
    habit: Arc<Mutex<Option<Box<Habit>>>>,
    pub fake: Fake,
}

impl Tree {
    pub fn start() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        world.lock().make(ROOT);
        world.lock().make(UPLOADS);
        let habit = Arc::new(Mutex::new(None::<Box<Habit>>));
        let fake = Fake::start({
            let (world, habit) = (world.clone(), habit.clone());
            move |asked| {
                let odd = habit.lock().as_ref().and_then(|habit| habit(asked));
                odd.unwrap_or_else(|| world.lock().answer(asked))
            }
        });
        Self { world, habit, fake }
    }

    /// A server that takes chunks.
    pub fn with_chunks() -> Self {
        let tree = Self::start();
        tree.world.lock().has_chunks = true;
        tree
    }

    pub async fn open(&self) -> DavRemote {
        open(&self.url()).await.unwrap()
    }

    pub fn url(&self) -> String {
        format!("http://{}{ROOT}", self.fake.address())
    }

    /// From now on, requests for which this has an answer get that.
    pub fn answer(&self, habit: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) {
        *self.habit.lock() = Some(Box::new(habit));
    }

    /// Does as it should again.
    pub fn be_good(&self) {
        *self.habit.lock() = None;
    }

    /// Carries out a request, whatever is answered.
    pub fn carry_out(&self, asked: &Asked) -> Reply {
        self.world.lock().answer(asked)
    }

    /// The requests since the last call, as `VERB last-part`.
    pub fn requests(&self, since: usize) -> Vec<String> {
        let asked = self.fake.asked().into_iter().skip(since);
        asked
            .map(|asked| {
                let path = asked.path.trim_end_matches('/');
                format!("{} {}", asked.method, path.rsplit_once('/').map_or("", |(_, leaf)| leaf))
            })
            .collect()
    }

    /// A file's bytes.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.world.lock().nodes.get(&format!("{ROOT}{}", encoded(path)))?.bytes.clone()
    }

    /// Writes a file as another program does.
    pub fn set(&self, path: &str, bytes: &[u8]) {
        self.world.lock().write(&format!("{ROOT}{}", encoded(path)), bytes.to_vec(), None);
    }

    /// All addresses with this device's name in them.
    pub fn left(&self) -> Vec<String> {
        let world = self.world.lock();
        world.nodes.keys().filter(|path| path.contains(&DEVICE.simple().to_string())).cloned().collect()
    }
}

#[async_trait::async_trait]
impl Other for Tree {
    async fn write(&self, path: &RemotePath, bytes: &[u8]) {
        self.set(path.as_str(), bytes);
    }

    async fn remove(&self, path: &RemotePath) {
        self.world.lock().nodes.remove(&format!("{ROOT}{}", encoded(path.as_str()))).unwrap();
    }

    async fn read(&self, path: &RemotePath) -> Option<Vec<u8>> {
        self.file(path.as_str())
    }

    async fn leave_unusable(&self, directory: &RemotePath) -> bool {
        self.world.lock().write(&format!("{ROOT}{}/a%2Fb", encoded(directory.as_str())), Vec::new(), None);
        true
    }
}

/// A path as the client writes it.
fn encoded(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(byte as char),
            byte if byte.is_ascii_alphanumeric() => text.push(byte as char),
            byte => write!(text, "%{byte:02X}").unwrap(),
        }
    }
    text
}

impl World {
    fn make(&mut self, path: &str) {
        self.tags += 1;
        self.nodes.insert(path.to_owned(), Node { tag: self.tags, ..Node::default() });
    }

    fn write(&mut self, path: &str, bytes: Vec<u8>, modified: Option<u64>) -> u64 {
        self.tags += 1;
        let node = self.nodes.entry(path.to_owned()).or_default();
        node.bytes = Some(bytes);
        node.tag = self.tags;
        node.modified = modified.unwrap_or(1_700_000_000);
        self.tags
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let path = asked.path.clone();
        let as_collection = format!("{}/", path.trim_end_matches('/'));
        let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
        let has_parent = self.nodes.contains_key(&format!("{parent}/"));
        let there = self.nodes.get(&path).cloned();
        let is_collection = self.nodes.contains_key(&as_collection);
        let mtime = asked.header("x-oc-mtime").and_then(|mtime| mtime.parse().ok());
        if path.starts_with(UPLOADS) && !self.has_chunks {
            return Reply::status(403);
        }
        if !matches!(&*asked.method, "PROPFIND" | "GET" | "HEAD" | "MOVE")
            && !holds(asked, there.as_ref().or(self.nodes.get(&as_collection)))
        {
            return Reply::status(412);
        }
        match &*asked.method {
            "MKCOL" if is_collection || self.nodes.contains_key(path.trim_end_matches('/')) => {
                Reply::status(405)
            }
            "MKCOL" | "PUT" if !has_parent => Reply::status(409),
            "MKCOL" => {
                self.make(&as_collection);
                Reply::status(201)
            }
            "PUT" if is_collection => Reply::status(405),
            "PUT" => {
                let tag = self.write(&path, asked.body.clone(), mtime);
                let reply = Reply::status(if there.is_some() { 204 } else { 201 });
                reply.with("etag", &format!("\"t{tag}\""))
            }
            "GET" | "HEAD" => match there {
                Some(Node { bytes: Some(bytes), tag, .. }) => {
                    part(asked, &bytes).with("etag", &format!("\"t{tag}\""))
                }
                _ => Reply::status(if is_collection { 405 } else { 404 }),
            },
            "MOVE" | "COPY" => self.relocate(asked, &path, &as_collection, mtime),
            "DELETE" => match self.below(&path, &as_collection) {
                gone if gone.is_empty() => Reply::status(404),
                gone => {
                    gone.iter().for_each(|name| drop(self.nodes.remove(name)));
                    Reply::status(204)
                }
            },
            "PROPFIND" if is_collection => self.list(asked, &as_collection),
            "PROPFIND" if there.is_some() => self.list(asked, &path),
            "PROPPATCH" => self.patch(asked, if is_collection { &as_collection } else { &path }),
            _ => Reply::status(404),
        }
    }

    /// What is at a path, and below it.
    fn below(&self, path: &str, as_collection: &str) -> Vec<String> {
        let is_of = |name: &&String| **name == path || name.starts_with(as_collection);
        self.nodes.keys().filter(is_of).cloned().collect()
    }

    fn relocate(&mut self, asked: &Asked, path: &str, as_collection: &str, mtime: Option<u64>) -> Reply {
        let to = asked.destination.clone().unwrap_or_default();
        let to = to.split_once("://").map_or(&*to, |(_, rest)| &rest[rest.find('/').unwrap_or(0)..]);
        let to = to.trim_end_matches('/').to_owned();
        let parent = to.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !self.nodes.contains_key(&format!("{parent}/")) {
            return Reply::status(409);
        }
        let there = self.below(&to, &format!("{to}/"));
        if asked.header("overwrite") == Some("f") && !there.is_empty() {
            return Reply::status(412);
        }
        if let Some(condition) = asked.header("if") {
            let tag = self.nodes.get(&to).map(|node| format!("([\"t{}\"])", node.tag)).unwrap_or_default();
            if tag.is_empty() || !condition.ends_with(&tag) {
                return Reply::status(412);
            }
        }
        if let Some(upload) = path.strip_suffix(".file") {
            return self.assemble(asked, upload, &to, mtime);
        }
        let from = self.below(path, as_collection);
        if from.is_empty() {
            return Reply::status(404);
        }
        there.iter().for_each(|name| drop(self.nodes.remove(name)));
        for name in from {
            let node = self.nodes[&name].clone();
            if asked.method == "MOVE" {
                self.nodes.remove(&name);
            }
            self.nodes.insert(format!("{to}{}", &name[path.trim_end_matches('/').len()..]), node);
        }
        Reply::status(201)
    }

    fn assemble(&mut self, asked: &Asked, upload: &str, to: &str, mtime: Option<u64>) -> Reply {
        let chunks = self.below(upload, upload);
        let bytes: Vec<u8> =
            chunks.iter().filter_map(|name| self.nodes[name].bytes.clone()).flatten().collect();
        if asked.header("oc-total-length") != Some(&bytes.len().to_string()) {
            return Reply::status(400);
        }
        chunks.iter().for_each(|name| drop(self.nodes.remove(name)));
        self.write(to, bytes, mtime);
        Reply::status(201)
    }

    fn patch(&mut self, asked: &Asked, path: &str) -> Reply {
        let Some(node) = self.nodes.get_mut(path) else { return Reply::status(404) };
        let body = String::from_utf8(asked.body.clone()).unwrap();
        for name in ["mode", "mtime", "xattrs"] {
            if let Some((_, rest)) = body.split_once(&format!("<h:{name}>")) {
                node.properties.insert(name.to_owned(), rest.split_once('<').unwrap().0.to_owned());
            } else if body.contains(&format!("<h:{name}/>")) {
                node.properties.remove(name);
            }
        }
        multistatus(&format!("<d:response><d:href>{path}</d:href></d:response>"))
    }

    fn list(&self, asked: &Asked, path: &str) -> Reply {
        let is_listed = |name: &str| {
            let rest = name.strip_prefix(path).map(|rest| rest.trim_end_matches('/'));
            let is_child = path.ends_with('/') && rest.is_some_and(|rest| !rest.contains('/'));
            name == path || (asked.header("depth") == Some("1") && is_child)
        };
        let mut body = String::new();
        for (name, node) in self.nodes.iter().filter(|(name, _)| is_listed(name)) {
            body += &response(name, node);
        }
        multistatus(&body)
    }
}

fn response(path: &str, node: &Node) -> String {
    let mut properties = match &node.bytes {
        None => "<d:resourcetype><d:collection/></d:resourcetype>".to_owned(),
        Some(bytes) => {
            let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(node.modified);
            format!(
                "<d:resourcetype/><d:getcontentlength>{}</d:getcontentlength><d:getlastmodified>{}</d:getlastmodified>",
                bytes.len(),
                httpdate::fmt_http_date(modified)
            )
        }
    };
    for (name, value) in &node.properties {
        write!(properties, "<h:{name}>{value}</h:{name}>").unwrap();
    }
    let tag = node.tag;
    format!(
        "<d:response><d:href>{path}</d:href><d:propstat><d:prop>{properties}<d:getetag>\"t{tag}\"</d:getetag></d:prop>\
         <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    )
}

/// An answer of these responses.
pub fn multistatus(responses: &str) -> Reply {
    let body = format!(
        "<?xml version=\"1.0\"?><d:multistatus xmlns:d=\"DAV:\" xmlns:h=\"urn:holdall:meta\" \
         xmlns:oc=\"http://owncloud.org/ns\">{responses}</d:multistatus>"
    );
    Reply::status(207).with("content-type", "application/xml").body(body.as_bytes())
}

/// Whether the conditions of a request hold.
fn holds(asked: &Asked, there: Option<&Node>) -> bool {
    let tag = there.map(|node| format!("\"t{}\"", node.tag));
    let absent = asked.header("if-none-match") != Some("*") || there.is_none();
    absent && asked.header("if-match").is_none_or(|wanted| tag.as_deref() == Some(wanted))
}

fn part(asked: &Asked, bytes: &[u8]) -> Reply {
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = range else { return Reply::status(200).body(bytes) };
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    if from >= bytes.len() {
        return Reply::status(416);
    }
    let to = to.min(bytes.len() - 1);
    let told = format!("bytes {from}-{to}/{}", bytes.len());
    Reply::status(206).with("content-range", &told).body(&bytes[from..=to])
}
