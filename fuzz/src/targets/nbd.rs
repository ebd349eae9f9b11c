//! NBD: bytes from clients to the server, bytes from servers to the client, and the structures of both.

use holdall_nbd::client::{Client, Options};
use holdall_nbd::codec::handshake::{
    self, ClientFlags, ContextQuery, Info, InfoRequest, OptionHeader, OptionReplyHeader, encode_option,
    option,
};
use holdall_nbd::codec::transmission::{Command, Cookie, ReplyHead, Request, encode_simple_reply};
use std::io::{self, Read, Write};

/// A client's side of a conversation; the first byte chooses how the server begins.
pub fn server(input: &[u8]) {
    holdall_nbd::testing::feed(input);
}

/// A whole conversation, and the transmission phase alone.
pub fn server_seeds() -> Vec<Vec<u8>> {
    let mut conversation = vec![0];
    conversation.extend_from_slice(&u32::from(handshake::FLAG_FIXED_NEWSTYLE).to_be_bytes());
    conversation.extend_from_slice(&encode_option(option::STRUCTURED_REPLY, &[]));
    let query = ContextQuery { name: "", queries: vec!["base:allocation"] };
    conversation.extend_from_slice(&encode_option(option::SET_META_CONTEXT, &query.encode()));
    let go = InfoRequest { name: "fuzz", block_size: true, canonical_name: true };
    conversation.extend_from_slice(&encode_option(option::GO, &go.encode()));
    let mut requests = Vec::new();
    for (cookie, command) in (0..7).map(Command::from).enumerate() {
        let request = Request { flags: 0, command, cookie: Cookie(cookie as u64), offset: 4096, len: 4096 };
        if command != Command::Disconnect {
            requests.extend_from_slice(&request.encode());
        }
        if command == Command::Write {
            requests.resize(requests.len() + 4096, 7);
        }
    }
    conversation.extend_from_slice(&requests);
    vec![conversation, [&[1], &requests[..]].concat(), [&[3], &requests[..]].concat()]
}

/// A server that sends the input, whatever it is asked.
struct Said {
    bytes: io::Cursor<Vec<u8>>,
}

impl Read for Said {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buf)
    }
}

