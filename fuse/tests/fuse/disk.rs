//! The one-file disk with the real kernel: a loop device and ext4 on it, slow answers, errors, and the end.

use crate::support::memory_device::{MemoryDevice, Reads};
use crate::support::slow_disk::SlowDisk;
use crate::support::{Bench, EXT4, PATIENCE, pattern, require, run};
use holdall_core::device::Zeroing;
use holdall_fuse::mount;
use holdall_fuse::mount::MountError;
use holdall_fuse::onefile::{Ended, OneFileDisk, OneFileError, Options};
use holdall_kernel::loopdev;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

fn mounted(bench: &Bench, device: &Arc<MemoryDevice>, runtime: &Handle) -> OneFileDisk {
    OneFileDisk::mount(&bench.disk(), Arc::clone(device) as _, &Options::default(), runtime.clone()).unwrap()
}

/// Unmounts it once programs of other tests hold no copies of this test's descriptors, as they do between fork and exec.
fn unmount(runtime: &Runtime, disk: &mut OneFileDisk) {
    let begun = Instant::now();
    loop {
        match runtime.block_on(disk.unmount()) {
            Err(OneFileError::Mount(MountError::Busy(_))) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            unmounted => return unmounted.unwrap(),
        }
    }
}

#[test]
fn an_ext4_works_on_the_disk_and_leaves_nothing_behind() {
    require(EXT4);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(256 << 20));
    let mut disk = mounted(&bench, &device, runtime.handle());
    let path = loopdev::attach_path(&disk.file(), false).unwrap();
    assert_eq!(loopdev::over(&disk.file()).unwrap(), std::slice::from_ref(&path));
    let queue = std::path::Path::new("/sys/block").join(path.file_name().unwrap()).join("queue");
    let setting = |name| std::fs::read_to_string(queue.join(name)).unwrap().trim().to_owned();
    assert_eq!((setting("logical_block_size"), setting("read_ahead_kb")), ("4096".into(), "1024".into()));

    bench.make_ext4(&path);
    bench.mount_ext4(&path);
    let file = bench.ext4().join("file");
    let data = pattern(1, 24 << 20);
    std::fs::write(&file, &data).unwrap();
    let flushes = device.flushes.load(Ordering::SeqCst);
    File::open(&file).unwrap().sync_all().unwrap();
    assert!(device.flushes.load(Ordering::SeqCst) > flushes, "fsync reaches flush");
    assert!(matches!(loopdev::detach(&path, PATIENCE), Err(loopdev::LoopError::Mounted { .. })));

    // Read from the device, not from the page cache.
    bench.unmount_ext4();
    bench.mount_ext4(&path);
    assert!(std::fs::read(&file).unwrap() == data);

    device.zeroed.lock().unwrap().clear();
    run("fstrim", &[bench.ext4().to_str().unwrap()]);
    let zeroed = std::mem::take(&mut *device.zeroed.lock().unwrap());
    let bytes: u64 = zeroed.iter().map(|(range, _)| range.end - range.start).sum();
    assert!(bytes > 100 << 20, "fstrim gives the free space back: {bytes}");
    assert!(zeroed.iter().all(|(range, how)| *how == Zeroing::MayPunch && range.start % 4096 == 0));

    bench.unmount_ext4();
    assert!(matches!(runtime.block_on(disk.unmount()), Err(OneFileError::Mount(MountError::Busy(_)))));
    // A device that has another file by now is left alone.
    loopdev::detach_from(&path, std::path::Path::new("/another/disk"), PATIENCE).unwrap();
    assert_eq!(loopdev::over(&disk.file()).unwrap(), std::slice::from_ref(&path));
    let number = std::fs::metadata(disk.file()).unwrap().dev();
    let opened = File::open(&path).unwrap().into();
    let lies_on = (rustix::fs::major(number), rustix::fs::minor(number));
    assert_eq!(loopdev::file_system_of(&opened), Ok(lies_on));
    drop(opened);
    loopdev::detach_from(&path, &disk.file(), PATIENCE).unwrap();
    loopdev::detach(&path, PATIENCE).unwrap();
    unmount(&runtime, &mut disk);
    bench.assert_nothing_left();
}

