//! The part of the wanted pins that fits. Pure.

use holdall_core::units::BlockRange;

/// All of `wanted` that is pinned `already`, and as much of the rest as brings the total to `blocks` blocks. Both are in order and without
/// overlaps. So what was pinned once stays pinned when the cache becomes smaller.
pub fn fit(wanted: &[BlockRange], already: &[BlockRange], blocks: u64) -> Vec<BlockRange> {
    let mut taken = common(wanted, already);
    let mut left = blocks.saturating_sub(taken.iter().map(BlockRange::count).sum());
    for run in without(wanted, already) {
        take(run, &mut left, &mut taken);
    }
    taken
}

fn take(run: BlockRange, left: &mut u64, taken: &mut Vec<BlockRange>) {
    let count = run.count().min(*left);
    *left -= count;
    if count > 0 {
        taken.push(BlockRange::new(run.start, count));
    }
}

/// The runs that are in both.
fn common(a: &[BlockRange], b: &[BlockRange]) -> Vec<BlockRange> {
    let mut found = Vec::new();
    for run in a {
        let first = b.partition_point(|other| other.end <= run.start);
        let met = b[first..].iter().take_while(|other| other.start < run.end);
        found.extend(met.map(|other| run.intersect(other)));
    }
    found
}

/// The runs that are in `a` and not in `b`.
fn without(a: &[BlockRange], b: &[BlockRange]) -> Vec<BlockRange> {
    let mut found = Vec::new();
    for run in a {
        let mut at = run.start;
        let first = b.partition_point(|other| other.end <= run.start);
        for other in b[first..].iter().take_while(|other| other.start < run.end) {
            found.push(BlockRange { start: at, end: other.start.max(at) });
            at = other.end;
        }
        found.push(BlockRange { start: at.min(run.end), end: run.end });
    }
    found.retain(|run| !run.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_pins_stay_and_new_ones_fill_the_rest() {
        let run = |start, end| BlockRange { start, end };
        let (wanted, already) = ([run(0, 10), run(20, 30)], [run(5, 7), run(25, 40)]);
        assert_eq!(fit(&wanted, &already, 100), [run(5, 7), run(25, 30), run(0, 5), run(7, 10), run(20, 25)]);
        assert_eq!(fit(&wanted, &already, 9), [run(5, 7), run(25, 30), run(0, 2)]);
        assert_eq!(fit(&wanted, &already, 0), [run(5, 7), run(25, 30)]);
        assert_eq!(fit(&wanted, &[], 12), [run(0, 10), run(20, 22)]);
    }
}
