//! The rows: what is measured, and what it must reach.

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// At least so much of the peer's.
    OfPeer(f64),
    /// At most so much.
    AtMost(f64),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name in the raw figures.
    pub key: &'static str,
    /// The heading that it stands under.
    pub section: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it must reach.
    pub bar: Bar,
}

const NBD: &str = "Warm reads over NBD, beside nbdkit's file plugin";
const DEVICE: &str = "Warm reads of a file on a mounted drive, beside a plain loop device";
const SAVING: &str = "Writing and fsync on a mounted drive, beside the local ext4";
const STORE: &str = "Random 4 KiB writes, in the store";
const OPENING: &str = "A drive of 1 TiB";

const fn row(
    section: &'static str,
    key: &'static str,
    what: &'static str,
    unit: &'static str,
    bar: Bar,
) -> Spec {
    Spec { key, section, what, unit, bar }
}

/// All rows, in the order of the report.
pub const ROWS: &[Spec] = &[
    row(NBD, "nbd-random-1", "random 4 KiB, one at a time", "IOPS", Bar::OfPeer(1.0)),
    row(NBD, "nbd-random-16", "random 4 KiB, 16 at a time", "IOPS", Bar::OfPeer(1.0)),
    row(NBD, "nbd-sequential", "sequential 1 MiB, 4 at a time", "MiB/s", Bar::OfPeer(1.0)),
    row(NBD, "nbd-copy", "the whole by nbdcopy (4 connections)", "MiB/s", Bar::OfPeer(1.0)),
    row(DEVICE, "device-random-1", "random 4 KiB, O_DIRECT, one at a time", "IOPS", Bar::OfPeer(0.9)),
    row(DEVICE, "device-random-16", "random 4 KiB, O_DIRECT, 16 at a time", "IOPS", Bar::OfPeer(0.9)),
    row(DEVICE, "device-sequential", "sequential 1 MiB, O_DIRECT, 4 at a time", "MiB/s", Bar::OfPeer(0.9)),
    row(DEVICE, "device-buffered", "sequential, through an empty page cache", "MiB/s", Bar::OfPeer(0.9)),
    row(SAVING, "save", "random 4 KiB write + fsync", "IOPS", Bar::OfPeer(0.7)),
    row(SAVING, "save-loop", "the same, beside ext4 on a plain loop device", "IOPS", Bar::OfPeer(0.7)),
    row(SAVING, "save-4", "by 4 threads at once", "IOPS", Bar::OfPeer(0.7)),
    row(SAVING, "save-4-loop", "the same, beside ext4 on a plain loop device", "IOPS", Bar::OfPeer(0.7)),
    row(SAVING, "bulk", "overwriting a whole file, one fsync at the end", "MiB/s", Bar::OfPeer(0.7)),
    row(SAVING, "bulk-loop", "the same, beside ext4 on a plain loop device", "MiB/s", Bar::OfPeer(0.7)),
    row(STORE, "amplification", "bytes sent for each byte dirtied", "", Bar::AtMost(1.3)),
    row(STORE, "puts", "PUT requests for each GiB dirtied", "", Bar::AtMost(160.0)),
    row(OPENING, "open-again", "`drive open` where it was open before", "ms", Bar::AtMost(1000.0)),
    row(OPENING, "open-first", "`drive open` on a computer that never had it", "ms", Bar::AtMost(1000.0)),
    row(OPENING, "memory-open", "resident memory of the daemon, just opened", "MiB", Bar::AtMost(200.0)),
    row(
        OPENING,
        "memory-uploaded",
        "the same after random writes all over it, uploaded",
        "MiB",
        Bar::AtMost(200.0),
    ),
    row(OPENING, "memory-used", "the same after random reads all over it", "MiB", Bar::AtMost(200.0)),
];
