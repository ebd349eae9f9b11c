//! Putting a grant (`grant.rs`): the device that gives the drive does, or the one that gets it, or both.
//!
//! The one precondition is local: the device that gives the drive has noted durably that it did, before anybody puts the grant. Then its journal
//! is never replayed on top of what the other device writes. All puts of a grant have the same bytes, so their order does not matter, and
//! neither does a late one.

use super::{Once, Swap, read, swap};
use crate::fence::{self, Verdict};
use crate::format::head::Head;
use crate::map::ReadError;
use crate::seal::Sealer;
use crate::store::{Store, StoreError};

/// What has become of a grant.
#[derive(Debug)]
pub enum Granted {
    /// HEAD is the grant, or was: the other device has the drive.
    Applied,
    /// The store refused it, and HEAD is still the one from before. It may be put again.
    NotApplied(StoreError),
    /// This other HEAD is there: the grant can no longer be applied.
    Lost(Head),
    /// The store does not say. Put it again to find out; until then neither device may write.
    Unknown(StoreError),
}

/// Puts the grant `after` over the HEAD with the nonce `before`, once, and looks what came of it. Repeat it as long as the answer is not
/// known: it changes nothing then if the grant was applied.
///
/// # Errors
///
/// HEAD cannot be read. Nothing was put.
pub async fn put_grant(
    (store, sealer): (&dyn Store, &Sealer),
    before: u128,
    after: &Head,
) -> Result<Granted, ReadError> {
    let (now, etag) = read(store, sealer, after.drive).await?;
    let expected = Head { nonce: before, ..now.clone() };
    match fence::judge(&now, Some(&expected), after) {
        Verdict::Applied => return Ok(Granted::Applied),
        // Only the device that got the drive raises the epoch and stays its holder.
        Verdict::Overtaken if now.device == after.device && now.epoch > after.epoch => {
            return Ok(Granted::Applied);
        }
        Verdict::Overtaken => return Ok(Granted::Lost(now)),
        Verdict::NotApplied => {}
    }
    Ok(match swap(store, sealer, Some((&now, &etag)), after.clone(), &mut Once).await {
        Swap::Applied(..) => Granted::Applied,
        Swap::Lost(now) => Granted::Lost(now),
        Swap::Refused(error) => Granted::NotApplied(error),
        Swap::Unknown(error) => Granted::Unknown(error),
    })
}
