//! How much of the local disk the contents take, without looking at each of them every time.

use crate::folder::node::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;

/// What each content takes, in bytes; `None` if it may have changed since somebody looked.
type Sizes = HashMap<Ino, Option<u64>>;

/// The sizes, once somebody has asked for them.
#[derive(Default)]
pub(super) struct Taken(Mutex<Option<Sizes>>);

impl Taken {
    /// A content is new, or was written.
    pub fn may_have_changed(&self, ino: Ino) {
        if let Some(sizes) = &mut *self.0.lock() {
            sizes.insert(ino, None);
        }
    }

    /// Somebody has looked at it. Says nothing of contents that are not known.
    pub fn is_seen(&self, ino: Ino, bytes: u64) {
        if let Some(size) = self.0.lock().as_mut().and_then(|sizes| sizes.get_mut(&ino)) {
            *size = Some(bytes);
        }
    }

    /// There is no such content any longer.
    pub fn is_gone(&self, ino: Ino) {
        if let Some(sizes) = &mut *self.0.lock() {
            sizes.remove(&ino);
        }
    }

    /// The sum. `all` lists the contents, and is called once; `size` looks at one; `is_watched`: programs may write to it without a word.
    pub fn sum(
        &self,
        all: impl FnOnce() -> Vec<Ino>,
        size: impl Fn(Ino) -> Option<u64>,
        is_watched: impl Fn(Ino) -> bool,
    ) -> u64 {
        let mut sizes = self.0.lock();
        let sizes = sizes.get_or_insert_with(|| all().into_iter().map(|ino| (ino, None)).collect());
        sizes
            .iter_mut()
            .map(|(ino, known)| {
                known.unwrap_or_else(|| {
                    let bytes = size(*ino);
                    *known = bytes.filter(|_| !is_watched(*ino));
                    bytes.unwrap_or(0)
                })
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn looks_only_at_what_may_have_changed() {
        let (taken, looks) = (Taken::default(), Cell::new(0));
        let sum = |bytes: u64, watched: Option<Ino>| {
            let size = |_| {
                looks.set(looks.get() + 1);
                Some(bytes)
            };
            taken.sum(|| vec![Ino(2), Ino(3)], size, |ino| Some(ino) == watched)
        };
        assert_eq!((sum(10, None), looks.get()), (20, 2));
        assert_eq!((sum(99, None), looks.get()), (20, 2));
        taken.may_have_changed(Ino(3));
        taken.may_have_changed(Ino(4));
        // A program writes to one of them.
        assert_eq!((sum(30, Some(Ino(4))), looks.get()), (70, 4));
        assert_eq!((sum(50, Some(Ino(4))), looks.get()), (90, 5));
        taken.is_gone(Ino(4));
        taken.is_seen(Ino(5), 1_000);
        assert_eq!((sum(50, None), looks.get()), (40, 5));
    }
}
