//! Tests that run in a guest kernel. Tests named `guest_` are ignored in an ordinary run. Other tests start a guest for them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the ignored test `test` of this program in a guest kernel, with options of `run.sh`.
pub fn in_guest(options: &[&str], test: &str) {
    let output = command(options, test).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(127), "missing: apt-get install user-mode-linux kmod\n{errors}");
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}\n{errors}", output.status);
}

/// The command for that.
pub fn command(options: &[&str], test: &str) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/uml/run.sh");
    let mut command = Command::new(script);
    command.args(["-t", "240"]).args(options).arg("--");
    command.arg(std::env::current_exe().unwrap()).args(["--ignored", "--exact", "--nocapture", test]);
    command.stdin(Stdio::null());
    command
}

pub fn assert_guest() {
    assert!(std::env::var_os("HOLDALL_UML").is_some(), "this runs in a guest kernel; see in_guest");
}
