//! Hostile bytes for every decoder.
//!
//! A target takes arbitrary bytes. It panics if a decoder does, and if a promise of the format is broken: decoded input
//! must encode to the very same bytes again or, where the format leaves a choice, to bytes that decode to the same value.
//! The target corrects checksums and seals, so that the code behind them is reached; the tests beside the decoders show
//! that they guard against damage.
//!
//! `tests/corpus.rs` runs each target for a moment, from the inputs under `corpus/` and with a seeded mutator. With
//! libFuzzer, `just fuzz TARGET` runs one for as long as wanted.

mod sealed;
mod targets;

/// One way in for arbitrary bytes.
pub struct Target {
    /// Its name, which is also that of its directory under `corpus/`.
    pub name: &'static str,
    /// Takes the bytes; panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Well-formed inputs to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Bytes that the target may hold at once for one input.
    pub memory_bytes: usize,
}

// For the code that is compiled here from the files of other crates.
use holdall_api as api;
use holdall_core::store::StoreError;
use targets::{
    claims, credentials, dav, ext4, files, formats, keys, local, migrate, nbd, root_rights, s3, text, wire,
};

pub use targets::local::journal_records;

const MIB: usize = 1 << 20;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "family", run: formats::family, seeds: formats::family_seeds, memory_bytes: MIB },
    Target { name: "head", run: formats::head, seeds: formats::head_seeds, memory_bytes: MIB },
    Target { name: "root", run: formats::root, seeds: formats::root_seeds, memory_bytes: 8 * MIB },
    Target { name: "page", run: formats::page, seeds: formats::page_seeds, memory_bytes: 8 * MIB },
    Target { name: "usage", run: formats::usage, seeds: formats::usage_seeds, memory_bytes: 4 * MIB },
    Target {
        name: "directory",
        run: formats::directory,
        seeds: formats::directory_seeds,
        memory_bytes: 4 * MIB,
    },
    Target { name: "segment", run: formats::segment, seeds: formats::segment_seeds, memory_bytes: 8 * MIB },
    // A box may unpack to a root of 32 MiB.
    Target { name: "sealed", run: formats::sealed, seeds: formats::sealed_seeds, memory_bytes: 80 * MIB },
    Target { name: "key", run: keys::key, seeds: keys::key_seeds, memory_bytes: MIB },
    Target { name: "recovery", run: keys::recovery, seeds: keys::recovery_seeds, memory_bytes: MIB },
    Target {
        name: "journal_file",
        run: local::journal_file,
        seeds: local::journal_file_seeds,
        memory_bytes: 64 * MIB,
    },
    Target {
        name: "journal_damage",
        run: local::journal_damage,
        seeds: local::journal_damage_seeds,
        memory_bytes: 64 * MIB,
    },
    Target { name: "bitmap", run: local::bitmap, seeds: local::bitmap_seeds, memory_bytes: 16 * MIB },
    Target {
        name: "migration_record",
        run: migrate::record,
        seeds: migrate::record_seeds,
        memory_bytes: 4 * MIB,
    },
    Target {
        name: "migration_message",
        run: migrate::message,
        seeds: migrate::message_seeds,
        memory_bytes: 8 * MIB,
    },
    Target { name: "import", run: local::import, seeds: local::import_seeds, memory_bytes: 64 * MIB },
    Target { name: "drive_json", run: local::drive_json, seeds: local::drive_json_seeds, memory_bytes: MIB },
    // A buffer of 1 MiB, and what the limits allow.
    Target { name: "ext4", run: ext4::ext4, seeds: ext4::ext4_seeds, memory_bytes: 4 * MIB },
    // The bytes that it examines at once, and the input itself.
    Target { name: "files", run: files::files, seeds: files::file_seeds, memory_bytes: MIB },
    Target { name: "text", run: text::text, seeds: text::seeds, memory_bytes: MIB },
    Target { name: "claim_names", run: claims::names, seeds: claims::name_seeds, memory_bytes: MIB },
    Target { name: "s3_refusals", run: s3::refusals, seeds: s3::refusal_seeds, memory_bytes: MIB },
    // Many resources of few letters each.
    Target { name: "dav_listing", run: dav::listing, seeds: dav::listing_seeds, memory_bytes: 8 * MIB },
    Target {
        name: "dav_challenge",
        run: dav::challenges,
        seeds: dav::challenge_seeds,
        memory_bytes: 8 * MIB,
    },
    Target {
        name: "credentials",
        run: credentials::credentials,
        seeds: credentials::credential_seeds,
        memory_bytes: 4 * MIB,
    },
    Target {
        name: "aws_profile",
        run: credentials::aws_profile,
        seeds: credentials::aws_profile_seeds,
        memory_bytes: 4 * MIB,
    },
    Target {
        name: "operation",
        run: root_rights::operation,
        seeds: root_rights::operation_seeds,
        memory_bytes: MIB,
    },
    Target {
        name: "device_content",
        run: root_rights::device_content,
        seeds: root_rights::device_content_seeds,
        memory_bytes: MIB,
    },
    Target { name: "nbd_server", run: nbd::server, seeds: nbd::server_seeds, memory_bytes: 256 * MIB },
    Target { name: "nbd_client", run: nbd::client, seeds: nbd::client_seeds, memory_bytes: 64 * MIB },
    Target { name: "nbd_codec", run: nbd::codec, seeds: nbd::codec_seeds, memory_bytes: MIB },
    Target { name: "fuse_wire", run: wire::fuse, seeds: wire::fuse_seeds, memory_bytes: MIB },
    Target { name: "handover", run: wire::handover, seeds: wire::handover_seeds, memory_bytes: MIB },
];

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
