//! A file system that stayed mounted while no process served it, and another device that wrote meanwhile.

use crate::bench::{Bench, close, device, get, put, run};
use holdall_core::disk::Disk;
use holdall_core::volume::{self, Access, OpenError, TakeOver, Volume};
use std::sync::Arc;

const MOUNTED: Access = Access::Write { over: TakeOver::Nobody, mounted: true };

async fn open(bench: &Bench, access: Access) -> Result<Arc<Volume>, OpenError> {
    bench.open_on(Arc::new(bench.store.clone()), 0, access).await
}

/// Device 0 uploads everything and dies; device 1 takes the drive, writes, and closes it.
async fn taken_meanwhile(bench: &Bench) {
    let volume = bench.open(0).await.unwrap();
    put(&volume, 3, 1).await;
    volume.pusher().unwrap().sync().await.unwrap();
    volume.shut_down().await.unwrap();
    let other = bench.take(1).await.unwrap();
    put(&other, 3, 2).await;
    close(other).await;
}

#[test]
fn a_mounted_file_system_never_sees_anothers_writes() {
    let bench = Bench::new();
    run(async {
        taken_meanwhile(&bench).await;
        // Nothing is unsent here, and still it is a fork.
        let by = match open(&bench, MOUNTED).await {
            Err(OpenError::Forked { unsent: 0, by }) => by,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was given another device's blocks"),
        };
        assert_eq!(by, device(1).name);
        let state: Arc<dyn Disk> = Arc::new(bench.devices[0].state.directory("state"));
        volume::fork(&*state, bench.drive, &by).await.unwrap();
        let fork = open(&bench, MOUNTED).await.unwrap();
        assert_eq!(get(&fork, 3).await, 1);
        put(&fork, 4, 5).await;
        close(fork).await;
        // The fork is there at the next opening, too.
        let fork = open(&bench, MOUNTED).await.unwrap();
        assert_eq!((get(&fork, 3).await, get(&fork, 4).await), (1, 5));
    });
}

#[test]
fn a_mounted_drive_taken_by_another_device_becomes_a_fork() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 3, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        put(&volume, 4, 5).await;
        volume.shut_down().await.unwrap();
        drop(volume);
        let other = bench.take(1).await.unwrap();
        let by = match open(&bench, MOUNTED).await {
            Err(OpenError::Forked { unsent: 1, by }) => by,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("two have it"),
        };
        assert_eq!(by, device(1).name);
        // Without a mount, no program waits, so the opening is refused.
        let waits = Access::Write { over: TakeOver::Nobody, mounted: false };
        assert!(matches!(open(&bench, waits).await, Err(OpenError::Held { .. })));
        let state: Arc<dyn Disk> = Arc::new(bench.devices[0].state.directory("state"));
        volume::fork(&*state, bench.drive, &by).await.unwrap();
        let fork = open(&bench, MOUNTED).await.unwrap();
        assert_eq!((get(&fork, 3).await, get(&fork, 4).await), (1, 5));
        // The device that has the drive continues undisturbed.
        put(&other, 3, 2).await;
        other.pusher().unwrap().sync().await.unwrap();
        close(other).await;
        close(fork).await;
    });
}

#[test]
fn a_new_mount_sees_the_other_devices_writes() {
    let bench = Bench::new();
    run(async {
        taken_meanwhile(&bench).await;
        let volume = bench.open(0).await.unwrap();
        assert_eq!(get(&volume, 3).await, 2);
    });
}

#[test]
fn a_mounted_drive_continues_if_no_other_device_wrote() {
    let bench = Bench::new();
    run(async {
        let volume = bench.open(0).await.unwrap();
        put(&volume, 3, 1).await;
        volume.pusher().unwrap().sync().await.unwrap();
        put(&volume, 3, 2).await;
        volume.shut_down().await.unwrap();
        let volume = open(&bench, MOUNTED).await.unwrap();
        assert_eq!(get(&volume, 3).await, 2);
        close(volume).await;
    });
}