#[test]
fn growing_the_device_grows_the_loop_device() {
    require(EXT4);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(64 << 20));
    let mut disk = mounted(&bench, &device, runtime.handle());
    let path = loopdev::attach_path(&disk.file(), false).unwrap();
    device.grow(96 << 20);
    assert_eq!(loopdev::resize(&path, &disk.file()).unwrap(), 96 << 20);
    let end = (96 << 20) - 4096;
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.write_all_at(&pattern(2, 4096), end).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let mut bytes = vec![0; 4096];
    File::open(disk.file()).unwrap().read_exact_at(&mut bytes, end).unwrap();
    assert_eq!(bytes, pattern(2, 4096));
    loopdev::detach(&path, PATIENCE).unwrap();
    unmount(&runtime, &mut disk);
    bench.assert_nothing_left();
}

#[test]
fn the_file_is_a_disk_and_nothing_else() {
    require(&[]);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(1 << 20));
    let mut disk = mounted(&bench, &device, runtime.handle());
    let names: Vec<_> = std::fs::read_dir(bench.disk()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    let meta = std::fs::metadata(disk.file()).unwrap();
    assert_eq!((meta.size(), meta.mode() & 0o777, meta.is_file()), (1 << 20, 0o600, true));
    assert!(std::fs::metadata(bench.disk().join("other")).is_err());
    assert!(File::create(bench.disk().join("other")).is_err());
    assert!(std::fs::remove_file(disk.file()).is_err());

    let file = OpenOptions::new().read(true).write(true).open(disk.file()).unwrap();
    assert_eq!(file.set_len(4096).unwrap_err().kind(), ErrorKind::InvalidInput);
    file.set_len(1 << 20).unwrap();
    let mut bytes = [0; 64];
    assert_eq!(file.read_at(&mut bytes, (1 << 20) - 16).unwrap(), 16, "short only at the end");
    assert_eq!(file.read_at(&mut bytes, 1 << 20).unwrap(), 0);
    let collapse = rustix::fs::FallocateFlags::COLLAPSE_RANGE;
    assert_eq!(rustix::fs::fallocate(&file, collapse, 0, 4096), Err(rustix::io::Errno::OPNOTSUPP));
    let keep = rustix::fs::FallocateFlags::ZERO_RANGE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, keep, 4096, 8192).unwrap();
    assert_eq!(*device.zeroed.lock().unwrap(), [(4096..12288, Zeroing::KeepSpace)]);
    assert_eq!(rustix::fs::statvfs(bench.disk()).unwrap().f_blocks, 256);
    drop(file);
    assert!(matches!(
        OneFileDisk::mount(&bench.disk(), device, &Options::default(), runtime.handle().clone()),
        Err(OneFileError::Mount(MountError::AlreadyMounted(_)))
    ));
    unmount(&runtime, &mut disk);
    bench.assert_nothing_left();
}

#[test]
fn answers_may_come_in_any_order() {
    require(&[]);
    const READERS: u64 = 16;
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(1 << 20));
    let mut disk = mounted(&bench, &device, runtime.handle());
    let file = OpenOptions::new().read(true).write(true).open(disk.file()).unwrap();
    for index in 0..READERS {
        file.write_all_at(&pattern(index, 8192), index * 8192).unwrap();
    }
    device.set_reads(Reads::Held);
    std::thread::scope(|scope| {
        for index in 0..READERS {
            let file = &file;
            scope.spawn(move || {
                let mut bytes = vec![0; 8192];
                file.read_exact_at(&mut bytes, index * 8192).unwrap();
                assert!(bytes == pattern(index, 8192));
            });
        }
        // All of them are in flight at once, with fewer threads than that. The last request is answered first.
        for (_, release) in device.take_held(READERS as usize).into_iter().rev() {
            release.send(()).unwrap();
        }
    });
    drop(file);
    unmount(&runtime, &mut disk);
}

