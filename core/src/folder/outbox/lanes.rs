//! How many actions to have under way at a time. Pure.
//!
//! Small files cost round trips and hardly any bandwidth, so several go at once. A server that asks for patience gets half as many from then
//! on, and then one more at a time while all goes well. Large files share the link: more than two of them would only make each take longer.

/// Actions at the beginning.
const FIRST: usize = 4;
/// More at once are no faster at a round trip of 100 ms, and servers limit connections.
const MOST: usize = 12;
/// Actions that must succeed before one more is tried beside them.
const WELL_UNTIL_MORE: u32 = 4;
/// Large uploads at a time.
const LARGE_MOST: usize = 2;
/// Uploads of more bytes are large.
pub const LARGE_BYTES: u64 = 8 << 20;

/// The measure.
#[derive(Debug)]
pub struct Lanes {
    most: usize,
    went_well: u32,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { most: FIRST, went_well: 0 }
    }
}

impl Lanes {
    /// How many actions may be under way.
    pub fn at_once(&self) -> usize {
        self.most
    }

    /// How many of them may be large uploads.
    pub fn large_at_once(&self) -> usize {
        LARGE_MOST.min(self.most)
    }

    /// The server has asked for patience while `lanes` actions were under way: half as many may be from now on, however many of them were
    /// refused.
    pub fn refused(&mut self, lanes: usize) {
        self.most = self.most.min((lanes / 2).max(1));
        self.went_well = 0;
    }

    /// An action has succeeded.
    pub fn went_well(&mut self) {
        self.went_well += 1;
        if self.went_well >= WELL_UNTIL_MORE {
            (self.most, self.went_well) = ((self.most + 1).min(MOST), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_halve_for_a_busy_server_and_grow_back_slowly() {
        let mut lanes = Lanes::default();
        (0..100).for_each(|_| lanes.went_well());
        assert_eq!(lanes.at_once(), MOST);
        // The server refuses all that were under way.
        (0..MOST).for_each(|_| lanes.refused(MOST));
        assert_eq!(lanes.at_once(), MOST / 2);
        (0..WELL_UNTIL_MORE).for_each(|_| lanes.went_well());
        assert_eq!(lanes.at_once(), MOST / 2 + 1);
        (0..10).for_each(|_| lanes.refused(lanes.at_once()));
        assert_eq!((lanes.at_once(), lanes.large_at_once()), (1, 1), "one continues");
    }
}
