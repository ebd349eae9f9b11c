//! The handshake, from the server's side. It is bounded in options, in bytes and in time, because anyone who can connect can speak here.

use super::export::{Export, Terms};
use super::incoming::{Incoming, ReceiveError};
use super::outgoing::ALLOCATION_CONTEXT;
use crate::codec::handshake::*;
use crate::codec::{Malformed, STRING_BYTES_MAX};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client must have begun its transmission by then.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The most options of one negotiation. The busiest known client (nbdinfo --list over many exports) sends a few for each export that it
/// examines.
const OPTIONS_MAX: usize = 256;
/// The most bytes of option data that are skipped in order to answer ERR_TOO_BIG; after more, the connection is closed.
const SKIPPED_BYTES_MAX: u32 = 1 << 20;

/// Where a negotiation looks up exports.
pub(super) trait Directory {
    /// The export of that name; empty for the default one.
    fn find(&self, name: &str) -> Option<Arc<Export>>;
    /// All names.
    fn names(&self) -> Vec<String>;
}

/// Why no transmission follows.
#[derive(Debug, thiserror::Error)]
pub(super) enum NegotiationError {
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error("the client does not take its answers: {0}")]
    Send(io::Error),
    #[error("more than {OPTIONS_MAX} options")]
    TooManyOptions,
    #[error("an option of {0} bytes")]
    OptionTooLong(u32),
    #[error("no export {0:?}, and this client's way of asking has no answer for that")]
    UnknownExport(String),
}

impl From<Malformed> for NegotiationError {
    fn from(malformed: Malformed) -> Self {
        NegotiationError::Receive(malformed.into())
    }
}

/// Runs the handshake; `None` if the client ended it properly.
pub(super) fn negotiate(
    socket: &Arc<OwnedFd>,
    incoming: &mut Incoming,
    directory: &dyn Directory,
) -> Result<Option<(Arc<Export>, Terms)>, NegotiationError> {
    let deadline = Instant::now() + TIME_LIMIT;
    incoming.set_deadline(Some(deadline))?;
    let (out, terms) = (Vec::new(), Terms::default());
    let chosen = Haggling { socket, directory, deadline, out, terms, context_of: None }.run(incoming)?;
    incoming.set_deadline(None)?;
    Ok(chosen)
}

struct Haggling<'a> {
    socket: &'a OwnedFd,
    directory: &'a dyn Directory,
    deadline: Instant,
    out: Vec<u8>,
    terms: Terms,
    // The export for which the metadata context was chosen: the context is valid for no other.
    context_of: Option<Arc<Export>>,
}

/// What follows an option.
enum Next {
    Another,
    Begin(Arc<Export>),
    End,
}

