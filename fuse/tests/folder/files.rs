//! Reading, writing, renaming and removing files.

use crate::bench::{Bench, Setup, errno, pattern};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, SeekFrom};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

fn both() -> [Bench; 2] {
    [Bench::new(), Bench::served()]
}

#[test]
fn bytes_that_were_written_are_read() {
    for bench in both() {
        let (path, bytes) = (bench.at("file"), pattern(1, 3_000_001));
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.write_all_at(b"middle", 1_234_567).unwrap();
        let mut seen = [0; 8];
        file.read_exact_at(&mut seen, 1_234_566).unwrap();
        assert_eq!(&seen[1..7], b"middle");
        assert_eq!((seen[0], seen[7]), (bytes[1_234_566], bytes[1_234_573]));
        assert_eq!(file.read_at(&mut seen, 3_000_001).unwrap(), 0);
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 3_000_001);
    }
}

#[test]
fn a_file_of_the_remote_is_read_and_changed() {
    let bytes = pattern(2, 300_000);
    for passes_through in [true, false] {
        let setup = Setup { passes_through, read_only: false };
        let bench = Bench::with(setup, |remote| std::fs::write(remote.join("file"), &bytes).unwrap());
        let path = bench.at("file");
        let mut part = vec![0; 1000];
        File::open(&path).unwrap().read_exact_at(&mut part, 200_000).unwrap();
        assert_eq!(part, bytes[200_000..201_000]);
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"here", 100).unwrap();
        let mut expected = bytes.clone();
        expected[100..104].copy_from_slice(b"here");
        assert_eq!(std::fs::read(&path).unwrap(), expected);
    }
}

#[test]
fn appends_of_two_programs_do_not_overwrite_each_other() {
    for bench in both() {
        let open = || OpenOptions::new().append(true).create(true).open(bench.at("log")).unwrap();
        let (mut one, mut two) = (open(), open());
        for number in 0..50 {
            writeln!(one, "one {number}").unwrap();
            writeln!(two, "two {number}").unwrap();
        }
        assert_eq!(std::fs::read_to_string(bench.at("log")).unwrap().lines().count(), 100);
    }
}

#[test]
fn opening_with_truncation_empties_the_file_for_all_who_have_it_open() {
    for bench in both() {
        std::fs::write(bench.at("file"), pattern(3, 10_000)).unwrap();
        let before = File::open(bench.at("file")).unwrap();
        let mut after = OpenOptions::new().write(true).truncate(true).open(bench.at("file")).unwrap();
        assert_eq!(before.metadata().unwrap().len(), 0);
        assert_eq!(before.read_at(&mut [0; 10], 0).unwrap(), 0);
        after.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(bench.at("file")).unwrap(), b"new");
    }
}

#[test]
fn the_length_can_be_set_by_name_and_by_descriptor() {
    for bench in both() {
        let path = bench.at("file");
        std::fs::write(&path, "0123456789").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123");
        drop(file);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(6).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123\0\0");
    }
}

#[test]
fn a_removed_file_stays_with_who_has_it_open() {
    for bench in both() {
        let path = bench.at("file");
        std::fs::write(&path, "before").unwrap();
        let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(errno(std::fs::metadata(&path)), libc::ENOENT);
        file.write_all(b"after!").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "after!");
        std::fs::write(&path, "another").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 6, "the new file is not the old one");
    }
}

#[test]
fn saving_by_a_temporary_file_replaces_the_old_one() {
    for bench in both() {
        let path = bench.at("document");
        std::fs::write(&path, "one").unwrap();
        let reader = File::open(&path).unwrap();
        for version in 0..20 {
            let mut file = File::create(bench.at(".document.tmp")).unwrap();
            write!(file, "version {version}").unwrap();
            file.sync_all().unwrap();
            std::fs::rename(bench.at(".document.tmp"), &path).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("version {version}"));
        }
        let mut text = [0; 3];
        reader.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"one");
        File::open(bench.at("")).unwrap().sync_all().unwrap();
    }
}

