//! On a real ext4, in a loop device of each test's own. Runs as root.

use super::serve::{list, scan_below, serve_on};
use super::watch::Watches;
use super::{Blind, Order, Run, Scan, Told, Unscannable, walk};
use holdall_helper::{Proof, Target};
use rustix::fs::FallocateFlags;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

const BLOCK: usize = 4096;

/// A mounted ext4 in a file.
struct Mounted {
    dir: tempfile::TempDir,
}

impl Mounted {
    fn new() -> Self {
        let mounted = Self { dir: tempfile::tempdir().unwrap() };
        let (image, at) = (mounted.image(), mounted.root());
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        std::fs::create_dir(&at).unwrap();
        let text = |path: &Path| path.display().to_string();
        run("/sbin/mkfs.ext4", &["-q", "-F", "-b", "4096", "-O", "inline_data", &text(&image)]);
        run("mount", &["-o", "loop", &text(&image), &text(&at)]);
        mounted
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// The disk's content at the runs, once everything is written there.
    fn on_disk(&self, runs: &[Run]) -> Vec<u8> {
        run("sync", &["-f", &self.root().display().to_string()]);
        let image = File::open(self.image()).unwrap();
        let mut bytes = Vec::new();
        for (start, count) in runs {
            let mut part = vec![0; *count as usize * BLOCK];
            image.read_exact_at(&mut part, start * BLOCK as u64).unwrap();
            bytes.extend(part);
        }
        bytes
    }

    fn scan(&self, path: &str) -> (Vec<Vec<Run>>, Result<Blind, Unscannable>) {
        scan_below(&self.root(), path)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).output();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let Output { status, stderr, .. } = Command::new(program).args(arguments).output().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 256 + seed * 7 + 1) as u8).collect()
}

#[test]
fn runs_are_where_the_files_are_on_the_disk() {
    let mounted = Mounted::new();
    mounted.write("a/plain", &pattern(1, 100_000));
    mounted.write("a/empty", b"");
    mounted.write("a/inline", b"in the inode");
    // Written and read again before the kernel gave it a place: the scan makes the kernel write it.
    let (files, ended) = mounted.scan("a/plain");
    assert_eq!(ended, Ok(Blind::default()));
    assert_eq!(mounted.on_disk(&files[0])[..100_000], pattern(1, 100_000));
    let (files, _) = mounted.scan("a");
    assert_eq!(files.iter().map(Vec::is_empty).collect::<Vec<_>>(), [true, true, false], "by their names");

    // With holes, and with space that was never written.
    let sparse = File::create(mounted.root().join("sparse")).unwrap();
    for number in 0..300_u64 {
        sparse.write_all_at(&pattern(number as usize, BLOCK), number * 3 * BLOCK as u64).unwrap();
    }
    rustix::fs::fallocate(&sparse, FallocateFlags::empty(), 4 << 20, 8 << 20).unwrap();
    let (files, ended) = mounted.scan("sparse");
    assert_eq!(ended, Ok(Blind::default()));
    assert_eq!(files[0].iter().map(|(_, count)| count).sum::<u64>(), 300);
    let expected: Vec<u8> = (0..300).flat_map(|number| pattern(number, BLOCK)).collect();
    assert!(mounted.on_disk(&files[0]) == expected, "in the file's order");
}

#[test]
fn a_walk_stays_below_its_path_and_reports_its_gaps() {
    let mounted = Mounted::new();
    let root = mounted.root();
    for number in 0..1500 {
        mounted.write(&format!("d/{}/{number}", number % 7), &pattern(number, 5000));
    }
    mounted.write("outside", &pattern(3, 5000));
    std::fs::hard_link(root.join("d/0/0"), root.join("d/1/again")).unwrap();
    symlink("../outside", root.join("d/link")).unwrap();
    symlink("d", root.join("way")).unwrap();
    run("mkfifo", &[&root.join("d/fifo").display().to_string()]);
    std::fs::create_dir(root.join("d/elsewhere")).unwrap();
    run("mount", &["-t", "tmpfs", "none", &root.join("d/elsewhere").display().to_string()]);
    std::fs::write(root.join("d/elsewhere/file"), b"not ours").unwrap();
    let (files, ended) = mounted.scan("d");
    let (inside, refused) = (mounted.scan("d/elsewhere").1, mounted.scan("d/elsewhere/file").1);
    run("umount", &[&root.join("d/elsewhere").display().to_string()]);
    assert_eq!(ended, Ok(Blind::default()));
    assert_eq!(files.len(), 1500, "hard links count once");
    let blocks: BTreeSet<_> =
        files.iter().flatten().flat_map(|(start, count)| *start..start + count).collect();
    assert_eq!(blocks.len(), 3000);
    assert_eq!((inside, refused), (Err(Unscannable::Elsewhere), Err(Unscannable::Elsewhere)));
    for (path, why) in [
        ("way", Unscannable::Link),
        ("way/0", Unscannable::Link),
        ("d/link", Unscannable::Link),
        ("d/fifo", Unscannable::Special),
        ("nothing", Unscannable::Missing),
        ("outside/below", Unscannable::Missing),
    ] {
        assert_eq!(mounted.scan(path).1, Err(why), "{path}");
    }
    assert!(matches!(mounted.scan("../..").1, Err(Unscannable::Elsewhere | Unscannable::Failed(_))));
    assert_eq!(mounted.scan(".").0.len(), 1501);
}

