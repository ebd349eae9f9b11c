//! Single operations, each as a program sees it and as the remote gets it.

use crate::rig::{EMPTIES, NOBODY, READS, Rig, WRITES, path};
use bytes::Bytes;
use holdall_core::folder::api::{Changes, FolderError, OpenMode, Renaming, SetTime};
use holdall_core::sim::disk::DiskFaults;
use holdall_core::sim::remote::Request;
use holdall_core::store::remote::{Kind, Time};

#[tokio::test(start_paused = true)]
async fn a_file_of_the_remote_is_listed_and_read() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("d/film"), vec![7; 300_000]);
    let open = rig.open().await;
    assert_eq!(open.list("").await.unwrap(), [("d".to_owned(), Kind::Directory)]);
    assert_eq!(open.list("d").await.unwrap(), [("film".to_owned(), Kind::File)]);
    assert_eq!(open.read("d/film").await.unwrap(), vec![7; 300_000]);
    assert_eq!(open.read("d/none").await, Err(FolderError::NotFound));
    open.folder.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_read_at_once_and_uploaded() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.mkdir("d").await.unwrap();
    open.write("d/f", b"hello").await.unwrap();
    assert_eq!(open.read("d/f").await.unwrap(), b"hello");
    open.settle().await;
    assert_eq!(rig.file_there("d/f").unwrap(), b"hello");
    assert_eq!(open.read("d/f").await.unwrap(), b"hello");
    assert_eq!(rig.remote.requests(Request::Read), 0, "what was uploaded stays here");
    assert_eq!(open.folder.outbox().queue(10).items, []);
}

#[tokio::test(start_paused = true)]
async fn uploads_begin_by_themselves() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.write("f", b"hello").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(rig.file_there("f").unwrap(), b"hello");
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_remote_file_is_overwritten() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), vec![1; 200_000]);
    let open = rig.open().await;
    let handle = open.open("f", WRITES).await.unwrap();
    open.folder.write(handle, 100_000, Bytes::from_static(b"new")).await.unwrap();
    let mut expected = vec![1; 200_000];
    expected[100_000..100_003].copy_from_slice(b"new");
    assert_eq!(open.read_handle(handle).await.unwrap(), expected);
    open.folder.release(handle);
    open.settle().await;
    assert_eq!(rig.file_there("f").unwrap(), expected);
    assert_eq!(rig.remote.requests(Request::Write), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_opened_for_writing_and_not_changed_is_not_uploaded() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), vec![1; 10_000]);
    let open = rig.open().await;
    let handle = open.open("f", WRITES).await.unwrap();
    open.folder.release(handle);
    open.settle().await;
    tokio::time::sleep(std::time::Duration::from_secs(100)).await;
    assert_eq!(rig.remote.requests(Request::Write), 0);
    let before = rig.remote.requests(Request::Read);
    assert_eq!(open.read("f").await.unwrap(), vec![1; 10_000]);
    assert_eq!(rig.remote.requests(Request::Read), before, "it is still here");
}

#[tokio::test(start_paused = true)]
async fn a_save_by_temporary_file_and_rename_is_one_upload() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("text"), b"old".to_vec());
    let open = rig.open().await;
    open.write_durably(".text.tmp", b"new").await.unwrap();
    open.rename(".text.tmp", "text").await.unwrap();
    assert_eq!(open.read("text").await.unwrap(), b"new");
    assert_eq!(open.list("").await.unwrap().len(), 1);
    open.settle().await;
    assert_eq!(rig.there().into_iter().collect::<Vec<_>>(), [("text".to_owned(), Some(b"new".to_vec()))]);
    assert_eq!(rig.remote.requests(Request::Write), 1);
    assert_eq!(rig.remote.requests(Request::Remove), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rename_of_unchanged_content_moves_no_bytes() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("a/f"), vec![3; 50_000]);
    let open = rig.open().await;
    open.mkdir("b").await.unwrap();
    open.rename("a/f", "b/g").await.unwrap();
    open.rename("a", "b/a").await.unwrap();
    open.settle().await;
    assert_eq!(rig.file_there("b/g").unwrap(), vec![3; 50_000]);
    assert!(rig.there().contains_key("b/a") && !rig.there().contains_key("a"));
    assert_eq!(rig.remote.requests(Request::Write) + rig.remote.requests(Request::Read), 0);
}

