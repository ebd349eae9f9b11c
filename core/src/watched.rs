//! Watched directories: an ordinary local directory that is kept in a remote, one way or both ways.
//!
//! A round compares three things: what the directory holds now (`tree`), what the remote holds now (`listing`), and what both held when they
//! were last alike (`table`). The plan is computed from the three (`plan`, pure), and performed one action at a time (`engine`, `act`).
//! Inotify is only a hint that a round is worth it: nothing is concluded from an event.
//!
//! **Why a crash loses nothing.** The table always lags: an action first takes effect, at the remote or durably in the directory, and only
//! then becomes a row. So after a crash both sides may be ahead of the table, and look as if both had been changed. Before that counts as a
//! conflict, the bytes are compared, and equal bytes are adopted. A lagging table never deletes: a deletion needs a row whose other side is
//! still exactly as the row says. If the table is lost, everything counts as new on both sides: equal files are adopted, and of different
//! ones both are kept.
//!
//! Each action carries the state that it was planned for, and is refused if that is no longer so: conditional requests at the remote; leases
//! and exchanges in the directory (`local`).

mod act;
mod action;
mod decide;
mod engine;
mod listing;
pub mod local;
mod places;
mod plan;
mod row;
mod run;
mod show;
mod table;
pub mod tree;

pub use engine::{Environment, Problem, Settled, Status, Watched};
pub use places::leads_out;
pub use row::{Conflict, Digest, Held, Print, Row, Side};
pub use table::TableError;

/// The file that marks the root of a watched directory. It stays on this computer.
pub const MARKER: &str = ".holdall-folder";
/// Patterns of names that are not synchronized, in gitignore's syntax.
pub const IGNORE: &str = ".holdallignore";
/// Names that begin so are downloads under way, and old versions that are being replaced. They are never uploaded.
pub const TEMPORARY_PREFIX: &str = ".holdall-download-";
