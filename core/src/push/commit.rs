//! Putting immutable objects, and the one swap that makes them a version.
//!
//! Nothing here stops while the outcome of a request is unknown. A put of an immutable name is repeated under the same name: if the first
//! one was applied after all, the second one finds its own bytes. A swap is repeated with the same HEAD, nonce included: if the first one
//! was applied, HEAD shows that nonce. So a late answer is harmless, and so is a request that the network delivers late: it does what was
//! intended anyway, or nothing. If a name turns out to hold other bytes, perhaps because the store has kept half of a put, the object can
//! no longer be put there. The next try uses a new name, and the other bytes are garbage.

use super::pack::Packed;
use super::sending::Sending;
use super::{Device, Namer, PushError, PushState};
use crate::fence::{self, Swap};
use crate::fork;
use crate::format::family;
use crate::format::head::{self, Head, HeadState};
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::Root;
use crate::map::Objects;
use crate::planted::{self, Bug};
use crate::retry::{self, Backoff};
use crate::store::{Etag, StoreError, When, immutable};
use crate::units::Epoch;
use crate::volume::Base;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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
        let Head { root, root_hash, parent, epoch, .. } = self.head;
        let epoch = Epoch(epoch.0 + 1);
        self.namer = Namer { drive: self.head.drive, epoch, seq: self.root.seq.into() };
        match fork::root_of_taker(&self.head, &self.root, epoch, &self.device, base) {
            Some(kept) => self.commit_root(kept).await,
            None => {
                let next = self.next_head(HeadState::Held, root, root_hash, parent);
                self.swap(Head { epoch, ..next }).await
            }
        }
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
        self.commit_root(root).await
    }

    /// Puts a root that follows the current one, and swaps HEAD to it.
    async fn commit_root(&mut self, mut root: Root) -> Result<(), PushError> {
        let mut backoff = Backoff::new();
        let (id, root_hash) = loop {
            let id = self.namer.next();
            root.seq = id.seq;
            let name = id.name(ObjectKind::Root);
            let body = Bytes::from(root.seal(self.objects.sealer(), &name));
            if self.put(&name, &body, &mut backoff, &mut || ()).await.is_ok() {
                break (id, *blake3::hash(&body).as_bytes());
            }
        };
        let head = self.next_head(HeadState::Held, id, root_hash, root.parent);
        self.swap(Head { epoch: root.epoch, ..head }).await?;
        self.root = root;
        Ok(())
    }

    /// Says in HEAD that the drive is no longer open.
    pub async fn release(&mut self) -> Result<(), PushError> {
        let Head { root, root_hash, parent, .. } = self.head;
        self.swap(self.next_head(HeadState::Released, root, root_hash, parent)).await
    }

    fn next_head(&self, state: HeadState, root: ObjectId, root_hash: [u8; 32], parent: ObjectId) -> Head {
        Head {
            drive: self.head.drive,
            epoch: self.head.epoch,
            nonce: crate::entropy::u128(),
            device: self.device.id,
            device_name: self.device.name.clone(),
            state,
            written_ms: now_ms(),
            root,
            root_hash,
            parent,
            moved_to: Vec::new(),
        }
    }

    #[allow(unused_mut)]
    async fn swap(&mut self, mut head: Head) -> Result<(), PushError> {
        let name = head::name(head.drive);
        let mut body = Bytes::from(head.encode(self.objects.sealer()));
        let sending = Sending::begin(&self.publish, &name, body.len() as u64);
        let mut backoff = Backoff::new();
        loop {
            let when = match planted::has(Bug::UnconditionalHead) {
                false => When::Matches(self.etag.clone()),
                true => When::Always,
            };
            let error = match self.objects.store().put(&name, body.clone(), when).await {
                Ok(etag) => {
                    (self.head, self.etag) = (head, etag);
                    self.no_trouble();
                    return Ok(());
                }
                Err(error) => error,
            };
            // A store that asks for patience is not asked at once whether the swap was applied.
            let has_waited = is_busy(&error);
            if has_waited {
                self.wait_for(&sending, &mut backoff, &error).await;
            }
            let (now, etag) = self.read_head(&name).await;
            if planted::has(Bug::RetriedCommitTakenForLost) {
                head.nonce = crate::entropy::u128();
                body = Bytes::from(head.encode(self.objects.sealer()));
            }
            match fence::judge(&now, &self.head, &head) {
                Swap::Applied => {
                    (self.head, self.etag) = (head, etag);
                    self.no_trouble();
                    return Ok(());
                }
                Swap::NotApplied => self.etag = etag,
                Swap::Fenced(fence) => return Err(PushError::Fenced(fence)),
            }
            if !has_waited {
                self.wait_for(&sending, &mut backoff, &error).await;
            }
        }
    }

    pub(super) async fn read_head(&self, name: &str) -> (Head, Etag) {
        let mut backoff = Backoff::new();
        loop {
            let error = match self.objects.store().get(name, None).await {
                Ok(fetched) => match Head::decode(self.objects.sealer(), &fetched.bytes) {
                    Ok(head) => return (head, fetched.etag),
                    Err(error) => StoreError::Damaged { name: name.to_owned(), reason: error.to_string() },
                },
                Err(error @ StoreError::NotFound { .. }) => match self.find_family().await {
                    Ok(true) => error,
                    Ok(false) => {
                        let delay = self.tell(&mut backoff, (EMPTIED, false), None);
                        self.sleep(delay).await;
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            self.wait(&mut backoff, &error).await;
        }
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

/// Unix time in ms. It is shown to people, and nothing depends on it.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}
