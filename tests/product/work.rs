//! Real programs on one mounted drive, one after another, and then the whole tree on another computer: contents, modes, owners,
//! times, links, holes, attributes and access lists.

use crate::bench::{Bench, Random, sh};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Instant;

/// Everything that a file system stores about its files, as comparable text.
fn everything(root: &Path) -> String {
    sh(
        root,
        "find . -path ./lost+found -prune -o -printf '%P %y %m %U %G %n %T@ %l\\n' | sort
         find . -type f -printf '%P %s\\n' | sort
         find . -type f -print0 | sort -z | xargs -0 sha256sum
         getfattr -R -h -d -m - . | sort
         getfacl -R -n . | sort",
    )
}

/// 20,000 small files in 2,000 directories, generated without a file system.
fn generated_repository(at: &Path) {
    let mut stream =
        String::from("commit refs/heads/main\ncommitter a <a@example.org> 1700000000 +0000\ndata 1\n.\n");
    for file in 0..20_000 {
        let text = format!("file {file}\n").repeat(1 + file % 40);
        let (directory, len) = (file % 2_000, text.len());
        stream +=
            &format!("M 644 inline dir{}/sub{directory}/file{file}\ndata {len}\n{text}\n", directory % 50);
    }
    fs::create_dir(at).unwrap();
    fs::write(at.join("stream"), stream).unwrap();
    sh(at, "git init -q --bare -b main repository; git -C repository fast-import --quiet <stream");
}

fn git(bench: &Bench, on: &Path) {
    let generated = bench.path("generated");
    generated_repository(&generated);
    // A clone with links would copy nothing.
    sh(
        on,
        &format!(
            "git clone -q --bare --no-local '{}' bare
             git -C bare fsck --full --strict
             git clone -q --shared bare tree
             git -C tree status --porcelain | (! grep .)
             test $(git -C tree ls-files | wc -l) = 20000",
            generated.join("repository").display()
        ),
    );
}

/// A part of the installed files, about 50 MiB. All of them would take minutes.
fn tar(bench: &Bench, on: &Path) {
    let archive = bench.path("usr.tar");
    sh(
        Path::new("/usr/share"),
        &format!(
            "find . -xdev \\( -type f -o -type l \\) -size -4000k -printf '%s %p\\n' | sort -k2 |
                 awk '{{ sum += $1; if (sum > 50e6) exit; print substr($0, index($0, \" \") + 1) }}' >'{0}.list'
             tar -cf '{0}' --files-from='{0}.list'",
            archive.display()
        ),
    );
    sh(on, &format!("mkdir usr; tar -C usr -xpf '{0}'; tar -C usr --compare -f '{0}'", archive.display()));
}

/// A writer in write-ahead mode and several readers. Each reader sees only whole transactions.
fn sqlite(on: &Path) {
    sh(
        on,
        r#"sqlite3 db 'PRAGMA journal_mode=WAL; CREATE TABLE pair(a INTEGER PRIMARY KEY, b INTEGER, filler BLOB);' >/dev/null
           (for i in $(seq 300); do
                echo "BEGIN; INSERT INTO pair(b, filler) VALUES($i, randomblob(3000));
                      INSERT INTO pair(b, filler) VALUES(-$i, randomblob(3000)); COMMIT;"
            done) | sqlite3 -cmd '.timeout 60000' db &
           writer=$!
           reads() {
               while kill -0 $writer 2>/dev/null; do
                   test "$(sqlite3 -cmd '.timeout 60000' db 'SELECT coalesce(sum(b), 0) FROM pair; PRAGMA quick_check;' | tr '\n' ' ')" = '0 ok '
               done
           }
           reads & one=$!
           reads & two=$!
           wait $writer; wait $one; wait $two
           test "$(sqlite3 db 'SELECT count(*) FROM pair; PRAGMA integrity_check;' | tr '\n' ' ')" = '600 ok '"#,
    );
}

/// Writers to shared memory. Its pages reach the drive without any write call.
fn mapped(on: &Path) {
    const LEN: usize = 8 << 20;
    const WRITERS: usize = 4;
    let file = File::options().read(true).write(true).create_new(true).open(on.join("mapped")).unwrap();
    file.set_len(LEN as u64).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let file = &file;
            scope.spawn(move || {
                let (len, offset) = (LEN / WRITERS, writer * LEN / WRITERS);
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                // SAFETY: a new mapping at an address that the kernel chooses; each writer has its own part of the file.
                unsafe {
                    let memory = rustix::mm::mmap(
                        std::ptr::null_mut(),
                        len,
                        protection,
                        MapFlags::SHARED,
                        file,
                        offset as u64,
                    )
                    .unwrap();
                    let bytes = std::slice::from_raw_parts_mut(memory.cast::<u8>(), len);
                    for round in 0..3 {
                        bytes
                            .iter_mut()
                            .enumerate()
                            .for_each(|(at, byte)| *byte = mapped_byte(offset + at, round));
                        rustix::mm::msync(memory, len, MsyncFlags::SYNC).unwrap();
                    }
                    rustix::mm::munmap(memory, len).unwrap();
                }
            });
        }
    });
    let found = fs::read(on.join("mapped")).unwrap();
    assert!(found.iter().enumerate().all(|(at, byte)| *byte == mapped_byte(at, 2)));
}

fn mapped_byte(at: usize, round: usize) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> (7 + round)) as u8
}

