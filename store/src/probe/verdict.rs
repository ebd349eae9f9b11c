//! The meaning of a probe's findings. Pure: the same findings give the same verdict, whatever the server claims to be.

use super::{Mode, Names, Race, Races, Refusals, Rights, Seen};
use crate::Facts;

/// The findings of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Findings<'a> {
    /// The rights of the credentials.
    pub rights: Rights,
    /// The store's statements about itself.
    pub facts: &'a Facts,
    /// Whether the server decides the conditions of puts.
    pub conditions: bool,
    /// Whether parts of objects are exactly the ones asked for.
    pub ranges_exact: bool,
    /// The second connection's view of the first one's changes.
    pub seen: Seen,
    /// Whether the store refuses what it must refuse.
    pub refused: Refusals,
    /// The winners of the races.
    pub races: &'a Races,
    /// How many names a listing shows, if that was tried.
    pub names: Option<Names>,
}

/// The mode, and why it is not a better one. Everything starts as a swap and can only be demoted.
pub fn judge(found: &Findings) -> (Mode, Vec<String>) {
    let mut reasons = Vec::new();
    let mut must = |holds: bool, reason: &str| {
        if !holds {
            reasons.push(reason.to_owned());
        }
        holds
    };
    let Rights { read, write, list, delete } = found.rights;
    let usable = must(read, "these credentials may not read")
        & must(write, "these credentials may not write")
        & must(list, "these credentials may not list");
    // Worth knowing, and harmless: deleted objects stay and cost space.
    must(delete, "these credentials may not delete: what is not needed any more stays and takes up space");
    if !usable {
        return (Mode::None, reasons);
    }
    let exact = must(found.ranges_exact, "parts of objects come back wrong");
    let (Seen { created, replaced, listed, deleted }, names) = (found.seen, found.names);
    let current =
        must(created && replaced && (deleted || !delete), "what one connection stores, another sees late")
            & must(listed, "listings are late")
            & must(names.is_none_or(|names| names.shown == names.put), &left_out(names));
    if !(exact && current) {
        return (Mode::None, reasons);
    }
    if !must(found.conditions, "the server does not support conditional writes") {
        return (Mode::None, reasons);
    }
    let Races { absent, matches, claim } = found.races;
    let swaps = must(
        !found.facts.never_swaps,
        "conditional puts are not relied upon over WebDAV or in a directory: claims are used",
    ) && must(found.refused.absent && found.refused.matches, "conditions of puts are not heeded")
        & must(holds(absent), &lost("a new name was won", absent))
        & must(holds(matches), &lost("one version was replaced", matches));
    if swaps {
        return (Mode::Swap, reasons);
    }
    let claims = must(found.refused.claim, "a claim that another computer has is given away again")
        & must(holds(claim), &lost("one claim was won", claim));
    (if claims { Mode::Claim } else { Mode::None }, reasons)
}

/// Whether no round had two winners and most rounds had one. A round may have none: its answers were not clear.
fn holds(race: &Option<Race>) -> bool {
    race.as_ref().is_some_and(|race| {
        let clear = race.winners.iter().filter(|winners| **winners == 1).count();
        !race.overwritten
            && race.winners.iter().all(|winners| *winners <= 1)
            && 2 * clear > race.winners.len()
    })
}

fn left_out(names: Option<Names>) -> String {
    let Names { put, shown } = names.unwrap_or(Names { put: 0, shown: 0 });
    format!("listings leave out names and do not say so: of {put} that were there {shown} were shown")
}

