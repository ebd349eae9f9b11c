//! The rows: the measurements, what they are compared with, and their bars.

use super::record::{Row, median};

/// The bar of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// At least this fraction of the peer's.
    OfPeer(f64),
    /// At most this.
    AtMost(f64),
    /// No bar: the peer's figure is shown for comparison.
    Shown,
}

/// The other side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Peer {
    /// There is none.
    None,
    /// Holdall itself under other conditions, or the best that is possible.
    Baseline(&'static str),
    /// Another program or file system.
    Other(&'static str),
}

impl Peer {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Peer::None => "",
            Peer::Baseline(name) | Peer::Other(name) => name,
        }
    }
}

/// The quantity of a figure: it decides which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// More is better.
    Rate,
    /// Less is better.
    Time,
    /// An amount of these things: less is better.
    Amount(&'static str),
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// As it is printed.
    pub name: &'static str,
    /// Its quantity.
    pub kind: Kind,
}

/// The measurement that the rows of a table have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topic {
    /// For headings.
    pub title: &'static str,
    /// For the summary.
    pub brief: &'static str,
}

/// One table of the report.
#[derive(Debug, PartialEq)]
pub struct Section {
    /// The measurement that its rows have in common.
    pub topic: Topic,
    /// The other side.
    pub peer: Peer,
    /// The conditions, if the topic does not say them.
    pub note: &'static str,
}

