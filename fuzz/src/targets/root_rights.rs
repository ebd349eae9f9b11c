//! Input of processes that run as root: operations that anyone may ask for, and devices that anyone may have written to.

use holdall_helper::{Content, DeviceNumber, Identifier, LABEL_BYTES_MAX, LOOKED_AT_BYTES, Privileged};

/// An operation, and the names of devices in it.
pub fn operation(input: &[u8]) {
    if let Ok(operation) = serde_json::from_slice::<Privileged>(input) {
        let text = serde_json::to_string(&operation).expect("what came as JSON is text");
        assert_eq!(serde_json::from_str::<Privileged>(&text).ok(), Some(operation));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(identifier) = text.parse::<Identifier>() {
        assert_eq!(identifier.to_string(), text, "it is known again by its text alone");
    }
    if let Ok(number) = text.parse::<DeviceNumber>() {
        assert_eq!(number.to_string().parse(), Ok(number));
    }
}

/// Some operations, identifiers and device numbers.
pub fn operation_seeds() -> Vec<Vec<u8>> {
    [
        r#""load_nbd""#,
        r#"{"nbd_attach":{"identifier":"holdall:00000000-0000-0000-0000-000000000007:1000","size_bytes":1048576,"server_flags":1}}"#,
        r#"{"nbd_detach":{"target":{"device":"/dev/nbd0","proof":{"identifier":"holdall:x"}},"force":true}}"#,
        r#"{"make_file_system":{"target":{"device":"/dev/loop7","proof":{"backing":"/run/a b"}},"label":"work","uid":1,"gid":2}}"#,
        r#"{"unmount":{"number":{"major":7,"minor":0},"mountpoint":"/home/ann/Holdall/work","lazy":false}}"#,
        "holdall:00000000-0000-0000-0000-000000000007:1000",
        "43:16",
    ]
    .map(Vec::from)
    .into()
}

/// The beginning of a device: the input alone, and the input with zeros up to the end of the examined part. Only zeros
/// count as blank, because a blank device gets a new file system.
pub fn device_content(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(LOOKED_AT_BYTES, 0);
    for bytes in [input, &bytes] {
        match Content::of(bytes) {
            Content::Blank => assert!(bytes.iter().all(|byte| *byte == 0)),
            Content::Ext4(superblock) => assert!(superblock.label.chars().count() <= LABEL_BYTES_MAX),
            Content::Foreign => assert!(bytes.iter().any(|byte| *byte != 0)),
        }
    }
}

/// An ext4 with a label and 64-bit numbers, a blank device, and something else.
pub fn device_content_seeds() -> Vec<Vec<u8>> {
    let mut ext4 = vec![0; 2048];
    let mut put = |at: usize, bytes: &[u8]| ext4[1024 + at..][..bytes.len()].copy_from_slice(bytes);
    put(0x4, &7_u32.to_le_bytes());
    put(0x18, &2_u32.to_le_bytes());
    put(0x38, &0xef53_u16.to_le_bytes());
    put(0x3a, &3_u16.to_le_bytes());
    put(0x60, &0x84_u32.to_le_bytes());
    put(0x68, &[9; 16]);
    put(0x78, b"work");
    put(0x150, &1_u32.to_le_bytes());
    vec![ext4, vec![0; 1024], [&[0; 600][..], b"LUKS"].concat()]
}
