//! What the tray and the pages show, as pure functions of the daemon's messages and of a clock that is passed in.
//!
//! [`Model`] takes [`Event`](holdall_api::Event)s and gives an [`Overview`]: one line, a card for each drive, the tray's menu. Rates and
//! remaining times come from samples ([`rates`]), and appear only where they can be trusted. Texts come ready to show from one catalogue
//! ([`texts`]), with the numbers beside them. [`notices`] decides what is worth interrupting a person for.

pub mod advice;
mod card;
mod folder;
mod model;
pub mod notices;
mod overview;
pub mod rates;
pub mod texts;
mod tray;
mod words;

pub use card::{Action, Card, Chip, Done, Tone};
pub use model::{Model, Most, Now};
pub use overview::Overview;
pub use tray::{Entry, Leaving, TrayMenu};
