//! A connection to the other device: messages in their order, with the numbers of their frames checked. What is urgent overtakes the parts of a round
//! that wait to be sent, so a cancellation never waits for data.

use super::message::{Message, Part, Position};
use super::wire::{self, HEADER_BYTES, Header};
use crate::units::BlockRange;
use bytes::Bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Messages that were read and not handled yet: a round is not taken faster than the disk writes it.
const READ_AHEAD: usize = 8;
/// A connection without a frame for so long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// A frame is sent at least this often.
const PING_AFTER: Duration = Duration::from_secs(5);

/// The bytes of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Reads the content of a part when its turn comes.
pub type Content = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = io::Result<Part>> + Send>> + Send>;

/// Something to send in order.
enum Ordered {
    Message(Message),
    Part(Content),
}

/// What comes from the connection.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// A part could not be read here; the connection is closed.
    Unreadable(String),
    /// The connection has ended.
    Ended,
}

/// A connection, and the tasks that read and write it. Dropping it closes it.
pub struct Link {
    urgent: mpsc::UnboundedSender<Message>,
    ordered: mpsc::UnboundedSender<Ordered>,
    incoming: mpsc::Receiver<Incoming>,
    tasks: [JoinHandle<()>; 2],
}

impl Link {
    /// Begins to read and write.
    pub fn new(stream: Box<dyn Stream>) -> Self {
        let (read, write) = tokio::io::split(stream);
        let (told, incoming) = mpsc::channel(READ_AHEAD);
        let (urgent, urgent_messages) = mpsc::unbounded_channel();
        let (ordered, ordered_messages) = mpsc::unbounded_channel();
        let reader = tokio::spawn(reader(read, told.clone()));
        let writer = tokio::spawn(writer(write, urgent_messages, ordered_messages, told));
        Self { urgent, ordered, incoming, tasks: [reader, writer] }
    }

    /// Sends a message before everything that waits; FINAL comes after the parts.
    pub fn send(&self, message: Message) {
        // A connection that has ended says so by itself.
        let _ = match message {
            Message::Final(_) => self.ordered.send(Ordered::Message(message)).is_ok(),
            message => self.urgent.send(message).is_ok(),
        };
    }

    /// Sends a part after those before it.
    pub fn send_part(&self, content: Content) {
        let _ = self.ordered.send(Ordered::Part(content)).is_ok();
    }

    /// The next message, or the end. May be dropped at any time.
    pub async fn next(&mut self) -> Incoming {
        self.incoming.recv().await.unwrap_or(Incoming::Ended)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn reader(mut read: impl AsyncRead + Unpin, told: mpsc::Sender<Incoming>) {
    for number in 0.. {
        let message = match tokio::time::timeout(SILENCE_MAX, read_message(&mut read, number)).await {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => {
                tracing::info!(%error, "the connection to the other computer ended");
                break;
            }
            Err(_) => {
                tracing::info!("the other computer has been silent for too long");
                break;
            }
        };
        if message != Message::Ping && told.send(Incoming::Message(message)).await.is_err() {
            return;
        }
    }
    let _ = told.send(Incoming::Ended).await;
}

async fn read_message(read: &mut (impl AsyncRead + Unpin), number: u64) -> io::Result<Message> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut head = [0; HEADER_BYTES];
    read.read_exact(&mut head).await?;
    let header = Header::decode(&head).map_err(|error| invalid(error.to_string()))?;
    if header.number != number {
        return Err(invalid("a message is missing, or came twice".to_owned()));
    }
    let mut body = vec![0; header.len];
    read.read_exact(&mut body).await?;
    wire::decode(header.kind, &Bytes::from(body)).map_err(|error| invalid(error.to_string()))
}

async fn writer(
    mut write: impl AsyncWrite + Unpin,
    mut urgent: mpsc::UnboundedReceiver<Message>,
    mut ordered: mpsc::UnboundedReceiver<Ordered>,
    told: mpsc::Sender<Incoming>,
) {
    for number in 0.. {
        let next = tokio::select! {
            biased;
            message = urgent.recv() => message.map(Ordered::Message),
            next = ordered.recv() => next,
            () = tokio::time::sleep(PING_AFTER) => Some(Ordered::Message(Message::Ping)),
        };
        let message = match next {
            None => return,
            Some(Ordered::Message(message)) => message,
            Some(Ordered::Part(content)) => match content().await {
                Ok(part) => Message::Round(part),
                Err(error) => {
                    let _ = told.send(Incoming::Unreadable(error.to_string())).await;
                    return;
                }
            },
        };
        let sent = async {
            write.write_all(&wire::encode(number, &message)).await?;
            write.flush().await
        };
        if sent.await.is_err() {
            let _ = told.send(Incoming::Ended).await;
            return;
        }
    }
}

/// The part of a round with these contents. It is compressed if that saves an eighth.
pub fn part(
    at: Position,
    last: bool,
    blocks: Vec<BlockRange>,
    zeros: Vec<BlockRange>,
    data: Vec<u8>,
) -> Part {
    let packed = zstd::bulk::compress(&data, 1).ok().filter(|packed| packed.len() < data.len() / 8 * 7);
    let compressed = packed.is_some();
    Part { at, last, blocks, zeros, compressed, data: packed.unwrap_or(data).into() }
}

/// The data of a part.
///
/// # Errors
///
/// It does not unpack to exactly its blocks.
pub fn unpacked(part: &Part) -> io::Result<Bytes> {
    if !part.compressed {
        return Ok(part.data.clone());
    }
    let len = part.blocks.iter().map(|run| run.byte_len() as usize).sum();
    let data = zstd::bulk::decompress(&part.data, len)?;
    match data.len() == len {
        true => Ok(data.into()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "a part does not unpack to its blocks")),
    }
}
