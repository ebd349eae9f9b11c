//! Little code should run with root's rights: this names each package that gets into the helper's program.

use std::collections::BTreeSet;
use std::process::Command;

const ALLOWED: &str = "
    async-broadcast async-recursion async-trait bitflags bytes cfg-if dyn-clone endi enumflags2 enumflags2_derive equivalent
    errno event-listener event-listener-strategy fastrand futures-core futures-io futures-lite getrandom hashbrown hex
    holdall-api holdall-helper holdall-kernel indexmap itoa libc linux-raw-sys lock_api memchr mio once_cell ordered-stream
    parking parking_lot parking_lot_core pin-project-lite proc-macro-crate proc-macro2 quote ref-cast ref-cast-impl rustix
    schemars schemars_derive scopeguard serde serde_core serde_derive serde_derive_internals serde_json serde_repr
    signal-hook-registry smallvec socket2 syn thiserror thiserror-impl tokio tokio-macros toml_datetime toml_edit toml_parser
    tracing tracing-attributes tracing-core unicode-ident uuid winnow zbus zbus_macros zbus_names zcheapstr zmij zvariant
    zvariant_derive zvariant_utils
";

#[test]
fn the_helper_depends_only_on_listed_packages() {
    let arguments = [
        "tree",
        "--package",
        "holdall-helper",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--offline",
        "--locked",
    ];
    let output =
        Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(found, ALLOWED.split_whitespace().collect());
}
