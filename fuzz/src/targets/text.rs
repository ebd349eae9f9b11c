//! Text that people write: addresses of stores, sizes, durations; and names of objects.

use holdall_api::sizes::{format_bytes, format_duration, parse_duration, parse_size};
use holdall_core::format::id::ObjectId;
use holdall_core::store::url::StoreUrl;

/// All parsers, on the same text.
pub fn text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(url) = StoreUrl::read(text, Some(std::path::Path::new("/home/ann"))) {
        assert_eq!(StoreUrl::parse(&url.to_string()).as_ref(), Ok(&url), "{text}");
    }
    if let Ok(url) = StoreUrl::parse(text) {
        // The address is stored as it is written.
        assert!(StoreUrl::parse(&url.to_string()).is_ok(), "{url}");
    }
    match parse_size(text) {
        Ok(bytes) => {
            let written = format_bytes(bytes);
            // The largest sizes round up to more than 64 bits hold.
            let again = parse_size(&written).ok();
            assert!(
                again.is_some_and(|again| again.abs_diff(bytes) <= bytes / 20) || bytes > 15 << 60,
                "{written}"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(duration) = parse_duration(text) {
        assert!(!duration.is_zero() && !format_duration(duration).is_empty());
    }
    if let Some((kind, id)) = ObjectId::parse(text) {
        assert_eq!(id.name(kind), text);
    }
}

/// One of each.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "file:///srv/holdall",
        "s3://bucket/a%20b?endpoint=https://host:9000&region=eu-central-1&path_style=false&ca=/etc/ca.pem",
        "davs://host:8443/dav/a%20b/?ca=/etc/ca.pem",
        "1.5TiB",
        "18446744073709551615",
        "16383P",
        "500ms",
        "2.5 h",
        "seg/ab/00000000000000000000000000000001-0000000000000001-0000000000000002-ab000000000000000000000000000000",
    ]
    .map(Vec::from)
    .into()
}
