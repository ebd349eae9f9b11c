//! Files on a mounted drive, compared with files on a plain loop device (ext4 on both) and on the disk's own ext4.
//!
//! For reads, *warm* means that the file under the device is in memory: the plain loop device's file on one side, the cache
//! on the other. The page cache of the file that is read is bypassed (O_DIRECT) or emptied before; otherwise neither device
//! would be asked at all.

use super::fio::{self, Figure, Target};
use super::holdall::Computer;
use super::peers::{self, PlainLoop};
use super::record::Row;
use super::{Failure, Plan, compare};
use std::path::Path;

const RANDOM_1: &[&str] = &["--rw=randread", "--bs=4k", "--ioengine=psync", "--direct=1"];
const RANDOM_16: &[&str] = &["--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=16", "--direct=1"];
const DIRECT: &[&str] = &["--rw=read", "--bs=1m", "--ioengine=libaio", "--iodepth=4", "--direct=1"];
/// One pass over the file, as `cat` does it.
const BUFFERED: &[&str] = &["--rw=read", "--bs=128k", "--ioengine=psync", "--invalidate=1"];
/// Saving: a small write, and an fsync.
pub const SAVE: &[&str] = &["--rw=randwrite", "--bs=4k", "--ioengine=psync", "--fsync=1"];
const SAVE_4: &[&str] = &["--rw=randwrite", "--bs=4k", "--ioengine=psync", "--fsync=1", "--numjobs=4"];
/// One pass over the file, and a sync at its end.
const BULK: &[&str] = &["--rw=write", "--bs=1m", "--ioengine=psync", "--end_fsync=1"];

pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Failure> {
    let bytes = plan.warm_bytes;
    let image = dir.join("plain.img");
    let plain = PlainLoop::mount(&image, bytes * 3)?;
    let computer = Computer::new(&dir.join("computer"))?;
    computer.create(&dir.join("store"), bytes * 3)?;
    computer.open()?;
    let places = [computer.mountpoint(), plain.mountpoint().to_owned(), dir.to_owned()];
    for place in &places {
        peers::write_file(&place.join("file"), bytes)?;
    }
    // Nothing is being uploaded while reads are measured.
    computer.sync()?;
    let files = places.map(|place| place.join("file"));
    files.iter().try_for_each(|file| peers::warm(file))?;
    peers::warm(&image)?;

    let turn = fio::for_ms(plan.turn_ms);
    let timed = |arguments: &[&str], file: &Path, figure| {
        let arguments = [arguments, &[&turn[0], &turn[1]]].concat();
        fio::run(&Target::File(file), bytes, &arguments, figure)
    };
    let once = |arguments: &[&str], file: &Path| {
        fio::run(&Target::File(file), bytes, arguments, Figure::MebibytesPerSecond)
    };
    let [ours, on_loop, on_disk] = [&files[0], &files[1], &files[2]];
    let random = |key: &str, arguments: &[&str], peer: &Path| {
        let side = |file: &Path| timed(arguments, file, Figure::Iops);
        compare(key, plan, &|| side(ours), &|| side(peer))
    };
    let whole = |key: &str, arguments: &[&str], peer: &Path| {
        compare(key, plan, &|| once(arguments, ours), &|| once(arguments, peer))
    };
    // The data of a turn is uploaded before the next turn: the question is how long it takes until a whole file is safe
    // here.
    let saved = |key: &str, peer: &Path| {
        let ours = || computer.sync().and_then(|()| once(BULK, ours));
        compare(key, plan, &ours, &|| once(BULK, peer))
    };
    Ok(vec![
        random("device-random-1", RANDOM_1, on_loop)?,
        random("device-random-16", RANDOM_16, on_loop)?,
        whole("device-sequential", DIRECT, on_loop)?,
        whole("device-buffered", BUFFERED, on_loop)?,
        random("save", SAVE, on_disk)?,
        random("save-loop", SAVE, on_loop)?,
        random("save-4", SAVE_4, on_disk)?,
        random("save-4-loop", SAVE_4, on_loop)?,
        saved("bulk", on_disk)?,
        saved("bulk-loop", on_loop)?,
    ])
}
