//! Arbitrary bytes, and almost correct ones: the server never panics, always ends, and never answers twice. A failure prints its
//! seed; `HOLDALL_SEED=<n>` runs it alone.

use holdall_nbd::codec::handshake::{ContextQuery, FLAG_FIXED_NEWSTYLE, InfoRequest, encode_option, option};
use holdall_nbd::codec::transmission::{Command, Cookie, Request};
use holdall_nbd::testing::feed;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn for_each_seed(count: u64, run: impl Fn(&mut StdRng) + std::panic::RefUnwindSafe) {
    let only = std::env::var("HOLDALL_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in only.map_or(0..count, |seed: u64| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(|| run(&mut StdRng::seed_from_u64(seed)));
        assert!(outcome.is_ok(), "failed with HOLDALL_SEED={seed}");
    }
}

#[test]
fn random_bytes_do_no_harm() {
    for_each_seed(300, |random| {
        let mut input = vec![0; random.random_range(0..2000)];
        random.fill(&mut input[..]);
        feed(&input);
    });
}

#[test]
fn almost_right_requests_do_no_harm() {
    for_each_seed(300, |random| {
        let mut input = vec![random.random::<u8>() | 1];
        for _ in 0..random.random_range(1..60) {
            let request = Request {
                flags: if random.random_bool(0.8) { 0 } else { random.random() },
                command: Command::from(random.random_range(0..9)),
                cookie: Cookie(random.random_range(0..4)),
                offset: if random.random_bool(0.8) {
                    random.random_range(0..1 << 20)
                } else {
                    random.random()
                },
                len: if random.random_bool(0.95) { random.random_range(0..40_000) } else { random.random() },
            };
            let mut bytes = request.encode();
            if random.random_bool(0.02) {
                bytes[random.random_range(0..28)] = random.random();
            }
            input.extend_from_slice(&bytes);
            if request.command == Command::Write && request.len < 40_000 {
                input.resize(input.len() + request.len as usize, random.random());
            }
        }
        if random.random_bool(0.3) {
            input.truncate(random.random_range(0..input.len()));
        }
        feed(&input);
    });
}

#[test]
fn almost_right_handshakes_do_no_harm() {
    for_each_seed(300, |random| {
        let mut input = vec![random.random::<u8>() & 2];
        input.extend_from_slice(&u32::from(FLAG_FIXED_NEWSTYLE).to_be_bytes());
        for _ in 0..random.random_range(1..20) {
            let code = random.random_range(0..13);
            let mut data = match code {
                option::INFO | option::GO => {
                    InfoRequest { name: "fuzz", block_size: random.random(), canonical_name: random.random() }
                        .encode()
                }
                option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                    ContextQuery { name: "", queries: vec!["base:allocation"; random.random_range(0..80)] }
                        .encode()
                }
                _ => vec![0; random.random_range(0..3)],
            };
            if random.random_bool(0.3) && !data.is_empty() {
                let at = random.random_range(0..data.len());
                data[at] = random.random();
            }
            let mut bytes = encode_option(code, &data);
            if random.random_bool(0.05) {
                bytes[random.random_range(8..16)] = random.random();
            }
            input.extend_from_slice(&bytes);
        }
        input.extend_from_slice(&[0; 600]);
        feed(&input);
    });
}

#[test]
fn every_truncation_of_a_conversation_ends() {
    let mut input = vec![0];
    input.extend_from_slice(&u32::from(FLAG_FIXED_NEWSTYLE).to_be_bytes());
    input.extend_from_slice(&encode_option(option::STRUCTURED_REPLY, &[]));
    let go = InfoRequest { name: "", block_size: true, canonical_name: true }.encode();
    input.extend_from_slice(&encode_option(option::GO, &go));
    let write = Request { flags: 0, command: Command::Write, cookie: Cookie(1), offset: 0, len: 4096 };
    input.extend_from_slice(&write.encode());
    let header_ends = input.len();
    input.resize(header_ends + 4096, 7);
    let whole = feed(&input);
    for len in (0..header_ends).chain([header_ends + 1, header_ends + 4095]) {
        assert!(feed(&input[..len]) < whole, "at {len}");
    }
}

#[test]
fn too_many_options_end_the_conversation() {
    let mut input = vec![0];
    input.extend_from_slice(&u32::from(FLAG_FIXED_NEWSTYLE).to_be_bytes());
    let unknown = encode_option(77, &[]);
    let mut bounded = 0;
    for count in [255, 256, 4000] {
        let replied = feed(&[&input[..], &unknown.repeat(count)].concat());
        if count == 256 {
            bounded = replied;
        }
        assert!(count < 256 || replied == bounded, "the 257th option has no answer");
    }
}
