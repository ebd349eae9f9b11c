//! pjdfstest, a suite of what POSIX asks of a file system. Which of its cases fail here, and why, is declared: docs/SEMANTICS.md explains each
//! reason under its heading "What pjdfstest finds". A case that fails without being declared fails the test, and so does one that is declared
//! and passes.

use crate::bench::{Bench, Machine};
use crate::own_fuse::open_fuse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Who has a name on every computer, and is not root.
const USER: u32 = 65534;

/// Cases that fail, below their reasons as SEMANTICS.md has them. The cases of ordinary users are among those of root.
const DECLARED: &str = include_str!("pjdfstest.txt");

/// Whether these fail depends on how fast a program starts that the suite does not wait for.
const RACES: [&str; 2] = ["open::etxtbsy", "truncate::etxtbsy"];

/// The declared cases, each with its reason.
fn declared() -> BTreeMap<&'static str, &'static str> {
    let (mut cases, mut reason) = (BTreeMap::new(), "");
    for line in DECLARED.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(words) => reason = words,
            None => assert_eq!(cases.insert(line, reason), None, "{line} is declared twice"),
        }
    }
    cases
}

fn pjdfstest() -> PathBuf {
    let path = std::env::home_dir().unwrap().join(".cargo/bin/pjdfstest");
    assert!(path.exists(), "{} is missing: packaging/setup tests", path.display());
    path
}

/// Runs all cases in a directory. Returns how each one ended, with what it said.
fn run(bench: &Bench, at: &Path, user: Option<u32>) -> BTreeMap<String, (String, String)> {
    let (config, program) = (bench.path("pjdfstest.toml"), bench.path("pjdfstest"));
    let text = "[features]\nposix_fallocate = {}\nutime_now = {}\nutimensat = {}\n\n[settings]\nnaptime = 0.01\n\n\
                [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n";
    fs::write(&config, text).unwrap();
    // Root's own directory is closed to others.
    fs::copy(pjdfstest(), &program).unwrap();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "200"]).arg(program).arg("-c").arg(config).arg("-p").arg(at);
    command.current_dir(bench.path("")).stdin(Stdio::null()).env("NO_COLOR", "1");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("Summary:"),
        "{}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let mut cases = BTreeMap::<String, (String, String)>::new();
    let mut last = String::new();
    for line in said.lines() {
        let (name, ending) = line.split_once(' ').map_or(("", ""), |(name, rest)| (name, rest.trim()));
        if name.contains("::") && ["ok", "skipped", "FAILED"].contains(&ending) {
            last = name.to_owned();
            cases.insert(last.clone(), (ending.to_owned(), String::new()));
        } else if let Some((_, words)) = cases.get_mut(&last) {
            *words += line;
        }
    }
    cases
}

fn check(cases: &BTreeMap<String, (String, String)>) {
    let ended = |wanted: &str| cases.iter().filter(|(_, (ending, _))| ending == wanted).count();
    println!("{} passed, {} failed as declared, {} skipped", ended("ok"), ended("FAILED"), ended("skipped"));
    let declared = declared();
    let is_wrong = |name: &str, ending: &str| match ending {
        _ if RACES.contains(&name) => false,
        "ok" => declared.contains_key(name),
        "FAILED" => !declared.contains_key(name),
        _ => false,
    };
    let wrong: Vec<_> = cases.iter().filter(|(name, (ending, _))| is_wrong(name, ending)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn opened(machine: &Machine, files: &Path) {
    let (url, at) = (format!("file://{}", files.display()), machine.mountpoint().display().to_string());
    machine.ok(&["folder", "open", &url, "--at", &at]);
    // From its upload on, a link is not followed that leads out of the folder, and the suite's links do.
    machine.ok(&["folder", "pause", "files"]);
}

#[test]
fn an_ordinary_users_files_pass_but_for_what_is_declared() {
    let bench = Bench::new();
    open_fuse(&bench);
    fs::set_permissions(bench.path(""), Permissions::from_mode(0o755)).unwrap();
    let (mut machine, files) = (bench.machine("a"), bench.path("files"));
    fs::create_dir(&files).unwrap();
    for path in [&machine.dir, &files] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    machine.user = Some(USER);
    machine.environment.push(("HOME".to_owned(), machine.dir.display().to_string()));
    opened(&machine, &files);
    let cases = run(&bench, &machine.mountpoint(), Some(USER));
    assert!(cases.values().filter(|(ending, _)| ending == "ok").count() > 50, "{cases:?}");
    check(&cases);
    machine.ok(&["folder", "close", "files"]);
}

#[test]
fn roots_files_pass_but_for_what_is_declared() {
    let bench = Bench::new();
    fs::set_permissions(bench.path(""), Permissions::from_mode(0o755)).unwrap();
    let (machine, files) = (bench.machine("a"), bench.path("files"));
    fs::create_dir(&files).unwrap();
    opened(&machine, &files);
    let cases = run(&bench, &machine.mountpoint(), None);
    assert!(cases.values().filter(|(ending, _)| ending == "ok").count() > 100, "{cases:?}");
    check(&cases);
    let unknown: Vec<_> = declared().into_keys().filter(|name| !cases.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "pjdfstest has no such cases: {unknown:?}");
    machine.ok(&["folder", "close", "files"]);
}

#[test]
fn each_declared_reason_is_explained() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/SEMANTICS.md")).unwrap();
    let (_, section) = text.split_once("## What pjdfstest finds").expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let reasons: BTreeSet<_> = declared().into_values().collect();
    let explained: BTreeSet<_> = section.split("**").skip(1).step_by(2).collect();
    assert_eq!(reasons, explained);
}
