//! Completions and man pages.

use crate::place::Place;

#[test]
fn every_shell_has_completions_without_a_daemon() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.run(&format!("completions {shell}"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert!(ran.out.contains("snapshot"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let place = Place::new();
    assert_eq!(place.run("man pages").code, Some(0));
    for page in
        ["holdall", "holdall-drive", "holdall-drive-create", "holdall-drive-snapshot-list", "holdall-doctor"]
    {
        let text = std::fs::read_to_string(place.path(&format!("pages/{page}.1"))).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
}
