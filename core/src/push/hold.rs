//! A hand-over, as far as it concerns pushing: nothing is committed while it lasts, so that the version that the other device builds on stays
//! the current one. Then HEAD is swapped to the grant, and pushing ends; or the hand-over is cancelled, and pushing continues.
//!
//! The hold lasts as long as its [`Hold`] lives: whoever prepares a hand-over and dies does not stop uploads for ever.

use super::requests::{Asked, Queue, Request};
use super::task::Task;
use super::{PushError, Pusher};
use crate::format::head::Head;
use crate::format::root::Root;
use crate::heads::Granted;
use tokio::sync::{mpsc, oneshot};

/// The version that stays current.
#[derive(Clone, Debug)]
pub(crate) struct OnHold {
    pub head: Head,
    pub root: Root,
}

/// An order to a push task that is on hold.
pub(crate) enum Order {
    /// Put this grant.
    Swap(Box<Head>, oneshot::Sender<Granted>),
}

/// Keeps the push task on hold until it is dropped.
pub(crate) struct Hold {
    orders: mpsc::UnboundedSender<Order>,
    pub version: OnHold,
}

impl Pusher {
    /// Waits until the batch under way is committed, and commits nothing more until the hold is dropped.
    pub(crate) async fn hold(&self) -> Result<Hold, PushError> {
        let (orders, received) = mpsc::unbounded_channel();
        self.stop_collecting();
        let version = self.ask(|reply| Request::HandOver { orders: received, reply }).await?;
        Ok(Hold { orders, version })
    }
}

impl Hold {
    /// Puts a grant once, and says what came of it. Once it is applied or lost, pushing has ended.
    pub async fn swap(&self, grant: Head) -> Result<Granted, PushError> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Swap(Box::new(grant), reply)).map_err(|_| PushError::Closed)?;
        answer.await.map_err(|_| PushError::Closed)
    }
}

/// Serves one hand-over. Other requests are refused meanwhile. An error ends pushing for good.
pub(super) async fn serve(
    task: &mut Task,
    queue: &mut Queue,
    mut orders: mpsc::UnboundedReceiver<Order>,
    reply: oneshot::Sender<Result<OnHold, PushError>>,
) -> Result<(), PushError> {
    let (head, root) = (task.committer.head().clone(), task.committer.root().clone());
    if reply.send(Ok(OnHold { head, root })).is_err() {
        return Ok(());
    }
    task.publish.send_modify(|state| state.is_on_hold = true);
    let ended = loop {
        tokio::select! { biased;
            order = orders.recv() => match order {
                Some(Order::Swap(grant, reply)) => {
                    let to = grant.device_name.clone();
                    let granted = task.committer.put_grant(&grant).await;
                    let is_over = match &granted {
                        Granted::Applied => Some(Err(PushError::HandedOver { to })),
                        // This device has promised to write no more. A later opening says what to do.
                        Granted::Lost(now) => Some(Err(PushError::HandedOver { to: now.device_name.clone() })),
                        Granted::NotApplied(_) | Granted::Unknown(_) => None,
                    };
                    let _ = reply.send(granted);
                    if let Some(is_over) = is_over {
                        break is_over;
                    }
                }
                None => break Ok(()),
            },
            asked = queue.next() => match asked {
                Some(Asked { request, waits }) => {
                    Asked { request, waits }.refuse(PushError::OnHold);
                }
                None => break Err(PushError::Closed),
            },
        }
    };
    task.publish.send_modify(|state| state.is_on_hold = false);
    ended
}