/// The reported changes, from a thread that ends with the test.
fn follow(watches: &Arc<Watches>) -> Receiver<Vec<String>> {
    let (told, heard) = mpsc::channel();
    let watches = watches.clone();
    std::thread::spawn(move || watches.follow(|paths| told.send(paths).is_ok()));
    heard
}

#[test]
fn reports_only_changes_below_a_path_or_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    std::fs::create_dir_all(at("kept/below")).unwrap();
    std::fs::write(at("one"), "1").unwrap();
    std::fs::write(at("two"), "2").unwrap();
    let root = File::open(dir.path()).unwrap();
    let watches = Arc::new(Watches::new().unwrap());
    let scans = std::cell::Cell::new(0);
    let scan = |path: &str| {
        scans.set(scans.get() + 1);
        let scan = Scan {
            id: scans.get(),
            path: path.to_owned(),
            watch: true,
            drop_pages: false,
            list: false,
            outline: false,
        };
        walk::walk(root.as_fd(), (&scan, &AtomicBool::new(false)), &watches, &mut |_| Ok(())).unwrap();
    };
    scan("kept");
    scan("one");
    let heard = follow(&watches);
    let hears = |expected: &str| {
        assert_eq!(heard.recv_timeout(Duration::from_secs(60)).unwrap(), [expected]);
        // As the daemon does.
        scan(expected);
    };
    std::fs::write(at("kept/below/new"), "n").unwrap();
    hears("kept");
    std::fs::create_dir(at("kept/later")).unwrap();
    hears("kept");
    std::fs::write(at("kept/later/file"), "n").unwrap();
    hears("kept");
    // Nobody watches either of them.
    std::fs::write(at("two"), "n").unwrap();
    std::fs::rename(at("two"), at("one")).unwrap();
    hears("one");
    std::fs::remove_file(at("kept/later/file")).unwrap();
    hears("kept");
    std::fs::rename(at("kept"), at("moved")).unwrap();
    hears("kept");
    // A path that was moved away is no longer watched; what comes in its place is.
    std::fs::write(at("moved/below/new"), "more").unwrap();
    std::fs::create_dir(at("kept")).unwrap();
    hears("kept");
    watches.forget("kept");
    std::fs::write(at("kept/file"), "n").unwrap();
    std::fs::write(at("one"), "more").unwrap();
    hears("one");
}

#[test]
fn looking_into_a_watched_directory_does_not_end_the_watch() {
    let dir = tempfile::tempdir().unwrap();
    let root = File::open(dir.path()).unwrap();
    let watches = Arc::new(Watches::new().unwrap());
    let watched =
        Scan { id: 1, path: ".".to_owned(), watch: true, drop_pages: false, list: false, outline: false };
    let looked = Scan { id: 2, watch: false, ..watched.clone() };
    let scans =
        [watched, looked.clone(), Scan { list: true, ..looked.clone() }, Scan { outline: true, ..looked }];
    for scan in &scans {
        walk::walk(root.as_fd(), (scan, &AtomicBool::new(false)), &watches, &mut |_| Ok(())).unwrap();
    }
    let heard = follow(&watches);
    std::fs::write(dir.path().join("new"), "n").unwrap();
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)).unwrap(), ["."]);
}

