//! The connections that were given together to one client, the kernel.

use super::control::Control;
use super::stop_all;
use std::sync::Arc;
use std::time::Duration;

/// The served ends of one attachment. Dropping it closes them at once.
#[derive(Default)]
pub struct Session {
    connections: Vec<Arc<Control>>,
}

impl Session {
    pub(super) fn add(&mut self, connection: Arc<Control>) {
        self.connections.push(connection);
    }

    /// Waits until every connection has ended by itself, as they do when the kernel detaches the device. Blocks.
    pub fn wait(&self) {
        self.connections.iter().for_each(|connection| connection.wait());
    }

    /// Whether every connection has ended.
    pub fn is_over(&self) -> bool {
        self.connections.iter().all(|connection| connection.is_finished())
    }

    /// The number of connections whose other end is still open. After `holdall_kernel::nbd::Nbd::reconfigure`, when the caller has closed
    /// its copies of the kernel's ends, these are the ones that the kernel has taken.
    pub fn live(&self) -> usize {
        self.connections
            .iter()
            .filter(|connection| !connection.is_finished() && !connection.is_hung_up())
            .count()
    }

    /// Whether a connection ended because its thread panicked: a bug in the device or here.
    pub fn panicked(&self) -> bool {
        self.connections.iter().any(|connection| connection.has_panicked())
    }

    /// Reads no more requests, lets those in flight end and be answered for at most `grace`, then closes. When it returns, no write of this
    /// session is in flight any longer: a new session may serve. Blocks.
    pub fn close(self, grace: Duration) {
        stop_all(&self.connections, grace);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connections.iter().for_each(|connection| connection.abandon());
    }
}
