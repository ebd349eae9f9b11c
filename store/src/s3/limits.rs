//! How long a request may take.

use std::time::Duration;

/// The most memory that a body may cost. No object that Holdall stores comes near.
pub(super) const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// How much of a fully handed-over body the kernel may still hold back for the network: its usual limit.
const SEND_BUFFER_BYTES: u64 = 4 << 20;
/// The longest wait that a server may ask for.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Time-outs. Slow is not dead: a body that moves may take time in proportion to its length.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For making a TCP connection.
    pub connect: Duration,
    /// How long no byte at all may move.
    pub silence: Duration,
    /// For a request without its body.
    pub request: Duration,
    /// Bytes per second below which a body counts as a drip and is ended.
    pub slowest_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(20),
            request: Duration::from_secs(60),
            // A phone's slowest connection, 128 kbit/s.
            slowest_bytes: 16 << 10,
        }
    }
}

impl Limits {
    /// For a request with a body of `bytes` bytes, in either direction.
    pub(super) fn whole(&self, bytes: u64) -> Duration {
        self.request + self.at_slowest(bytes)
    }

    /// For the answer, after the kernel has got a body of `bytes` bytes and may not have sent all of it.
    pub(super) fn answer(&self, bytes: u64) -> Duration {
        self.silence + self.at_slowest(bytes.min(SEND_BUFFER_BYTES))
    }

    fn at_slowest(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.slowest_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_with_the_body() {
        let limits = Limits::default();
        assert_eq!(limits.whole(0), Duration::from_secs(60));
        assert_eq!(limits.whole(8 << 20), Duration::from_secs(60 + 512));
        assert_eq!(limits.answer(1 << 20), Duration::from_secs(20 + 64));
        assert_eq!(limits.answer(1 << 30), limits.answer(4 << 20));
    }
}
