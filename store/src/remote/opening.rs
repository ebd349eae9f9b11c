//! What is looked at before a place is opened as a folder.

use super::{Kind, Name, Remote, RemoteError, RemotePath};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The first object of every Holdall store.
const FAMILY: &str = "family.json";
/// No description of a family is longer. A longer file of that name is somebody's own.
const FAMILY_BYTES_MAX: u64 = 64 << 10;

/// What every format of the description has.
#[derive(Deserialize)]
struct Family {
    #[serde(rename = "format")]
    _format: u64,
    #[serde(rename = "family")]
    _family: IgnoredAny,
}

/// Whether the root of `remote` holds a Holdall store. Its objects are no files: a program that changed one would damage every drive in it.
/// A user's own file of that name is none.
pub async fn holds_store(remote: &dyn Remote) -> Result<bool, RemoteError> {
    let name = Name::new(FAMILY).expect("it is a file's name");
    let path = RemotePath::root().join(&name);
    let entry = match remote.stat(&path).await {
        Err(RemoteError::NotFound(_)) => return Ok(false),
        entry => entry?,
    };
    if entry.kind != Kind::File || entry.version.len > FAMILY_BYTES_MAX {
        return Ok(false);
    }
    let bytes = remote.read(&path, &entry.version, 0..entry.version.len).await?;
    Ok(is_family(&bytes))
}

fn is_family(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Family>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_description_of_a_family_is_a_store() {
        assert!(is_family(
            br#"{"format": 1, "family": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "cipher": "none"}"#
        ));
        assert!(is_family(br#"{"format": 9, "family": [1], "later": true}"#));
        for other in [&b""[..], b"<html>", b"{}", br#"{"family": ["Ada", "Ben"]}"#, br#"{"format": "tree"}"#]
        {
            assert!(!is_family(other));
        }
    }
}
