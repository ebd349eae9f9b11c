//! As much of HTTP/1.1 as is needed to find the end of a message. Bytes stay unchanged.

use std::io::{self, BufRead, ErrorKind, Read};

/// The longest first line and headers that are accepted.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The first line and the headers of a message.
pub struct Head {
    /// All of it, including the empty line.
    pub bytes: Vec<u8>,
    /// The first line.
    pub start: String,
    headers: Vec<(String, String)>,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// This many bytes.
    Length(u64),
    /// In chunks, each with its length.
    Chunked,
    /// At the end of the connection.
    ToTheEnd,
}

impl Head {
    /// Reads one; none if the connection ends before its first byte.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            from.by_ref().take(HEAD_BYTES_MAX as u64).read_until(b'\n', &mut bytes)?;
            match &bytes[before..] {
                [] if before == 0 => return Ok(None),
                [] => return Err(ErrorKind::UnexpectedEof.into()),
                b"\r\n" | b"\n" if before > 0 => return Self::parse(bytes).map(Some),
                _ if bytes.len() > HEAD_BYTES_MAX => return Err(ErrorKind::InvalidData.into()),
                _ => {}
            }
        }
    }

    fn parse(bytes: Vec<u8>) -> io::Result<Self> {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut lines = text.lines();
        let start = lines.next().unwrap_or_default().to_owned();
        let split = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        Ok(Self { bytes, start, headers: lines.filter_map(split).collect() })
    }

    /// The value of the header `name`, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Word `index` of the first line.
    pub fn word(&self, index: usize) -> &str {
        self.start.split(' ').nth(index).unwrap_or_default()
    }

    /// The status of an answer.
    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// How the body of a request ends.
    pub fn request_framing(&self) -> io::Result<Framing> {
        Ok(self.framing()?.unwrap_or(Framing::Length(0)))
    }

    /// How the body of the answer to a request of this method ends.
    pub fn answer_framing(&self, method: &str) -> io::Result<Framing> {
        match (self.status(), method) {
            (100..=199 | 204 | 304, _) | (_, "HEAD") => Ok(Framing::Length(0)),
            _ => Ok(self.framing()?.unwrap_or(Framing::ToTheEnd)),
        }
    }

    fn framing(&self) -> io::Result<Option<Framing>> {
        let coding = self.header("transfer-encoding").map(str::to_ascii_lowercase);
        if coding.is_some_and(|coding| coding.ends_with("chunked")) {
            return Ok(Some(Framing::Chunked));
        }
        let length = self.header("content-length").map(|length| length.parse().map(Framing::Length));
        length.transpose().map_err(|_| ErrorKind::InvalidData.into())
    }
}

/// Reads a body to its end, with chunks and trailers unchanged.
pub fn read_body(from: &mut impl BufRead, framing: Framing) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => read_exactly(from, length, &mut body)?,
        Framing::ToTheEnd => drop(from.read_to_end(&mut body)?),
        Framing::Chunked => while read_chunk(from, &mut body)? {},
    }
    Ok(body)
}

/// Reads one chunk, or the last one and the trailers. Returns whether more follow.
fn read_chunk(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let begin = body.len();
    read_line(from, body)?;
    let line = String::from_utf8_lossy(&body[begin..]).into_owned();
    let digits = line.split(';').next().unwrap_or_default().trim();
    let length = u64::from_str_radix(digits, 16).map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
    if length > 0 {
        read_exactly(from, length + 2, body)?;
        return Ok(true);
    }
    loop {
        let begin = body.len();
        read_line(from, body)?;
        if matches!(&body[begin..], b"\r\n" | b"\n") {
            return Ok(false);
        }
    }
}

fn read_line(from: &mut impl BufRead, to: &mut Vec<u8>) -> io::Result<()> {
    let before = to.len();
    from.by_ref().take(HEAD_BYTES_MAX as u64).read_until(b'\n', to)?;
    if to.len() == before { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn read_exactly(from: &mut impl BufRead, length: u64, to: &mut Vec<u8>) -> io::Result<()> {
    let read = from.by_ref().take(length).read_to_end(to)?;
    if read as u64 == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_where_its_head_says() {
        for (message, body) in [
            ("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\n", "abc"),
            ("PUT /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", "3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"),
            ("GET /a HTTP/1.1\r\n\r\n", ""),
        ] {
            let bytes = format!("{message}{body}GET /next");
            let mut from = bytes.as_bytes();
            let head = Head::read(&mut from).unwrap().unwrap();
            assert_eq!(head.bytes, message.as_bytes());
            let read = read_body(&mut from, head.request_framing().unwrap()).unwrap();
            assert_eq!((read.as_slice(), from), (body.as_bytes(), &b"GET /next"[..]));
        }
    }

    #[test]
    fn an_answer_without_a_length_ends_with_the_connection() {
        let mut from = &b"HTTP/1.0 200 OK\r\n\r\nall of it"[..];
        let head = Head::read(&mut from).unwrap().unwrap();
        assert_eq!((head.status(), head.answer_framing("GET").unwrap()), (200, Framing::ToTheEnd));
        assert_eq!(head.answer_framing("HEAD").unwrap(), Framing::Length(0));
        assert_eq!(read_body(&mut from, Framing::ToTheEnd).unwrap(), b"all of it");
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        assert!(Head::read(&mut &b""[..]).unwrap().is_none());
        assert!(Head::read(&mut &b"GET / HTTP/1.1\r\nHo"[..]).is_err());
        assert!(read_body(&mut &b"ab"[..], Framing::Length(3)).is_err());
        assert!(read_body(&mut &b"3\r\nab"[..], Framing::Chunked).is_err());
    }
}
