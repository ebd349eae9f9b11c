//! How a mount ends.

use crate::bench::{Bench, errno};
use holdall_fuse::folder::Unmounting;
use holdall_fuse::mount::MountError;
use holdall_fuse::onefile::Ended;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

fn ended(bench: &Bench) -> Option<Ended> {
    let ended = async { tokio::time::timeout(Duration::from_secs(5), bench.mounted().ended()).await };
    bench.runtime().block_on(ended).ok()
}

#[test]
fn a_mount_that_is_in_use_stays() {
    let bench = Bench::new();
    let file = File::create(bench.at("file")).unwrap();
    assert!(matches!(bench.unmount(Unmounting::Politely), Err(MountError::Busy(_))));
    assert!(bench.mounted().is_mounted());
    file.write_all_at(b"still works", 0).unwrap();
    drop(file);
    bench.unmount(Unmounting::Politely).unwrap();
    assert!(!bench.mounted().is_mounted());
    assert_eq!(ended(&bench), Some(Ended::Unmounted));
    assert!(bench.mounted().device().is_none());
    bench.unmount(Unmounting::Politely).unwrap();
}

#[test]
fn a_lazy_unmount_serves_who_has_files_open() {
    for bench in [Bench::new(), Bench::served()] {
        let mut file = File::create(bench.at("file")).unwrap();
        bench.unmount(Unmounting::Lazily).unwrap();
        assert!(!bench.mounted().is_mounted() && !bench.at("file").exists());
        file.write_all(b"to the end").unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 10);
        drop(file);
        assert_eq!(ended(&bench), Some(Ended::Unmounted));
    }
}

#[test]
fn a_forced_unmount_gives_errors_to_who_has_files_open() {
    let bench = Bench::served();
    let file = File::create(bench.at("file")).unwrap();
    bench.unmount(Unmounting::Forcibly).unwrap();
    assert!(!bench.mounted().is_mounted());
    assert!(ended(&bench).is_some());
    let failed = errno(file.write_at(b"x", 0));
    assert!([libc::ENOTCONN, libc::ECONNABORTED, libc::EIO].contains(&failed), "{failed}");
}

#[test]
fn an_unmount_from_outside_is_noticed() {
    let bench = Bench::new();
    std::fs::write(bench.at("file"), "").unwrap();
    let done = std::process::Command::new("umount").arg(bench.at("")).status().unwrap();
    assert!(done.success());
    assert_eq!(ended(&bench), Some(Ended::Unmounted));
    assert!(!bench.mounted().is_mounted());
}

#[test]
fn a_directory_is_mounted_on_once() {
    let bench = Bench::new();
    std::fs::create_dir(bench.at("below")).unwrap();
    let shape = holdall_fuse::mount::Shape {
        fs_type: "fuse.holdall-folder",
        source: "x",
        max_read: None,
        read_only: false,
        allow_other: false,
    };
    let again = holdall_fuse::mount::mount_as(&bench.beside("mnt"), &shape);
    assert!(matches!(again, Err(MountError::AlreadyMounted(_))));
}