impl Haggling<'_> {
    fn run(&mut self, incoming: &mut Incoming) -> Result<Option<(Arc<Export>, Terms)>, NegotiationError> {
        self.out.extend_from_slice(&encode_greeting(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
        self.send()?;
        let mut flags = [0; 4];
        incoming.exact(&mut flags)?;
        let flags = ClientFlags::decode(flags)?;
        for _ in 0..OPTIONS_MAX {
            let next = self.option(incoming, flags);
            self.send()?;
            match next? {
                Next::Another => {}
                Next::Begin(export) => {
                    let context = self.context_of.take();
                    let same = context.is_some_and(|other| Arc::ptr_eq(&other, &export));
                    self.terms.allocation = same;
                    return Ok(Some((export, self.terms)));
                }
                Next::End => return Ok(None),
            }
        }
        Err(NegotiationError::TooManyOptions)
    }

    fn option(&mut self, incoming: &mut Incoming, flags: ClientFlags) -> Result<Next, NegotiationError> {
        let mut header = [0; OPTION_HEADER_BYTES];
        incoming.exact(&mut header)?;
        let OptionHeader { code, len } = OptionHeader::decode(&header)?;
        if len > OPTION_BYTES_MAX {
            if len > SKIPPED_BYTES_MAX || code == option::EXPORT_NAME {
                return Err(NegotiationError::OptionTooLong(len));
            }
            incoming.skip(len.into())?;
            self.answer(code, reply::ERR_TOO_BIG, b"the option is too long");
            return Ok(Next::Another);
        }
        let data = incoming.payload(len)?;
        match code {
            option::EXPORT_NAME => return self.export_name(data, flags),
            option::ABORT => {
                self.answer(code, reply::ACK, &[]);
                return Ok(Next::End);
            }
            option::LIST => self.list(data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.terms.structured = true;
                self.answer(code, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => self.answer(code, reply::ERR_INVALID, b"this option has no data"),
            option::INFO | option::GO => {
                if let Some(export) = self.info(code, data) {
                    return Ok(Next::Begin(export));
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(code, data),
            _ => self.answer(code, reply::ERR_UNSUP, b"unknown option"),
        }
        Ok(Next::Another)
    }

    fn export_name(&mut self, data: &[u8], flags: ClientFlags) -> Result<Next, NegotiationError> {
        let name = crate::codec::Reader::new(data).string(data.len())?;
        let Some(export) = self.directory.find(name) else {
            return Err(NegotiationError::UnknownExport(name.to_owned()));
        };
        let size = export.device().geometry().size_bytes;
        self.out.extend_from_slice(&size.to_be_bytes());
        self.out.extend_from_slice(&export.transmission_flags(self.terms.structured).to_be_bytes());
        if !flags.no_zeroes {
            self.out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Ok(Next::Begin(export))
    }

    fn list(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.answer(option::LIST, reply::ERR_INVALID, b"this option has no data");
        }
        for name in self.directory.names() {
            self.answer(option::LIST, reply::SERVER, &counted(&name));
        }
        self.answer(option::LIST, reply::ACK, &[]);
    }

    /// Describes an export; returns it if transmission begins with it.
    fn info(&mut self, code: u32, data: &[u8]) -> Option<Arc<Export>> {
        let Ok(request) = InfoRequest::decode(data) else {
            self.answer(code, reply::ERR_INVALID, b"malformed information request");
            return None;
        };
        let Some(export) = self.directory.find(request.name) else {
            self.answer(code, reply::ERR_UNKNOWN, b"no such export");
            return None;
        };
        let size = export.device().geometry().size_bytes;
        let flags = export.transmission_flags(self.terms.structured);
        self.answer(code, reply::INFO, &Info::Export { size, flags }.encode());
        if request.canonical_name {
            self.answer(code, reply::INFO, &Info::Name(export.name().to_owned()).encode());
        }
        if request.block_size {
            self.answer(code, reply::INFO, &Info::BlockSize(Export::block_sizes()).encode());
        }
        self.answer(code, reply::ACK, &[]);
        // Only a GO that asked for block sizes promises to respect them.
        self.terms.aligned = request.block_size;
        (code == option::GO).then_some(export)
    }

    fn contexts(&mut self, code: u32, data: &[u8]) {
        let setting = code == option::SET_META_CONTEXT;
        if setting {
            self.context_of = None;
        }
        if !self.terms.structured {
            return self.answer(code, reply::ERR_INVALID, b"structured replies come first");
        }
        let query = match ContextQuery::decode(data) {
            Ok(query) => query,
            Err(Malformed::TooLong { .. }) => {
                return self.answer(code, reply::ERR_TOO_BIG, b"too many or too long queries");
            }
            Err(_) => return self.answer(code, reply::ERR_INVALID, b"malformed query"),
        };
        let Some(export) = self.directory.find(query.name) else {
            return self.answer(code, reply::ERR_UNKNOWN, b"no such export");
        };
        let named = query.queries.contains(&CONTEXT_ALLOCATION);
        let listed = query.queries.is_empty() || query.queries.contains(&CONTEXT_NAMESPACE);
        if named || (!setting && listed) {
            let id = if setting { ALLOCATION_CONTEXT } else { 0 };
            let mut context = id.to_be_bytes().to_vec();
            context.extend_from_slice(CONTEXT_ALLOCATION.as_bytes());
            self.answer(code, reply::META_CONTEXT, &context);
            if setting {
                self.context_of = Some(export);
            }
        }
        self.answer(code, reply::ACK, &[]);
    }

    fn answer(&mut self, code: u32, kind: u32, data: &[u8]) {
        debug_assert!(data.len() <= STRING_BYTES_MAX + 4, "what the server says is short");
        encode_option_reply(&mut self.out, code, kind, data);
    }

    fn send(&mut self) -> Result<(), NegotiationError> {
        let mut rest = &self.out[..];
        while !rest.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReceiveError::TooSlow.into());
            }
            set_send_timeout(self.socket, left)?;
            match rustix::net::send(self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(NegotiationError::Send(errno.into())),
            }
        }
        self.out.clear();
        Ok(())
    }
}

fn set_send_timeout(socket: &OwnedFd, timeout: Duration) -> Result<(), NegotiationError> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(timeout))
        .map_err(|errno| NegotiationError::Send(errno.into()))
}
