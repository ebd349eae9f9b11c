//! The unit in packaging/systemd, under systemd itself: it sends notifications, and a mounted drive survives a reload (an
//! upgrade), a killed daemon and a restart. In User Mode Linux, with nbd.

use std::path::Path;
use std::process::Command;

#[test]
fn a_drive_survives_reload_restart_and_a_killed_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(Path::new("/lib/systemd/systemd").exists(), "missing: apt-get install systemd");
    let output = Command::new(root.join("tests/uml/run.sh"))
        .args(["-m", "1G", "-t", "240", "-k", "overlay", "-k", "nbd", "-k", "fuse", "-k", "loop", "--"])
        .arg(root.join("tests/uml/systemd.sh"))
        .arg(Path::new(env!("CARGO_BIN_EXE_holdalld")).parent().unwrap())
        .arg(root.join("packaging/systemd/holdall@.service"))
        .arg(root.join("tests/uml/systemd-session.sh"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(127), "missing: apt-get install user-mode-linux kmod\n{errors}");
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
}
