use super::reply::{self, Attributes};
use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&((IN_HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes.extend_from_slice(&opcode.to_ne_bytes());
    bytes.extend_from_slice(&0x8000_0000_0000_0042_u64.to_ne_bytes());
    bytes.extend_from_slice(&2_u64.to_ne_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(body);
    bytes
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

#[test]
fn decoding_keeps_the_resend_bit() {
    let read = message(15, &words(&[9, 8192, 4096, 0, 0]));
    let request = Request::decode(&read).unwrap();
    assert_eq!(request.unique, 0x8000_0000_0000_0042);
    assert_eq!(request.operation, Operation::Read { offset: 8192, size: 4096 });

    let mut body = words(&[9, 4096, 3, 0, 0]);
    body.extend_from_slice(b"abc");
    let write = message(16, &body);
    assert_eq!(Request::decode(&write).unwrap().operation, Operation::Write { offset: 4096, data: b"abc" });

    let trim = message(43, &words(&[9, 4096, 1 << 40, 3]));
    let trim = Request::decode(&trim).unwrap().operation;
    assert_eq!(trim, Operation::Fallocate { offset: 4096, length: 1 << 40, mode: 3 });

    let lookup = message(1, b"disk\0");
    assert_eq!(Request::decode(&lookup).unwrap().operation, Operation::Lookup { name: b"disk" });
}

#[test]
fn an_old_kernels_init_has_no_flags2() {
    let body: Vec<u8> = [7_u32, 31, 131_072, 1 << 15].iter().flat_map(|value| value.to_ne_bytes()).collect();
    let message = message(26, &body);
    let init = InitIn { major: 7, minor: 31, max_readahead: 131_072, flags: init_flags::ASYNC_DIO };
    assert_eq!(Request::decode(&message).unwrap().operation, Operation::Init(init));
}

#[test]
fn a_write_with_a_wrong_length_is_malformed_but_answerable() {
    let mut body = words(&[9, 4096, 4, 0, 0]);
    body.extend_from_slice(b"abc");
    let error = Request::decode(&message(16, &body)).unwrap_err();
    assert_eq!(error.unique, Some(0x8000_0000_0000_0042));
}

#[test]
fn random_bytes_never_panic() {
    let seed: u64 =
        std::env::var("HOLDALL_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap());
    println!("HOLDALL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..200_000 {
        let body_len = random.random_range(0..96);
        let mut body = vec![0; body_len];
        random.fill(&mut body[..]);
        // Mostly well-formed headers, so that the decoders of bodies are reached.
        let mut bytes = message(random.random_range(0..64), &body);
        if random.random_bool(0.2) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        if random.random_bool(0.2) {
            bytes.truncate(random.random_range(0..bytes.len()));
        }
        if let Ok(request) = Request::decode(&bytes) {
            let _ = request.to_string();
        }
    }
}

#[test]
fn replies_have_the_kernels_sizes() {
    let file = Attributes { node: 2, size: 1 << 30, mode: 0o100_600, uid: 0, gid: 0 };
    assert_eq!(reply::entry(&file).len(), 128);
    assert_eq!(reply::attributes(&file).len(), 104);
    assert_eq!(reply::statfs(7).len(), 80);
    let offer = InitIn { major: 7, minor: 99, max_readahead: 1 << 30, flags: u64::MAX };
    let agreed = reply::InitOut::agree(&offer, init_flags::HAS_RESEND, 1 << 20, 128);
    assert_eq!((agreed.flags, agreed.max_pages, agreed.encode().len()), (1 << 39, 256, 64));
    assert_eq!(reply::resend(), [16, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_directory_is_read_in_steps_of_any_size() {
    let entries = [(1, 4, "."), (1, 4, ".."), (2, 8, "disk")];
    assert_eq!(reply::directory(&entries, 0, 4096).len(), 3 * 32);
    assert_eq!(reply::directory(&entries, 2, 32).len(), 32);
    assert!(reply::directory(&entries, 0, 31).is_empty());
    assert!(reply::directory(&entries, u64::MAX, 4096).is_empty());
}