fn kinds_of_files(on: &Path) {
    sh(
        on,
        "mkdir kinds; cd kinds
         printf data >file; ln file linked; ln -s file pointer; ln -s nowhere dangling; mkfifo pipe
         setfattr -n user.colour -v green file; setfattr -n user.long -v $(head -c 2000 /dev/zero | tr '\\0' x) file
         touch listed; setfacl -m u:1234:rw,g:4321:r listed; mkdir inherits; setfacl -d -m u:1234:rwx inherits
         touch owned; chown 1234:4321 owned; chmod 4750 owned; mkdir sticky; chmod 1777 sticky
         touch -d '2001-02-03 04:05:06.789 UTC' old
         touch \"$(printf 'a\\nname \\303\\244 with everything')\"
         for i in $(seq 200); do mkdir -p deep/$i; cd deep/$i; done",
    );
}

/// A hole takes no space, and programs find it.
fn sparse(on: &Path) {
    use std::os::unix::fs::FileExt;
    let file = File::create_new(on.join("sparse")).unwrap();
    for place in [0, 300 << 20, 700 << 20] {
        file.write_all_at(&[7; 8192], place).unwrap();
    }
    file.set_len(900 << 20).unwrap();
    file.sync_all().unwrap();
}

fn assert_sparse(on: &Path) {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(on.join("sparse")).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), 900 << 20);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    let seek = |to| rustix::fs::seek(&file, to).unwrap();
    assert_eq!(seek(rustix::fs::SeekFrom::Hole(0)), 8192);
    assert_eq!(seek(rustix::fs::SeekFrom::Data(8192)), 300 << 20);
    assert_eq!(seek(rustix::fs::SeekFrom::Hole(700 << 20)), (700 << 20) + 8192);
}

/// A file larger than the free space: the file system reports it like any disk, and continues.
fn fill(on: &Path) {
    let path = on.join("fills everything");
    let mut file = File::create_new(&path).unwrap();
    let piece: Vec<u8> = (0..1 << 20).map(|at| (at >> 8) as u8).collect();
    let mut written = 0;
    let error = loop {
        match file.write_all(&piece).and_then(|()| if written % 64 == 0 { file.sync_data() } else { Ok(()) })
        {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    file.sync_all().unwrap();
    assert!(written > 100, "{written} MiB were free");
    let found = fs::read(&path).unwrap();
    assert!(found.chunks_exact(1 << 20).take(written).all(|found| found == piece));
    // Its space is free once no program has it open and the deletion is on the disk.
    drop(file);
    fs::remove_file(&path).unwrap();
    fs::write(on.join("afterwards"), "there is room again").unwrap();
    File::open(on.join("afterwards")).unwrap().sync_all().unwrap();
}

const GARBAGE: usize = 64 << 20;

#[test]
fn programs_find_their_data_on_another_computer_too() {
    let bench = Bench::new();
    let (store, passphrase, key) = (bench.store(), bench.text("passphrase"), bench.text("key"));
    let machine = bench.machine("a");
    let create = ["drive", "create", "d", "--store", &store, "--size", "1G"];
    machine.ok(&[&create[..], &["--passphrase-file", &passphrase, "--recovery-key-out", &key]].concat());
    machine.open(&[]);
    let on = machine.mountpoint();
    let mut begun = Instant::now();
    let mut done = |what: &str| {
        println!("{what}: {:?}", begun.elapsed());
        begun = Instant::now();
    };
    git(&bench, &on);
    done("git");
    tar(&bench, &on);
    done("tar");
    sqlite(&on);
    done("sqlite");
    mapped(&on);
    kinds_of_files(&on);
    sparse(&on);
    assert_sparse(&on);
    done("files");
    fill(&on);
    done("fill");

    // Space of deleted files is freed, here and in the store.
    let garbage = on.join("garbage");
    fs::write(&garbage, Random(1).bytes(GARBAGE)).unwrap();
    machine.ok(&["drive", "sync", "d"]);
    machine.status_when("the cache has what was written", |now| now["unapplied_bytes"] == 0);
    let before = (machine.status(), machine.ok(&["drive", "gc", "d"]));
    fs::remove_file(&garbage).unwrap();
    let after = machine.ok(&["drive", "gc", "d"]);
    done("gc");
    let figure = |value: &serde_json::Value, name: &str| value[name].as_u64().unwrap();
    // Parts of segments wait to be repacked. How many depends on what was uploaded together.
    let trimmed = GARBAGE as u64 / 3;
    machine.status_when("trimmed", |now| {
        figure(now, "cached_bytes") + trimmed < figure(&before.0, "cached_bytes")
    });
    assert!(
        figure(&after, "live_bytes") + trimmed < figure(&before.1, "live_bytes"),
        "{} and then {after}",
        before.1
    );

    let expected = everything(&on);
    assert!(expected.lines().count() > 60_000);
    machine.close();
    done("close");
    let other = bench.machine("b");
    other.ok(&["drive", "add", "d", "--store", &store, "--passphrase-file", &passphrase]);
    other.open(&[]);
    let found = everything(&other.mountpoint());
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
    assert_sparse(&other.mountpoint());
    sh(&other.mountpoint(), "git -C bare fsck --full; sqlite3 db 'PRAGMA integrity_check;' | grep -qx ok");
    other.close();
    other.assert_checked();
    done("another computer");
}
