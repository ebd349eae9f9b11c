//! Clients of the daemon hold nothing of what it is made of: neither the engine, nor stores, nor block devices.

// clippy's permission for tests does not cover functions that are not tests.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;

/// What clients may have of Holdall.
const OURS: [&str; 4] = ["holdall-address", "holdall-api", "holdall-client", "holdall-gui"];

/// The packages that a package is linked with, as cargo names them.
fn linked_with(package: &str) -> BTreeSet<String> {
    let arguments =
        ["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--offline", "--locked"];
    let output =
        Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn clients_compile_neither_engine_nor_stores() {
    for client in ["holdall-app", "holdall-cli"] {
        let found = linked_with(client);
        let ours: BTreeSet<_> =
            found.iter().map(String::as_str).filter(|name| name.starts_with("holdall")).collect();
        assert_eq!(ours, OURS.into_iter().chain([client]).collect(), "{client}");
        let is_of_a_store =
            |name: &str| name.starts_with("aws-") || ["reqwest", "rustls", "sled", "zstd"].contains(&name);
        let of_stores: Vec<_> = found.iter().filter(|name| is_of_a_store(name)).collect();
        assert!(of_stores.is_empty(), "{client} has {of_stores:?}");
    }
}
