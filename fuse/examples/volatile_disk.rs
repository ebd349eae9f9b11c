//! A disk for simulating power cuts: FILE as `DIR/disk`, where writes stay in memory until they are synced.
//!
//!     volatile_disk FILE DIR [--seed N --early 0..255] [--after-cut fail|drop]
//!
//! Prints `ready` once it serves. The cut is `kill -9`, or the line `cut` on standard input (answered `cut N`: the number of lost sectors).
//! After the line it continues to serve, but nothing reaches the file any longer. Other lines: `unsynced` (answered `unsynced N`),
//! `unmount` (answered `unmounted`, then it exits). Attach with `holdall_kernel::loopdev::attach_path`, or `losetup --show -f
//! --direct-io=on -b 4096 DIR/disk`. After a kill, in this order: unmount the file system on the loop device, detach it, `umount -l DIR`;
//! then start again with the same FILE.

use holdall_fuse::onefile::{OneFileDisk, Options};
use holdall_fuse::volatile::{AfterCut, Survival, VolatileDisk};
use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut survival, mut after) = (Survival { seed: 0, early: 0 }, AfterCut::Fail);
    let mut paths = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--seed" => survival.seed = value()?.parse()?,
            "--early" => survival.early = value()?.parse()?,
            "--after-cut" => after = after_cut(&value()?)?,
            path => paths.push(PathBuf::from(path)),
        }
    }
    let [file, dir] = &paths[..] else {
        return Err("volatile_disk FILE DIR, see the head of its source".into());
    };
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let device = Arc::new(VolatileDisk::new(file, survival)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    let options = Options::default();
    let mut disk = OneFileDisk::mount(dir, Arc::clone(&device) as _, &options, runtime.handle().clone())?;
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "cut" => say(&format!("cut {}", device.cut(after)))?,
            "unsynced" => say(&format!("unsynced {}", device.unsynced_sectors()))?,
            "unmount" => {
                runtime.block_on(disk.unmount())?;
                return Ok(say("unmounted")?);
            }
            other => return Err(format!("{other:?} is not a command").into()),
        }
    }
    // The process that started this one has closed our standard input, or died: a power cut.
    device.cut(after);
    runtime.block_on(disk.ended());
    Ok(())
}

fn after_cut(name: &str) -> Result<AfterCut, Failure> {
    match name {
        "fail" => Ok(AfterCut::Fail),
        "drop" => Ok(AfterCut::Drop),
        other => Err(format!("--after-cut is fail or drop, not {other:?}").into()),
    }
}

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}")?;
    out.flush()
}
