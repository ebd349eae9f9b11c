//! The phases of a migration on each side, and what leads from one to the next. The engines take every step by these tables, and
//! `docs/MIGRATION.md` draws them.

use std::fmt::Write;

/// Which side a device is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The drive leaves this device.
    Seeder,
    /// The drive comes to this device.
    Leecher,
}

/// How far a migration is, as one side knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Offered to the leecher, which has not answered.
    Offered = 1,
    /// Seeder: rounds of changed blocks are sent while programs write.
    Copying = 2,
    /// Seeder: programs wait; the file system is frozen and the gate is shut.
    Quiescing = 3,
    /// Seeder: the last delta is fixed and sent.
    Sealed = 4,
    /// Seeder: this device writes no longer; HEAD may be swapped by either side.
    Released = 5,
    /// Seeder: HEAD names the leecher.
    Handed = 6,
    /// Seeder: the leecher writes. The end.
    Moved = 7,
    /// Seeder: the drive was taken back. The end.
    TakenBack = 8,
    /// Leecher: takes rounds.
    Receiving = 9,
    /// Leecher: makes the last delta durable.
    Finishing = 10,
    /// Leecher: has the whole delta, and said so.
    Ready = 11,
    /// Leecher: may swap HEAD.
    Granted = 12,
    /// Leecher: HEAD names it.
    Owned = 13,
    /// Leecher: the drive is in use here. The end.
    Arrived = 14,
    /// The leecher did not want it. The end.
    Declined = 15,
    /// Cancelled before the release; the seeder has the drive. The end.
    Cancelled = 16,
    /// Another device took the drive at that moment. The end.
    Overtaken = 17,
}

/// What leads to another phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// ACCEPT was sent or received.
    Accepted,
    /// DECLINE was sent or received.
    Declined,
    /// What is left is small enough for the wanted downtime, or the person said to continue.
    Converged,
    /// The last delta and the HEAD to be are fixed.
    Sealed,
    /// The stop took too long, or this side was restarted: programs write again, and the delta is sent again.
    Restarted,
    /// FINAL_ACK came with the right hash.
    Acknowledged,
    /// HEAD is the grant.
    Swapped,
    /// HEAD is somebody else's.
    Overtaken,
    /// RESUMED was sent or received.
    Resumed,
    /// Somebody cancelled, or something failed.
    Cancelled,
    /// The person took the drive back.
    TakenBack,
    /// FINAL came.
    Final,
    /// The delta is durable.
    Finished,
    /// The seeder began the delta again.
    Renewed,
    /// GRANT came, or the person forced it.
    Granted,
}

use Cause as C;
use Phase as P;

/// The seeder's steps.
pub const SEEDER: &[(Phase, Cause, Phase)] = &[
    (P::Offered, C::Accepted, P::Copying),
    (P::Offered, C::Declined, P::Declined),
    (P::Offered, C::Cancelled, P::Cancelled),
    (P::Copying, C::Converged, P::Quiescing),
    (P::Copying, C::Restarted, P::Copying),
    (P::Copying, C::Cancelled, P::Cancelled),
    (P::Quiescing, C::Sealed, P::Sealed),
    (P::Quiescing, C::Restarted, P::Copying),
    (P::Quiescing, C::Cancelled, P::Cancelled),
    (P::Sealed, C::Acknowledged, P::Released),
    (P::Sealed, C::Restarted, P::Copying),
    (P::Sealed, C::Cancelled, P::Cancelled),
    (P::Released, C::Swapped, P::Handed),
    (P::Released, C::Overtaken, P::Overtaken),
    (P::Released, C::TakenBack, P::TakenBack),
    (P::Handed, C::Resumed, P::Moved),
    (P::Handed, C::TakenBack, P::TakenBack),
    (P::Moved, C::TakenBack, P::TakenBack),
];

