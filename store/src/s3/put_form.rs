//! How a put is sent, and how else if the server refuses it. Pure.
//!
//! Two kinds of servers refuse the usual put. Some support no conditions and say so (Backblaze B2, Aliyun OSS): the store then looks before
//! it puts a new name, and never replaces a version. Some buckets require a digest in a header (Object Lock with a default retention): they
//! get Content-MD5, which servers have supported for longest. The store tries another way only after the server has refused the usual one,
//! and remembers it once the server accepts it.

/// How a put is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PutForm {
    /// With the put's condition, if it has one.
    pub condition: bool,
    /// With Content-MD5.
    pub digest: bool,
}

impl PutForm {
    /// The way that most servers accept.
    pub(super) const USUAL: Self = Self { condition: true, digest: false };

    /// Notes an accepted way. A put that began before an earlier lesson takes nothing of that back.
    pub(super) fn learn(&mut self, taken: Self) {
        self.condition &= taken.condition;
        self.digest |= taken.digest;
    }

    /// The way to try after the server refused a put, with or without a condition, with this status and code.
    pub(super) fn next(self, conditional: bool, status: u16, code: Option<&str>) -> Option<Self> {
        let conditional = conditional && self.condition;
        let without_condition = || conditional.then_some(Self { condition: false, ..self });
        let with_digest = || (!self.digest).then_some(Self { digest: true, ..self });
        match (status, code.unwrap_or_default()) {
            (501, _) | (400 | 405, "NotImplemented" | "NotSupported" | "UnsupportedOperation") => {
                without_condition()
            }
            (400, "MissingContentMD5" | "MissingDigest" | "MissingChecksum") => with_digest(),
            // Servers say this for either reason.
            (400, "InvalidRequest" | "InvalidArgument") => with_digest().or_else(without_condition),
            (400, "" | "BadRequest" | "InvalidHeader" | "UnsupportedHeader") => without_condition(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_put_is_tried_in_another_way() {
        const PLAIN: PutForm = PutForm { condition: false, digest: false };
        const DIGEST: PutForm = PutForm { condition: true, digest: true };
        const BOTH: PutForm = PutForm { condition: false, digest: true };
        let next = |way: PutForm, conditional, status, code: &str| {
            way.next(conditional, status, Some(code).filter(|code| !code.is_empty()))
        };
        for (way, conditional, status, code, wanted) in [
            (PutForm::USUAL, true, 501, "NotImplemented", Some(PLAIN)),
            (PutForm::USUAL, true, 501, "", Some(PLAIN)),
            (PutForm::USUAL, true, 400, "NotImplemented", Some(PLAIN)),
            (PutForm::USUAL, true, 400, "", Some(PLAIN)),
            (PutForm::USUAL, true, 400, "InvalidRequest", Some(DIGEST)),
            (DIGEST, true, 400, "InvalidRequest", Some(BOTH)),
            (DIGEST, true, 501, "NotImplemented", Some(BOTH)),
            (BOTH, true, 400, "InvalidRequest", None),
            (PutForm::USUAL, false, 400, "InvalidRequest", Some(DIGEST)),
            (PLAIN, true, 400, "MissingContentMD5", Some(BOTH)),
            // No other way is left, or the refusal has another reason.
            (PutForm::USUAL, false, 501, "NotImplemented", None),
            (PLAIN, true, 501, "NotImplemented", None),
            (PutForm::USUAL, true, 412, "PreconditionFailed", None),
            (PutForm::USUAL, true, 403, "AccessDenied", None),
            (PutForm::USUAL, true, 400, "ExpiredToken", None),
            (PutForm::USUAL, true, 400, "RequestTimeout", None),
            (PutForm::USUAL, true, 409, "ConditionalRequestConflict", None),
            (PutForm::USUAL, true, 503, "SlowDown", None),
        ] {
            assert_eq!(next(way, conditional, status, code), wanted, "{way:?} {conditional} {status} {code}");
        }
    }

    #[test]
    fn a_put_that_began_before_unlearns_nothing() {
        let mut way = PutForm::USUAL;
        for taken in [
            PutForm { condition: false, digest: false },
            PutForm::USUAL,
            PutForm { condition: true, digest: true },
            PutForm::USUAL,
        ] {
            way.learn(taken);
        }
        assert_eq!(way, PutForm { condition: false, digest: true });
    }

    #[test]
    fn trying_ends() {
        for code in ["InvalidRequest", "NotImplemented", "MissingContentMD5", ""] {
            let mut way = Some(PutForm::USUAL);
            for _ in 0..3 {
                way = way.and_then(|way| way.next(true, 400, Some(code)));
            }
            assert_eq!(way, None, "{code}");
        }
    }
}
