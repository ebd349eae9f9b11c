//! Frames: `u32 length, u8 kind, u64 seq, body`, all little endian. The length counts kind, sequence number and body.
//!
//! A length is checked before anything is allocated for it. A frame that is longer than allowed, or shorter than its own head, ends the
//! connection: there is no way to find the next one.

use crate::error::{PeerError, Result};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest frame between paired devices: 1 MiB of data and its description.
pub const FRAME_MAX: u32 = (1 << 20) + (64 << 10);
/// The longest frame before the other side is known to be paired: the largest such message has under 300 bytes.
pub const UNPAIRED_FRAME_MAX: u32 = 4 << 10;
/// Kind and sequence number.
const AFTER_LENGTH: usize = 1 + 8;
/// All that precedes the body.
pub const HEAD_BYTES: usize = 4 + AFTER_LENGTH;

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the body means.
    pub kind: u8,
    /// The message's number, within what its sender counts.
    pub seq: u64,
    /// Its content.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Frame {
    /// Without the body: it may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame(kind {}, seq {}, {} bytes)", self.kind, self.seq, self.body.len())
    }
}

/// What precedes a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the body means.
    pub kind: u8,
    /// The message's number.
    pub seq: u64,
    /// The body's length in bytes.
    pub body_bytes: usize,
}

impl Head {
    /// Decodes a head. `limit` is for the frame's length field.
    pub fn decode(bytes: &[u8; HEAD_BYTES], limit: u32) -> Result<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>().expect("a head has 13 bytes");
        let (kind, seq) = rest.split_first().expect("a head has 13 bytes");
        let length = u32::from_le_bytes(*length);
        if length > limit {
            return Err(PeerError::Protocol("a message that is too long"));
        }
        let Some(body_bytes) = (length as usize).checked_sub(AFTER_LENGTH) else {
            return Err(PeerError::Protocol("a message that is too short"));
        };
        Ok(Self {
            kind: *kind,
            seq: u64::from_le_bytes(seq.try_into().expect("8 bytes are left")),
            body_bytes,
        })
    }
}

impl Frame {
    /// The frame's bytes.
    ///
    /// # Panics
    /// If the body is longer than a frame may be: the sender cuts its data.
    pub fn encode(&self) -> Vec<u8> {
        let length = self.body.len() + AFTER_LENGTH;
        assert!(length <= FRAME_MAX as usize, "a body of {} bytes fits no frame", self.body.len());
        let mut bytes = Vec::with_capacity(4 + length);
        bytes.extend((length as u32).to_le_bytes());
        bytes.push(self.kind);
        bytes.extend(self.seq.to_le_bytes());
        bytes.extend(&self.body);
        bytes
    }

    /// Decodes the frame at the beginning of `bytes`; the rest follows it.
    pub fn decode(bytes: &[u8], limit: u32) -> Result<Option<(Frame, &[u8])>> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let head = Head::decode(head, limit)?;
        Ok(rest
            .split_at_checked(head.body_bytes)
            .map(|(body, rest)| (Frame { kind: head.kind, seq: head.seq, body: body.to_vec() }, rest)))
    }
}

/// Reads one frame; `None` at the end of the connection.
pub async fn read(from: &mut (impl AsyncRead + Unpin), limit: u32) -> Result<Option<Frame>> {
    let mut head = [0; HEAD_BYTES];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let head = Head::decode(&head, limit)?;
    let mut body = vec![0; head.body_bytes];
    from.read_exact(&mut body).await?;
    Ok(Some(Frame { kind: head.kind, seq: head.seq, body }))
}

/// Reads one frame that must come.
pub async fn expect(from: &mut (impl AsyncRead + Unpin), limit: u32) -> Result<Frame> {
    let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "the other device closed the connection");
    read(from, limit).await?.ok_or_else(|| ended().into())
}

/// Writes one frame.
pub async fn write(to: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> Result<()> {
    to.write_all(&frame.encode()).await?;
    Ok(to.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(length: u32) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let frame = Frame { kind: 7, seq: u64::MAX, body: b"content".to_vec() };
        let bytes = [frame.encode(), b"next".to_vec()].concat();
        assert_eq!(Frame::decode(&bytes, FRAME_MAX).unwrap(), Some((frame, &b"next"[..])));
    }

    #[test]
    fn negative_huge_and_short_lengths_are_refused() {
        for length in [-1_i32 as u32, i32::MIN as u32, u32::MAX, FRAME_MAX + 1, 0, 8] {
            assert!(Head::decode(&head(length), FRAME_MAX).is_err(), "{length}");
        }
        assert!(Head::decode(&head(UNPAIRED_FRAME_MAX + 1), UNPAIRED_FRAME_MAX).is_err());
        assert_eq!(Head::decode(&head(9), FRAME_MAX).unwrap().body_bytes, 0);
        assert!(Head::decode(&head(FRAME_MAX), FRAME_MAX).is_ok());
    }

    #[tokio::test]
    async fn a_connection_that_ends_within_a_frame_is_an_error() {
        let whole = Frame { kind: 1, seq: 2, body: vec![3; 40] }.encode();
        assert!(read(&mut &whole[..0], FRAME_MAX).await.unwrap().is_none());
        for cut in 1..whole.len() {
            assert!(read(&mut &whole[..cut], FRAME_MAX).await.is_err(), "{cut}");
            assert_eq!(Frame::decode(&whole[..cut], FRAME_MAX).unwrap(), None);
        }
    }
}
