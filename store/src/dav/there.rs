//! The meaning of an answer to a MKCOL, given the resource that exists. Pure.
//!
//! RFC 4918 has 201 for a collection that was made and 405 for one that exists. Servers in use say 409, 301, 403, 400, 423, 406, 500 or 200
//! about an existing collection, and each of these means something else on another server. So only an unambiguous status is believed, and
//! before any other refusal the collection is looked for. A collection that is found was made before, never by this request: a claim must
//! have at most one owner, and may have none.

/// The resource at a collection's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// A collection.
    Collection,
    /// Nothing, according to the server.
    Nothing,
    /// The server does not say.
    Unknown,
}

/// The result of a MKCOL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request made the collection.
    New,
    /// The collection existed.
    Before,
    /// The collection's parent does not exist.
    NoParent,
    /// The server refuses, in the words of its status.
    Refused,
    /// A look at what exists will decide.
    Look,
}

/// The verdict on a status. `has_parent`: the collection's parent was seen a moment ago. `there` is the result of a look, if there was one.
pub fn verdict(status: u16, has_parent: bool, there: Option<There>) -> Verdict {
    match (status, there) {
        (201, _) => Verdict::New,
        (405, _) => Verdict::Before,
        (404 | 409, None) if !has_parent => Verdict::NoParent,
        // A server that asks to wait, asks for credentials or is full would only repeat that, and does not say what exists.
        (401 | 408 | 429 | 502..=504 | 507 | 511, _) => Verdict::Refused,
        (_, None) => Verdict::Look,
        (_, Some(There::Collection)) => Verdict::Before,
        (404 | 409, Some(_)) => Verdict::NoParent,
        (_, Some(There::Nothing | There::Unknown)) => Verdict::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use There::{Collection, Nothing, Unknown};

    #[test]
    fn a_look_comes_before_a_refusal() {
        for status in [200, 204, 301, 302, 400, 403, 406, 423, 500, 501] {
            assert_eq!(verdict(status, false, None), Verdict::Look, "{status}");
            assert_eq!(verdict(status, false, Some(Collection)), Verdict::Before, "{status}");
            for there in [Nothing, Unknown] {
                assert_eq!(verdict(status, false, Some(there)), Verdict::Refused, "{status} {there:?}");
            }
        }
    }

    #[test]
    fn a_missing_parent_is_believed_unless_it_was_seen() {
        for status in [404, 409] {
            assert_eq!(verdict(status, false, None), Verdict::NoParent);
            assert_eq!(verdict(status, true, None), Verdict::Look);
            assert_eq!(verdict(status, true, Some(Collection)), Verdict::Before);
            assert_eq!(verdict(status, true, Some(Nothing)), Verdict::NoParent);
        }
    }

    #[test]
    fn only_a_server_that_made_it_says_so() {
        for status in 100..600 {
            for there in [None, Some(Collection), Some(Nothing), Some(Unknown)] {
                let is_new = verdict(status, true, there) == Verdict::New;
                assert_eq!(is_new, status == 201, "{status} {there:?}");
            }
        }
        for status in [401, 429, 503, 507] {
            assert_eq!(verdict(status, true, None), Verdict::Refused, "{status}");
        }
    }
}
