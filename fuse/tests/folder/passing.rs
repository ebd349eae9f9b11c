//! Files that the kernel reads and writes by itself, and the change between the two modes.

use crate::bench::{Bench, Setup, pattern};
use async_trait::async_trait;
use holdall_fuse::folder::{InProcess, Registrar};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PASSES: Setup = Setup { passes_through: true, read_only: false };

#[test]
fn a_new_file_costs_no_request_for_its_bytes() {
    let bench = Bench::new();
    assert!(
        bench.mounted().agreed().passes_through(),
        "these tests want Linux 6.9 with CONFIG_FUSE_PASSTHROUGH"
    );
    let bytes = pattern(7, 5_000_000);
    std::fs::write(bench.at("file"), &bytes).unwrap();
    assert!(std::fs::read(bench.at("file")).unwrap() == bytes);
    bench.sh("cp file copy && cmp file copy && dd if=/dev/zero of=file bs=4096 count=100 conv=notrunc,fsync status=none");
    assert_eq!(bench.requests(), (0, 0));
}

#[test]
fn a_file_is_asked_for_where_nobody_registers() {
    let bench = Bench::served();
    std::fs::write(bench.at("file"), pattern(8, 100_000)).unwrap();
    std::fs::read(bench.at("file")).unwrap();
    let (_, writes) = bench.requests();
    assert!(writes > 0);
}

#[test]
fn a_file_of_the_remote_passes_through_once_it_is_here() {
    let bytes = pattern(9, 400_000);
    let bench = Bench::with(PASSES, |remote| std::fs::write(remote.join("file"), &bytes).unwrap());
    let served = File::open(bench.at("file")).unwrap();
    let mut first = [0; 1];
    served.read_exact_at(&mut first, 0).unwrap();
    // While it is served, every further open of it is.
    assert!(std::fs::read(bench.at("file")).unwrap() == bytes);
    OpenOptions::new().write(true).open(bench.at("file")).unwrap().write_all_at(b"x", 7).unwrap();
    drop(served);
    let reads = bench.requests();
    let again = File::open(bench.at("file")).unwrap();
    let mut seen = vec![0; bytes.len()];
    again.read_exact_at(&mut seen, 0).unwrap();
    assert!(seen[8..] == bytes[8..] && seen[7] == b'x');
    assert_eq!(bench.requests(), reads, "the next first open passes through");
}

#[test]
fn every_open_of_a_file_succeeds_whatever_its_mode() {
    let bytes = pattern(10, 300_000);
    let bench = Bench::with(PASSES, |remote| {
        (0..4).for_each(|number| std::fs::write(remote.join(format!("file{number}")), &bytes).unwrap());
    });
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let paths: Vec<_> = (0..4).map(|number| bench.at(&format!("file{number}"))).collect();
            std::thread::spawn(move || {
                let mut kept = std::collections::VecDeque::new();
                for round in 0..150u64 {
                    let choice = (round * 7 + thread * 3) % 13;
                    let mut options = OpenOptions::new();
                    options.read(true).write(choice % 3 == 0).append(choice == 5);
                    let file = options.open(&paths[(choice % 4) as usize]).unwrap();
                    file.read_at(&mut [0; 100], round * 1000).unwrap();
                    if choice % 3 == 0 || choice == 5 {
                        file.write_at(&[thread as u8], round).unwrap();
                    }
                    kept.push_back(file);
                    if kept.len() > (choice % 5) as usize {
                        kept.pop_front();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Registers only the first so many files.
struct Tired {
    left: AtomicUsize,
    registered: AtomicUsize,
}

#[async_trait]
impl Registrar for Tired {
    async fn register(&self, device: &Arc<OwnedFd>, file: &File) -> io::Result<u32> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
        self.registered.fetch_add(1, Ordering::SeqCst);
        InProcess.register(device, file).await
    }

    async fn unregister(&self, device: &Arc<OwnedFd>, id: u32) -> io::Result<()> {
        self.registered.fetch_sub(1, Ordering::SeqCst);
        InProcess.unregister(device, id).await
    }
}

#[test]
fn a_file_that_cannot_be_registered_is_served() {
    let tired = Arc::new(Tired { left: AtomicUsize::new(1), registered: AtomicUsize::new(0) });
    let bench = Bench::with_registrar(PASSES, Some(tired.clone()), |_| {});
    let bytes = pattern(11, 50_000);
    std::fs::write(bench.at("one"), &bytes).unwrap();
    assert_eq!(bench.requests(), (0, 0));
    std::fs::write(bench.at("two"), &bytes).unwrap();
    assert!(std::fs::read(bench.at("two")).unwrap() == bytes);
    assert!(bench.requests().1 > 0);
    crate::bench::eventually("every registration ends with its last release", || {
        tired.registered.load(Ordering::SeqCst) == 0
    });
}

#[test]
fn all_opens_of_a_file_share_one_registration() {
    let counted = Arc::new(Tired { left: AtomicUsize::new(1), registered: AtomicUsize::new(0) });
    let bench = Bench::with_registrar(PASSES, Some(counted.clone()), |_| {});
    std::fs::write(bench.at("other"), "").unwrap();
    counted.left.store(1, Ordering::SeqCst);
    let first = File::create(bench.at("file")).unwrap();
    let others: Vec<_> = (0..20).map(|_| File::open(bench.at("file")).unwrap()).collect();
    first.write_all_at(b"seen by all", 0).unwrap();
    for other in &others {
        let mut seen = [0; 11];
        other.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(&seen, b"seen by all");
    }
    assert_eq!((bench.requests(), counted.registered.load(Ordering::SeqCst)), ((0, 0), 1));
}
