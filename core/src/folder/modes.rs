//! Which way the kernel gets at the bytes of an open file. Pure.
//!
//! The kernel allows one way for each inode at a time: while somebody has it open by passthrough, only opens of the same local file by
//! passthrough succeed; while it is served, an open by passthrough fails. So the first open decides for all that come while it lasts.

/// The opens of one inode, by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    passed: u32,
    served: u32,
}

/// How one open gets at the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The kernel reads and writes the local file by itself.
    Passed,
    /// It asks the daemon.
    Served,
}

impl Modes {
    /// Adds an open. `can_pass` says that all bytes are in a local file that the kernel can have.
    pub fn open(&mut self, can_pass: bool) -> Mode {
        let mode = match (self.passed, self.served) {
            (0, 0) if can_pass => Mode::Passed,
            (0, _) => Mode::Served,
            (_, _) => Mode::Passed,
        };
        *self.count(mode) += 1;
        mode
    }

    /// Adds an open that outlived the last daemon.
    pub fn restore(&mut self, mode: Mode) {
        *self.count(mode) += 1;
    }

    /// Ends an open.
    pub fn close(&mut self, mode: Mode) {
        let count = self.count(mode);
        *count = count.checked_sub(1).expect("each open is closed once");
    }

    /// The kernel did not take the local file: the open is served, if it is the only one by passthrough.
    pub fn serve_instead(&mut self) -> bool {
        let is_alone = *self == Modes { passed: 1, served: 0 };
        if is_alone {
            *self = Modes { passed: 0, served: 1 };
        }
        is_alone
    }

    /// Whether nobody has it open.
    pub fn is_closed(&self) -> bool {
        *self == Modes::default()
    }

    /// How many opens pass through, and how many are served.
    pub fn counts(&self) -> (u32, u32) {
        (self.passed, self.served)
    }

    fn count(&mut self, mode: Mode) -> &mut u32 {
        match mode {
            Mode::Passed => &mut self.passed,
            Mode::Served => &mut self.served,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_open_decides_until_the_last_close() {
        let mut modes = Modes::default();
        assert_eq!(modes.open(true), Mode::Passed);
        // The local file may not be whole any more for others: they still get the same one.
        assert_eq!(modes.open(false), Mode::Passed);
        modes.close(Mode::Passed);
        modes.close(Mode::Passed);
        assert!(modes.is_closed());
        assert_eq!(modes.open(false), Mode::Served);
        assert_eq!(modes.open(true), Mode::Served);
        modes.close(Mode::Served);
        assert_eq!(modes.open(true), Mode::Served);
        modes.close(Mode::Served);
        modes.close(Mode::Served);
        assert_eq!(modes.open(true), Mode::Passed);
    }

    #[test]
    fn an_open_is_served_instead_only_where_no_other_passes_through() {
        let mut modes = Modes::default();
        modes.open(true);
        modes.open(true);
        assert!(!modes.serve_instead());
        modes.close(Mode::Passed);
        assert!(modes.serve_instead());
        assert_eq!(modes.counts(), (0, 1));
        assert_eq!(modes.open(true), Mode::Served);
    }
}
