//! Putting immutable objects, and the one swap that makes them a version.
//!
//! Nothing here stops while the outcome of a request is unknown. A put of an immutable name is repeated under the same name: if the first
//! one was applied after all, the second one finds its own bytes. A swap is repeated with the same HEAD, nonce included: if the first one
//! was applied, HEAD shows that nonce (`heads/swap.rs`). So a late answer is harmless, and so is a request that the network delivers late: it does what was
//! intended anyway, or nothing. If a name turns out to hold other bytes, perhaps because the store has kept half of a put, the object can
//! no longer be put there. The next try uses a new name, and the other bytes are garbage.

use super::pack::Packed;
use super::sending::Sending;
use super::{Namer, PushError, PushState};
use crate::clock::now_ms;
use crate::fence::Fence;
use crate::format::family;
use crate::format::head::{self, Head};
use crate::format::id::ObjectKind;
use crate::format::root::Root;
use crate::heads::transition::{self, Invalid};
use crate::heads::{self, Author, Device, Retry, Swap, Version, kept};
use crate::local::Base;
use crate::map::Objects;
use crate::planted::{self, Bug};
use crate::retry::{self, Backoff};
use crate::store::{Etag, StoreError, immutable};
use crate::units::Epoch;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The reason that is reported if neither HEAD nor the family is in the store.
const EMPTIED: &str = "the store holds nothing of this drive any more";

/// The name holds other bytes.
struct Taken;

/// The writer's side of the store: the current HEAD, and the version that follows it.
pub struct Committer {
    objects: Arc<Objects>,
    device: Device,
    namer: Namer,
    head: Head,
    etag: Etag,
    root: Root,
    publish: watch::Sender<PushState>,
    /// Wakes a wait between two tries.
    again: Arc<Notify>,
}

impl Committer {
    pub(super) fn new(
        objects: Arc<Objects>,
        device: Device,
        (head, etag): (Head, Etag),
        root: Root,
        (publish, again): (watch::Sender<PushState>, Arc<Notify>),
    ) -> Self {
        // Numbers continue after the root's, whoever wrote it. The random part of names makes them unique anyway.
        let namer = Namer { drive: head.drive, epoch: head.epoch, seq: root.seq.into() };
        Self { objects, device, namer, head, etag, root, publish, again }
    }

    /// The current version.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The current HEAD.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The device that writes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Objects of the family.
    pub fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    /// Continues from what was just found in the store.
    pub(super) fn go_on_from(&mut self, (head, etag): (Head, Etag), root: Root) {
        (self.head, self.etag, self.root) = (head, etag, root);
    }

    /// Wakes a wait between two tries.
    pub(super) fn again(&self) -> &Arc<Notify> {
        &self.again
    }

    /// Takes the drive in the next epoch. The content of the version stays the same. If another device may continue the current version, a
    /// new root keeps it. Returns once HEAD says so.
    pub(super) async fn take(&mut self, base: Option<&Base>) -> Result<(), PushError> {
        let epoch = Epoch(self.head.epoch.0 + 1);
        self.namer = Namer { drive: self.head.drive, epoch, seq: self.root.seq.into() };
        match kept::root_of_taker(&self.head, &self.root, epoch, &self.device, base) {
            Some(kept) => {
                let (version, root) = self.put_root(kept).await;
                self.swap(self.taken(epoch, version)?).await?;
                self.root = root;
                Ok(())
            }
            None => self.swap(self.taken(epoch, Version::of(&self.head))?).await,
        }
    }

    fn taken(&self, epoch: Epoch, version: Version) -> Result<Head, Invalid> {
        transition::take(&self.head, epoch, version, false, Author::new(&self.device))
    }

    pub(super) fn namer(&self) -> &Namer {
        &self.namer
    }