impl Write for Said {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server's side of a conversation; the first byte chooses what the client asks for.
pub fn client(input: &[u8]) {
    const LEN: u32 = 16 << 10;
    let Some((choice, rest)) = input.split_first() else { return };
    let said = Said { bytes: io::Cursor::new(rest.to_vec()) };
    let options = Options {
        export: "fuzz".into(),
        structured: choice & 1 != 0,
        block_sizes: choice & 2 != 0,
        allocation: choice & 4 != 0,
    };
    let mut client = match choice & 8 {
        0 => Client::without_handshake(said, 1 << 40),
        _ => match Client::over(said, &options) {
            Ok(client) => client,
            Err(_) => return,
        },
    };
    let mut asked = Vec::new();
    for (command, len) in
        [(Command::Read, LEN), (Command::BlockStatus, LEN), (Command::Flush, 0), (Command::Read, 1)]
    {
        asked.push((client.send(command, 0, 4096, len).expect("a vector takes bytes"), command, len));
    }
    while let Ok((cookie, outcome)) = client.receive() {
        let at =
            asked.iter().position(|(sent, ..)| *sent == cookie).expect("a reply to what was asked, once");
        let (_, command, len) = asked.remove(at);
        if let (Ok(data), Command::Read) = (outcome, command) {
            assert_eq!(data.bytes.len(), len as usize);
        }
    }
}

/// Simple and structured replies.
pub fn client_seeds() -> Vec<Vec<u8>> {
    let mut simple = vec![0];
    simple.extend_from_slice(&encode_simple_reply(0, Cookie(3)));
    simple.extend_from_slice(&encode_simple_reply(0, Cookie(4)));
    simple.push(9);
    simple.extend_from_slice(&encode_simple_reply(5, Cookie(2)));
    simple.extend_from_slice(&encode_simple_reply(0, Cookie(1)));
    simple.resize(simple.len() + (16 << 10), 7);
    // Magic, flags (1: the last), kind, cookie, length.
    let chunk = |flags: u16, kind: u16, cookie: u64, payload: &[u8]| {
        let head = [&0x668e_33ef_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
        [&head[..], &cookie.to_be_bytes(), &(payload.len() as u32).to_be_bytes(), payload].concat()
    };
    let data = [&4096_u64.to_be_bytes()[..], &[7; 4096]].concat();
    let hole = [&8192_u64.to_be_bytes()[..], &(12_u32 << 10).to_be_bytes()].concat();
    let status = [1_u32, 4096, 0, 12 << 10, 3].map(u32::to_be_bytes).concat();
    let error = [&5_u32.to_be_bytes()[..], &3_u16.to_be_bytes(), b"why"].concat();
    let structured = [
        vec![0],
        chunk(0, 1, 1, &data),
        chunk(1, 2, 1, &hole),
        chunk(1, 5, 2, &status),
        chunk(1, 0, 3, &[]),
        chunk(1, 32769, 4, &error),
    ];
    let mut handshake = vec![15];
    handshake.extend_from_slice(&handshake::encode_greeting(3));
    let mut reply =
        |code, kind, data: &[u8]| handshake::encode_option_reply(&mut handshake, code, kind, data);
    reply(option::STRUCTURED_REPLY, handshake::reply::ACK, &[]);
    reply(option::SET_META_CONTEXT, handshake::reply::META_CONTEXT, b"\0\0\0\x01base:allocation");
    reply(option::SET_META_CONTEXT, handshake::reply::ACK, &[]);
    reply(option::GO, handshake::reply::INFO, &Info::Export { size: 1 << 40, flags: 1 }.encode());
    reply(option::GO, handshake::reply::ACK, &[]);
    handshake.extend_from_slice(&structured[1..].concat());
    vec![simple, structured.concat(), handshake]
}

/// One structure; the first byte says which. If the format leaves no choice, it encodes to the same bytes.
pub fn codec(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    match choice % 8 {
        0 => exact(rest.first_chunk().map(Request::decode), rest, |request| request.encode().to_vec()),
        1 => {
            exact(rest.first_chunk().copied().map(ClientFlags::decode), rest, |flags| flags.encode().to_vec())
        }
        2 => exact(Some(ContextQuery::decode(rest)), rest, ContextQuery::encode),
        3 => {
            if let Ok(request) = InfoRequest::decode(rest) {
                assert_eq!(InfoRequest::decode(&request.encode()), Ok(request));
            }
        }
        4 => {
            if let Ok(info) = Info::decode(rest)
                && info != Info::Other
            {
                assert_eq!(info.encode(), rest);
            }
        }
        5 => drop(rest.first_chunk().map(OptionHeader::decode)),
        6 => {
            if let Some(Ok(header)) = rest.first_chunk().map(OptionReplyHeader::decode) {
                assert!(header.len <= handshake::OPTION_BYTES_MAX);
            }
        }
        _ => drop(rest.first_chunk().map(ReplyHead::decode)),
    }
}

fn exact<T, E>(decoded: Option<Result<T, E>>, bytes: &[u8], encode: impl Fn(&T) -> Vec<u8>) {
    if let Some(Ok(value)) = decoded {
        let encoded = encode(&value);
        assert_eq!(encoded, bytes[..encoded.len()]);
    }
}

/// One of each structure.
pub fn codec_seeds() -> Vec<Vec<u8>> {
    let request =
        Request { flags: 1, command: Command::Write, cookie: Cookie(2), offset: 3, len: 4 }.encode();
    let query = ContextQuery { name: "d", queries: vec!["base:", "base:allocation"] }.encode();
    let info = InfoRequest { name: "d", block_size: true, canonical_name: true }.encode();
    let named = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
    vec![
        named(0, &request),
        named(1, &[0, 0, 0, 3]),
        named(2, &query),
        named(3, &info),
        named(4, &Info::Export { size: 1 << 40, flags: 1 }.encode()),
        named(4, &Info::Name("d".into()).encode()),
        named(5, &encode_option(option::GO, &info)),
        named(7, &encode_simple_reply(5, Cookie(9))),
    ]
}
