//! Stores of every kind, each started for one test.

#![allow(dead_code, reason = "each test binary uses its part")]

use crate::bench::Bench;
use holdall_core::drive;
use holdall_core::family;
use holdall_core::format::family::Mode;
use holdall_core::format::root::Geometry;
use holdall_core::push::Device;
use holdall_core::store::file::FileStore;
use holdall_core::store::names::DriveNames;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{S3Server, credentials, url};
use holdall_servers::unconditional::Unconditional;
use std::any::Any;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A store that lives as long as this.
pub struct Place {
    pub url: String,
    /// How HEADs change there, in the product's words.
    pub mode: &'static str,
    credentials: Option<String>,
    way: Route,
    _servers: Box<dyn Any>,
}

/// The connection between computers and a store.
enum Route {
    /// A connection that cannot be cut.
    Direct,
    /// The path of a directory.
    Path(PathBuf),
    Proxy(FaultProxy),
}

impl Place {
    /// A directory of this computer.
    pub fn directory(bench: &Bench) -> Self {
        let way = Route::Path(bench.path("store"));
        Self { url: bench.store(), mode: "claim", credentials: None, way, _servers: Box::new(()) }
    }

    /// S3 with compare-and-swap.
    pub fn s3(bench: &Bench) -> Self {
        let server = S3Server::start();
        Self::bucket(bench, server.address(), "swap", Box::new(server))
    }

    /// S3 that ignores conditions: if two computers ask at the same moment, both may get the answer that they have won.
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

    /// WebDAV on a server that asks for a password.
    fn collection(bench: &Bench, server: DavServer) -> Self {
        let proxy = FaultProxy::start(server.address());
        let url = format!("http://{}/store/", proxy.address());
        let login = format!("{USER}:{PASSWORD}");
        Self {
            way: Route::Proxy(proxy),
            ..Self::with_credentials(bench, &url, "claim", &login, Box::new(server))
        }
    }

    fn bucket(bench: &Bench, server: SocketAddr, mode: &'static str, servers: Box<dyn Any>) -> Self {
        let proxy = FaultProxy::start(server);
        let url = url("http", proxy.address(), "store");
        Self {
            way: Route::Proxy(proxy),
            ..Self::with_credentials(bench, &url, mode, &credentials(), servers)
        }
    }

    /// A store that needs `credentials`.
    pub fn with_credentials(
        bench: &Bench,
        url: &str,
        mode: &'static str,
        credentials: &str,
        servers: Box<dyn Any>,
    ) -> Self {
        std::fs::write(bench.path("credentials"), credentials).unwrap();
        let credentials = Some(bench.text("credentials"));
        Self { url: url.to_owned(), mode, credentials, way: Route::Direct, _servers: servers }
    }

    /// Whether people themselves must keep a drive to one writer.
    pub fn is_weak(&self) -> bool {
        self.mode == "none"
    }

    /// The address of another store in the same place.
    pub fn beside(&self, name: &str) -> String {
        self.url.replacen("/store", &format!("/{name}"), 1)
    }

    /// The proxy in front of the server.
    pub fn proxy(&self) -> &FaultProxy {
        match &self.way {
            Route::Proxy(proxy) => proxy,
            Route::Direct | Route::Path(_) => panic!("there is none before {}", self.url),
        }
    }

    /// From now on no computer reaches the store.
    pub fn goes_away(&self) {
        match &self.way {
            Route::Path(path) => std::fs::rename(path, path.with_extension("away")).unwrap(),
            _ => self.proxy().plan(faults::from(0, Fault::CutBeforeBody)),
        }
    }

    /// All computers reach it again.
    pub fn comes_back(&self) {
        match &self.way {
            Route::Path(path) => std::fs::rename(path.with_extension("away"), path).unwrap(),
            _ => self.proxy().plan(faults::none()),
        }
    }

    /// A command that creates the drive `d`.
    pub fn create(&self, size: &'static str) -> Vec<&str> {
        let mut command = self.drive(&["create", "--size", size, "--no-encryption"]);
        command.extend(self.is_weak().then_some("--yes"));
        command
    }

    /// A command that creates or adds the drive `d` of this store.
    pub fn drive<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        self.with_login([&["drive"], command, &["d", "--store", &self.url]].concat())
    }

    /// A command that tests this store, or logs in there.
    pub fn store<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        self.with_login(vec!["store", command, &self.url])
    }

    /// The command with the credentials that it needs.
    pub fn with_login<'a>(&'a self, mut arguments: Vec<&'a str>) -> Vec<&'a str> {
        if let Some(file) = &self.credentials {
            arguments.extend(["--credentials-file", file]);
        }
        arguments
    }
}

/// Creates a drive "d" in a directory as older versions did: it relies on locks.
pub fn make_by_locks(store: &Path) {
    std::fs::create_dir(store).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = FileStore::new(store.to_owned(), &DriveNames);
        let (unlocked, _) = family::create(&store, None, Mode::Swap).await.unwrap();
        let device = Device { id: uuid::Uuid::from_u128(7), name: "maker".to_owned() };
        let (family, geometry) = (unlocked.family.family, Geometry::standard(64 << 20));
        drive::create(&store, &unlocked.sealer, family, "d", geometry, &device).await.unwrap();
    });
}