/// The leecher's steps.
pub const LEECHER: &[(Phase, Cause, Phase)] = &[
    (P::Offered, C::Accepted, P::Receiving),
    (P::Offered, C::Declined, P::Declined),
    (P::Offered, C::Cancelled, P::Cancelled),
    (P::Receiving, C::Final, P::Finishing),
    (P::Receiving, C::Renewed, P::Receiving),
    (P::Receiving, C::Cancelled, P::Cancelled),
    (P::Finishing, C::Finished, P::Ready),
    (P::Finishing, C::Restarted, P::Receiving),
    (P::Finishing, C::Renewed, P::Receiving),
    (P::Finishing, C::Cancelled, P::Cancelled),
    (P::Ready, C::Granted, P::Granted),
    (P::Ready, C::Swapped, P::Owned),
    (P::Ready, C::Overtaken, P::Overtaken),
    (P::Ready, C::Renewed, P::Receiving),
    (P::Ready, C::Cancelled, P::Cancelled),
    (P::Granted, C::Swapped, P::Owned),
    (P::Granted, C::Overtaken, P::Overtaken),
    (P::Owned, C::Resumed, P::Arrived),
];

impl Role {
    /// The steps of this side.
    pub fn steps(self) -> &'static [(Phase, Cause, Phase)] {
        match self {
            Role::Seeder => SEEDER,
            Role::Leecher => LEECHER,
        }
    }

    /// The phase that follows; `None` if the cause means nothing in this phase.
    pub fn next(self, phase: Phase, cause: Cause) -> Option<Phase> {
        let step = self.steps().iter().find(|(from, by, _)| (*from, *by) == (phase, cause));
        step.map(|(_, _, to)| *to)
    }

    /// Whether this side can be in the phase.
    pub fn has(self, phase: Phase) -> bool {
        self.steps().iter().any(|(from, _, to)| *from == phase || *to == phase)
    }

    /// The state diagram of this side, for mermaid.
    pub fn diagram(self) -> String {
        let mut text = String::from("stateDiagram-v2\n    [*] --> Offered\n");
        for (from, by, to) in self.steps() {
            writeln!(text, "    {from:?} --> {to:?}: {by:?}").expect("a string takes any text");
        }
        for phase in Phase::ALL.into_iter().filter(|phase| self.has(*phase) && phase.is_end()) {
            writeln!(text, "    {phase:?} --> [*]").expect("a string takes any text");
        }
        text
    }
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 17] = [
        P::Offered,
        P::Copying,
        P::Quiescing,
        P::Sealed,
        P::Released,
        P::Handed,
        P::Moved,
        P::TakenBack,
        P::Receiving,
        P::Finishing,
        P::Ready,
        P::Granted,
        P::Owned,
        P::Arrived,
        P::Declined,
        P::Cancelled,
        P::Overtaken,
    ];

    /// The phase with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u8 == number)
    }

    /// Whether nothing more happens by itself.
    pub fn is_end(self) -> bool {
        use Phase::*;
        matches!(self, Moved | TakenBack | Arrived | Declined | Cancelled | Overtaken)
    }

    /// Whether the seeder has stopped writing for good, so that only the leecher or a take-back continues.
    pub fn is_released(self) -> bool {
        use Phase::*;
        match self {
            Released | Handed | Moved => true,
            Offered | Copying | Quiescing | Sealed | TakenBack | Receiving | Finishing | Ready | Granted
            | Owned | Arrived | Declined | Cancelled | Overtaken => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_cancels_a_released_drive() {
        for phase in Phase::ALL.into_iter().filter(|phase| phase.is_released()) {
            assert_eq!(Role::Seeder.next(phase, Cause::Cancelled), None, "{phase:?}");
            assert_eq!(Role::Seeder.next(phase, Cause::Restarted), None, "{phase:?}");
        }
    }

    #[test]
    fn every_phase_leads_to_an_end() {
        for role in [Role::Seeder, Role::Leecher] {
            for phase in Phase::ALL.into_iter().filter(|phase| role.has(*phase) && !phase.is_end()) {
                let (mut reached, mut before) = (vec![phase], 0);
                while before != reached.len() {
                    before = reached.len();
                    for (from, _, to) in role.steps() {
                        if reached.contains(from) && !reached.contains(to) {
                            reached.push(*to);
                        }
                    }
                }
                assert!(reached.iter().any(|phase| phase.is_end()), "{role:?} stays in {phase:?}");
            }
        }
    }

    #[test]
    fn a_cause_leads_to_one_phase() {
        for role in [Role::Seeder, Role::Leecher] {
            for (index, (from, by, _)) in role.steps().iter().enumerate() {
                let again = role.steps()[index + 1..].iter().any(|(f, b, _)| (f, b) == (from, by));
                assert!(!again, "{role:?} {from:?} {by:?}");
            }
        }
    }
}