impl Section {
    /// Its heading.
    pub fn title(&self) -> String {
        match self.peer {
            Peer::None => self.topic.title.to_owned(),
            peer => format!("{}, compared with {}", self.topic.title, peer.name()),
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name in the raw figures.
    pub key: &'static str,
    /// The table that it is in.
    pub section: &'static Section,
    /// The measurement.
    pub what: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its bar.
    pub bar: Bar,
}

impl Spec {
    /// The figure relative to its bar: from 1 on the bar is reached, and never if the peer was not measured. `None` if
    /// there is no bar.
    pub fn margin(&self, row: &Row) -> Option<f64> {
        match self.bar {
            Bar::OfPeer(bar) => Some(row.ratio().unwrap_or(0.0) / bar),
            Bar::AtMost(bar) => Some(bar / median(&row.ours)),
            Bar::Shown => None,
        }
    }
}

const IOPS: Unit = Unit { name: "IOPS", kind: Kind::Rate };
const MIB_S: Unit = Unit { name: "MiB/s", kind: Kind::Rate };
const MBIT_S: Unit = Unit { name: "Mbit/s", kind: Kind::Rate };
const NAMES_S: Unit = Unit { name: "names/s", kind: Kind::Rate };
const FILES: Unit = Unit { name: "files", kind: Kind::Rate };
const PERCENT: Unit = Unit { name: "%", kind: Kind::Rate };
const SECONDS: Unit = Unit { name: "s", kind: Kind::Time };
const MS: Unit = Unit { name: "ms", kind: Kind::Time };
const MIB: Unit = Unit { name: "MiB", kind: Kind::Amount("MiB") };
const BYTES: Unit = Unit { name: "", kind: Kind::Amount("bytes") };
const PUTS: Unit = Unit { name: "", kind: Kind::Amount("PUT requests") };

const WRITING: Topic = Topic { title: "Writes on a mounted drive", brief: "writes" };
const UPLOAD_COST: Topic =
    Topic { title: "Upload cost of random 4 KiB writes on S3", brief: "random 4 KiB writes" };
const SAVING_S3: Topic =
    Topic { title: "Random 4 KiB write + fsync on a mounted S3 drive", brief: "write + fsync on S3" };
const FIRST_BYTE: Topic =
    Topic { title: "First byte of a cold file on S3", brief: "first byte of a cold file" };
const COLD: Topic =
    Topic { title: "Sequential read of a cold file on S3", brief: "sequential read of a cold file" };
const LISTED: Topic = Topic {
    title: "`ls -lR` of 50,000 cold files on S3 (100 Mbit/s, round trip 50 ms)",
    brief: "listing cold files",
};
const PLAYED: Topic = Topic { title: "Playing a cold film on S3", brief: "cold film" };
const QUERIED: Topic = Topic {
    title: "20 point queries in a cold SQLite database of 500 MB on S3",
    brief: "20 cold database queries",
};
const SCATTERED_LESS: &str =
    "The peer writes less data here, because it uploads a whole block or part for each write.";
const WARM_MAP: &str = "Map and metadata are local, and the connection is open.";
const FILM_TIMES: &str =
    "The index is at the end of the film. Times are in addition to those of a local copy.";
const QUERY_RECEIVED: &str =
    "Bytes are all bytes received over the link, for each byte of the pages that the queries touch.";

const NBD: &Section = &Section {
    topic: Topic { title: "Warm reads over NBD", brief: "reads of local data over NBD" },
    peer: Peer::Other("nbdkit's file plugin"),
    note: "",
};
const DEVICE: &Section = &Section {
    topic: Topic { title: "Warm reads of a file on a mounted drive", brief: "reads of local data" },
    peer: Peer::Other("a plain loop device"),
    note: "",
};
const SAVING: &Section = &Section { topic: WRITING, peer: Peer::Other("local ext4"), note: "" };
const SAVING_LOOP: &Section =
    &Section { topic: WRITING, peer: Peer::Other("ext4 on a plain loop device"), note: "" };
const STORE: &Section = &Section {
    topic: Topic {
        title: "Upload cost of random 4 KiB writes, with a directory as the store",
        brief: "random 4 KiB writes",
    },
    peer: Peer::None,
    note: "",
};
const OPENING: &Section = &Section {
    topic: Topic { title: "A drive of 1 TiB", brief: "a drive of 1 TiB" },
    peer: Peer::None,
    note: "",
};
const STORE_S3: &Section = &Section {
    topic: UPLOAD_COST,
    peer: Peer::None,
    note: "Counted by a proxy in front of the server. POST requests count as PUT requests.",
};
const STORE_S3BACKER: &Section =
    &Section { topic: UPLOAD_COST, peer: Peer::Other("s3backer"), note: SCATTERED_LESS };
const STORE_S3FS: &Section = &Section { topic: UPLOAD_COST, peer: Peer::Other("s3fs"), note: SCATTERED_LESS };
const LINK_SAVING: &Section =
    &Section { topic: SAVING_S3, peer: Peer::Baseline("a link without delay"), note: "" };
const SAVE_S3BACKER: &Section = &Section {
    topic: SAVING_S3,
    peer: Peer::Other("s3backer"),
    note: "s3backer's fsync waits neither for the store nor for a disk.",
};
const SAVE_S3FS: &Section =
    &Section { topic: SAVING_S3, peer: Peer::Other("s3fs"), note: "s3fs uploads the file at each fsync." };
const LINK_FIRST: &Section = &Section { topic: FIRST_BYTE, peer: Peer::None, note: WARM_MAP };
const FIRST_S3BACKER: &Section = &Section { topic: FIRST_BYTE, peer: Peer::Other("s3backer"), note: "" };
const FIRST_S3FS: &Section = &Section { topic: FIRST_BYTE, peer: Peer::Other("s3fs"), note: "" };
const LINK_COLD: &Section =
    &Section { topic: COLD, peer: Peer::Baseline("the capacity of the link"), note: "" };
const LINK_S3BACKER: &Section = &Section { topic: COLD, peer: Peer::Other("s3backer"), note: "" };
const LINK_S3FS: &Section = &Section { topic: COLD, peer: Peer::Other("s3fs"), note: "" };
const LISTING: &Section = &Section { topic: LISTED, peer: Peer::None, note: "" };
const LISTING_OFF: &Section =
    &Section { topic: LISTED, peer: Peer::Baseline("a drive that does not fetch metadata first"), note: "" };
const FILM: &Section = &Section { topic: PLAYED, peer: Peer::None, note: FILM_TIMES };
const FILM_RCLONE: &Section = &Section { topic: PLAYED, peer: Peer::Other("rclone mount"), note: FILM_TIMES };
const FILM_S3FS: &Section = &Section { topic: PLAYED, peer: Peer::Other("s3fs"), note: FILM_TIMES };
const QUERY_BYTES: &Section = &Section {
    topic: QUERIED,
    peer: Peer::None,
    note: "Bytes of objects received, for each byte of the pages that the queries touch.",
};
const QUERY_RCLONE: &Section =
    &Section { topic: QUERIED, peer: Peer::Other("rclone mount"), note: QUERY_RECEIVED };
const QUERY_S3FS: &Section = &Section { topic: QUERIED, peer: Peer::Other("s3fs"), note: QUERY_RECEIVED };
const KEPT: &Section = &Section {
    topic: Topic {
        title: "Pinned files while the store is unreachable",
        brief: "pinned files without the store",
    },
    peer: Peer::Baseline("all pinned files"),
    note: "32 files were pinned and all else was evicted. Then one more file was added, and another computer rewrote one.",
};
const AWAY_BESIDE: &Section = &Section {
    topic: Topic { title: "Work while the store is unreachable", brief: "work without the store" },
    peer: Peer::Baseline("the same drive with its store"),
    note: "",
};
const AWAY: &Section = &Section {
    topic: Topic { title: "Losing the store, and getting it back", brief: "losing the store" },
    peer: Peer::None,
    note: "",
};
const SCAN: &Section = &Section {
    topic: Topic { title: "Local reads of a hot set during a scan", brief: "a hot set during a scan" },
    peer: Peer::Baseline("the reads before the scan"),
    note: "A hot set of 48 MiB is read for some seconds in a cache of 256 MiB, while another program reads 1 GiB.",
};

const fn row(section: &'static Section, key: &'static str, what: &'static str, unit: Unit, bar: Bar) -> Spec {
    Spec { key, section, what, unit, bar }
}

/// All rows, in the order of the report.
pub const ROWS: &[Spec] = &[
    row(NBD, "nbd-random-1", "random 4 KiB, one at a time", IOPS, Bar::OfPeer(1.0)),
    row(NBD, "nbd-random-16", "random 4 KiB, 16 at a time", IOPS, Bar::OfPeer(1.0)),
    row(NBD, "nbd-sequential", "sequential 1 MiB, 4 at a time", MIB_S, Bar::OfPeer(1.0)),
    row(NBD, "nbd-copy", "full copy by nbdcopy (4 connections)", MIB_S, Bar::OfPeer(1.0)),
    row(DEVICE, "device-random-1", "random 4 KiB, O_DIRECT, one at a time", IOPS, Bar::OfPeer(0.9)),
    row(DEVICE, "device-random-16", "random 4 KiB, O_DIRECT, 16 at a time", IOPS, Bar::OfPeer(0.9)),
    row(DEVICE, "device-sequential", "sequential 1 MiB, O_DIRECT, 4 at a time", MIB_S, Bar::OfPeer(0.9)),
    row(
        DEVICE,
        "device-buffered",
        "sequential, buffered, page cache empty at the start",
        MIB_S,
        Bar::OfPeer(0.9),
    ),
    row(SAVING, "save", "random 4 KiB write + fsync", IOPS, Bar::OfPeer(0.7)),
    row(SAVING, "save-4", "random 4 KiB write + fsync, 4 threads", IOPS, Bar::OfPeer(0.7)),
    row(SAVING, "bulk", "overwriting a whole file, one fsync at the end", MIB_S, Bar::OfPeer(0.7)),
    row(SAVING_LOOP, "save-loop", "random 4 KiB write + fsync", IOPS, Bar::OfPeer(0.7)),
    row(SAVING_LOOP, "save-4-loop", "random 4 KiB write + fsync, 4 threads", IOPS, Bar::OfPeer(0.7)),
    row(SAVING_LOOP, "bulk-loop", "overwriting a whole file, one fsync at the end", MIB_S, Bar::OfPeer(0.7)),
    row(STORE, "amplification", "bytes sent for each byte written", BYTES, Bar::AtMost(1.3)),
    row(STORE, "puts", "PUT requests for each GiB written", PUTS, Bar::AtMost(160.0)),
    row(
        OPENING,
        "open-again",
        "`drive open` on the computer that had it open before",
        MS,
        Bar::AtMost(1000.0),
    ),
    row(OPENING, "open-first", "`drive open` on a computer that never had it", MS, Bar::AtMost(1000.0)),
    row(OPENING, "memory-open", "resident memory of the daemon after opening", MIB, Bar::AtMost(200.0)),
    row(
        OPENING,
        "memory-uploaded",
        "resident memory after random writes everywhere and their upload",
        MIB,
        Bar::AtMost(200.0),
    ),
    row(OPENING, "memory-used", "resident memory after random reads everywhere", MIB, Bar::AtMost(200.0)),
    row(STORE_S3, "s3-amplification", "bytes sent for each byte written", BYTES, Bar::AtMost(1.3)),
    row(STORE_S3, "s3-puts", "PUT requests for each GiB written", PUTS, Bar::AtMost(160.0)),
    row(STORE_S3BACKER, "s3-amplification-s3backer", "bytes sent for each byte written", BYTES, Bar::Shown),
    row(STORE_S3BACKER, "s3-puts-s3backer", "PUT requests for each GiB written", PUTS, Bar::Shown),
    row(
        STORE_S3FS,
        "s3-amplification-s3fs",
        "bytes sent for each byte written, in one file",
        BYTES,
        Bar::Shown,
    ),
    row(STORE_S3FS, "s3-puts-s3fs", "PUT requests for each GiB written, in one file", PUTS, Bar::Shown),
    row(LINK_SAVING, "save-rtt-20", "round trip 20 ms", IOPS, Bar::OfPeer(0.95)),
    row(LINK_SAVING, "save-rtt-50", "round trip 50 ms", IOPS, Bar::OfPeer(0.95)),
    row(LINK_SAVING, "save-rtt-100", "round trip 100 ms", IOPS, Bar::OfPeer(0.95)),
    row(SAVE_S3BACKER, "save-s3backer", "round trip 50 ms", IOPS, Bar::Shown),
    row(SAVE_S3FS, "save-s3fs", "round trip 50 ms", IOPS, Bar::Shown),
    row(LINK_FIRST, "first-byte-0", "round trip 0 ms", MS, Bar::AtMost(5.0)),
    row(LINK_FIRST, "first-byte-20", "round trip 20 ms", MS, Bar::AtMost(29.0)),
    row(LINK_FIRST, "first-byte-50", "round trip 50 ms", MS, Bar::AtMost(65.0)),
    row(LINK_FIRST, "first-byte-100", "round trip 100 ms", MS, Bar::AtMost(125.0)),
    row(FIRST_S3BACKER, "first-byte-s3backer", "round trip 50 ms", MS, Bar::Shown),
    row(FIRST_S3FS, "first-byte-s3fs", "round trip 50 ms", MS, Bar::Shown),
    row(LINK_COLD, "cold-100-0", "100 Mbit/s, round trip 0 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-100-20", "100 Mbit/s, round trip 20 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-100-50", "100 Mbit/s, round trip 50 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-100-100", "100 Mbit/s, round trip 100 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-0", "1 Gbit/s, round trip 0 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-20", "1 Gbit/s, round trip 20 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-50", "1 Gbit/s, round trip 50 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-100", "1 Gbit/s, round trip 100 ms", MBIT_S, Bar::OfPeer(0.9)),
    row(LINK_S3BACKER, "cold-100-0-s3backer", "100 Mbit/s, round trip 0 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-100-20-s3backer", "100 Mbit/s, round trip 20 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-100-50-s3backer", "100 Mbit/s, round trip 50 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-100-100-s3backer", "100 Mbit/s, round trip 100 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-0-s3backer", "1 Gbit/s, round trip 0 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-20-s3backer", "1 Gbit/s, round trip 20 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-50-s3backer", "1 Gbit/s, round trip 50 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-100-s3backer", "1 Gbit/s, round trip 100 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-0-s3fs", "100 Mbit/s, round trip 0 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-20-s3fs", "100 Mbit/s, round trip 20 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-50-s3fs", "100 Mbit/s, round trip 50 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-100-s3fs", "100 Mbit/s, round trip 100 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-0-s3fs", "1 Gbit/s, round trip 0 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-20-s3fs", "1 Gbit/s, round trip 20 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-50-s3fs", "1 Gbit/s, round trip 50 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-100-s3fs", "1 Gbit/s, round trip 100 ms", MBIT_S, Bar::OfPeer(1.0)),
    row(LISTING, "pull-list", "time from the mount to the end", SECONDS, Bar::AtMost(3.0)),
    row(
        LISTING,
        "pull-list-bytes",
        "bytes received by then, for each byte of metadata in use",
        BYTES,
        Bar::AtMost(2.0),
    ),
    row(LISTING_OFF, "pull-list-off", "time from the mount to the end", SECONDS, Bar::Shown),
    row(
        LISTING_OFF,
        "pull-list-opened-off",
        "time from the start of `drive open` to the end",
        SECONDS,
        Bar::Shown,
    ),
    row(
        LISTING_OFF,
        "pull-list-bytes-off",
        "bytes received by then, for each byte of metadata in use",
        BYTES,
        Bar::Shown,
    ),
    row(FILM, "film-first-20", "first frame, round trip 20 ms", MS, Bar::AtMost(240.0)),
    row(FILM, "film-seek-20", "frame after a seek (median of ten), round trip 20 ms", MS, Bar::AtMost(240.0)),
    row(
        FILM,
        "film-worst-20",
        "frame after a seek (slowest of ten), round trip 20 ms",
        MS,
        Bar::AtMost(240.0),
    ),
    row(FILM, "film-first-50", "first frame, round trip 50 ms", MS, Bar::AtMost(300.0)),
    row(FILM, "film-seek-50", "frame after a seek (median of ten), round trip 50 ms", MS, Bar::AtMost(300.0)),
    row(
        FILM,
        "film-worst-50",
        "frame after a seek (slowest of ten), round trip 50 ms",
        MS,
        Bar::AtMost(300.0),
    ),
    row(FILM_RCLONE, "film-first-20-rclone", "first frame, round trip 20 ms", MS, Bar::Shown),
    row(FILM_RCLONE, "film-seek-20-rclone", "frame after a seek, round trip 20 ms", MS, Bar::Shown),
    row(FILM_RCLONE, "film-first-50-rclone", "first frame, round trip 50 ms", MS, Bar::Shown),
    row(FILM_RCLONE, "film-seek-50-rclone", "frame after a seek, round trip 50 ms", MS, Bar::Shown),
    row(FILM_S3FS, "film-first-20-s3fs", "first frame, round trip 20 ms", MS, Bar::Shown),
    row(FILM_S3FS, "film-seek-20-s3fs", "frame after a seek, round trip 20 ms", MS, Bar::Shown),
    row(FILM_S3FS, "film-first-50-s3fs", "first frame, round trip 50 ms", MS, Bar::Shown),
    row(FILM_S3FS, "film-seek-50-s3fs", "frame after a seek, round trip 50 ms", MS, Bar::Shown),
    row(QUERY_BYTES, "query-bytes-free-20", "no bandwidth limit, round trip 20 ms", BYTES, Bar::AtMost(4.0)),
    row(QUERY_BYTES, "query-bytes-free-50", "no bandwidth limit, round trip 50 ms", BYTES, Bar::AtMost(4.0)),
    row(QUERY_BYTES, "query-bytes-100-20", "100 Mbit/s, round trip 20 ms", BYTES, Bar::AtMost(4.0)),
    row(QUERY_BYTES, "query-bytes-100-50", "100 Mbit/s, round trip 50 ms", BYTES, Bar::AtMost(4.0)),
    row(
        QUERY_RCLONE,
        "query-free-20-rclone",
        "time, no bandwidth limit, round trip 20 ms",
        SECONDS,
        Bar::Shown,
    ),
    row(
        QUERY_RCLONE,
        "query-free-50-rclone",
        "time, no bandwidth limit, round trip 50 ms",
        SECONDS,
        Bar::Shown,
    ),
    row(QUERY_RCLONE, "query-100-20-rclone", "time, 100 Mbit/s, round trip 20 ms", SECONDS, Bar::Shown),
    row(QUERY_RCLONE, "query-100-50-rclone", "time, 100 Mbit/s, round trip 50 ms", SECONDS, Bar::Shown),
    row(
        QUERY_RCLONE,
        "query-bytes-free-20-rclone",
        "bytes, no bandwidth limit, round trip 20 ms",
        BYTES,
        Bar::Shown,
    ),
    row(
        QUERY_RCLONE,
        "query-bytes-free-50-rclone",
        "bytes, no bandwidth limit, round trip 50 ms",
        BYTES,
        Bar::Shown,
    ),
    row(QUERY_RCLONE, "query-bytes-100-20-rclone", "bytes, 100 Mbit/s, round trip 20 ms", BYTES, Bar::Shown),
    row(QUERY_RCLONE, "query-bytes-100-50-rclone", "bytes, 100 Mbit/s, round trip 50 ms", BYTES, Bar::Shown),
    row(QUERY_S3FS, "query-free-20-s3fs", "time, no bandwidth limit, round trip 20 ms", SECONDS, Bar::Shown),
    row(QUERY_S3FS, "query-free-50-s3fs", "time, no bandwidth limit, round trip 50 ms", SECONDS, Bar::Shown),
    row(QUERY_S3FS, "query-100-20-s3fs", "time, 100 Mbit/s, round trip 20 ms", SECONDS, Bar::Shown),
    row(QUERY_S3FS, "query-100-50-s3fs", "time, 100 Mbit/s, round trip 50 ms", SECONDS, Bar::Shown),
    row(
        QUERY_S3FS,
        "query-bytes-free-20-s3fs",
        "bytes, no bandwidth limit, round trip 20 ms",
        BYTES,
        Bar::Shown,
    ),
    row(
        QUERY_S3FS,
        "query-bytes-free-50-s3fs",
        "bytes, no bandwidth limit, round trip 50 ms",
        BYTES,
        Bar::Shown,
    ),
    row(QUERY_S3FS, "query-bytes-100-20-s3fs", "bytes, 100 Mbit/s, round trip 20 ms", BYTES, Bar::Shown),
    row(QUERY_S3FS, "query-bytes-100-50-s3fs", "bytes, 100 Mbit/s, round trip 50 ms", BYTES, Bar::Shown),
    row(KEPT, "offline-pinned-20", "files that read whole, round trip 20 ms", FILES, Bar::OfPeer(1.0)),
    row(KEPT, "offline-pinned-50", "files that read whole, round trip 50 ms", FILES, Bar::OfPeer(1.0)),
    row(
        AWAY_BESIDE,
        "offline-find-20",
        "`find -ls` of 50,000 files, round trip 20 ms",
        NAMES_S,
        Bar::OfPeer(0.9),
    ),
    row(
        AWAY_BESIDE,
        "offline-save-20",
        "random 4 KiB write + fsync, round trip 20 ms",
        IOPS,
        Bar::OfPeer(0.95),
    ),
    row(
        AWAY_BESIDE,
        "offline-find-50",
        "`find -ls` of 50,000 files, round trip 50 ms",
        NAMES_S,
        Bar::OfPeer(0.9),
    ),
    row(
        AWAY_BESIDE,
        "offline-save-50",
        "random 4 KiB write + fsync, round trip 50 ms",
        IOPS,
        Bar::OfPeer(0.95),
    ),
    row(
        AWAY,
        "offline-error-20",
        "time until a read of data that is not here fails, round trip 20 ms",
        SECONDS,
        Bar::AtMost(65.0),
    ),
    row(
        AWAY,
        "offline-pushed-20",
        "time until pending writes are uploaded, round trip 20 ms",
        SECONDS,
        Bar::AtMost(60.0),
    ),
    row(
        AWAY,
        "offline-error-50",
        "time until a read of data that is not here fails, round trip 50 ms",
        SECONDS,
        Bar::AtMost(65.0),
    ),
    row(
        AWAY,
        "offline-pushed-50",
        "time until pending writes are uploaded, round trip 50 ms",
        SECONDS,
        Bar::AtMost(60.0),
    ),
    row(SCAN, "scan-hits-20", "round trip 20 ms", PERCENT, Bar::OfPeer(0.9)),
    row(SCAN, "scan-hits-50", "round trip 50 ms", PERCENT, Bar::OfPeer(0.9)),
];
