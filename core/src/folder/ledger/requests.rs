//! The requests that the log has answered last. Pure.
//!
//! A daemon that is killed may have recorded an operation without having answered it. The kernel sends the request to the next daemon, which
//! must not do it again: a file that was made would be there already, one that was removed would be missing. So each step carries the kernel's
//! number of its request, and a request that is sent again is answered from here.
//!
//! The kernel counts anew with each mount. A daemon that begins one records that what was answered before counts no longer
//! ([`FORGETS`]).

use crate::folder::node::Ino;
use std::collections::{HashMap, VecDeque};

/// The request of a step after which no earlier request counts. The kernel's numbers are even.
pub(super) const FORGETS: u64 = u64::MAX;

/// Requests that are remembered. Only those that were recorded at the moment of the kill and not answered are asked for.
const REMEMBERED_MAX: usize = 4096;

/// The answered requests, and what each has made.
#[derive(Debug, Default)]
pub(super) struct Requests {
    made: HashMap<u64, Option<Ino>>,
    order: VecDeque<u64>,
}

impl Requests {
    /// A step was recorded, or is read from the log.
    pub fn note(&mut self, request: u64, made: Option<Ino>) {
        match request {
            0 => {}
            FORGETS => *self = Self::default(),
            request => {
                if self.made.insert(request, made).is_none() {
                    self.order.push_back(request);
                }
                if self.order.len() > REMEMBERED_MAX
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.made.remove(&oldest);
                }
            }
        }
    }

    /// What the request has made, if it was answered.
    pub fn answer(&self, request: u64) -> Option<Option<Ino>> {
        self.made.get(&request).copied()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// All of them, in their order.
    pub fn all(&self) -> impl Iterator<Item = (u64, Option<Ino>)> {
        self.order.iter().filter_map(|request| Some((*request, *self.made.get(request)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_what_the_last_requests_made() {
        let mut requests = Requests::default();
        requests.note(0, None);
        assert!(requests.is_empty());
        for request in 1..=REMEMBERED_MAX as u64 + 1 {
            requests.note(2 * request, Some(Ino(request as u32)));
        }
        assert_eq!(requests.answer(2), None, "it was answered long ago");
        assert_eq!(requests.answer(4), Some(Some(Ino(2))));
        assert_eq!(requests.all().count(), REMEMBERED_MAX);
        requests.note(FORGETS, None);
        assert!(requests.is_empty() && requests.answer(4).is_none());
    }
}