fn lost(what: &str, race: &Option<Race>) -> String {
    match race {
        None => "a race was not run".to_owned(),
        Some(Race { ways, winners, overwritten }) if winners.iter().all(|winners| *winners <= 1) => {
            match overwritten {
                true => format!("of {ways} that raced the winner's bytes were overwritten"),
                false => format!("of {ways} that raced too few had a clear answer"),
            }
        }
        Some(Race { ways, winners, .. }) => {
            let most = winners.iter().max().copied().unwrap_or_default();
            format!("{what} by up to {most} of {ways} that raced")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Rights = Rights { read: true, write: true, list: true, delete: true };
    const SEEN: Seen = Seen { created: true, replaced: true, listed: true, deleted: true };
    const REFUSED: Refusals = Refusals { absent: true, matches: true, claim: true };

    fn race(winners: &[u32]) -> Option<Race> {
        Some(Race { ways: 12, winners: winners.to_vec(), overwritten: false })
    }

    fn fair() -> Races {
        Races { absent: race(&[1, 1, 1]), matches: race(&[1, 1, 1]), claim: race(&[1, 1, 1]) }
    }

    fn verdict(change: impl FnOnce(&mut Findings, &mut Races, &mut Facts)) -> Mode {
        let (mut races, mut facts) = (fair(), Facts::default());
        let (none, unused) = (Facts::default(), fair());
        let mut found = Findings {
            rights: ALL,
            facts: &none,
            conditions: true,
            ranges_exact: true,
            seen: SEEN,
            refused: REFUSED,
            races: &unused,
            names: None,
        };
        change(&mut found, &mut races, &mut facts);
        let found = Findings { races: &races, facts: &facts, ..found };
        let (mode, reasons) = judge(&found);
        assert_eq!(mode == Mode::Swap && found.rights.delete, reasons.is_empty(), "{reasons:?}");
        mode
    }

    #[test]
    fn a_race_can_only_demote() {
        assert_eq!(verdict(|_, _, _| ()), Mode::Swap);
        assert_eq!(verdict(|_, races, _| races.matches = race(&[1, 2, 1])), Mode::Claim);
        assert_eq!(verdict(|_, races, _| races.absent = race(&[12, 12, 12])), Mode::Claim);
        assert_eq!(
            verdict(|_, races, _| (races.absent, races.claim) = (race(&[1, 3, 1]), race(&[1, 3, 1]))),
            Mode::None
        );
        assert_eq!(verdict(|_, races, _| races.matches = None), Mode::Claim);
        assert_eq!(verdict(|found, _, _| found.refused.matches = false), Mode::Claim);
        assert_eq!(
            verdict(|found, _, _| (found.refused.absent, found.refused.claim) = (false, false)),
            Mode::None
        );
    }

    #[test]
    fn a_server_without_conditions_decides_nothing() {
        assert_eq!(verdict(|found, _, _| found.conditions = false), Mode::None);
    }

    #[test]
    fn rounds_without_a_clear_answer_prove_nothing() {
        assert_eq!(verdict(|_, races, _| races.matches = race(&[1, 0, 1])), Mode::Swap);
        assert_eq!(verdict(|_, races, _| races.matches = race(&[1, 0, 0])), Mode::Claim);
        assert_eq!(verdict(|_, races, _| races.matches = race(&[])), Mode::Claim);
        let overwritten = || Some(Race { ways: 12, winners: vec![1, 1, 1], overwritten: true });
        assert_eq!(verdict(|_, races, _| races.matches = overwritten()), Mode::Claim);
    }

    #[test]
    fn webdav_never_counts_as_swap() {
        assert_eq!(verdict(|_, _, facts| facts.never_swaps = true), Mode::Claim);
    }

    #[test]
    fn a_listing_that_omits_names_is_no_basis() {
        let listed = |shown| verdict(|found, _, _| found.names = Some(Names { put: 240, shown }));
        assert_eq!((listed(240), listed(200), listed(0)), (Mode::Swap, Mode::None, Mode::None));
    }

    #[test]
    fn late_sights_and_missing_rights_are_no_basis() {
        assert_eq!(verdict(|found, _, _| found.seen.listed = false), Mode::None);
        assert_eq!(verdict(|found, _, _| found.seen.replaced = false), Mode::None);
        assert_eq!(verdict(|found, _, _| found.ranges_exact = false), Mode::None);
        assert_eq!(verdict(|found, _, _| found.rights.write = false), Mode::None);
        let keeps = |found: &mut Findings, _: &mut Races, _: &mut Facts| {
            (found.rights.delete, found.seen.deleted) = (false, false);
        };
        assert_eq!(verdict(keeps), Mode::Swap);
    }
}
