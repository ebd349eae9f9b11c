//! The process that looks at a mounted drive's files for us ([`crate::scanner`]): started when it is first needed, killed before the drive
//! is unmounted. It learns which scans nobody waits for any longer, so that others have their turn.

use crate::attach::filesystem::Mounted;
use crate::scanner::{self, Blind, Named, Order, Run, Scan, Seen, Told, Unscannable};
use holdall_helper::{Target, ended, reap};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// How long to wait for a killed process. A process that does not end waits for the drive in the kernel.
const DEATH_PATIENCE: Duration = Duration::from_secs(2);

/// News that comes without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something has changed at or below these paths.
    Changed(Vec<String>),
    /// The process has ended: changes from here on go unnoticed.
    Lost,
}

/// Why a scan has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanError {
    /// The path cannot be scanned.
    Unscannable(Unscannable),
    /// The collector does not want that much.
    TooMany,
    /// The process has ended, or could not be started.
    Gone(String),
}

/// A piece of what a scan finds.
pub(super) enum Piece {
    /// The runs of each file, and those of directories.
    Runs(Vec<Vec<Run>>, Vec<Run>),
    /// The entries of a directory.
    Names(Vec<Named>),
    /// The entries below a directory.
    Outline(Vec<Seen>),
}

/// Receives what a scan finds, piece by piece. Returning false ends the scan.
pub(super) type Collect = Box<dyn FnMut(Piece) -> bool + Send>;

/// The scanner of one mount.
pub(super) struct Scanner {
    program: PathBuf,
    target: Target,
    mountpoint: PathBuf,
    heard: mpsc::UnboundedSender<Heard>,
    // Held to begin and end scans.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    /// Counts the processes.
    generation: u64,
    scans: HashMap<u64, Running>,
    next_id: u64,
    stopped: bool,
}

struct Process {
    child: Child,
    orders: mpsc::UnboundedSender<Order>,
}

struct Running {
    collect: Collect,
    ended: oneshot::Sender<Result<Blind, ScanError>>,
}

impl Scanner {
    /// The scanner of a mounted drive; news goes to `heard`.
    pub fn new(mounted: Mounted, heard: mpsc::UnboundedSender<Heard>) -> Arc<Self> {
        let (target, mountpoint) = (mounted.target().clone(), mounted.mountpoint().to_owned());
        Arc::new(Self::with(mounted.program().to_owned(), (target, mountpoint), heard))
    }

    fn with(
        program: PathBuf,
        (target, mountpoint): (Target, PathBuf),
        heard: mpsc::UnboundedSender<Heard>,
    ) -> Self {
        Self { program, target, mountpoint, heard, state: Arc::default() }
    }

    /// Scans `path`, and hands what it finds to `collect`.
    pub async fn scan(
        &self,
        path: &str,
        (watch, drop_pages): (bool, bool),
        collect: Collect,
    ) -> Result<Blind, ScanError> {
        let scan = Scan { id: 0, path: path.to_owned(), watch, drop_pages, list: false, outline: false };
        self.begin(scan, collect).await
    }

    /// Lists a directory, and hands its entries to `collect`.
    pub async fn list(&self, path: &str, collect: Collect) -> Result<(), ScanError> {
        let scan = Scan {
            id: 0,
            path: path.to_owned(),
            watch: false,
            drop_pages: false,
            list: true,
            outline: false,
        };
        self.begin(scan, collect).await.map(drop)
    }

    /// Hands all entries of the drive, by name and facts, to `collect`.
    pub async fn outline(&self, collect: Collect) -> Result<Blind, ScanError> {
        let scan =
            Scan { id: 0, path: ".".to_owned(), watch: false, drop_pages: false, list: false, outline: true };
        self.begin(scan, collect).await
    }

    async fn begin(&self, scan: Scan, collect: Collect) -> Result<Blind, ScanError> {
        let (ended, result) = oneshot::channel();
        let _waits = {
            let mut state = self.state.lock();
            let id = state.next_id;
            state.next_id += 1;
            let orders = self.process(&mut state).map_err(|error| ScanError::Gone(error.to_string()))?;
            state.scans.insert(id, Running { collect, ended });
            // If the process is just ending, all scans fail.
            let _ = orders.send(Order::Scan(Scan { id, ..scan }));
            Waits { state: &self.state, id }
        };
        result.await.unwrap_or_else(|_| Err(ScanError::Gone("it was stopped".into())))
    }

    /// Stops watching a path.
    pub fn forget(&self, path: &str) {
        if let Some(process) = &self.state.lock().process {
            let _ = process.orders.send(Order::Forget { path: path.to_owned() });
        }
    }

    /// Ends the process, and waits until it has ended: it then uses nothing of the drive. Blocks.
    pub fn stop(&self) {
        let process = {
            let mut state = self.state.lock();
            state.stopped = true;
            state.scans.clear();
            state.process.take()
        };
        if let Some(process) = process {
            kill(process);
        }
    }

