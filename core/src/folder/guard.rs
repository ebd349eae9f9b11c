//! Whether deletions that were seen at the remote may be believed. Pure.
//!
//! A program elsewhere that deletes a few files means it. Many deletions at once may be a mistake, a wrong bucket, or an emptied server: they
//! are held, the files stay here, and a person decides. Deletions are counted over a while, since one listing shows one directory only.

use std::collections::VecDeque;

/// Deletions that are believed in any case are fewer than this.
const FEW: u64 = 20;
/// More than this are never believed.
const MANY: u64 = 500;
/// How long deletions are counted together, in ms: longer than a round of listings takes.
const ROUND_MS: u64 = 120_000;

/// Counts deletions.
#[derive(Debug, Default)]
pub struct Guard {
    recent: VecDeque<(u64, u64)>,
}

/// What a directory's listing says about deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are believed.
    Believed,
    /// A person has to say.
    Held,
}

impl Guard {
    /// Judges `count` deletions of files that were just seen, where `known` files are known with them.
    pub fn judge(&mut self, count: u64, known: u64, now_ms: u64) -> Verdict {
        let is_old = |at: u64| at > now_ms || now_ms - at > ROUND_MS;
        self.recent.retain(|(at, _)| !is_old(*at));
        let before: u64 = self.recent.iter().map(|(_, count)| count).sum();
        let sum = before + count;
        let all = known.saturating_add(before);
        if count > 0 && (sum > MANY || sum >= FEW && sum >= all.div_ceil(5)) {
            return Verdict::Held;
        }
        if count > 0 {
            self.recent.push_back((now_ms, count));
        }
        Verdict::Believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_deletions_are_believed_and_many_are_held() {
        let cases = [
            (1, 1, Verdict::Believed),
            (19, 19, Verdict::Believed),
            (20, 100, Verdict::Held),
            (20, 101, Verdict::Believed),
            (500, 100_000, Verdict::Believed),
            (501, 100_000, Verdict::Held),
            (0, 0, Verdict::Believed),
        ];
        for (count, known, verdict) in cases {
            assert_eq!(Guard::default().judge(count, known, 0), verdict, "{count} of {known}");
        }
    }

    #[test]
    fn deletions_in_many_directories_are_counted_together_for_a_while() {
        let mut guard = Guard::default();
        let mut known = 1000;
        let mut verdicts = Vec::new();
        for round in 0..30 {
            let verdict = guard.judge(10, known, round * 1000);
            known -= if verdict == Verdict::Believed { 10 } else { 0 };
            verdicts.push(verdict);
        }
        let believed = verdicts.iter().filter(|verdict| **verdict == Verdict::Believed).count();
        assert_eq!(believed, 19, "200 of 1000 are a fifth");
        assert_eq!(guard.judge(10, 10_000, 1_000_000), Verdict::Believed);
    }

    #[test]
    fn nothing_that_is_gone_now_is_ignored_because_nothing_went_before() {
        let mut guard = Guard::default();
        assert_eq!(guard.judge(0, 50, 0), Verdict::Believed);
        assert_eq!(guard.judge(50, 50, 1), Verdict::Held);
    }

    #[test]
    fn a_clock_that_was_set_back_forgets_what_was_counted_in_its_future() {
        let mut guard = Guard::default();
        assert_eq!(guard.judge(19, 1000, 1_000_000), Verdict::Believed);
        assert_eq!(guard.judge(19, 1000, 5), Verdict::Believed);
    }
}
