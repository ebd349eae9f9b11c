//! Randomness: the operating system's, except in a simulation, which must replay from its seed.
//!
//! Nothing is kept between two calls. A virtual machine that is resumed twice from one snapshot would draw the same bits again from a kept
//! state, and seal different data under the same nonce. The kernel notices a resume, and draws fresh bits.

use rand::rngs::{OsRng, StdRng};
use rand::{RngCore, SeedableRng, TryRngCore};
use std::cell::RefCell;

thread_local! {
    static SEEDED: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// Fills `bytes` with random bits.
pub fn fill(bytes: &mut [u8]) {
    SEEDED.with_borrow_mut(|seeded| match seeded {
        Some(rng) => rng.fill_bytes(bytes),
        None => OsRng.try_fill_bytes(bytes).expect("the kernel has randomness once it has started"),
    });
}

/// 128 random bits.
pub fn u128() -> u128 {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// A random identity.
pub fn uuid() -> uuid::Uuid {
    uuid::Builder::from_random_bytes(u128().to_le_bytes()).into_uuid()
}

/// Makes everything that this thread draws from now on follow from `seed`. For simulations only: keys drawn like this are not secret.
pub fn seed_this_thread(seed: u64) {
    SEEDED.set(Some(StdRng::seed_from_u64(seed)));
}
