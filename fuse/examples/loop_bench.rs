//! Compares one file behind the one-file disk and a loop device with the same file behind a plain loop device. Both use direct I/O and
//! 4096-byte blocks, in one run, and the results are ratios. Needs root and fio.
//!
//!     loop_bench DIR [THREADS...]      DIR: where the file of 1 GiB is made; a tmpfs is the harder rival
//!
//! The plain loop device reads its file with direct I/O, so on a real disk it is as fast as that disk; the one-file disk reads through the
//! page cache. On a tmpfs both only copy memory, and the ratio is the cost of the way through this process.

#[path = "../tests/support/file_device.rs"]
mod file_device;

use file_device::FileDevice;
use holdall_fuse::onefile::{OneFileDisk, Options};
use holdall_kernel::loopdev;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

const FILE_BYTES: u64 = 1 << 30;

/// The two take turns, and each gets its median: other work of the machine then affects both.
const ROUNDS: usize = 5;

/// Long enough that a figure settles to a few per cent on an idle machine.
const SECONDS: &str = "2";

/// For each job: a name, fio's arguments, the field of its terse output (version 3) that counts, and its unit.
const JOBS: [(&str, &[&str], usize, &str); 6] = [
    (
        "4 KiB random read, depth 1",
        &["--rw=randread", "--bs=4k", "--ioengine=psync", "--direct=1"],
        7,
        "IOPS",
    ),
    (
        "4 KiB random read, depth 16",
        &["--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=16", "--direct=1"],
        7,
        "IOPS",
    ),
    (
        "1 MiB sequential read, direct",
        &["--rw=read", "--bs=1m", "--ioengine=psync", "--direct=1"],
        6,
        "KiB/s",
    ),
    (
        "1 MiB sequential read, depth 4",
        &["--rw=read", "--bs=1m", "--ioengine=libaio", "--iodepth=4", "--direct=1"],
        6,
        "KiB/s",
    ),
    (
        "sequential read, buffered",
        &["--rw=read", "--bs=128k", "--ioengine=psync", "--invalidate=1"],
        6,
        "KiB/s",
    ),
    ("4 KiB write + fsync", &["--rw=randwrite", "--bs=4k", "--ioengine=psync", "--fsync=1"], 48, "IOPS"),
];

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (dir, threads) = args.split_first().ok_or("loop_bench DIR [THREADS...]")?;
    let threads: Vec<usize> = threads.iter().map(|count| count.parse()).collect::<Result<_, _>>()?;
    let threads = if threads.is_empty() { vec![Options::default().threads] } else { threads };
    let scratch = tempfile::tempdir_in(dir)?;
    let file = scratch.path().join("file");
    fill(&file)?;
    for count in threads {
        let options = Options { threads: count };
        println!("\n{count} threads; plain loop, one-file disk + loop, ratio");
        compare(&file, &scratch.path().join("mnt"), &options)?;
    }
    Ok(())
}

fn fill(path: &Path) -> Result<(), Failure> {
    let mut file = File::create(path)?;
    let chunk: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    for _ in 0..FILE_BYTES / chunk.len() as u64 {
        file.write_all(&chunk)?;
    }
    Ok(file.sync_all()?)
}

fn compare(file: &Path, mountpoint: &Path, options: &Options) -> Result<(), Failure> {
    std::fs::create_dir_all(mountpoint)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let device = Arc::new(FileDevice::open(file)?);
    let mut disk = OneFileDisk::mount(mountpoint, device, options, runtime.handle().clone())?;
    let plain = loopdev::attach_path(file, false)?;
    let ours = loopdev::attach_path(&disk.file(), false)?;
    // Fills the page cache with the file, for the path that uses it.
    std::io::copy(&mut File::open(file)?, &mut std::io::sink())?;
    let compared = JOBS.iter().try_for_each(|(name, args, field, unit)| {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            figures[0].push(fio(&plain, args, *field)?);
            figures[1].push(fio(&ours, args, *field)?);
        }
        let [plain, ours] = figures.map(median);
        println!("{name:32} {plain:>10.0} {ours:>10.0} {unit:6} {:.2}", ours / plain);
        Ok(())
    });
    for device in [plain, ours] {
        loopdev::detach(&device, Duration::from_secs(5))?;
    }
    runtime.block_on(disk.unmount())?;
    compared
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn fio(device: &Path, args: &[&str], field: usize) -> Result<f64, Failure> {
    let output = Command::new("fio")
        .args(["--name=job", "--time_based", "--runtime", SECONDS, "--minimal", "--terse-version=3"])
        .arg(format!("--filename={}", device.display()))
        .args(args)
        .output()
        .map_err(|error| format!("fio: {error}; it is in the package fio"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field =
        text.split(';').nth(field).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(field.parse()?)
}
