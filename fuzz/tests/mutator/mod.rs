//! Makes new inputs from known ones. The same seed makes the same inputs.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Inputs grow no longer than this.
const BYTES_MAX: usize = 64 << 10;
/// Values at the borders of lengths, counts and offsets.
const BORDERS: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, i64::MAX as u64, u64::MAX];

/// A source of inputs.
pub struct Mutator {
    random: StdRng,
    known: Vec<Vec<u8>>,
}

impl Mutator {
    /// Begins from `known`.
    pub fn new(seed: u64, known: Vec<Vec<u8>>) -> Self {
        Self { random: StdRng::seed_from_u64(seed), known }
    }

    /// The next input.
    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.known.choose(&mut self.random).cloned().unwrap_or_default();
        for _ in 0..1 << self.random.random_range(0..4) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            let len = self.random.random_range(1..64);
            return input.extend((0..len).map(|_| self.random.random::<u8>()));
        }
        let at = self.random.random_range(0..input.len());
        let end = at + self.random.random_range(0..=(input.len() - at).min(64));
        match self.random.random_range(0..9) {
            0 => input[at] ^= 1 << self.random.random_range(0..8),
            1 => input[at] = self.random.random(),
            2 => input[at] = input[at].wrapping_add(self.random.random_range(0..16)).wrapping_sub(8),
            3 => {
                let value = BORDERS.choose(&mut self.random).expect("there are some").to_le_bytes();
                let width = [1, 2, 4, 8].choose(&mut self.random).copied().unwrap_or(1);
                let mut bytes = value[..width].to_vec();
                if self.random.random() {
                    bytes.reverse();
                }
                bytes.truncate(input.len() - at);
                input[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            4 => drop(input.drain(at..end)),
            5 => {
                let part = input[at..end].to_vec();
                drop(input.splice(at..at, part));
            }
            6 => {
                let part: Vec<u8> = (at..end).map(|_| self.random.random()).collect();
                drop(input.splice(at..at, part));
            }
            7 => input.truncate(at),
            _ => {
                let other = self.known.choose(&mut self.random).cloned().unwrap_or_default();
                let from = self.random.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}