#[tokio::test(start_paused = true)]
async fn names_are_exchanged_and_not_replaced() {
    let rig = Rig::good();
    for (name, bytes) in [("a", b"1"), ("b", b"2")] {
        rig.remote.other_writes(&path(name), bytes.to_vec());
    }
    let open = rig.open().await;
    let (a, b) = (open.place("a").await.unwrap(), open.place("b").await.unwrap());
    let renamed = open.folder.rename(a.clone(), b.clone(), Renaming::NoReplace, NOBODY).await;
    assert_eq!(renamed, Err(FolderError::Exists));
    open.folder.rename(a, b, Renaming::Exchange, NOBODY).await.unwrap();
    assert_eq!(open.read("a").await.unwrap(), b"2");
    open.settle().await;
    assert_eq!((rig.file_there("a").unwrap(), rig.file_there("b").unwrap()), (b"2".to_vec(), b"1".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_directory_cannot_be_moved_into_itself_or_over_a_full_one() {
    let rig = Rig::good();
    let open = rig.open().await;
    for name in ["a", "a/b", "c"] {
        open.mkdir(name).await.unwrap();
    }
    open.write("f", b"x").await.unwrap();
    assert!(matches!(open.rename("a", "a/b/a").await, Err(FolderError::Invalid(_))));
    assert_eq!(open.rename("c", "a").await, Err(FolderError::NotEmpty));
    assert_eq!(open.rename("c", "f").await, Err(FolderError::NotDirectory));
    assert_eq!(open.rename("f", "c").await, Err(FolderError::IsDirectory));
    assert_eq!(open.rmdir("a").await, Err(FolderError::NotEmpty));
    assert_eq!(open.unlink("a").await, Err(FolderError::IsDirectory));
    assert_eq!(open.rmdir("f").await, Err(FolderError::NotDirectory));
    assert_eq!(open.mkdir("a").await, Err(FolderError::Exists));
    open.rename("a", "c").await.unwrap();
    assert_eq!(open.list("c").await.unwrap(), [("b".to_owned(), Kind::Directory)]);
}

#[tokio::test(start_paused = true)]
async fn what_was_never_uploaded_goes_without_a_request() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.write("f", b"x").await.unwrap();
    open.unlink("f").await.unwrap();
    open.settle().await;
    let changes = [Request::Write, Request::Remove, Request::Relocate].map(|kind| rig.remote.requests(kind));
    assert_eq!(changes, [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn an_unlinked_file_is_read_and_written_until_it_is_closed() {
    let rig = Rig::good();
    let open = rig.open().await;
    let handle = open.create("f").await.unwrap();
    open.folder.write(handle, 0, Bytes::from_static(b"first")).await.unwrap();
    open.unlink("f").await.unwrap();
    open.write("f", b"another").await.unwrap();
    open.folder.write(handle, 5, Bytes::from_static(b"+second")).await.unwrap();
    assert_eq!(open.read_handle(handle).await.unwrap(), b"first+second");
    open.folder.release(handle);
    open.settle().await;
    assert_eq!(rig.file_there("f").unwrap(), b"another");
    assert_eq!(rig.there().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn truncation_appending_and_holes_are_as_on_a_local_disk() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), b"0123456789".to_vec());
    let open = rig.open().await;
    let ino = open.ino("f").await.unwrap();
    let len = |len| Changes { len: Some(len), ..Changes::default() };
    assert_eq!(open.folder.set_attributes(ino, len(4)).await.unwrap().len, 4);
    assert_eq!(open.folder.set_attributes(ino, len(6)).await.unwrap().len, 6);
    let handle = open.open("f", WRITES).await.unwrap();
    open.folder.write(handle, 8, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(open.read_handle(handle).await.unwrap(), b"0123\0\0\0\0x");
    open.folder.release(handle);
    let handle = open.open("f", EMPTIES).await.unwrap();
    assert_eq!(open.read_handle(handle).await.unwrap(), b"");
    open.folder.write(handle, 0, Bytes::from_static(b"y")).await.unwrap();
    open.folder.release(handle);
    open.settle().await;
    assert_eq!(rig.file_there("f").unwrap(), b"y");
}

#[tokio::test(start_paused = true)]
async fn mode_time_and_attributes_reach_the_remote() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("f"), b"x".to_vec());
    let open = rig.open().await;
    let ino = open.ino("f").await.unwrap();
    let time = Time(1_234_567_890_123_456_789);
    let changes = Changes { mode: Some(0o600), mtime: Some(SetTime::To(time)), len: None };
    let attributes = open.folder.set_attributes(ino, changes).await.unwrap();
    assert_eq!((attributes.mode, attributes.mtime), (0o600, time));
    open.folder.set_xattr(ino, "user.tag", b"red", None, NOBODY).await.unwrap();
    assert_eq!(open.folder.xattr(ino, "user.tag").await.unwrap(), b"red");
    assert_eq!(open.folder.xattr(ino, "user.none").await, Err(FolderError::NoAttribute));
    open.settle().await;
    let there = rig.remote.files().into_iter().next().unwrap();
    assert_eq!((there.meta.mode, there.meta.mtime), (Some(0o600), Some(time)));
    assert_eq!(there.meta.xattrs["user.tag"], b"red");
    let attributes = open.folder.attributes(ino).await.unwrap();
    assert_eq!((attributes.mode, attributes.mtime), (0o600, time), "they do not jump after the upload");
    open.folder.remove_xattr(ino, "user.tag", NOBODY).await.unwrap();
    assert_eq!(open.folder.xattrs(ino).await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_link_is_made_read_and_uploaded() {
    let rig = Rig::good();
    let open = rig.open().await;
    let place = open.place("l").await.unwrap();
    let made = open.folder.make_link(place, "d/somewhere", NOBODY).await.unwrap();
    assert_eq!((made.kind, made.len), (Kind::Link, 11));
    assert_eq!(open.folder.read_link(made.ino).await.unwrap(), "d/somewhere");
    open.settle().await;
    assert_eq!(rig.remote.files()[0].meta.link.as_deref(), Some("d/somewhere"));
    assert_eq!(open.folder.read_link(made.ino).await.unwrap(), "d/somewhere");
}

#[tokio::test(start_paused = true)]
async fn a_link_of_the_remote_never_leads_out_of_the_folder() {
    let rig = Rig::good();
    let open = rig.open().await;
    let made = open.folder.make_link(open.place("l").await.unwrap(), "../somewhere", NOBODY).await.unwrap();
    assert_eq!(open.folder.read_link(made.ino).await.unwrap(), "../somewhere", "it was made here");
    open.settle().await;
    let link = open.ino("l").await.unwrap();
    assert!(matches!(open.folder.read_link(link).await, Err(FolderError::Forbidden(_))));
}

#[tokio::test(start_paused = true)]
async fn a_simulated_file_is_never_passed_to_the_kernel() {
    let rig = Rig::good();
    let open = rig.open().await;
    open.write("f", b"x").await.unwrap();
    let opened = open.folder.open_file(open.ino("f").await.unwrap(), READS, NOBODY).await.unwrap();
    assert!(matches!(opened.how, OpenMode::Served { .. }));
    open.folder.release(opened.handle);
}

#[tokio::test(start_paused = true)]
async fn a_rename_is_done_although_its_pin_cannot_be_written_down() {
    let rig = Rig::good();
    rig.remote.other_writes(&path("a"), b"x".to_vec());
    let open = rig.open().await;
    open.folder.pin("a").await.unwrap();
    rig.disk.set_faults(DiskFaults { sync_fails: 1000, ..DiskFaults::default() });
    open.rename("a", "b").await.unwrap();
    rig.disk.set_faults(DiskFaults::default());
    assert_eq!(open.folder.pinned_by("b"), Some("b".into()));
    tokio::time::sleep(std::time::Duration::from_secs(200)).await;
    rig.disk.kill();
    assert_eq!(rig.open().await.folder.pinned_by("b"), Some("b".into()));
}
