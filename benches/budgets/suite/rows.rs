//! The rows: the measurements and their bars.

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

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name in the raw figures.
    pub key: &'static str,
    /// The heading that it stands under.
    pub section: &'static str,
    /// The measurement.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its bar.
    pub bar: Bar,
}

const NBD: &str = "Warm reads over NBD, beside nbdkit's file plugin";
const DEVICE: &str = "Warm reads of a file on a mounted drive, beside a plain loop device";
const SAVING: &str = "Writing and fsync on a mounted drive, beside the local ext4";
const STORE: &str = "Random 4 KiB writes, in the store";
const OPENING: &str = "A drive of 1 TiB";
const STORE_S3: &str = "Random 4 KiB writes, on S3 (PUTs and POSTs, as they pass a proxy)";
const STORE_S3_PEERS: &str = "The same beside s3backer and s3fs, which write less of it (less is better)";
const LINK_SAVING: &str =
    "Random 4 KiB write + fsync on a mounted S3 drive, beside the same without any delay";
const LINK_FIRST: &str = "First byte of a cold file on S3 (map and metadata local, connection warm)";
const LINK_COLD: &str = "Cold sequential read of a file on S3, beside what the link carries";
const LINK_S3BACKER: &str = "Cold sequential read of a file on S3, beside s3backer";
const LINK_S3FS: &str = "Cold sequential read of a file on S3, beside s3fs";
const LINK_50: &str = "Behind 50 ms, beside s3backer and s3fs";
const LISTING: &str = "`ls -lR` of 50,000 cold files on S3, 100 Mbit/s, 50 ms";
const LISTING_OFF: &str = "The same beside a drive whose metadata does not come first (less is better)";
const FILM: &str = "A cold film on S3, its index at its end: time beyond a local file's";
const FILM_PEERS: &str = "The same beside rclone mount and s3fs (less is better)";
const QUERY_BYTES: &str = "20 point queries in a cold SQLite database of 500 MB on S3: bytes of objects for each byte of the pages touched";
const QUERY_PEERS: &str =
    "The same beside rclone mount and s3fs: time, and bytes over the link (less is better)";
