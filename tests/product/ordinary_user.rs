//! A folder of an ordinary user, whose files root's helper registers for passthrough. The helper is on a bus of the test's own, and the
//! test's thread in a mount namespace of its own, where /dev/fuse is open to all users, as a distribution's udev sets it up.

use crate::bench::{Bench, Machine, wait_until};
use crate::own_fuse::open_fuse;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// nobody: a bus lets in only users who have a name.
const USER: u32 = 65534;

/// What reads and writes files of a folder may take, unless it waits for a daemon that is stopped.
const WITHOUT_DAEMON: Duration = Duration::from_secs(10);

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The system bus of the user's computer.
struct Bus {
    address: String,
    _daemon: Process,
}

impl Bus {
    fn start(bench: &Bench) -> Self {
        let (config, socket) = (bench.path("bus.conf"), bench.path("bus.sock"));
        let everything =
            "<allow user='*'/><allow own='*'/><allow send_destination='*'/><allow receive_sender='*'/>";
        let text = format!(
            "<busconfig><listen>unix:path={}</listen><auth>EXTERNAL</auth><policy context='default'>{everything}</policy></busconfig>",
            socket.display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new("dbus-daemon");
        command.arg("--nofork").arg(format!("--config-file={}", config.display()));
        let daemon = Process(command.spawn().unwrap());
        wait_until("a bus", || socket.exists()).unwrap();
        Self { address: format!("unix:path={}", socket.display()), _daemon: daemon }
    }

    /// Root's helper, on this bus.
    fn helper(&self) -> Process {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_holdalld")).with_file_name("holdall-helper");
        assert!(program.exists(), "{} is missing: cargo build -p holdall-helper", program.display());
        let mut command = Command::new(program);
        let helper = command.env("DBUS_SYSTEM_BUS_ADDRESS", &self.address).stdin(Stdio::null()).spawn();
        let helper = Process(helper.unwrap());
        wait_until("the helper", || self.has_helper()).unwrap();
        helper
    }

    fn has_helper(&self) -> bool {
        let asked = zbus::blocking::connection::Builder::address(self.address.as_str()).unwrap().build();
        let bus = zbus::blocking::fdo::DBusProxy::new(&asked.unwrap()).unwrap();
        bus.name_has_owner("org.holdall.Helper1".try_into().unwrap()).unwrap()
    }
}

/// A program of the user's. It evaluates Python, a line at a time.
struct Program {
    process: Process,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Program {
    fn start(at: &Path) -> Self {
        let text = "import os, sys
at = sys.argv[1] + '/'
files = {}
def open(name, flags): files[name] = os.open(at + name, flags, 0o600); return 'opened'
for line in sys.stdin: print(eval(line), flush=True)";
        let mut command = Command::new("python3");
        command.args(["-c", text]).arg(at).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.uid(USER).gid(USER).spawn().unwrap();
        let (orders, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            BufReader::new(said).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Self { process: Process(child), orders, answers }
    }

    fn ask(&mut self, expression: &str) -> String {
        writeln!(self.orders, "{expression}").unwrap();
        let answer = self.answers.recv_timeout(WITHOUT_DAEMON);
        answer.unwrap_or_else(|error| panic!("{expression} ({}): {error}", self.process.0.id()))
    }
}

/// A daemon that does nothing, until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(status: &Value) -> Self {
        let pid = Pid::from_raw(status["daemon_pid"].as_i64().unwrap() as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A user's computer on that bus, and some of the user's files.
fn machine(bench: &Bench, bus: &Bus) -> (Machine, PathBuf) {
    fs::set_permissions(bench.path(""), Permissions::from_mode(0o755)).unwrap();
    let (mut machine, files) = (bench.machine("a"), bench.path("photos"));
    fs::create_dir(&files).unwrap();
    fs::write(files.join("letter.txt"), "dear").unwrap();
    for path in [&machine.dir, &files, &files.join("letter.txt")] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    machine.user = Some(USER);
    machine.environment.push(("DBUS_SYSTEM_BUS_ADDRESS".to_owned(), bus.address.clone()));
    machine.environment.push(("HOME".to_owned(), machine.dir.display().to_string()));
    (machine, files)
}

fn opened(machine: &Machine, files: &Path) {
    let (url, at) = (format!("file://{}", files.display()), machine.mountpoint().display().to_string());
    machine.ok(&["folder", "open", &url, "--at", &at]);
}

#[test]
fn files_of_an_ordinary_user_are_read_and_written_without_the_daemon() {
    let bench = Bench::new();
    open_fuse(&bench);
    let bus = Bus::start(&bench);
    let helper = bus.helper();
    let (machine, files) = machine(&bench, &bus);
    opened(&machine, &files);
    let status = || machine.ok(&["folder", "status", "photos"]);
    assert_eq!(status()["passthrough"], serde_json::json!({"on": true, "why": null}));

    let mut program = Program::start(&machine.mountpoint());
    assert_eq!(program.ask("open('new.txt', os.O_RDWR | os.O_CREAT)"), "opened");
    assert_eq!(program.ask("os.pwrite(files['new.txt'], b'first', 0)"), "5");
    {
        let _stopped = Stopped::new(&status());
        assert_eq!(program.ask("os.pwrite(files['new.txt'], b'without a daemon', 0)"), "16");
        assert_eq!(program.ask("os.pread(files['new.txt'], 100, 0)"), "b'without a daemon'");
    }
    assert_eq!(status()["passthrough"]["on"], true);
    assert_eq!(program.ask("os.close(files['new.txt'])"), "None");
    // The process that registers files does not end with the helper.
    drop(helper);
    assert_eq!(program.ask("open('new.txt', os.O_RDONLY)"), "opened");
    assert_eq!(program.ask("os.pread(files['new.txt'], 100, 0)"), "b'without a daemon'");
    drop(program);
    machine.ok(&["folder", "close", "photos", "--wait"]);
    assert_eq!(fs::read_to_string(files.join("new.txt")).unwrap(), "without a daemon");
}

#[test]
fn without_a_helper_files_of_an_ordinary_user_are_served() {
    let bench = Bench::new();
    open_fuse(&bench);
    let bus = Bus::start(&bench);
    let (machine, files) = machine(&bench, &bus);
    opened(&machine, &files);
    let passthrough = machine.ok(&["folder", "status", "photos"])["passthrough"].clone();
    assert_eq!(passthrough["on"], false, "{passthrough}");
    assert!(passthrough["why"].as_str().unwrap().contains("helper"), "{passthrough}");
    let mut program = Program::start(&machine.mountpoint());
    assert_eq!(program.ask("open('letter.txt', os.O_RDWR)"), "opened");
    assert_eq!(program.ask("os.pwrite(files['letter.txt'], b'DEAR', 0)"), "4");
    assert_eq!(program.ask("os.pread(files['letter.txt'], 100, 0)"), "b'DEAR'");
    drop(program);
    machine.ok(&["folder", "close", "photos", "--wait"]);
    assert_eq!(fs::read_to_string(files.join("letter.txt")).unwrap(), "DEAR");
}
