//! A file as a mounted drive: how a daemon attaches, goes on after a crash, hands over and closes.
//!
//!     attach_daemon RUNTIME STATE FILE MODE MOUNTPOINT [STEP]    MODE is auto, nbd or loop
//!
//! Goes on with what a former one left of the drive, else attaches and mounts it anew. Says each step, then `ready`,
//! `resumed` or `attached`, and the block device. After STEP it stands still, to be killed there. Then a line on standard
//! input: `close`; `hand-over`; `freeze MS`, which freezes and goes on.

use holdall::api::AttachMode;
use holdall::attach::filesystem::{self, MountOptions};
use holdall::attach::{self, Attached, Dirs, Identity, Site, Step, keeper};
use holdall_helper::Deputy;
use holdall_nbd::testing::FileDevice;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [holdall_helper::SUBCOMMAND] => return holdall_helper::main(),
        [keeper::SUBCOMMAND, socket] => return keeper::main(Path::new(socket)),
        _ => {}
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("attach_daemon: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), Failure> {
    let [runtime_dir, state, file, mode, at, ref stop @ ..] = *args else {
        return Err("see the head of its source".into());
    };
    for warning in attach::prepare_process() {
        eprintln!("attach_daemon: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let stop = stop.first().map(|step| (*step).to_owned());
    let dirs = Dirs::new(Path::new(runtime_dir), Path::new(state))?;
    let mut site = Site::new(dirs, Deputy::this_program()?, runtime.handle().clone());
    site.on_step = Arc::new(move |step: Step| {
        let step = format!("{step:?}");
        say(&step);
        while stop.as_ref() == Some(&step) {
            std::thread::park();
        }
    });
    let device = FileDevice::open(Path::new(file))?;
    // A drive's identity does not change; here the file's name is all there is.
    let name = Path::new(file).file_stem().and_then(|name| name.to_str()).ok_or("a name of text")?;
    let identity = Identity { uuid: name.parse()?, name: "example".to_owned() };
    let mode = match mode {
        "nbd" => AttachMode::Nbd,
        "loop" => AttachMode::Loop,
        _ => AttachMode::Auto,
    };

    let former = attach::reattach(device.clone(), &identity, &site)?;
    let resumed = former.is_some();
    let attached = match former {
        Some(attached) => attached,
        None => attach::attach(device, &identity, mode, &site)?,
    };
    let mounted = match filesystem::find(&attached)? {
        Some(mounted) => mounted,
        None => {
            let options = MountOptions { at: at.into(), read_only: false, uid: 0, gid: 0 };
            filesystem::mount(&attached, &options)?
        }
    };
    let device = attached.block_device().display();
    say(&format!("{} {device}", if resumed { "resumed" } else { "attached" }));
    obey(attached, &mounted)
}

fn obey(mut attached: Attached, mounted: &filesystem::Mounted) -> Result<(), Failure> {
    let mut kept = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match line?.split_once(' ').unwrap_or(("", "")) {
            ("freeze", hold) => {
                kept.push(mounted.freeze(Duration::from_millis(hold.trim().parse()?))?);
                say("frozen");
            }
            ("close", _) => {
                mounted.unmount()?;
                attached.detach()?;
                say("closed");
                return Ok(());
            }
            ("hand-over", _) => {
                attached.hand_over(PATIENCE)?;
                say("handed over");
                return Ok(());
            }
            (other, _) => return Err(format!("{other:?} is not a command here").into()),
        }
    }
    // Whoever started it closed its input: serve on.
    loop {
        std::thread::park();
    }
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listening is no reason to stop serving.
    let _ = writeln!(out, "{what}").and_then(|()| out.flush());
}
