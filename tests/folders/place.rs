//! The places that folders are of, as their other users see them.

use crate::bench::{Bench, Machine};
use holdall_servers::dav::{DavServer, SignIn};
use holdall_servers::s3::{self, S3Server};
use holdall_servers::unconditional::Unconditional;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Ordinary files that others use too.
pub enum Place {
    Directory(PathBuf),
    Bucket(S3Server),
    /// A bucket whose server accepts conditions and ignores them.
    LooseBucket(S3Server, Unconditional),
    Collection(DavServer),
}

impl Place {
    pub fn directory(bench: &Bench) -> Self {
        let files = bench.path("files");
        fs::create_dir(&files).unwrap();
        Place::Directory(files)
    }

    pub fn bucket() -> Self {
        Place::Bucket(S3Server::start())
    }

    pub fn loose_bucket() -> Self {
        let server = S3Server::start();
        let proxy = Unconditional::start(server.address());
        Place::LooseBucket(server, proxy)
    }

    pub fn apache() -> Self {
        Self::collection(DavServer::apache(SignIn::None))
    }

    pub fn nginx() -> Self {
        Self::collection(DavServer::nginx(SignIn::None))
    }

    pub fn rclone() -> Self {
        Self::collection(DavServer::rclone())
    }

    fn collection(server: DavServer) -> Self {
        server.make_directory("files");
        Place::Collection(server)
    }

    pub fn url(&self) -> String {
        match self {
            Place::Directory(files) => format!("file://{}", files.display()),
            Place::Bucket(server) => server.url("files/"),
            Place::LooseBucket(_, proxy) => proxy.url("files/"),
            Place::Collection(server) => server.url("/files/"),
        }
    }

    /// Opens it as the folder `files`.
    pub fn open(&self, bench: &Bench, machine: &Machine, more: &[&str]) -> Value {
        let (url, at, keys) = (self.url(), machine.mountpoint().display().to_string(), bench.text("keys"));
        fs::write(&keys, s3::credentials()).unwrap();
        let mut command = vec!["folder", "open", &url, "--at", &at, "--name", "files"];
        if matches!(self, Place::Bucket(_) | Place::LooseBucket(..)) {
            command.extend(["--credentials-file", &keys]);
        }
        command.extend(more);
        machine.ok(&command)
    }

    /// Where the server has the files on its disk.
    pub fn root(&self) -> PathBuf {
        match self {
            Place::Directory(files) => files.clone(),
            Place::Bucket(server) | Place::LooseBucket(server, _) => server.bucket().join("files"),
            Place::Collection(server) => server.root().join("files"),
        }
    }

    /// Another program puts a file there, in the way that programs do it that keep whole files whole. The name needs no encoding.
    pub fn other_writes(&self, name: &str, bytes: &[u8]) {
        match self {
            Place::Directory(files) => {
                let aside = files.join(".other");
                fs::write(&aside, bytes).unwrap();
                fs::rename(aside, files.join(name)).unwrap();
            }
            Place::Bucket(server) | Place::LooseBucket(server, _) => {
                let answer = server.ask("PUT", &format!("files/{name}"), &[], bytes);
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            }
            Place::Collection(server) => {
                let (status, _) = server.ask("PUT", "/files/.other", &[], bytes);
                assert!(matches!(status, 201 | 204), "{status}");
                let to = server.url(&format!("/files/{name}"));
                let headers = [("destination", &*to), ("overwrite", "T")];
                let (status, _) = server.ask("MOVE", "/files/.other", &headers, b"");
                assert!(matches!(status, 201 | 204), "{status}");
            }
        }
    }

    /// All files there, by path, with their bytes. Directories have none. Uploads under way are left out.
    pub fn files(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        collect(&self.root(), "", &mut found);
        found
    }
}

fn collect(directory: &Path, above: &str, found: &mut BTreeMap<String, Option<Vec<u8>>>) {
    // What goes away meanwhile is not there.
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().unwrap();
        // Holdall's uploads, the servers' own files, and the other program's.
        if [".holdall-upload-", ".sgwtmp", ".davfs.tmp", ".DAV", ".other"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            continue;
        }
        let path = if above.is_empty() { name } else { format!("{above}/{name}") };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), &path, found);
            found.insert(path, None);
        } else if let Ok(bytes) = fs::read(entry.path()) {
            found.insert(path, Some(bytes));
        }
    }
}
