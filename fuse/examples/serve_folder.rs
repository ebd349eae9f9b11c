//! Serves a directory as a folder, as a daemon serves a remote: shows how to mount, keep and resume.
//!
//!     serve_folder keep SOCKET                        a keeper
//!     serve_folder mount REMOTE STATE DIR SOCKET      mount, and leave a copy with the keeper
//!     serve_folder resume REMOTE STATE DIR SOCKET     continue with what the keeper has for DIR
//!
//! Prints `ready` once it serves. Then it takes one line from standard input: `unmount` unmounts and exits.

use holdall_core::disk::real::Directory;
use holdall_core::folder::{Folder, FolderEnvironment};
use holdall_core::store::file::Limits;
use holdall_core::store::pace::Pacer;
use holdall_core::store::remote::file::{FileRemote, Options as RemoteOptions};
use holdall_fuse::folder::{InProcess, Options, Registrar, Unmounting, mount, resume};
use holdall_fuse::keeper;
use std::io::{BufRead, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (has_outlived, [remote, state, dir, socket]) = match args[..] {
        ["keep", socket] => {
            let listener = UnixListener::bind(socket)?;
            say("ready")?;
            return Ok(keeper::keep(&listener)?);
        }
        ["mount", remote, state, dir, socket] => (false, [remote, state, dir, socket].map(Path::new)),
        ["resume", remote, state, dir, socket] => (true, [remote, state, dir, socket].map(Path::new)),
        _ => return Err("serve_folder keep|mount|resume, see the head of its source".into()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let environment = runtime.block_on(environment(remote, state, has_outlived))?;
    let (folder, stale) = runtime.block_on(Folder::open(environment))?;
    let registrar = InProcess::new().map(|registrar| Arc::new(registrar) as Arc<dyn Registrar>);
    let handle = runtime.handle().clone();
    let mounted = if has_outlived {
        let kept = keeper::take(socket, dir)?.ok_or("the keeper has nothing")?;
        resume(kept, folder.clone(), stale, registrar, handle)?
    } else {
        let options = Options { source: "example".into(), read_only: false, allow_other: false };
        mount(folder.clone(), stale, dir, &options, registrar, handle)?
    };
    keeper::put(socket, &mounted.copy_for_keeper()?)?;
    say("ready")?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if line.trim_end() != "unmount" {
        return Err(format!("{line:?} is not a command here").into());
    }
    keeper::forget(socket, dir)?;
    runtime.block_on(mounted.unmount(Unmounting::Politely))?;
    runtime.block_on(folder.close())?;
    Ok(say("unmounted")?)
}

async fn environment(remote: &Path, state: &Path, has_outlived: bool) -> Result<FolderEnvironment, Failure> {
    let options = RemoteOptions {
        device: Uuid::from_u128(7),
        root: None,
        read_only: false,
        limits: Limits::default(),
        pacer: Pacer::new(),
    };
    Ok(FolderEnvironment {
        disk: Arc::new(Directory::create(state)?),
        files: Arc::new(Directory::create(&state.join("files"))?),
        database: sled::open(state.join("entries"))?,
        folder: Uuid::from_u128(8),
        remote: Arc::new(FileRemote::open(remote, options).await?),
        cache_bytes: 1 << 30,
        whole_up_to: 16 << 20,
        device: uuid::Uuid::from_u128(7),
        device_name: "laptop".into(),
        read_only: None,
        has_outlived,
    })
}

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}")?;
    out.flush()
}
