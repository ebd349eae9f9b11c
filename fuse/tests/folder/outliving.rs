//! A mount whose daemon is killed, and followed by another one.

use crate::child::Program;
use std::path::{Path, PathBuf};

struct Daemons {
    root: tempfile::TempDir,
    _keeper: Program,
}

impl Daemons {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["mnt", "remote", "state"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        let socket = root.path().join("keeper");
        let _keeper = Program::start(&program(), &["keep", socket.to_str().unwrap()]);
        Self { root, _keeper }
    }

    fn start(&self, how: &str) -> Program {
        let paths = ["remote", "state", "mnt", "keeper"].map(|name| self.root.path().join(name));
        let paths = paths.iter().map(|path| path.to_str().unwrap());
        Program::start(&program(), &[how].into_iter().chain(paths).collect::<Vec<_>>())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join("mnt").join(name)
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // Needed only after a failed test.
        let at = self.root.path().join("mnt");
        if is_mounted(&at) {
            let _ = holdall_fuse::mount::abort(&at);
            let _ = rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/serve_folder");
    assert!(path.exists(), "{} is missing: cargo build -p holdall-fuse --examples", path.display());
    path
}

fn is_mounted(at: &Path) -> bool {
    std::fs::read_to_string("/proc/self/mounts").unwrap().contains(at.to_str().unwrap())
}

/// Another program, which has files of the folder open. This one must not: each process that it starts would close them between fork and
/// exec, and wait for a daemon.
struct Other(Program);

impl Other {
    fn start(at: &Path) -> Self {
        let program = "import os, sys
files = {}
def open(name, flags): files[name] = os.open(sys.argv[1] + '/' + name, flags); return 'opened'
print('ready', flush=True)
for line in sys.stdin: print(eval(line), flush=True)";
        Self(Program::start(Path::new("/usr/bin/env"), &["python3", "-c", program, at.to_str().unwrap()]))
    }

    fn ask(&mut self, expression: &str) -> String {
        self.0.ask(expression)
    }
}

#[test]
fn open_files_outlive_a_killed_daemon() {
    let daemons = Daemons::new();
    std::fs::write(daemons.root.path().join("remote/served"), vec![b'7'; 3_000_000]).unwrap();
    let first = daemons.start("mount");
    let (mut writer, mut maker) = (Other::start(&daemons.at("")), Other::start(&daemons.at("")));
    assert_eq!(writer.ask("open('passed', os.O_RDWR | os.O_CREAT | os.O_EXCL)"), "opened");
    assert_eq!(writer.ask("os.pwrite(files['passed'], b'before', 0)"), "6");
    assert_eq!(writer.ask("open('served', os.O_RDONLY)"), "opened");
    assert_eq!(writer.ask("os.pread(files['served'], 4, 0)"), "b'7777'");
    assert_eq!(maker.ask("os.mkdir(sys.argv[1] + '/d')"), "None");

    // As kill -9 does.
    drop(first);
    assert_eq!(writer.ask("os.pwrite(files['passed'], b'daemon dead', 0)"), "11");
    assert_eq!(writer.ask("os.pread(files['passed'], 100, 0)"), "b'daemon dead'");
    // It waits for the next daemon.
    maker.0.say("open('d/made', os.O_RDWR | os.O_CREAT)");

    let mut second = daemons.start("resume");
    assert_eq!(maker.0.hear(), "opened");
    assert_eq!(maker.ask("os.pwrite(files['d/made'], b'after all', 0)"), "9");
    assert_eq!(writer.ask("os.fstat(files['served']).st_size"), "3000000");
    assert_eq!(writer.ask("os.pread(files['served'], 4, 2999996)"), "b'7777'");
    // One backing id for the inode, whichever daemon answers.
    assert_eq!(maker.ask("open('passed', os.O_RDWR)"), "opened");
    assert_eq!(maker.ask("os.pwrite(files['passed'], b'DAEMON', 0)"), "6");
    assert_eq!(writer.ask("os.pread(files['passed'], 100, 0)"), "b'DAEMON dead'");
    assert_eq!(writer.ask("os.fstat(files['passed']).st_size"), "11");
    assert_eq!(writer.ask("os.fsync(files['passed'])"), "None");
    drop((writer, maker));
    assert_eq!(second.ask("unmount"), "unmounted");
    second.finished();
    assert!(!is_mounted(&daemons.root.path().join("mnt")));
}
