//! Cuts a body into lines: NDJSON, and the lines of server-sent events.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;

/// The longest line, and the longest document. The largest answers of the contract are a map of 4,096 cells (64 KiB) and the errors of a
/// check; a daemon that sends a longer line is broken.
pub const LINE_LIMIT_BYTES: usize = 16 << 20;

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub enum LinesError<E: std::fmt::Display> {
    /// The body was cut off.
    #[error("{0}")]
    Body(E),
    /// A line is too long.
    #[error("a line of its answer is longer than {LINE_LIMIT_BYTES} bytes")]
    TooLong,
}

/// The lines of a body.
pub struct Lines<B> {
    body: B,
    buffer: Vec<u8>,
    /// How much of the buffer has been searched for an end of line.
    searched: usize,
}

impl<B: Body<Data = Bytes> + Unpin> Lines<B>
where
    B::Error: std::fmt::Display,
{
    /// Reads nothing yet.
    pub fn new(body: B) -> Lines<B> {
        Lines { body, buffer: Vec::new(), searched: 0 }
    }

    /// The next line, without its line end; `None` at the end of the body. The last line may lack its line end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LinesError<B::Error>> {
        loop {
            if let Some(line) = self.buffered_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > LINE_LIMIT_BYTES {
                return Err(LinesError::TooLong);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(LinesError::Body(error)),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    self.searched = 0;
                    return Ok(Some(std::mem::take(&mut self.buffer)));
                }
            }
        }
    }

    /// The whole body, if nothing has been read from it.
    pub fn into_body(self) -> B {
        assert!(self.buffer.is_empty(), "a body is read as lines or as a whole");
        self.body
    }

    fn buffered_line(&mut self) -> Option<Vec<u8>> {
        match self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
            Some(at) => {
                let end = self.searched + at;
                self.searched = 0;
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    async fn cut(pieces: Vec<Bytes>) -> Vec<String> {
        let mut lines = Lines::new(Pieces(pieces.into()));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(String::from_utf8(line).unwrap());
        }
        all
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_how_the_body_arrives() {
        let text = b"{\"a\":1}\n\nthird\r\nlast";
        for size in 1..=text.len() {
            let pieces = text.chunks(size).map(Bytes::copy_from_slice).collect();
            assert_eq!(cut(pieces).await, ["{\"a\":1}", "", "third", "last"], "pieces of {size}");
        }
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_refused() {
        let piece = Bytes::from(vec![b'x'; LINE_LIMIT_BYTES / 2 + 1]);
        let mut lines = Lines::new(Pieces(VecDeque::from([piece.clone(), piece.clone(), piece])));
        assert!(matches!(lines.next().await, Err(LinesError::TooLong)));
    }
}