    /// Puts a segment, and returns only when it is there: under its name or, if that is taken, under another one. Also returns how long the
    /// successful try took. `busy` is called each time that the store asks for patience.
    pub(super) async fn put_segment(
        &self,
        mut packed: Packed,
        mut busy: impl FnMut() + Send,
    ) -> (Packed, Duration) {
        let mut backoff = Backoff::new();
        loop {
            let name = packed.id.name(ObjectKind::Segment);
            match self.put(&name, &packed.body, &mut backoff, &mut busy).await {
                Ok(took) => return (packed, took),
                Err(Taken) => packed = packed.renamed(self.namer.next(), self.objects.sealer()),
            }
        }
    }

    /// Puts an immutable object. Returns only when it is there, or can no longer be put under this name.
    async fn put(
        &self,
        name: &str,
        body: &Bytes,
        backoff: &mut Backoff,
        busy: &mut (impl FnMut() + Send),
    ) -> Result<Duration, Taken> {
        let sending = Sending::begin(&self.publish, name, body.len() as u64);
        loop {
            let begun = Instant::now();
            let result = immutable::put(self.objects.store().as_ref(), name, body.clone()).await;
            let took = begun.elapsed();
            let error = match result {
                Ok(_) => {
                    self.no_trouble();
                    self.publish.send_modify(|state| state.stored.put_bytes += body.len() as u64);
                    return Ok(took);
                }
                Err(_) if planted::has(Bug::FailedPutTakenForDone) => return Ok(took),
                Err(error @ StoreError::Damaged { .. }) => {
                    self.wait_for(&sending, backoff, &error).await;
                    return Err(Taken);
                }
                Err(error) => error,
            };
            if is_busy(&error) {
                busy();
            }
            self.wait_for(&sending, backoff, &error).await;
        }
    }

    /// Commits the version that `change` makes of the current one.
    pub async fn commit(&mut self, change: impl FnOnce(&mut Root)) -> Result<(), PushError> {
        let mut root = self.root.clone();
        root.parent = self.head.root;
        root.epoch = self.head.epoch;
        root.committed_ms = now_ms();
        root.device = self.device.id;
        root.device_name = self.device.name.clone();
        // Only the commit that condemns lists these objects. No later version names one: it names new objects, and what its parent names.
        root.condemned.clear();
        change(&mut root);
        let (version, root) = self.put_root(root).await;
        self.swap(transition::commit(&self.head, version, Author::new(&self.device))?).await?;
        self.root = root;
        Ok(())
    }

    /// Puts a root that follows the current one.
    async fn put_root(&self, mut root: Root) -> (Version, Root) {
        let mut backoff = Backoff::new();
        loop {
            let id = self.namer.next();
            root.seq = id.seq;
            let name = id.name(ObjectKind::Root);
            let body = Bytes::from(root.seal(self.objects.sealer(), &name));
            if self.put(&name, &body, &mut backoff, &mut || ()).await.is_ok() {
                let root_hash = *blake3::hash(&body).as_bytes();
                return (Version { root: id, root_hash, parent: root.parent }, root);
            }
        }
    }

    /// Says in HEAD that the drive is no longer open.
    pub async fn release(&mut self) -> Result<(), PushError> {
        let next = transition::release(&self.head, Author::new(&self.device))?;
        self.swap(next).await
    }

    /// Swaps HEAD to `next`, however long the store is away.
    async fn swap(&mut self, next: Head) -> Result<(), PushError> {
        let swapped = {
            let (store, sealer) = (self.objects.store().as_ref(), self.objects.sealer());
            let bytes = next.encode(sealer).len() as u64;
            let sending = Sending::begin(&self.publish, &head::name(next.drive), bytes);
            let mut patience =
                Patience { committer: self, sending, backoff: Backoff::new(), looking: Backoff::new() };
            heads::swap(store, sealer, Some((&self.head, &self.etag)), next, &mut patience).await
        };
        match swapped {
            Swap::Applied(head, etag) => {
                (self.head, self.etag) = (head, etag);
                self.no_trouble();
                Ok(())
            }
            Swap::Lost(now) => Err(PushError::Fenced(Fence::by(&now))),
            Swap::Refused(error) | Swap::Unknown(error) => {
                unreachable!("a pusher tries until it knows, but ended with: {error}")
            }
        }
    }

