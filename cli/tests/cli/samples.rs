//! Results as the daemon gives them.

use serde_json::{Value, json};

pub fn fork() -> Value {
    json!({
        "name": "work (fork from laptop, 2026-11-20)", "uuid": "0b7f", "device": "laptop", "taken_by": "desk",
        "made_at": "2026-11-20T11:00:00Z", "base": "root/ab/0b7e-01-02-abcdef0123", "records": 3, "bytes": 4096,
        "mountpoint": null, "in_place": false,
    })
}

pub fn drive() -> Value {
    json!({
        "name": "work", "uuid": "0b7e", "state": "Ready", "reason": null, "since": "2026-11-20T11:00:00Z",
        "epoch": 3, "root": "root/ab/1", "size_bytes": 10u64 << 30, "cached_bytes": 2u64 << 30,
        "cache_limit_bytes": 4u64 << 30, "dirty_bytes": 0, "unpushed_bytes": 0, "oldest_dirty_age_ms": 0,
        "journal_bytes": 0, "journal_limit_bytes": 1 << 30, "pending_pull_bytes": 0, "pinned_bytes": 0,
        "block_device": "/dev/nbd0", "attach": "nbd", "mountpoint": "/home/ann/Holdall/work",
        "store": "file:///mnt/nas/work", "store_mode": "swap", "holder": null,
        "last_commit_at": "2026-11-20T11:58:00Z",
        "requests": {"get": 0, "put": 0, "head": 0, "list": 0, "delete": 0},
        "sent_bytes": 0, "received_bytes": 0, "used_bytes": 1u64 << 30, "forks": [], "daemon_pid": 7,
    })
}

/// A drive with changes that are only here.
pub fn unsent() -> Value {
    let mut drive = drive();
    (drive["dirty_bytes"], drive["unpushed_bytes"]) = (json!(12_897_485), json!(12_897_485));
    drive
}

pub fn created() -> Value {
    json!({"uuid": "0b7e", "store_mode": "swap", "encrypted": true})
}

pub fn created_with_key() -> Value {
    json!({"uuid": "0b7e", "store_mode": "swap", "encrypted": true, "recovery_key": "ABCD-EFGH-IJKL"})
}

pub fn opened() -> Value {
    json!({
        "block_device": "/dev/nbd0", "mountpoint": "/home/ann/Holdall/work", "attach": "nbd", "epoch": 3,
        "root": "root/ab/1",
    })
}

/// A directory that is still being downloaded.
pub fn pin() -> Value {
    json!({
        "drive": "work", "path": "letters", "at": "/home/ann/Holdall/work/letters", "state": "Syncing",
        "reason": null, "files_ready": 1000, "files_total": 1204, "bytes": 3 << 20, "ready_bytes": 2 << 20,
        "unreadable": 0,
    })
}

pub fn synced() -> Value {
    json!({"root": "root/ab/2", "root_hash": "00ff", "epoch": 3, "lsn": 77})
}

pub fn snapshot() -> Value {
    json!({"label": "monday", "root": "root/ab/1", "taken_at": "2026-11-20T10:00:00Z", "size_bytes": 10u64 << 30})
}

pub fn collected() -> Value {
    json!({"deleted": 3, "bytes_freed": 2048, "live_bytes": 1u64 << 30, "garbage_bytes": 0})
}

pub fn checked() -> Value {
    json!({"ok": true, "objects": 12, "errors": []})
}

pub fn map() -> Value {
    json!({
        "cell_bytes": 1 << 20,
        "cells": ["absent", "cached", "dirty", "uploading"],
        "bytes": {
            "absent": 1 << 20, "cached": 1 << 20, "pinned": 0, "dirty": 4096, "uploading": 8192, "failed": 0, "empty": 0
        }
    })
}

pub fn diagnosis() -> Value {
    json!({"ok": true, "summary": "No problems were found.", "findings": [
        {"subject": "nbd", "ok": true, "detail": "the module is loaded", "action": null, "repaired": false},
    ]})
}

pub fn failure(code: &str) -> Value {
    json!({"code": code, "message": "The cause.", "consequence": "What it means.", "action": "What to do."})
}

pub fn progress(done: u64) -> Value {
    json!({"progress": {"stage": "Uploading", "done": done, "total": 4 << 20, "unit": "bytes"}})
}
