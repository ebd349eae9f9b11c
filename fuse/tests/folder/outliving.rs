//! A mount whose daemon is killed, and followed by another one.

use crate::child::Program;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// Programs that make, rename and remove files without a pause.
const STORM: &str = "import os, sys, threading
at, rounds, failures, stop = sys.argv[1], [0] * 8, [], threading.Event()
def storm(me):
    try:
        while not stop.is_set():
            one, other, directory = (f'{at}/{kind}-{me}-{rounds[me]}' for kind in ('one', 'other', 'd'))
            os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            os.mkdir(directory)
            os.rename(one, other)
            os.rename(other, directory + '/c')
            os.symlink('c', directory + '/l')
            os.setxattr(directory + '/c', 'user.n', b'1', os.XATTR_CREATE)
            if rounds[me] % 16:
                os.removexattr(directory + '/c', 'user.n')
                os.unlink(directory + '/l')
                os.unlink(directory + '/c')
                os.rmdir(directory)
            rounds[me] += 1
    except OSError as error:
        failures.append(f'{me}, round {rounds[me]}: {error}')
threads = [threading.Thread(target=storm, args=(me,)) for me in range(8)]
for thread in threads: thread.start()
print('ready', flush=True)
for line in sys.stdin:
    if line.strip() == 'stop':
        stop.set()
        for thread in threads: thread.join()
    print(failures or ' '.join(map(str, rounds)), flush=True)";

#[test]
fn nothing_is_done_twice_when_the_daemon_is_killed() {
    let daemons = Daemons::new();
    let mut daemon = daemons.start("mount");
    let at = daemons.at("");
    let mut storm =
        Program::start(Path::new("/usr/bin/env"), &["python3", "-c", STORM, at.to_str().unwrap()]);
    let rounds = |said: String| -> Vec<u32> {
        let numbers: Result<_, _> = said.split(' ').map(str::parse).collect();
        numbers.unwrap_or_else(|_| panic!("programs saw {said}"))
    };
    let sum = |storm: &mut Program| rounds(storm.ask("rounds")).iter().sum::<u32>();
    for _ in 0..8 {
        let (before, until) = (sum(&mut storm), Instant::now() + Duration::from_secs(60));
        while sum(&mut storm) < before + 20 {
            assert!(Instant::now() < until, "the storm has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        // As kill -9 does.
        drop(daemon);
        daemon = daemons.start("resume");
    }
    let rounds = rounds(storm.ask("stop"));
    drop(storm);
    let made = |(me, rounds): (usize, &u32)| {
        (0..*rounds).step_by(16).map(move |number| format!("d-{me}-{number}")).collect::<Vec<_>>()
    };
    let made: BTreeSet<String> = rounds.iter().enumerate().flat_map(made).collect();
    let names = |at: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(at).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&at), made);
    let files: BTreeSet<String> = ["c", "l"].map(String::from).into();
    made.iter().for_each(|directory| assert_eq!(names(&at.join(directory)), files, "{directory}"));
    assert_eq!(daemon.ask("unmount"), "unmounted");
    daemon.finished();
}
