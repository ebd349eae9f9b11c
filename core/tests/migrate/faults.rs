//! What goes wrong, and where.

use rand::Rng;
use rand::rngs::StdRng;

/// Something that goes wrong at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message is lost.
    Lost,
    /// The message comes twice.
    Doubled,
    /// The message comes late, after later ones.
    Late,
    /// The connection breaks.
    Cut,
    /// The daemon is killed before the step.
    KillBefore,
    /// The daemon is killed after the step.
    KillAfter,
    /// The power fails before the step.
    PowerBefore,
    /// The power fails after the step.
    PowerAfter,
    /// The local disk refuses the step.
    DiskRefuses,
    /// The local disk does the step and reports an error.
    DiskLies,
    /// The store does not answer, and did nothing.
    StoreAway,
    /// The store did it, and the answer is lost.
    Unanswered,
    /// The request reaches the store later.
    Zombie,
    /// The person on the seeder cancels.
    CancelThere,
    /// The person on the leecher cancels.
    CancelHere,
}

impl Fault {
    pub const ALL: [Fault; 15] = [
        Fault::Lost,
        Fault::Doubled,
        Fault::Late,
        Fault::Cut,
        Fault::KillBefore,
        Fault::KillAfter,
        Fault::PowerBefore,
        Fault::PowerAfter,
        Fault::DiskRefuses,
        Fault::DiskLies,
        Fault::StoreAway,
        Fault::Unanswered,
        Fault::Zombie,
        Fault::CancelThere,
        Fault::CancelHere,
    ];

    /// Whether it can happen at this kind of point.
    pub fn fits(self, point: Point) -> bool {
        use Fault::*;
        match self {
            Lost | Doubled | Late | Cut => point == Point::Message,
            KillBefore | KillAfter | PowerBefore | PowerAfter => point != Point::Message,
            DiskRefuses | DiskLies => point == Point::Sync,
            StoreAway | Unanswered | Zombie => point == Point::Request,
            CancelThere | CancelHere => true,
        }
    }
}

/// What kind of step a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A message is sent.
    Message,
    /// Something is made durable.
    Sync,
    /// A request goes to the store.
    Request,
}

/// Which faults a run has.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    None,
    One { point: u64, fault: Fault },
    Random,
}

/// The points of a run.
pub struct Faults {
    plan: Plan,
    passed: u64,
    per_mille: u32,
}

impl Faults {
    pub fn new(plan: Plan, rng: &mut StdRng) -> Self {
        let per_mille = [5, 20, 60][rng.random_range(0..3)];
        Self { plan, passed: 0, per_mille }
    }

    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The fault at the next point, if there is one.
    pub fn next(&mut self, rng: &mut StdRng, now_ms: u64, point: Point) -> Option<Fault> {
        let at = self.passed;
        self.passed += 1;
        match self.plan {
            Plan::None => None,
            Plan::One { point: wanted, fault } => (at == wanted && fault.fits(point)).then_some(fault),
            // Then there is peace, so that everything can come to its end.
            Plan::Random if now_ms > 60_000 || rng.random_range(0..1000) >= self.per_mille => None,
            Plan::Random => {
                let fault = Fault::ALL[rng.random_range(0..Fault::ALL.len())];
                // People seldom cancel.
                let is_rare = matches!(fault, Fault::CancelHere | Fault::CancelThere);
                (fault.fits(point) && (!is_rare || rng.random_range(0..6) == 0)).then_some(fault)
            }
        }
    }
}
