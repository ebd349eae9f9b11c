//! Stores of every kind, each started for one test.

#![allow(dead_code, reason = "each test binary uses its part")]

use crate::bench::Bench;
use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::s3::{S3Server, credentials};
use holdall_servers::unconditional::Unconditional;
use std::any::Any;

/// A store, for as long as this lives.
pub struct Place {
    pub url: String,
    /// How HEADs change there, as the product says it.
    pub mode: &'static str,
    credentials: Option<String>,
    _servers: Box<dyn Any>,
}

impl Place {
    /// A directory of this computer.
    pub fn directory(bench: &Bench) -> Self {
        Self { url: bench.store(), mode: "swap", credentials: None, _servers: Box::new(()) }
    }

    /// S3 with compare-and-swap.
    pub fn s3(bench: &Bench) -> Self {
        let server = S3Server::start();
        let url = server.url("fight");
        Self::with_credentials(bench, url, "swap", &credentials(), Box::new(server))
    }

    /// S3 whose conditions nobody heeds: of two that ask at the same moment, both may be told that they have won.
    pub fn weak_s3(bench: &Bench) -> Self {
        let server = S3Server::start();
        let weak = Unconditional::start(server.address());
        let url = weak.url("fight");
        Self::with_credentials(bench, url, "none", &credentials(), Box::new((weak, server)))
    }

    /// A WebDAV server.
    pub fn webdav(bench: &Bench) -> Self {
        let server = DavServer::apache(SignIn::Basic);
        let url = server.url("/fight/");
        Self::with_credentials(bench, url, "claim", &format!("{USER}:{PASSWORD}"), Box::new(server))
    }

    /// A store for whoever has `credentials`.
    pub fn with_credentials(
        bench: &Bench,
        url: String,
        mode: &'static str,
        credentials: &str,
        servers: Box<dyn Any>,
    ) -> Self {
        std::fs::write(bench.path("credentials"), credentials).unwrap();
        Self { url, mode, credentials: Some(bench.text("credentials")), _servers: servers }
    }

    /// A command that makes or adds the drive `d` of this store.
    pub fn drive<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        self.with_login([&["drive"], command, &["d", "--store", &self.url]].concat())
    }

    /// A command that tries this store, or logs in there.
    pub fn store<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        self.with_login(vec!["store", command, &self.url])
    }

    fn with_login<'a>(&'a self, mut arguments: Vec<&'a str>) -> Vec<&'a str> {
        if let Some(file) = &self.credentials {
            arguments.extend(["--credentials-file", file]);
        }
        arguments
    }
}
