//! Messages of the kernel over /dev/fuse, and the state that one daemon leaves for the next.

use holdall_fuse::handover::{Handover, Parameters};
use holdall_fuse::wire::{IN_HEADER_BYTES, Operation, Request};
use std::os::fd::IntoRawFd;

/// A request. Its length is corrected if the first byte, which is removed, is even.
pub fn fuse(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let mut message = rest.to_vec();
    if choice & 1 == 0 && message.len() >= 4 {
        let len = message.len() as u32;
        message[..4].copy_from_slice(&len.to_ne_bytes());
    }
    if let Ok(request) = Request::decode(&message) {
        assert!(!request.to_string().is_empty());
        if let Operation::Write { data, .. } = request.operation {
            assert!(data.len() + IN_HEADER_BYTES < message.len());
        }
    }
}

/// A request of each kind.
pub fn fuse_seeds() -> Vec<Vec<u8>> {
    let message = |opcode: u32, body: &[u8]| {
        let mut bytes = vec![0; 5];
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&0x8000_0000_0000_0042_u64.to_ne_bytes());
        bytes.extend_from_slice(&2_u64.to_ne_bytes());
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(body);
        bytes
    };
    let words = |values: &[u64]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    let write = [words(&[9, 4096, 3, 0, 0]), b"abc".to_vec()].concat();
    let mut seeds =
        vec![message(1, b"disk\0"), message(16, &write), message(43, &words(&[9, 4096, 1 << 40, 3]))];
    seeds.extend([4, 14, 15, 26, 28].map(|opcode| message(opcode, &words(&[9, 8192, 4096, 0, 0, 0, 0, 0]))));
    seeds
}

/// The text that comes with a descriptor. The descriptor here is not FUSE's, so it is refused, however well-formed the text
/// is.
pub fn handover(input: &[u8]) {
    if let Ok(parameters) = serde_json::from_slice::<Parameters>(input) {
        let text = serde_json::to_string(&parameters).expect("plain fields become JSON");
        assert_eq!(serde_json::from_str::<Parameters>(&text).ok(), Some(parameters));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let fd = std::fs::File::open("/dev/null").expect("every system has it").into_raw_fd();
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let taken = unsafe { Handover::from_inherited(fd, text) };
    assert!(taken.is_err(), "a descriptor of something else is refused");
}

/// The text and the parameters alone.
pub fn handover_seeds() -> Vec<Vec<u8>> {
    let parameters = r#"{"version":1,"max_write_bytes":1048576,"resend":true,"uid":7,"gid":8,"mountpoint":"/run/holdall/a b"}"#;
    vec![parameters.into(), format!(r#"{{"parameters":{parameters},"clean":true}}"#).into_bytes()]
}
