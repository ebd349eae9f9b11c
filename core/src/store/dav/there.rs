//! What the answer to a MKCOL means together with what is there. Pure.
//!
//! RFC 4918 has 201 for a collection that was made and 405 for one that is there. Servers in use say 409, 301, 403, 400, 423, 406, 500
//! or 200 of one that is there, each of which means something else on another server. So only what says all by itself is
//! believed, and before anything else is refused the collection is looked for. One that is found was made before, never by this
//! request: a claim must have one owner at most, and may have none.

/// What is at a collection's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// A collection.
    Collection,
    /// Nothing, says the server.
    Nothing,
    /// The server does not say.
    Unknown,
}

/// How a MKCOL went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The collection was made by it.
    New,
    /// The collection was there.
    Before,
    /// What should hold it is not there.
    NoParent,
    /// The server refuses, in the words of its status.
    Refused,
    /// What is there says more.
    Look,
}

/// The verdict on a status. `has_parent`: what should hold the collection was seen a moment ago. `there` is what a look has found, if there was
/// one.
pub fn verdict(status: u16, has_parent: bool, there: Option<There>) -> Verdict {
    match (status, there) {
        (201, _) => Verdict::New,
        (405, _) => Verdict::Before,
        (404 | 409, None) if !has_parent => Verdict::NoParent,
        // Who asks for patience, for credentials, or has no room, would only say it again; nor does it say what is there.
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
    fn what_is_there_is_looked_at_before_a_refusal() {
        for status in [200, 204, 301, 302, 400, 403, 406, 423, 500, 501] {
            assert_eq!(verdict(status, false, None), Verdict::Look, "{status}");
            assert_eq!(verdict(status, false, Some(Collection)), Verdict::Before, "{status}");
            for there in [Nothing, Unknown] {
                assert_eq!(verdict(status, false, Some(there)), Verdict::Refused, "{status} {there:?}");
            }
        }
    }

    #[test]
    fn a_missing_parent_is_believed_until_it_is_known_to_be_there() {
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
