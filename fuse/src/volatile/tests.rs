use super::*;

const SIZE: u64 = 1 << 20;

fn disk(survival: Survival) -> (VolatileDisk, File) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(SIZE).unwrap();
    (VolatileDisk::new(file.try_clone().unwrap(), survival).unwrap(), file)
}

fn survivors(file: &File) -> Vec<u64> {
    let mut bytes = vec![0; SIZE as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let sectors = bytes.as_chunks::<SECTOR>().0.iter().enumerate();
    sectors.filter(|(_, bytes)| bytes[0] != 0).map(|(index, _)| index as u64).collect()
}

fn read(disk: &VolatileDisk, at: u64) -> u8 {
    let mut bytes = [0; SECTOR];
    disk.try_read(at..at + SECTOR as u64).unwrap().copy_to(&mut bytes).unwrap();
    bytes[0]
}

#[test]
fn unflushed_writes_are_readable_until_the_cut() {
    let (disk, file) = disk(Survival { seed: 0, early: 0 });
    disk.try_write(0, &[1; 4096], Durability::Ordered).unwrap();
    disk.try_flush().unwrap();
    disk.try_write(0, &[2; SECTOR], Durability::Ordered).unwrap();
    disk.try_write(8192, &[3; 4096], Durability::Ordered).unwrap();
    assert_eq!((read(&disk, 0), read(&disk, SECTOR as u64), read(&disk, 8192)), (2, 1, 3));
    assert_eq!(disk.cut(AfterCut::Drop), 9);
    assert_eq!(survivors(&file), (0..8).collect::<Vec<_>>());
    assert_eq!((read(&disk, 0), read(&disk, 8192)), (1, 0));
    disk.try_write(4096, &[4; 4096], Durability::Forced).unwrap();
    assert_eq!(survivors(&file).len(), 8, "nothing is written after a cut");
}

#[test]
fn only_the_same_seed_tears_writes_the_same_way() {
    let run = |seed| {
        let (disk, file) = disk(Survival { seed, early: 128 });
        for block in 0..32 {
            disk.try_write(block * 4096, &[9; 4096], Durability::Ordered).unwrap();
        }
        disk.cut(AfterCut::Fail);
        assert!(matches!(disk.try_flush(), Err(DeviceError::Closed)));
        survivors(&file)
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    assert!((64..192).contains(&first.len()), "about half of 256 survive: {}", first.len());
    assert!(first.iter().any(|sector| sector % 8 != 0), "tears are at sectors, not at blocks");
}

#[test]
fn a_discard_also_drops_bytes_in_memory() {
    let (disk, _file) = disk(Survival { seed: 0, early: 0 });
    disk.try_write(0, &[1; 12288], Durability::Ordered).unwrap();
    disk.try_zero(4096..8192).unwrap();
    assert_eq!((read(&disk, 0), read(&disk, 4096), read(&disk, 8192)), (1, 0, 1));
    assert_eq!(disk.unsynced_sectors(), 16);
    assert!(matches!(disk.try_zero(0..SIZE + 4096), Err(DeviceError::OutOfRange)));
}