    /// Puts a grant over the current HEAD, once, and looks what came of it.
    pub(super) async fn put_grant(&self, grant: &Head) -> heads::Granted {
        let (store, sealer) = (self.objects.store().as_ref(), self.objects.sealer());
        match heads::put_grant((store, sealer), self.head.nonce, grant).await {
            Ok(granted) => granted,
            Err(error) => heads::Granted::Unknown(heads::as_store_error(error)),
        }
    }

    /// HEAD as it is now, however long the store is away.
    pub(super) async fn read_head(&self) -> (Head, Etag) {
        let mut backoff = Backoff::new();
        loop {
            let (store, sealer) = (self.objects.store().as_ref(), self.objects.sealer());
            match heads::read(store, sealer, self.head.drive).await {
                Ok(found) => return found,
                Err(error) => self.wait_to_look(&mut backoff, &heads::as_store_error(error)).await,
            }
        }
    }

    /// Waits until HEAD, which could not be read, is to be read again.
    async fn wait_to_look(&self, backoff: &mut Backoff, error: &StoreError) {
        let found = match error {
            StoreError::NotFound { .. } => self.find_family().await,
            _ => Ok(true),
        };
        let delay = match &found {
            Ok(true) => self.trouble(backoff, error),
            Ok(false) => self.tell(backoff, (EMPTIED, false), None),
            Err(error) => self.trouble(backoff, error),
        };
        self.sleep(delay).await;
    }

    /// Whether the family is there. If it is gone as well, somebody has emptied the store.
    async fn find_family(&self) -> Result<bool, StoreError> {
        match self.objects.store().get(family::NAME, None).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the put is to be tried again.
    async fn wait_for(&self, sending: &Sending, backoff: &mut Backoff, error: &StoreError) {
        let delay = self.trouble(backoff, error);
        sending.waits(error.to_string(), now_ms() + delay.as_millis() as u64);
        self.sleep(delay).await;
        sending.is_tried();
    }

    pub(super) async fn wait(&self, backoff: &mut Backoff, error: &StoreError) {
        let delay = self.trouble(backoff, error);
        self.sleep(delay).await;
    }

    /// Reports an error. Returns how long to wait after it.
    fn trouble(&self, backoff: &mut Backoff, error: &StoreError) -> Duration {
        let is_full = matches!(error, StoreError::Full { .. });
        self.tell(backoff, (&error.to_string(), is_full), retry::hint_of(error))
    }

    fn tell(
        &self,
        backoff: &mut Backoff,
        (error, is_full): (&str, bool),
        hint: Option<Duration>,
    ) -> Duration {
        tracing::warn!(error, "the store did not take it; trying again");
        self.publish.send_modify(|state| (state.trouble, state.is_full) = (Some(error.to_owned()), is_full));
        backoff.next(hint)
    }

    async fn sleep(&self, delay: Duration) {
        tokio::select! { biased;
            () = self.again.notified() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    pub(super) fn no_trouble(&self) {
        self.publish.send_if_modified(|state| {
            state.is_full = false;
            state.trouble.take().is_some()
        });
    }
}

fn is_busy(error: &StoreError) -> bool {
    matches!(error, StoreError::Busy { .. })
}

/// A pusher's patience: it has no end, and people see what it waits for.
struct Patience<'a> {
    committer: &'a Committer,
    sending: Sending,
    backoff: Backoff,
    looking: Backoff,
}

#[async_trait]
impl Retry for Patience<'_> {
    async fn wait(&mut self, error: &StoreError) -> bool {
        self.looking = Backoff::new();
        self.committer.wait_for(&self.sending, &mut self.backoff, error).await;
        true
    }

    async fn wait_to_look(&mut self, error: &StoreError) -> bool {
        self.committer.wait_to_look(&mut self.looking, error).await;
        true
    }
}
