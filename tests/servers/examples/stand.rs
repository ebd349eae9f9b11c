//! An S3 server and a proxy in front of it, for tests that are not written in Rust.
//!
//! It says where they are, as one line of JSON, and then does what it is told on its standard input, a word on a line:
//! `cut` (nothing gets through any more) and `restore`. It answers each with `ok`, and ends with its input.
#![allow(clippy::unwrap_used, reason = "a test's tool may panic")]

use holdall_servers::faults::{self, Fault, FaultProxy};
use holdall_servers::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use std::io::{BufRead, Write};

fn main() {
    let server = S3Server::start();
    let proxy = FaultProxy::start(server.address());
    say(&format!(
        r#"{{"server": "http://{}", "proxy": "http://{}", "bucket": "{BUCKET}", "access_key": "{ACCESS_KEY}", "secret_key": "{SECRET_KEY}"}}"#,
        server.address(),
        proxy.address(),
    ));
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().as_str() {
            "cut" => {
                proxy.plan(faults::from(0, Fault::CutBeforeBody));
                proxy.cut_all();
            }
            "restore" => proxy.plan(faults::none()),
            other => panic!("{other}: not a command"),
        }
        say("ok");
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
