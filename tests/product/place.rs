//! Stores of every kind, each started for one test.

#![allow(dead_code, reason = "each test binary uses its part")]

use crate::bench::Bench;
use holdall_core::drive;
use holdall_core::family;
use holdall_core::format::family::Mode;
use holdall_core::format::root::Geometry;
use holdall_core::push::Device;
use holdall_core::store::file::FileStore;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{S3Server, credentials, url};
use holdall_servers::unconditional::Unconditional;
use std::any::Any;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A store, for as long as this lives.
pub struct Place {
    pub url: String,
    /// How HEADs change there, as the product says it.
    pub mode: &'static str,
    credentials: Option<String>,
    way: Way,
    _servers: Box<dyn Any>,
}

/// What is between a computer and a store.
enum Way {
    /// Nothing that can be taken away.
    Direct,
    /// The path that a directory is at.
    Path(PathBuf),
    Proxy(FaultProxy),
}

impl Place {
    /// A directory of this computer.
    pub fn directory(bench: &Bench) -> Self {
        let way = Way::Path(bench.path("store"));
        Self { url: bench.store(), mode: "claim", credentials: None, way, _servers: Box::new(()) }
    }

    /// S3 with compare-and-swap.
    pub fn s3(bench: &Bench) -> Self {
        let server = S3Server::start();
        Self::bucket(bench, server.address(), "swap", Box::new(server))
    }

    /// S3 whose conditions nobody heeds: of two that ask at the same moment, both may be told that they have won.
    pub fn weak_s3(bench: &Bench) -> Self {
        let server = S3Server::start();
        let weak = Unconditional::start(server.address());
        Self::bucket(bench, weak.address(), "none", Box::new((weak, server)))
    }

    /// WebDAV by Apache.
    pub fn apache(bench: &Bench) -> Self {
        Self::collection(bench, DavServer::apache(SignIn::Basic))
    }

    /// WebDAV by nginx.
    pub fn nginx(bench: &Bench) -> Self {
        Self::collection(bench, DavServer::nginx(SignIn::Basic))
    }

    /// On a server that asks for a password.
    fn collection(bench: &Bench, server: DavServer) -> Self {
        let proxy = FaultProxy::start(server.address());
        let url = format!("http://{}/store/", proxy.address());
        let login = format!("{USER}:{PASSWORD}");
        Self {
            way: Way::Proxy(proxy),
            ..Self::with_credentials(bench, &url, "claim", &login, Box::new(server))
        }
    }

    fn bucket(bench: &Bench, server: SocketAddr, mode: &'static str, servers: Box<dyn Any>) -> Self {
        let proxy = FaultProxy::start(server);
        let url = url("http", proxy.address(), "store");
        Self { way: Way::Proxy(proxy), ..Self::with_credentials(bench, &url, mode, &credentials(), servers) }
    }

    /// A store for whoever has `credentials`.
    pub fn with_credentials(
        bench: &Bench,
        url: &str,
        mode: &'static str,
        credentials: &str,
        servers: Box<dyn Any>,
    ) -> Self {
        std::fs::write(bench.path("credentials"), credentials).unwrap();
        let credentials = Some(bench.text("credentials"));
        Self { url: url.to_owned(), mode, credentials, way: Way::Direct, _servers: servers }
    }

    /// Whether it leaves to people that a drive has one writer.
    pub fn is_weak(&self) -> bool {
        self.mode == "none"
    }

    /// The address of another store in the same place.
    pub fn beside(&self, name: &str) -> String {
        self.url.replacen("/store", &format!("/{name}"), 1)
    }

    /// The proxy before the server.
    pub fn proxy(&self) -> &FaultProxy {
        match &self.way {
            Way::Proxy(proxy) => proxy,
            Way::Direct | Way::Path(_) => panic!("there is none before {}", self.url),
        }
    }

    /// From now on nobody reaches it.
    pub fn goes_away(&self) {
        match &self.way {
            Way::Path(path) => std::fs::rename(path, path.with_extension("away")).unwrap(),
            _ => self.proxy().plan(faults::from(0, Fault::CutBeforeBody)),
        }
    }

    /// Everybody does again.
    pub fn comes_back(&self) {
        match &self.way {
            Way::Path(path) => std::fs::rename(path.with_extension("away"), path).unwrap(),
            _ => self.proxy().plan(faults::none()),
        }
    }

    /// A command that makes the drive `d`.
    pub fn create(&self, size: &'static str) -> Vec<&str> {
        let mut command = self.drive(&["create", "--size", size, "--no-encryption"]);
        command.extend(self.is_weak().then_some("--yes"));
        command
    }

    /// A command that makes or adds the drive `d` of this store.
    pub fn drive<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        self.with_login([&["drive"], command, &["d", "--store", &self.url]].concat())
    }

    /// A command that tries this store, or logs in there.
    pub fn store<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        self.with_login(vec!["store", command, &self.url])
    }

    /// The same command with the credentials that it needs.
    pub fn with_login<'a>(&'a self, mut arguments: Vec<&'a str>) -> Vec<&'a str> {
        if let Some(file) = &self.credentials {
            arguments.extend(["--credentials-file", file]);
        }
        arguments
    }
}

/// Makes a drive "d" in a directory as it was made before: it relies on locks.
pub fn make_by_locks(store: &Path) {
    std::fs::create_dir(store).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = FileStore::new(store.to_owned());
        let (unlocked, _) = family::create(&store, None, Mode::Swap).await.unwrap();
        let device = Device { id: uuid::Uuid::from_u128(7), name: "maker".to_owned() };
        let (family, geometry) = (unlocked.family.family, Geometry::standard(64 << 20));
        drive::create(&store, &unlocked.sealer, family, "d", geometry, &device).await.unwrap();
    });
}