    /// The channel for orders to the process, which is started if there is none.
    fn process(&self, state: &mut State) -> io::Result<mpsc::UnboundedSender<Order>> {
        if state.stopped {
            return Err(io::Error::other("the drive is being closed"));
        }
        if let Some(process) = &state.process {
            return Ok(process.orders.clone());
        }
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let mut command = Command::new(&self.program);
        command.arg(scanner::SUBCOMMAND).process_group(0);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        state.generation += 1;
        let (orders, ordered) = mpsc::unbounded_channel();
        let (target, mountpoint) = (self.target.clone(), self.mountpoint.clone());
        let _ = orders.send(Order::Begin { target, mountpoint });
        tokio::spawn(listen(ours, ordered, self.state.clone(), state.generation, self.heard.clone()));
        state.process = Some(Process { child, orders: orders.clone() });
        Ok(orders)
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client that waits for a scan. Dropping it cancels the scan.
struct Waits<'a> {
    state: &'a Mutex<State>,
    id: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let running = state.scans.remove(&self.id);
        if running.is_some() {
            state.cancel(self.id);
        }
    }
}

impl State {
    /// Ends a scan that goes beyond what is wanted.
    fn too_many(&self, id: u64) -> Result<Blind, ScanError> {
        self.cancel(id);
        Err(ScanError::TooMany)
    }

    fn cancel(&self, id: u64) {
        if let Some(process) = &self.process {
            let _ = process.orders.send(Order::Cancel { id });
        }
    }
}

fn kill(process: Process) {
    let Process { child, .. } = process;
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    ended(&child, DEATH_PATIENCE);
    reap(child);
}

/// Passes orders to a process, and its answers to their scans, until the process or the scanner ends.
async fn listen(
    stream: UnixStream,
    mut orders: mpsc::UnboundedReceiver<Order>,
    state: Arc<Mutex<State>>,
    generation: u64,
    heard: mpsc::UnboundedSender<Heard>,
) {
    let (reading, mut writing) = stream.into_split();
    let write = async {
        while let Some(order) = orders.recv().await {
            let mut line = serde_json::to_vec(&order).expect("an order is made of strings and numbers");
            line.push(b'\n');
            if writing.write_all(&line).await.is_err() {
                return;
            }
        }
    };
    let read = async {
        let mut lines = BufReader::new(reading).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(told) = serde_json::from_str(&line) else { return };
            hear(told, &state, &heard);
        }
    };
    tokio::select! {
        () = write => {}
        () = read => {}
    }
    let gone = {
        let mut state = state.lock();
        if state.generation != generation || state.stopped {
            return;
        }
        state.scans.clear();
        state.process.take()
    };
    // Nobody receives this if the drive is not followed.
    let _ = heard.send(Heard::Lost);
    if let Some(process) = gone {
        let _ = tokio::task::spawn_blocking(move || kill(process)).await;
    }
}

/// Hands a piece to its scan. Returns whether more is wanted.
fn take(state: &mut State, id: u64, piece: Piece) -> bool {
    state.scans.get_mut(&id).is_none_or(|scan| (scan.collect)(piece))
}

fn hear(told: Told, state: &Mutex<State>, heard: &mpsc::UnboundedSender<Heard>) {
    let mut state = state.lock();
    let (id, result) = match told {
        Told::Found { id, files, directories } => match take(&mut state, id, Piece::Runs(files, directories))
        {
            true => return,
            false => (id, state.too_many(id)),
        },
        Told::Listed { id, entries } => match take(&mut state, id, Piece::Names(entries)) {
            true => return,
            false => (id, state.too_many(id)),
        },
        Told::Outlined { id, entries } => match take(&mut state, id, Piece::Outline(entries)) {
            true => return,
            false => (id, state.too_many(id)),
        },
        Told::Scanned { id, blind } => (id, Ok(blind)),
        Told::Refused { id, why } => (id, Err(ScanError::Unscannable(why))),
        Told::Changed { paths } => {
            let _ = heard.send(Heard::Changed(paths));
            return;
        }
    };
    if let Some(scan) = state.scans.remove(&id) {
        // The client may have gone; then the collected pieces are dropped with it.
        let _ = scan.ended.send(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdall_helper::Proof;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    /// Records its orders, and finds a file at once in every scan except that of "nothing", which does not end.
    const SCRIPT: &str = r#"#!/bin/sh
while read -r line; do
    echo "$line" >>"$0.told"
    id=${line#*'"id":'}
    id=${id%%,*}
    case $line in
        *'"path":"nothing"'*) ;;
        '{"scan"'*) printf '{"found":{"id":%s,"files":[[[1,1]]],"directories":[]}}\n' "$id" >&0 ;;
    esac
done
"#;

    async fn until(done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_scan_without_a_waiting_client_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::write(&program, SCRIPT).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let target = Target { device: "/dev/loop0".into(), proof: Proof::Backing("/none".into()) };
        let (heard, _hear) = mpsc::unbounded_channel();
        let scanner = Scanner::with(program, (target, "/none".into()), heard);
        let told = || std::fs::read_to_string(dir.path().join("program.told")).unwrap_or_default();
        let is_cancelled = |id: u64| told().contains(&format!(r#"{{"cancel":{{"id":{id}}}}}"#));

        // The client disconnects.
        let gone = tokio::time::timeout(
            Duration::from_millis(200),
            scanner.scan("nothing", (false, false), Box::new(|_| true)),
        );
        assert!(gone.await.is_err());
        until(|| is_cancelled(0)).await;
        // The collector does not want that much.
        let much = scanner.scan("much", (false, false), Box::new(|_| false)).await;
        assert_eq!(much, Err(ScanError::TooMany));
        until(|| is_cancelled(1)).await;
        assert!(scanner.state.lock().scans.is_empty());
        scanner.stop();
    }
}
