//! An S3 server and a proxy in front of it, for tests that are not written in Rust.
//!
//! It prints their addresses as one line of JSON, and then follows commands on its standard input, one a line, with a line in
//! answer to each:
//! * `cut`: nothing gets through the proxy any longer; answered with `ok`.
//! * `restore`: everything gets through again; answered with `ok`.
//! * `dav`: starts a WebDAV server with sign-in; answered with its address as JSON.
//! * `link RTT_MS MBIT`: puts a slow link in front of the S3 server; answered with its address.
//!
//! It ends with its input.
#![allow(clippy::unwrap_used, reason = "a test's tool may panic")]

use holdall_servers::dav::{DavServer, PASSWORD, SignIn, USER};
use holdall_servers::delay::{Delay, Link};
use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use std::io::{BufRead, Write};
use std::time::Duration;

fn main() {
    let server = S3Server::start();
    let proxy = FaultProxy::start(server.address());
    say(&format!(
        r#"{{"server": "http://{}", "proxy": "http://{}", "bucket": "{BUCKET}", "access_key": "{ACCESS_KEY}", "secret_key": "{SECRET_KEY}"}}"#,
        server.address(),
        proxy.address(),
    ));
    let (mut servers, mut links) = (Vec::new(), Vec::new());
    for line in std::io::stdin().lock().lines() {
        let mut answer = "ok".to_owned();
        let line = line.unwrap();
        match *line.split(' ').collect::<Vec<_>>() {
            ["cut"] => {
                proxy.plan(faults::from(0, Fault::CutBeforeBody));
                proxy.cut_all();
            }
            ["restore"] => proxy.plan(faults::none()),
            ["dav"] => {
                let server = DavServer::apache(SignIn::Basic);
                let address = server.url("/");
                answer = format!(r#"{{"address": "{address}", "user": "{USER}", "password": "{PASSWORD}"}}"#);
                servers.push(server);
            }
            ["link", rtt_ms, mbit] => {
                let mbit = Some(mbit.parse().unwrap());
                let rtt = Duration::from_millis(rtt_ms.parse().unwrap());
                let link = Delay::start(server.address(), Link { rtt, up_mbit: mbit, down_mbit: mbit });
                answer = format!("http://{}", link.address());
                links.push(link);
            }
            _ => panic!("{line}: not a command"),
        }
        say(&answer);
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
