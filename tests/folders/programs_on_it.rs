//! Ordinary programs on a bucket and on a WebDAV server, with the names that people give to files.

use crate::bench::{Bench, Machine};
use crate::place::Place;
use std::process::Command;

/// Names that addresses have to encode.
const NAMES: [&str; 6] =
    ["two words", "Übergrößenträger.txt", "100% #1 + more", "a+b=c&d?e", "semi;colon", "日本語 (1)"];

fn sh(machine: &Machine, script: &str) -> String {
    let script = format!("cd '{}'\n{script}", machine.mountpoint().display());
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "100", "bash", "-euo", "pipefail", "-c", &script]);
    let output = command.env("HOME", &machine.dir).env("LC_ALL", "C.UTF-8").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Works with `script` on a place, and then shows what the server has to another computer, where `check` holds.
fn both(place: &Place, script: &str, check: &str) {
    let bench = Bench::new();
    let machine = bench.machine("a");
    place.open(&bench, &machine, &[]);
    sh(&machine, script);
    machine.ok(&["folder", "close", "files", "--wait"]);
    let other = bench.machine("b");
    place.open(&bench, &other, &[]);
    sh(&other, check);
    other.ok(&["folder", "close", "files", "--wait"]);
}

fn places() -> [Place; 2] {
    [Place::bucket(), Place::apache()]
}

#[test]
fn names_of_all_kinds_reach_servers_and_come_back() {
    for place in places() {
        let make: String =
            NAMES.iter().map(|name| format!("mkdir '{name}'; echo '{name}' > '{name}/{name}'; ")).collect();
        let rename = "mv 'two words' 'three  words'; mv 'semi;colon/semi;colon' 'per%20cent'";
        let check: String =
            NAMES[1..4].iter().map(|name| format!("test \"$(cat '{name}/{name}')\" = '{name}'; ")).collect();
        let renamed = "test \"$(cat 'three  words/two words' per%20cent | wc -l)\" = 2; test \"$(find . -type f | wc -l)\" = 6";
        both(&place, &format!("{make}{rename}"), &format!("{check}{renamed}"));
    }
}

#[test]
fn rsync_moves_nothing_the_second_time() {
    for place in places() {
        let bench = Bench::new();
        let machine = bench.machine("a");
        place.open(&bench, &machine, &[]);
        let from = bench.path("from");
        let make = format!(
            "mkdir -p '{0}/d e'; for i in $(seq 40); do head -c $((i * 900)) /dev/urandom > \"{0}/d e/file $i\"; done; touch -d 2001-02-03 '{0}/d e/file 7'",
            from.display()
        );
        sh(&machine, &make);
        let rsync = format!("rsync -a --stats '{}/' to/ | grep 'regular files transferred'", from.display());
        assert!(sh(&machine, &rsync).contains(": 40"));
        assert!(sh(&machine, &rsync).contains(": 0"));
        machine.ok(&["folder", "sync", "files"]);
        assert!(sh(&machine, &rsync).contains(": 0"), "nor once all is uploaded");
        sh(&machine, &format!("diff -r '{}' to", from.display()));
        machine.ok(&["folder", "close", "files", "--wait"]);
    }
}

/// As vim, LibreOffice and a browser save files.
#[test]
fn saves_of_editors_and_browsers_reach_servers_whole() {
    let script = "
        echo old > vim.txt; echo old > 'report 1.odt'; sleep 0
        for round in $(seq 5); do
            mv vim.txt vim.txt~; echo \"new $round\" > vim.txt; sync vim.txt; rm vim.txt~
            echo lock > '.~lock.report 1.odt#'
            echo \"new $round\" > lu1234.tmp; sync lu1234.tmp; mv lu1234.tmp 'report 1.odt'; rm '.~lock.report 1.odt#'
        done
        echo part > 'film.mp4.crdownload'; echo rest >> 'film.mp4.crdownload'; mv 'film.mp4.crdownload' film.mp4";
    let check = "test \"$(cat vim.txt)\" = 'new 5'; test \"$(cat 'report 1.odt')\" = 'new 5'; test \"$(wc -l < film.mp4)\" = 2; test \"$(ls -A | grep -v '^.DAV$' | wc -l)\" = 3";
    places().iter().for_each(|place| both(place, script, check));
}

#[test]
fn databases_repositories_and_archives_reach_servers_whole() {
    let script = "
        for mode in wal delete; do
            sqlite3 $mode.db \"pragma journal_mode = $mode\" 'create table t (a)' 'with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000) insert into t select x from n' > log
        done; rm log
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q work; cd work; for i in $(seq 20); do echo $i > \"file $i\"; done
        git add .; git commit -qm one; echo more >> 'file 1'; git commit -qam two; git gc -q; cd ..
        tar cf archive.tar work";
    let check = "
        for mode in wal delete; do test \"$(sqlite3 $mode.db 'pragma integrity_check' 'select count(*) from t' | tr '\\n' ' ')\" = 'ok 3000 '; done
        git config --global --add safe.directory '*'; git -C work fsck --strict; git -C work diff --quiet HEAD; test \"$(git -C work log --oneline | wc -l)\" = 2
        mkdir out; tar xf archive.tar -C out; diff -r -x index work out/work";
    places().iter().for_each(|place| both(place, script, check));
}
