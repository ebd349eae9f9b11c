//! Serves a file as a one-file disk, as a daemon serves a drive: shows how to mount, keep, hand over and resume.
//!
//!     serve_file keep SOCKET                      a keeper
//!     serve_file mount FILE DIR [SOCKET]          mount, and leave a copy with the keeper
//!     serve_file resume FILE DIR SOCKET           continue with what the keeper has for DIR
//!     serve_file inherited FILE FD PARAMETERS     continue with what the previous program left over exec
//!
//! Prints `ready` once it serves. Then it takes one line from standard input: `exec` becomes a fresh process by exec, `give` leaves the
//! disk with the keeper and exits, `unmount` unmounts and exits.

#[path = "../tests/support/file_device.rs"]
mod file_device;

use file_device::FileDevice;
use holdall_fuse::handover::Handover;
use holdall_fuse::keeper;
use holdall_fuse::onefile::{OneFileDisk, Options};
use std::io::{BufRead, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// How long a handover waits for requests in flight. A file answers quickly.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::default();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let handle = runtime.handle().clone();
    let device = |file: &str| FileDevice::open(Path::new(file)).map(Arc::new);
    let (file, keeper, disk) = match args[..] {
        ["keep", socket] => {
            let listener = UnixListener::bind(socket)?;
            say("ready")?;
            return Ok(keeper::keep(&listener)?);
        }
        ["mount", file, dir] => {
            (file, None, OneFileDisk::mount(Path::new(dir), device(file)?, &options, handle)?)
        }
        ["mount", file, dir, socket] => {
            let disk = OneFileDisk::mount(Path::new(dir), device(file)?, &options, handle)?;
            keeper::put(Path::new(socket), &disk.copy_for_keeper()?)?;
            (file, Some(socket), disk)
        }
        ["resume", file, dir, socket] => {
            let kept = keeper::take(Path::new(socket), Path::new(dir))?.ok_or("the keeper has nothing")?;
            (file, Some(socket), OneFileDisk::resume(kept, device(file)?, &options, handle)?)
        }
        ["inherited", file, fd, parameters] => {
            // SAFETY: the arguments say that the number is ours, and nothing was opened before.
            let handover = unsafe { Handover::from_inherited(fd.parse()?, parameters)? };
            (file, None, OneFileDisk::resume(handover, device(file)?, &options, handle)?)
        }
        _ => return Err("serve_file keep|mount|resume|inherited, see the head of its source".into()),
    };
    say("ready")?;
    runtime.block_on(obey(file, keeper, disk))
}

async fn obey(file: &str, keeper: Option<&str>, mut disk: OneFileDisk) -> Result<(), Failure> {
    // There is only one command, so this one task may block for it.
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        // The process that started us has closed our input: continue to serve.
        disk.ended().await;
        return Ok(());
    }
    match (line.trim_end(), keeper) {
        ("exec", _) => {
            let (fd, parameters) = disk.into_handover(PATIENCE).await?.into_inheritable()?;
            let fd = fd.to_string();
            let program = std::env::current_exe()?;
            Err(Command::new(program).args(["inherited", file, &fd, &parameters]).exec().into())
        }
        ("give", Some(socket)) => {
            keeper::put(Path::new(socket), &disk.into_handover(PATIENCE).await?)?;
            Ok(say("given")?)
        }
        ("unmount", _) => {
            disk.unmount().await?;
            Ok(say("unmounted")?)
        }
        (other, _) => Err(format!("{other:?} is not a command here").into()),
    }
}

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}")?;
    out.flush()
}