#[test]
fn errors_and_panics_affect_only_their_request() {
    require(&[]);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(1 << 20));
    let mut disk = mounted(&bench, &device, runtime.handle());
    let file = OpenOptions::new().read(true).write(true).open(disk.file()).unwrap();
    let mut bytes = [0; 512];
    // More panics than there are threads.
    for reads in [Reads::Fail, Reads::Panic, Reads::Panic, Reads::Panic, Reads::Panic, Reads::Panic] {
        device.set_reads(reads);
        let error = file.read_exact_at(&mut bytes, 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{reads:?}");
    }
    device.set_reads(Reads::Now);
    file.read_exact_at(&mut bytes, 0).unwrap();
    drop(file);
    unmount(&runtime, &mut disk);
}

#[test]
fn notices_an_unmount_or_abort_by_others() {
    require(&[]);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(1 << 20));
    let mut disk = mounted(&bench, &device, runtime.handle());
    mount::unmount(&bench.disk()).unwrap();
    assert_eq!(runtime.block_on(disk.ended()), Ended::Unmounted);
    unmount(&runtime, &mut disk);

    let disk = mounted(&bench, &device, runtime.handle());
    let copy = disk.copy_for_keeper().unwrap();
    let file = File::open(disk.file()).unwrap();
    mount::abort(&bench.disk()).unwrap();
    assert_eq!(runtime.block_on(disk.ended()), Ended::Unmounted);
    assert!(file.read_at(&mut [0; 512], 0).is_err());
    drop(file);
    assert!(matches!(
        runtime.block_on(disk.into_handover(Duration::ZERO)),
        Err(OneFileError::Over(Ended::Unmounted))
    ));
    assert!(matches!(
        OneFileDisk::resume(copy, device, &Options::default(), runtime.handle().clone()),
        Err(OneFileError::Over(Ended::Unmounted))
    ));
    mount::clean_up(&bench.disk()).unwrap();
    bench.assert_nothing_left();
}

#[test]
fn a_dropped_disk_can_be_cleaned_up_and_mounted_again() {
    require(&[]);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(1 << 20));
    drop(mounted(&bench, &device, runtime.handle()));
    assert!(std::fs::metadata(bench.file()).is_err(), "nobody serves it");
    mount::clean_up(&bench.disk()).unwrap();
    mount::clean_up(&bench.disk()).unwrap();
    let mut disk = mounted(&bench, &device, runtime.handle());
    unmount(&runtime, &mut disk);
    bench.assert_nothing_left();
}

#[test]
fn the_successor_answers_requests_left_open_by_a_handover() {
    require(&[]);
    let (bench, runtime, device) = (Bench::new(), runtime(), MemoryDevice::new(1 << 20));
    let disk = mounted(&bench, &device, runtime.handle());
    let file = OpenOptions::new().read(true).write(true).open(disk.file()).unwrap();
    file.write_all_at(&pattern(3, 4096), 0).unwrap();
    device.set_reads(Reads::Held);
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    });
    let held = device.take_held(1);
    let handover = runtime.block_on(disk.into_handover(Duration::from_millis(5))).unwrap();
    assert!(!handover.clean);
    assert!(held[0].1.is_closed(), "the old answer is gone, and cannot come late");
    device.set_reads(Reads::Now);
    let mut disk =
        OneFileDisk::resume(handover, device, &Options::default(), runtime.handle().clone()).unwrap();
    assert_eq!(reader.join().unwrap(), pattern(3, 4096));
    unmount(&runtime, &mut disk);
    bench.assert_nothing_left();
}

#[test]
fn reads_from_the_local_disk_run_concurrently() {
    require(&[]);
    const AT_ONCE: usize = 8;
    let (bench, runtime) = (Bench::new(), runtime());
    let device = Arc::new(SlowDisk::new(AT_ONCE));
    let options = Options { threads: 2 };
    let mut disk =
        OneFileDisk::mount(&bench.disk(), Arc::clone(&device) as _, &options, runtime.handle().clone())
            .unwrap();
    let file = Arc::new(File::open(disk.file()).unwrap());
    let readers: Vec<_> = (0..AT_ONCE as u64)
        .map(|index| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                file.read_exact_at(&mut bytes, index * 4096).unwrap();
                bytes
            })
        })
        .collect();
    for (index, reader) in readers.into_iter().enumerate() {
        assert_eq!(reader.join().unwrap(), [index as u8; 4096]);
    }
    drop(file);
    unmount(&runtime, &mut disk);
    bench.assert_nothing_left();
}