#[test]
fn unreadable_entries_are_counted_and_the_rest_is_found() {
    // Root may read everything, so another user scans.
    let mounted = Mounted::new();
    std::fs::set_permissions(mounted.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = mounted.root();
    std::fs::remove_dir(path.join("lost+found")).unwrap();
    std::fs::create_dir(path.join("closed")).unwrap();
    std::fs::write(path.join("file"), "f").unwrap();
    std::fs::write(path.join("secret"), "s").unwrap();
    for (name, mode) in [("closed", 0o700), ("secret", 0o600)] {
        std::fs::set_permissions(path.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let looked = std::thread::spawn(move || {
        const NOBODY: u32 = 65534;
        // SAFETY: changes the identity of this thread alone, which ends with the test.
        unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        let mut probe = String::new();
        let readable = File::open(path.join("secret")).and_then(|mut file| file.read_to_string(&mut probe));
        assert!(readable.is_err(), "the thread is somebody else");
        scan_below(&path, ".")
    });
    let (files, ended) = looked.join().unwrap();
    let blind = ended.unwrap();
    assert_eq!((files.len(), blind.unreadable, blind.failed), (1, 2, false), "{blind:?}");
    assert!(blind.example.is_some_and(|path| path.contains("secret") || path.contains("closed")));
}

#[test]
fn a_directory_is_listed_one_level_deep_with_directories_first() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    std::fs::create_dir_all(root.join("b/deep/er")).unwrap();
    std::fs::write(root.join("b/deep/file"), "x").unwrap();
    std::fs::write(root.join("b/a file"), "12345").unwrap();
    std::os::unix::fs::symlink("a file", root.join("b/link")).unwrap();
    let names = |path: &str| {
        let listed = list(root, path).unwrap();
        listed.into_iter().map(|named| (named.name, named.file.map(|(len, _)| len))).collect::<Vec<_>>()
    };
    assert_eq!(names("."), [("b".to_owned(), None)]);
    assert_eq!(names("b"), [("deep".to_owned(), None), ("a file".to_owned(), Some(5))]);
    assert_eq!(list(root, "b/none"), Err(Unscannable::Missing));
    assert_eq!(list(root, "b/a file"), Err(Unscannable::Missing));
    assert!(list(root, "..").is_err());
    // Many files come in several pieces, and none is missing.
    std::fs::create_dir(root.join("many")).unwrap();
    (0..1200).for_each(|file| std::fs::write(root.join(format!("many/{file:04}")), "").unwrap());
    let many = names("many");
    assert_eq!((many.len(), many[1199].0.as_str()), (1200, "1199"));
}

/// The process's work on a mounted drive, over a socket with a small buffer: a report that is not read waits.
struct Working(UnixStream);

impl Working {
    fn on(mounted: &Mounted) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 4096).unwrap();
        std::thread::spawn(move || serve_on(theirs));
        let said = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(mounted.root()).output().unwrap();
        let device = PathBuf::from(String::from_utf8(said.stdout).unwrap().trim());
        let target = Target { device, proof: Proof::Backing(mounted.image()) };
        let mut working = Self(ours);
        working.order(&Order::Begin { target, mountpoint: mounted.root() });
        working
    }

    fn order(&mut self, order: &Order) {
        writeln!(self.0, "{}", serde_json::to_string(order).unwrap()).unwrap();
    }

    fn scan(&mut self, id: u64, path: &str, list: bool) {
        self.order(&Order::Scan(Scan {
            id,
            path: path.to_owned(),
            watch: false,
            drop_pages: false,
            list,
            outline: false,
        }));
    }

    /// The scans that have ended, in this order, until `last`.
    fn ends_until(&self, last: u64) -> Vec<u64> {
        let mut ended = Vec::new();
        for line in BufReader::new(&self.0).lines() {
            let told: Told = serde_json::from_str(&line.unwrap()).unwrap();
            if let Told::Scanned { id, .. } | Told::Refused { id, .. } = told {
                assert!(matches!(told, Told::Scanned { .. }), "{told:?}");
                ended.push(id);
                if id == last {
                    return ended;
                }
            }
        }
        panic!("only {ended:?} ended");
    }
}

#[test]
fn directories_are_listed_beside_scans_and_cancelled_scans_end() {
    let mounted = Mounted::new();
    for number in 0..3000 {
        mounted.write(&format!("many/{}/{number}", number % 7), b"");
    }
    mounted.write("few/file", &pattern(1, 5000));
    let mut working = Working::on(&mounted);
    // Nothing is read yet: the first scan is in the middle of its reports, and the others wait for it.
    for id in 1..=4 {
        working.scan(id, "many", false);
    }
    working.scan(5, "few", true);
    for id in [1, 3] {
        working.order(&Order::Cancel { id });
    }
    // Cancelling an unknown scan does no harm.
    working.order(&Order::Cancel { id: 77 });
    working.scan(6, "few", false);
    assert_eq!(working.ends_until(6), [5, 2, 4, 6]);
}