const AWAY: &str = "A drive on S3 without its store, and once it is back";
const KEPT: &str = "Without its store, 32 pinned files: all else was evicted, then one more added, and one rewritten by another computer (beside all there are)";
const AWAY_BESIDE: &str = "Without its store, beside the same drive with it";
const SCAN: &str = "A hot set of 48 MiB, read over some seconds, in a cache of 256 MiB while 1 GiB is read beside it: local reads of 100, beside before";
const SAVED_BACKER: &str =
    "random 4 KiB write + fsync, beside s3backer, whose fsync does not wait for the store or a disk";

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
    row(STORE_S3, "s3-amplification", "bytes sent for each byte dirtied", "", Bar::AtMost(1.3)),
    row(STORE_S3, "s3-puts", "PUT requests for each GiB dirtied", "", Bar::AtMost(160.0)),
    row(STORE_S3_PEERS, "s3-amplification-s3backer", "bytes sent for each byte, s3backer", "", Bar::Shown),
    row(STORE_S3_PEERS, "s3-amplification-s3fs", "bytes sent for each byte, s3fs (one file)", "", Bar::Shown),
    row(STORE_S3_PEERS, "s3-puts-s3backer", "PUT requests for each GiB, s3backer", "", Bar::Shown),
    row(STORE_S3_PEERS, "s3-puts-s3fs", "PUT requests for each GiB, s3fs (one file)", "", Bar::Shown),
    row(LINK_SAVING, "save-rtt-20", "at 20 ms", "IOPS", Bar::OfPeer(0.95)),
    row(LINK_SAVING, "save-rtt-50", "at 50 ms", "IOPS", Bar::OfPeer(0.95)),
    row(LINK_SAVING, "save-rtt-100", "at 100 ms", "IOPS", Bar::OfPeer(0.95)),
    row(LINK_FIRST, "first-byte-0", "at 0 ms", "ms", Bar::AtMost(5.0)),
    row(LINK_FIRST, "first-byte-20", "at 20 ms", "ms", Bar::AtMost(29.0)),
    row(LINK_FIRST, "first-byte-50", "at 50 ms", "ms", Bar::AtMost(65.0)),
    row(LINK_FIRST, "first-byte-100", "at 100 ms", "ms", Bar::AtMost(125.0)),
    row(LINK_COLD, "cold-100-0", "100 Mbit/s, 0 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-100-20", "100 Mbit/s, 20 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-100-50", "100 Mbit/s, 50 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-100-100", "100 Mbit/s, 100 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-0", "1 Gbit/s, 0 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-20", "1 Gbit/s, 20 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-50", "1 Gbit/s, 50 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_COLD, "cold-1000-100", "1 Gbit/s, 100 ms", "Mbit/s", Bar::OfPeer(0.9)),
    row(LINK_S3BACKER, "cold-100-0-s3backer", "100 Mbit/s, 0 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-100-20-s3backer", "100 Mbit/s, 20 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-100-50-s3backer", "100 Mbit/s, 50 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-100-100-s3backer", "100 Mbit/s, 100 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-0-s3backer", "1 Gbit/s, 0 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-20-s3backer", "1 Gbit/s, 20 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-50-s3backer", "1 Gbit/s, 50 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3BACKER, "cold-1000-100-s3backer", "1 Gbit/s, 100 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-0-s3fs", "100 Mbit/s, 0 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-20-s3fs", "100 Mbit/s, 20 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-50-s3fs", "100 Mbit/s, 50 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-100-100-s3fs", "100 Mbit/s, 100 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-0-s3fs", "1 Gbit/s, 0 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-20-s3fs", "1 Gbit/s, 20 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-50-s3fs", "1 Gbit/s, 50 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_S3FS, "cold-1000-100-s3fs", "1 Gbit/s, 100 ms", "Mbit/s", Bar::OfPeer(1.0)),
    row(LINK_50, "first-byte-s3backer", "first byte, beside s3backer (less is better)", "ms", Bar::Shown),
    row(LINK_50, "first-byte-s3fs", "first byte, beside s3fs (less is better)", "ms", Bar::Shown),
    row(LINK_50, "save-s3backer", SAVED_BACKER, "IOPS", Bar::Shown),
    row(LINK_50, "save-s3fs", "the same, beside s3fs, which stores the file at each", "IOPS", Bar::Shown),
    row(LISTING, "pull-list", "from the mount to the end", "s", Bar::AtMost(3.0)),
    row(
        LISTING,
        "pull-list-bytes",
        "bytes received by then, for each byte of metadata in use",
        "",
        Bar::AtMost(2.0),
    ),
    row(LISTING_OFF, "pull-list-off", "from the mount to the end", "s", Bar::Shown),
    row(
        LISTING_OFF,
        "pull-list-opened-off",
        "from the command that opens the drive to the end",
        "s",
        Bar::Shown,
    ),
    row(
        LISTING_OFF,
        "pull-list-bytes-off",
        "bytes received by then, for each byte of metadata in use",
        "",
        Bar::Shown,
    ),
    row(FILM, "film-first-20", "first frame, 20 ms", "ms", Bar::AtMost(240.0)),
    row(FILM, "film-seek-20", "a frame after a seek, 20 ms", "ms", Bar::AtMost(240.0)),
    row(FILM, "film-worst-20", "the slowest of the ten, 20 ms", "ms", Bar::AtMost(240.0)),
    row(FILM, "film-first-50", "first frame, 50 ms", "ms", Bar::AtMost(300.0)),
    row(FILM, "film-seek-50", "a frame after a seek, 50 ms", "ms", Bar::AtMost(300.0)),
    row(FILM, "film-worst-50", "the slowest of the ten, 50 ms", "ms", Bar::AtMost(300.0)),
    row(FILM_PEERS, "film-first-20-rclone", "first frame, 20 ms, rclone mount", "ms", Bar::Shown),
    row(FILM_PEERS, "film-seek-20-rclone", "a frame after a seek, 20 ms, rclone mount", "ms", Bar::Shown),
    row(FILM_PEERS, "film-first-50-rclone", "first frame, 50 ms, rclone mount", "ms", Bar::Shown),
    row(FILM_PEERS, "film-seek-50-rclone", "a frame after a seek, 50 ms, rclone mount", "ms", Bar::Shown),
    row(FILM_PEERS, "film-first-20-s3fs", "first frame, 20 ms, s3fs", "ms", Bar::Shown),
    row(FILM_PEERS, "film-seek-20-s3fs", "a frame after a seek, 20 ms, s3fs", "ms", Bar::Shown),
    row(FILM_PEERS, "film-first-50-s3fs", "first frame, 50 ms, s3fs", "ms", Bar::Shown),
    row(FILM_PEERS, "film-seek-50-s3fs", "a frame after a seek, 50 ms, s3fs", "ms", Bar::Shown),
    row(QUERY_BYTES, "query-bytes-free-20", "no limit, 20 ms", "", Bar::AtMost(4.0)),
    row(QUERY_BYTES, "query-bytes-free-50", "no limit, 50 ms", "", Bar::AtMost(4.0)),
    row(QUERY_BYTES, "query-bytes-100-20", "100 Mbit/s, 20 ms", "", Bar::AtMost(4.0)),
    row(QUERY_BYTES, "query-bytes-100-50", "100 Mbit/s, 50 ms", "", Bar::AtMost(4.0)),
    row(QUERY_PEERS, "query-free-20-rclone", "seconds, no limit, 20 ms, rclone mount", "s", Bar::Shown),
    row(QUERY_PEERS, "query-free-50-rclone", "seconds, no limit, 50 ms, rclone mount", "s", Bar::Shown),
    row(QUERY_PEERS, "query-100-20-rclone", "seconds, 100 Mbit/s, 20 ms, rclone mount", "s", Bar::Shown),
    row(QUERY_PEERS, "query-100-50-rclone", "seconds, 100 Mbit/s, 50 ms, rclone mount", "s", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-free-20-rclone", "bytes, no limit, 20 ms, rclone mount", "", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-free-50-rclone", "bytes, no limit, 50 ms, rclone mount", "", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-100-20-rclone", "bytes, 100 Mbit/s, 20 ms, rclone mount", "", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-100-50-rclone", "bytes, 100 Mbit/s, 50 ms, rclone mount", "", Bar::Shown),
    row(QUERY_PEERS, "query-free-20-s3fs", "seconds, no limit, 20 ms, s3fs", "s", Bar::Shown),
    row(QUERY_PEERS, "query-free-50-s3fs", "seconds, no limit, 50 ms, s3fs", "s", Bar::Shown),
    row(QUERY_PEERS, "query-100-20-s3fs", "seconds, 100 Mbit/s, 20 ms, s3fs", "s", Bar::Shown),
    row(QUERY_PEERS, "query-100-50-s3fs", "seconds, 100 Mbit/s, 50 ms, s3fs", "s", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-free-20-s3fs", "bytes, no limit, 20 ms, s3fs", "", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-free-50-s3fs", "bytes, no limit, 50 ms, s3fs", "", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-100-20-s3fs", "bytes, 100 Mbit/s, 20 ms, s3fs", "", Bar::Shown),
    row(QUERY_PEERS, "query-bytes-100-50-s3fs", "bytes, 100 Mbit/s, 50 ms, s3fs", "", Bar::Shown),
    row(KEPT, "offline-pinned-20", "files that read whole, 20 ms", "files", Bar::OfPeer(1.0)),
    row(KEPT, "offline-pinned-50", "files that read whole, 50 ms", "files", Bar::OfPeer(1.0)),
    row(AWAY_BESIDE, "offline-find-20", "`find -ls` of 50,000 files, 20 ms", "names/s", Bar::OfPeer(0.9)),
    row(AWAY_BESIDE, "offline-save-20", "random 4 KiB write + fsync, 20 ms", "IOPS", Bar::OfPeer(0.95)),
    row(AWAY_BESIDE, "offline-find-50", "`find -ls` of 50,000 files, 50 ms", "names/s", Bar::OfPeer(0.9)),
    row(AWAY_BESIDE, "offline-save-50", "random 4 KiB write + fsync, 50 ms", "IOPS", Bar::OfPeer(0.95)),
    row(AWAY, "offline-error-20", "until who reads what is not here is told, 20 ms", "s", Bar::AtMost(65.0)),
    row(AWAY, "offline-pushed-20", "until all that was written is sent, 20 ms", "s", Bar::AtMost(60.0)),
    row(AWAY, "offline-error-50", "until who reads what is not here is told, 50 ms", "s", Bar::AtMost(65.0)),
    row(AWAY, "offline-pushed-50", "until all that was written is sent, 50 ms", "s", Bar::AtMost(60.0)),
    row(SCAN, "scan-hits-20", "at 20 ms", "", Bar::OfPeer(0.9)),
    row(SCAN, "scan-hits-50", "at 50 ms", "", Bar::OfPeer(0.9)),
];
