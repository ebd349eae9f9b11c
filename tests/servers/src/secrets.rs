//! The secrets that tests use, recorded so that the run of all tests can search its output for them.

use std::fs::OpenOptions;
use std::io::Write;

/// Names a file that collects every secret a test gives to the product or gets from it, with one line for each form.
const NOTED_IN: &str = "HOLDALL_TESTS_SECRETS";

/// The forms that a secret may take: as it is, as bytes, and as in addresses and headers.
pub fn forms(secret: &str) -> [String; 5] {
    let percent = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let bytes = secret.as_bytes();
    [
        secret.to_owned(),
        data_encoding::HEXLOWER.encode(bytes),
        // Its end depends on the bytes that follow.
        data_encoding::BASE64_NOPAD.encode(&bytes[..bytes.len() / 3 * 3]),
        bytes.iter().map(|byte| percent(*byte)).collect(),
        // A list of numbers, as Rust's `{:?}` prints bytes.
        format!("{bytes:?}").trim_matches(['[', ']']).to_owned(),
    ]
}

/// Records a secret, if a file is named for it.
pub fn note(secret: &str) {
    let Some(file) = std::env::var_os(NOTED_IN) else { return };
    let lines: String = forms(secret).iter().map(|form| format!("{form}\n")).collect();
    // In one write, since other tests write at the same time.
    let noted = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file)
        .and_then(|mut file| file.write_all(lines.as_bytes()));
    noted.unwrap_or_else(|error| panic!("a secret cannot be noted in {}: {error}", file.display()));
}
