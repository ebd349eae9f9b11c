//! Directories and their listings.

use crate::bench::{Bench, Setup, errno};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

const MANY: usize = 10_000;

fn names(bench: &Bench, directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(bench.at(directory)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn ten_thousand_names_are_each_listed_once() {
    let setup = Setup { passes_through: true, read_only: false };
    let bench = Bench::with(setup, |remote| {
        (0..MANY).for_each(|number| std::fs::write(remote.join(format!("file-{number}")), "").unwrap());
    });
    let listed = names(&bench, "");
    let distinct: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!((listed.len(), distinct.len()), (MANY, MANY));
    assert_eq!(bench.sh("ls -lU | grep -c file-").trim(), MANY.to_string());
}

#[test]
fn a_listing_survives_changes_while_it_runs() {
    let bench = Bench::new();
    std::fs::create_dir(bench.at("d")).unwrap();
    (0..2_000).for_each(|number| std::fs::write(bench.at(&format!("d/stays-{number}")), "").unwrap());
    let mut listed = Vec::new();
    for (number, entry) in std::fs::read_dir(bench.at("d")).unwrap().enumerate() {
        listed.push(entry.unwrap().file_name().into_string().unwrap());
        if number % 10 == 0 {
            std::fs::write(bench.at(&format!("d/new-{number}")), "").unwrap();
            let before = number.checked_sub(10).map(|before| bench.at(&format!("d/new-{before}")));
            before.into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
        }
    }
    let stayed: Vec<_> = listed.iter().filter(|name| name.starts_with("stays-")).collect();
    let distinct: BTreeSet<_> = stayed.iter().collect();
    assert_eq!((stayed.len(), distinct.len()), (2_000, 2_000), "what was there all the time is listed once");
}

#[test]
fn a_directory_is_emptied_while_it_is_listed() {
    let bench = Bench::new();
    bench.sh("mkdir d && cd d && seq 3000 | xargs touch && cd .. && rm -r d && test ! -e d");
}

#[test]
fn dots_lead_here_and_up() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.at("a/b")).unwrap();
    let said = bench.sh("ls -ai a/b | awk '{print $1, $2}' && stat -c %i a/b a");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..2], [format!("{} .", lines[2]), format!("{} ..", lines[3])]);
}

#[test]
fn a_listing_goes_back_to_where_it_was() {
    let bench = Bench::new();
    std::fs::create_dir(bench.at("d")).unwrap();
    (0..500).for_each(|number| std::fs::write(bench.at(&format!("d/{number}")), "").unwrap());
    let program = "import ctypes, os
l = ctypes.CDLL(None); l.opendir.restype = ctypes.c_void_p; l.readdir.restype = ctypes.c_void_p
l.telldir.restype = ctypes.c_long; l.opendir.argtypes = [ctypes.c_char_p]
for f in (l.readdir, l.telldir): f.argtypes = [ctypes.c_void_p]
l.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
d = l.opendir(b'd'); seen = []
def name():
    e = l.readdir(d); return e and ctypes.string_at(e + 19).decode()
while True:
    at = l.telldir(d); n = name()
    if not n: break
    seen.append((at, n))
for at, n in seen[::7]:
    l.seekdir(d, at); assert name() == n, n
print(len(seen))";
    assert_eq!(bench.sh(&format!("python3 -c \"{program}\"")).trim(), "502");
}

#[test]
fn only_empty_directories_are_removed() {
    let bench = Bench::new();
    std::fs::create_dir(bench.at("d")).unwrap();
    std::fs::write(bench.at("d/file"), "").unwrap();
    assert_eq!(errno(std::fs::remove_dir(bench.at("d"))), libc::ENOTEMPTY);
    assert_eq!(errno(std::fs::remove_dir(bench.at("d/file"))), libc::ENOTDIR);
    assert_eq!(errno(std::fs::remove_file(bench.at("d"))), libc::EISDIR);
    assert_eq!(errno(std::fs::create_dir(bench.at("d"))), libc::EEXIST);
    std::fs::remove_file(bench.at("d/file")).unwrap();
    std::fs::remove_dir(bench.at("d")).unwrap();
    assert_eq!(errno(std::fs::read_dir(bench.at("d"))), libc::ENOENT);
}

#[test]
fn names_that_no_remote_can_have_are_refused() {
    let bench = Bench::new();
    let bad = bench.at("").join(OsStr::from_bytes(b"\xff\xfe"));
    assert_eq!(errno(std::fs::write(bad, "")), libc::EINVAL);
    assert_eq!(errno(std::fs::write(bench.at(&"x".repeat(256)), "")), libc::ENAMETOOLONG);
    assert_eq!(errno(std::fs::write(bench.at(".holdall-upload-1"), "")), libc::EINVAL);
    std::fs::write(bench.at(&"ä".repeat(127)), "").unwrap();
    assert_eq!(names(&bench, ""), ["ä".repeat(127)]);
}

#[test]
fn a_number_belongs_to_one_file_for_ever() {
    let bench = Bench::new();
    std::fs::write(bench.at("a"), "").unwrap();
    let number = |name: &str| std::fs::symlink_metadata(bench.at(name)).unwrap().ino();
    let before = number("a");
    std::fs::rename(bench.at("a"), bench.at("b")).unwrap();
    assert_eq!(number("b"), before);
    std::fs::write(bench.at("a"), "").unwrap();
    assert_ne!(number("a"), before);
    assert_eq!(number(""), 1);
}
