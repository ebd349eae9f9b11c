//! The one swap of HEAD, with the one rule when to try again.
//!
//! A put without an answer, or with one that may be wrong, was applied, or it was not, or it still may be. HEAD itself shows which, by its
//! nonce: so HEAD is read after every put that failed. As long as it is the one from before, the very same HEAD is put again, nonce
//! included. A request that the network delivers late then does what was intended anyway, or nothing.
//!
//! The caller decides how long to wait, and when to end ([`Retry`]). It learns whether the swap may still be applied by then.

use super::{read, transition};
use crate::fence::{self, Verdict};
use crate::format::head::{self, Head};
use crate::map::ReadError;
use crate::planted::{self, Bug};
use crate::seal::Sealer;
use crate::store::{Etag, Store, StoreError, When};
use async_trait::async_trait;
use bytes::Bytes;

/// How a swap ended.
#[derive(Debug)]
pub enum Swap {
    /// It was applied: this is HEAD.
    Applied(Head, Etag),
    /// This other HEAD is there. The swap can no longer be applied.
    Lost(Head),
    /// The store refused it, and HEAD shows that it was not applied. It never will be.
    Refused(StoreError),
    /// It may have been applied, or may be applied later.
    Unknown(StoreError),
}

/// Decides how long a swap is tried.
#[async_trait]
pub trait Retry: Send {
    /// A put failed. Waits until the store may be asked again. False ends the swap.
    async fn wait(&mut self, error: &StoreError) -> bool;

    /// The same after HEAD could not be read.
    async fn wait_to_look(&mut self, error: &StoreError) -> bool;
}

/// One try, and one look at HEAD if it fails.
pub struct Once;

#[async_trait]
impl Retry for Once {
    async fn wait(&mut self, _error: &StoreError) -> bool {
        false
    }

    async fn wait_to_look(&mut self, _error: &StoreError) -> bool {
        false
    }
}

/// Puts the HEAD `after`, over the very HEAD `before`; or as the first one, if that is `None`.
///
/// A store that asks for patience is not asked at once whether the swap was applied.
pub async fn swap(
    store: &dyn Store,
    sealer: &Sealer,
    before: Option<(&Head, &Etag)>,
    after: Head,
    retry: &mut dyn Retry,
) -> Swap {
    assert!(
        before.is_none_or(|(before, _)| transition::follows(before, &after)),
        "this HEAD cannot follow the one before"
    );
    let mut after = after;
    let (before, mut etag) = (before.map(|(before, _)| before), before.map(|(_, etag)| etag.clone()));
    // Whether a put without a clear answer may have been applied, or still may be.
    let mut is_open = false;
    loop {
        let when = match etag.clone() {
            Some(_) if planted::has(Bug::UnconditionalHead) => When::Always,
            Some(etag) => When::Matches(etag),
            None => When::Absent,
        };
        let error = match store.put(&head::name(after.drive), Bytes::from(after.encode(sealer)), when).await {
            Ok(etag) => return Swap::Applied(after, etag),
            Err(error) => error,
        };
        is_open |= !error.was_refused();
        let is_busy = matches!(error, StoreError::Busy { .. });
        let goes_on = !is_busy || retry.wait(&error).await;
        let found = loop {
            let look = match read(store, sealer, after.drive).await {
                Ok(found) => break Some(found),
                Err(error) if error.is_missing() && before.is_none() => break None,
                Err(error) => as_store_error(error),
            };
            if !goes_on || !retry.wait_to_look(&look).await {
                // A refusal alone is no proof: something between here and the store may have answered for it.
                return Swap::Unknown(if is_open { look } else { error });
            }
        };
        if planted::has(Bug::RetriedCommitTakenForLost) {
            after.nonce = crate::entropy::u128();
        }
        if let Some((now, now_etag)) = found {
            match fence::judge(&now, before, &after) {
                Verdict::Applied => return Swap::Applied(now, now_etag),
                Verdict::NotApplied => etag = Some(now_etag),
                Verdict::Overtaken => return Swap::Lost(now),
            }
        }
        if !goes_on || !is_busy && !retry.wait(&error).await {
            let error = if_unfounded(error);
            return if is_open { Swap::Unknown(error) } else { Swap::Refused(error) };
        }
    }
}

/// The store says that HEAD has changed, but it has not.
fn if_unfounded(error: StoreError) -> StoreError {
    match error {
        StoreError::Precondition { .. } => {
            let reason = "it refuses to change HEAD, which nobody else has changed".to_owned();
            StoreError::Busy { reason, retry_after: None }
        }
        error => error,
    }
}

/// The store's error that stands for a HEAD that cannot be read.
pub(crate) fn as_store_error(error: ReadError) -> StoreError {
    match error {
        ReadError::Store(error) => error,
        ReadError::Format { name, error } => StoreError::Damaged { name, reason: error.to_string() },
        ReadError::Gone { file } => StoreError::NotFound { name: file },
        ReadError::Remote(error) => StoreError::Unreachable { reason: error.to_string() },
    }
}
