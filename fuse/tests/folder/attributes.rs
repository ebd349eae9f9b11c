//! What stat, chmod, touch and extended attributes do.

use crate::bench::{Bench, errno};
use rustix::fs::XattrFlags;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_file_shows_its_owner_length_and_time() {
    let bench = Bench::new();
    let before = SystemTime::now() - Duration::from_secs(2);
    std::fs::write(bench.at("file"), [1; 5000]).unwrap();
    let shown = std::fs::metadata(bench.at("file")).unwrap();
    assert_eq!((shown.len(), shown.blocks(), shown.nlink()), (5000, 10, 1));
    assert_eq!((shown.uid(), shown.gid()), (0, 0));
    assert!(
        shown.modified().unwrap() > before && shown.modified().unwrap() < before + Duration::from_secs(60)
    );
    assert_eq!(std::fs::metadata(bench.at("")).unwrap().nlink(), 2);
}

#[test]
fn an_open_file_shows_what_was_written_to_it() {
    use std::io::{Seek, SeekFrom, Write};
    for bench in [Bench::new(), Bench::served()] {
        let mut file = std::fs::File::create(bench.at("file")).unwrap();
        for round in 1..=20u64 {
            file.write_all(&[1; 1000]).unwrap();
            assert_eq!(file.metadata().unwrap().len(), round * 1000);
            assert_eq!(std::fs::metadata(bench.at("file")).unwrap().len(), round * 1000);
        }
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 20_000);
    }
}

#[test]
fn mode_and_time_are_set() {
    let bench = Bench::new();
    let path = bench.at("file");
    std::fs::write(&path, "").unwrap();
    let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
    set(0o4750).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o750, "no file of a folder gives rights");
    for time in [UNIX_EPOCH + Duration::new(1_000_000_000, 123_000_000), UNIX_EPOCH] {
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), time);
    }
    bench.sh("mkdir -m 2775 d && test \"$(stat -c %a d)\" = 2775");
}

#[test]
fn files_belong_to_the_user_who_mounted() {
    let bench = Bench::new();
    std::fs::write(bench.at("file"), "").unwrap();
    std::os::unix::fs::chown(bench.at("file"), Some(0), Some(0)).unwrap();
    assert_eq!(errno(std::os::unix::fs::chown(bench.at("file"), Some(1), None)), libc::EPERM);
}

#[test]
fn links_keep_their_targets() {
    let bench = Bench::new();
    for target in ["file", "a/../b", "ä/b"] {
        symlink(target, bench.at("link")).unwrap();
        assert_eq!(std::fs::read_link(bench.at("link")).unwrap(), Path::new(target));
        assert!(std::fs::symlink_metadata(bench.at("link")).unwrap().is_symlink());
        std::fs::remove_file(bench.at("link")).unwrap();
    }
    symlink("file", bench.at("link")).unwrap();
    std::fs::write(bench.at("link"), "through").unwrap();
    assert_eq!(std::fs::read(bench.at("file")).unwrap(), b"through");
}

#[test]
fn attributes_of_users_are_kept_and_others_are_not() {
    let bench = Bench::new();
    let path = bench.at("file");
    std::fs::write(&path, "").unwrap();
    let get = |name: &str| {
        let mut value = vec![0; 256];
        rustix::fs::getxattr(&path, name, &mut value[..]).map(|len| {
            value.truncate(len);
            value
        })
    };
    let set = |name: &str, value: &str, flags| rustix::fs::setxattr(&path, name, value.as_bytes(), flags);
    set("user.a", "one", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", "two", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    set("user.a", "two", XattrFlags::REPLACE).unwrap();
    assert_eq!(set("user.b", "x", XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
    set("user.b", "", XattrFlags::empty()).unwrap();
    assert_eq!((get("user.a").unwrap(), get("user.b").unwrap()), (b"two".to_vec(), Vec::new()));
    assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut [0u8; 2][..]), Err(rustix::io::Errno::RANGE));
    let mut names = [0u8; 64];
    let len = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
    let mut listed: Vec<_> = std::str::from_utf8(&names[..len]).unwrap().split_terminator('\0').collect();
    listed.sort_unstable();
    assert_eq!(listed, ["user.a", "user.b"]);
    rustix::fs::removexattr(&path, "user.a").unwrap();
    assert_eq!(get("user.a"), Err(rustix::io::Errno::NODATA));
    assert_eq!(rustix::fs::removexattr(&path, "user.a"), Err(rustix::io::Errno::NODATA));
    assert_eq!(set("trusted.a", "x", XattrFlags::empty()), Err(rustix::io::Errno::OPNOTSUPP));
    assert_eq!(get("trusted.a"), Err(rustix::io::Errno::NODATA));
}

#[test]
fn statfs_names_the_folder_and_its_space() {
    let bench = Bench::new();
    let shown = rustix::fs::statvfs(bench.at("")).unwrap();
    assert!(shown.f_blocks >= shown.f_bfree && shown.f_bfree > 0);
    assert_eq!((shown.f_bsize, shown.f_namemax), (4096, 255));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let line =
        mounts.lines().find(|line| line.contains(bench.at("").to_str().unwrap().trim_end_matches('/')));
    assert!(line.unwrap().starts_with("file:///a%2C\\040b "), "{line:?}");
    assert!(line.unwrap().contains(" fuse.holdall-folder rw,nosuid,nodev,noatime,"), "{line:?}");
}

#[test]
fn the_access_time_is_that_of_the_last_change() {
    let bench = Bench::new();
    bench.sh("echo x > f && touch -m -d 2001-02-03 f && cat f && touch -a f && test \"$(stat -c %X f)\" = \"$(stat -c %Y f)\"");
}

#[test]
fn the_top_directory_has_no_attributes_of_its_own() {
    let bench = Bench::new();
    let set = rustix::fs::setxattr(bench.at(""), "user.a", b"x", XattrFlags::empty());
    assert_eq!(set, Err(rustix::io::Errno::OPNOTSUPP));
    let set = std::fs::set_permissions(bench.at(""), PermissionsExt::from_mode(0o700));
    assert_eq!(errno(set), libc::EOPNOTSUPP);
}
