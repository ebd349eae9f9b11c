//! The connection of one client: request after request, each with its fault.

use super::http::{Head, read_body};
use super::{EntryAt, Fault, Shared, answers};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A server's answer.
pub struct Answer {
    status: u16,
    head_bytes: usize,
    /// Head and body.
    bytes: Vec<u8>,
    /// Whether another answer may follow on the same connection.
    delimited: bool,
}

impl Answer {
    /// The answer with another server's name.
    fn disguised(self, server: &str) -> Self {
        let (head, body) = self.bytes.split_at(self.head_bytes);
        let head = String::from_utf8_lossy(head);
        let mut lines: Vec<_> = head.trim_end().lines().collect();
        lines.retain(|line| !line.to_ascii_lowercase().starts_with("server:"));
        let head = format!("{}\r\nServer: {server}\r\n\r\n", lines.join("\r\n"));
        Self { head_bytes: head.len(), bytes: [head.as_bytes(), body].concat(), ..self }
    }
}

/// The next step of the connection.
enum Next {
    GoOn,
    Cut,
}

/// Serves a client until it disconnects or is cut off.
pub fn serve(shared: &Shared, client: &TcpStream) {
    let mut from = BufReader::new(client);
    while let Ok(Some(head)) = Head::read(&mut from) {
        let (fault, at) = shared.decide(head.word(0), head.word(1));
        let asked = shared.state.lock().unwrap().asked;
        shared.run_zombies(asked);
        let next = one(shared, client, &mut from, &head, fault, at);
        let now = shared.now();
        shared.note(at, |entry| entry.ended = entry.ended.or(Some(now)));
        if !matches!(next, Ok(Next::GoOn)) {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

fn one(
    shared: &Shared,
    client: &TcpStream,
    from: &mut BufReader<&TcpStream>,
    head: &Head,
    fault: Option<Fault>,
    at: EntryAt,
) -> io::Result<Next> {
    if fault == Some(Fault::CutBeforeBody) {
        return Ok(Next::Cut);
    }
    if head.header("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue")) {
        (&*client).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(from, head.request_framing()?)?;
    shared.note(at, |entry| entry.body_bytes = body.len() as u64);
    let (method, request) = (head.word(0), [&head.bytes[..], &body].concat());
    let answered = |bytes: &[u8], status: u16| -> io::Result<Next> {
        // Before the answer is sent: the client's next request must be later.
        let now = shared.now();
        shared.note(at, |entry| (entry.status, entry.ended) = (Some(status), Some(now)));
        (&*client).write_all(bytes)?;
        Ok(Next::GoOn)
    };
    let upstream = shared.upstream;
    match fault {
        None => pass_on(&ask(upstream, method, &request)?, answered),
        Some(Fault::Replayed) => {
            ask(upstream, method, &request)?;
            pass_on(&ask(upstream, method, &request)?, answered)
        }
        Some(Fault::CutBeforeBody) => Ok(Next::Cut),
        Some(Fault::CutInBody) => {
            let mut server = TcpStream::connect(upstream)?;
            server.write_all(&request[..request.len() - body.len().div_ceil(2)])?;
            Ok(Next::Cut)
        }
        Some(Fault::CutAfterBody) => {
            TcpStream::connect(upstream)?.write_all(&request)?;
            Ok(Next::Cut)
        }
        Some(Fault::LostAnswer) => {
            ask(upstream, method, &request)?;
            Ok(Next::Cut)
        }
        Some(Fault::ShortAnswer) => {
            let answer = ask(upstream, method, &request)?;
            let body_bytes = answer.bytes.len() - answer.head_bytes;
            let cut = if body_bytes > 0 { answer.head_bytes + body_bytes / 2 } else { answer.head_bytes / 2 };
            answered(&answer.bytes[..cut], answer.status)?;
            Ok(Next::Cut)
        }
        Some(Fault::Drip { pieces, pause }) => {
            let answer = ask(upstream, method, &request)?;
            for piece in answer.bytes.chunks(answer.bytes.len().div_ceil(pieces.max(1))) {
                std::thread::sleep(pause);
                answered(piece, answer.status)?;
            }
            Ok(if answer.delimited { Next::GoOn } else { Next::Cut })
        }
        Some(Fault::Silence) => {
            // Until the client disconnects, or the proxy ends.
            let _ = from.read(&mut [0]);
            Ok(Next::Cut)
        }
        Some(Fault::Status { code, error, retry_after }) => {
            answered(&answers::status(method, code, error, retry_after), code)
        }
        Some(Fault::Zombie { later }) => {
            shared.hold_back(later, method, request);
            Ok(Next::Cut)
        }
        Some(Fault::Disguised(server)) => {
            pass_on(&ask(upstream, method, &request)?.disguised(server), answered)
        }
        Some(Fault::Portal) => answered(&answers::portal(method), 200),
    }
}

fn pass_on(answer: &Answer, answered: impl Fn(&[u8], u16) -> io::Result<Next>) -> io::Result<Next> {
    answered(&answer.bytes, answer.status)?;
    Ok(if answer.delimited { Next::GoOn } else { Next::Cut })
}

/// Asks the server at `upstream`, on a new connection.
pub fn ask(upstream: SocketAddr, method: &str, request: &[u8]) -> io::Result<Answer> {
    let server = TcpStream::connect(upstream)?;
    server.set_nodelay(true)?;
    // A server that has answered early may have stopped reading.
    let sent = (&server).write_all(request);
    let mut from = BufReader::new(&server);
    read_answer(&mut from, method).map_err(|error| sent.err().unwrap_or(error))
}

fn read_answer(from: &mut impl BufRead, method: &str) -> io::Result<Answer> {
    loop {
        let head = Head::read(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if (100..200).contains(&head.status()) {
            continue;
        }
        let framing = head.answer_framing(method)?;
        let status = head.status();
        let closes = head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let delimited = framing != super::http::Framing::ToTheEnd && !closes;
        let head_bytes = head.bytes.len();
        let mut bytes = head.bytes;
        bytes.extend(read_body(from, framing)?);
        return Ok(Answer { status, head_bytes, bytes, delimited });
    }
}