#[test]
fn renames_keep_what_they_promise() {
    let bench = Bench::new();
    let (one, two) = (bench.at("one"), bench.at("two"));
    std::fs::write(&one, "1").unwrap();
    std::fs::write(&two, "2").unwrap();
    let rename = |flags| rustix::fs::renameat_with(CWD, &one, CWD, &two, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!((std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap()), (b"2".to_vec(), b"1".to_vec()));
    rename(RenameFlags::empty()).unwrap();
    assert_eq!((std::fs::read(&two).unwrap(), one.exists()), (b"2".to_vec(), false));
    std::fs::create_dir_all(bench.at("d/e")).unwrap();
    assert_eq!(errno(std::fs::rename(bench.at("d"), bench.at("d/e/f"))), libc::EINVAL);
    assert_eq!(errno(std::fs::rename(&two, bench.at("d"))), libc::EISDIR);
    assert_eq!(errno(std::fs::rename(bench.at("d"), &two)), libc::ENOTDIR);
    std::fs::rename(bench.at("d/e"), bench.at("moved")).unwrap();
    assert!(bench.at("moved").is_dir() && !bench.at("d/e").exists());
}

#[test]
fn exclusive_creation_has_one_winner() {
    let bench = Bench::new();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o640);
    options.open(bench.at("lock")).unwrap();
    assert_eq!(errno(options.open(bench.at("lock"))), libc::EEXIST);
}

#[test]
fn ranges_are_zeroed_and_taken() {
    for bench in both() {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(bench.at("file")).unwrap();
        file.write_all_at(&[7; 1 << 20], 0).unwrap();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, punch, 0, 512 << 10).unwrap();
        let mut bytes = [1; 8];
        file.read_exact_at(&mut bytes, (512 << 10) - 4).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 7, 7, 7, 7]);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2 << 20);
        rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 1 << 20, 2 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 3 << 20);
        let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(collapse, Err(rustix::io::Errno::OPNOTSUPP));
    }
}

#[test]
fn data_and_the_holes_behind_it_are_found() {
    for bench in both() {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(bench.at("file")).unwrap();
        file.write_all_at(&[7; 64 << 10], 1 << 20).unwrap();
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(0)), Ok(0));
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + (64 << 10)));
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(2 << 20)), Err(rustix::io::Errno::NXIO));
    }
}

#[test]
fn a_range_is_copied_between_files() {
    for bench in both() {
        let bytes = pattern(4, 3_500_000);
        std::fs::write(bench.at("from"), &bytes).unwrap();
        let from = File::open(bench.at("from")).unwrap();
        let to = OpenOptions::new().read(true).write(true).create_new(true).open(bench.at("to")).unwrap();
        let (mut start, mut end) = (100, 50);
        let mut copied = 0;
        loop {
            let rest = 3_400_000 - copied;
            match rustix::fs::copy_file_range(&from, Some(&mut start), &to, Some(&mut end), rest).unwrap() {
                0 => break,
                more => copied += more,
            }
        }
        assert_eq!(copied, 3_400_000);
        let seen = std::fs::read(bench.at("to")).unwrap();
        assert_eq!(seen.len(), 3_400_050);
        assert!(seen[50..] == bytes[100..3_400_100] && seen[..50] == [0; 50]);
    }
}

#[test]
fn only_files_directories_and_links_can_be_made() {
    let bench = Bench::new();
    assert_eq!(errno(std::fs::hard_link(bench.at("a"), bench.at("b"))), libc::ENOENT);
    std::fs::write(bench.at("a"), "").unwrap();
    assert_eq!(errno(std::fs::hard_link(bench.at("a"), bench.at("b"))), libc::EPERM);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let node = |name: &str, kind| rustix::fs::mknodat(CWD, bench.at(name), kind, mode, 0);
    assert_eq!(node("pipe", rustix::fs::FileType::Fifo), Err(rustix::io::Errno::PERM));
    node("file", rustix::fs::FileType::RegularFile).unwrap();
    assert_eq!(std::fs::metadata(bench.at("file")).unwrap().len(), 0);
}

#[test]
fn locks_hold_between_programs() {
    let bench = Bench::new();
    bench.sh(
        "exec 9> lock && flock --exclusive 9 && ! flock --nonblock --exclusive lock true && flock --unlock 9 && flock --nonblock lock true
         python3 - <<'END'
import fcntl, os
file = os.open('lock', os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
if os.fork() == 0:
    other = os.open('lock', os.O_RDWR)
    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10)
    try: fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
    except BlockingIOError: os._exit(0)
    os._exit(1)
assert os.wait()[1] == 0
END",
    );
}
