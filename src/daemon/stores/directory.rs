//! Facts on a directory, for people: its file system, how it keeps computers apart, and whether a tool copies it.

use super::sync_tool;
use crate::api::StoreFinding;
use crate::daemon::failure::synced_warning;
use holdall_core::store::file::{FileStore, kinds};
use holdall_core::store::names::DriveNames;
use holdall_core::store::probe::Mode;
use holdall_core::store::url::StoreUrl;

/// The findings for a directory; none for other stores.
pub async fn findings(url: &StoreUrl, mode: Mode) -> Vec<StoreFinding> {
    let StoreUrl::File(path) = url else { return Vec::new() };
    let Ok(magic) = FileStore::new(path.clone(), &DriveNames).file_system().await else { return Vec::new() };
    let mut findings = vec![file_system(magic, mode)];
    if let Some(tool) = sync_tool(url).await {
        let subject = "synchronised folder".to_owned();
        findings.push(StoreFinding { subject, ok: false, detail: synced_warning(url, tool) });
    }
    findings
}

fn file_system(magic: u64, mode: Mode) -> StoreFinding {
    let name = kinds::name(magic);
    let seen = if kinds::is_local(magic) { "on this computer" } else { "other computers may change it" };
    let apart = match mode {
        Mode::Swap => "locks keep programs apart",
        Mode::Claim => "claims keep computers apart, and no lock is used",
        Mode::None => "nothing keeps computers apart",
    };
    StoreFinding {
        subject: "file system".to_owned(),
        ok: mode != Mode::None,
        detail: format!("{name}, {seen}; {apart}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: u64 = 0xef53;
    const FUSE: u64 = 0x6573_5546;

    #[test]
    fn says_what_keeps_computers_apart() {
        for (magic, mode, ok, detail) in [
            (EXT4, Mode::Swap, true, "ext4, on this computer; locks keep programs apart"),
            (
                FUSE,
                Mode::Claim,
                true,
                "FUSE, other computers may change it; claims keep computers apart, and no lock is used",
            ),
            (FUSE, Mode::None, false, "FUSE, other computers may change it; nothing keeps computers apart"),
        ] {
            let found = file_system(magic, mode);
            assert_eq!((found.ok, &*found.detail), (ok, detail));
        }
    }

    #[tokio::test]
    async fn warns_of_a_synchronised_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".stfolder")).unwrap();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        let found = findings(&StoreUrl::File(dir.path().join("store")), Mode::Swap).await;
        assert!(found.iter().any(|found| !found.ok && found.detail.contains("Syncthing")), "{found:?}");
    }
}
