//! Tests against real file systems, made by mke2fs and described by dumpe2fs and debugfs.

mod followed;
mod hostile;
pub(super) mod image;
mod layouts;
mod truth;
