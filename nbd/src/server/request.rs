//! Turns a request's header into one call on the device, or a refusal. Pure.

use super::export::Terms;
use crate::codec::PAYLOAD_BYTES_MAX;
use crate::codec::transmission::{Command, ErrorCode, Request, command_flags};
use holdall_core::device::{DeviceGeometry, Durability, Zeroing};
use holdall_core::units::BLOCK_BYTES;
use std::ops::Range;

/// The most extents in one answer to BLOCK_STATUS: 32 KiB of reply. The client asks again from where it ended.
const EXTENTS_MAX: usize = 4096;

/// A call on the device.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// No bytes: the device is not asked.
    Nothing,
    Read {
        range: Range<u64>,
        fragment: bool,
    },
    Write {
        offset: u64,
        durability: Durability,
    },
    Zero {
        range: Range<u64>,
        how: Zeroing,
        durability: Durability,
    },
    Flush,
    Prefetch {
        range: Range<u64>,
    },
    Allocation {
        range: Range<u64>,
        limit: usize,
    },
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("unknown command {0}")]
    UnknownCommand(u16),
    #[error("flags {0:#x} do not belong to this command")]
    Flags(u16),
    #[error("the request reaches beyond the end of the device")]
    OutOfRange,
    #[error("the device is read-only")]
    ReadOnly,
    #[error("offset and length must be multiples of the minimum block size of {BLOCK_BYTES} bytes")]
    Unaligned,
    #[error("a flush has no offset and no length")]
    FlushWithRange,
    #[error("a block status request needs a metadata context and a length")]
    Status,
    #[error("at most {PAYLOAD_BYTES_MAX} bytes can be read at once")]
    TooLong,
    #[error("at most {PAYLOAD_BYTES_MAX} bytes can be read unfragmented")]
    TooLongUnfragmented,
}

impl Refusal {
    /// The one translation of refusals. A write beyond the end is EINVAL rather than the ENOSPC that the protocol suggests, which would
    /// look as if space had run out.
    pub(super) fn code(self) -> ErrorCode {
        match self {
            Refusal::UnknownCommand(_) => ErrorCode::Inval,
            Refusal::Flags(_) => ErrorCode::Inval,
            Refusal::OutOfRange => ErrorCode::Inval,
            Refusal::ReadOnly => ErrorCode::Perm,
            Refusal::Unaligned => ErrorCode::Inval,
            Refusal::FlushWithRange => ErrorCode::Inval,
            Refusal::Status => ErrorCode::Inval,
            Refusal::TooLong => ErrorCode::Inval,
            Refusal::TooLongUnfragmented => ErrorCode::Overflow,
        }
    }
}

/// The call for `request`. A disconnect never comes here.
pub(super) fn call_for(request: &Request, terms: Terms, geometry: DeviceGeometry) -> Result<Call, Refusal> {
    let allowed = allowed_flags(request.command, terms)?;
    if request.flags & !allowed != 0 {
        return Err(Refusal::Flags(request.flags));
    }
    if request.command == Command::Flush {
        let bare = request.offset == 0 && request.len == 0;
        return if bare { Ok(Call::Flush) } else { Err(Refusal::FlushWithRange) };
    }
    if geometry.read_only && writes(request.command) {
        return Err(Refusal::ReadOnly);
    }
    let range = range_of(request, terms, geometry)?;
    let has = |flag| request.flags & flag != 0;
    let durability = if has(command_flags::FUA) { Durability::Forced } else { Durability::Ordered };
    if range.is_empty() && (writes(request.command) || request.command == Command::Cache) {
        return Ok(Call::Nothing);
    }
    match request.command {
        Command::Read if request.len <= PAYLOAD_BYTES_MAX => {
            Ok(Call::Read { range, fragment: !has(command_flags::DF) })
        }
        Command::Read if has(command_flags::DF) => Err(Refusal::TooLongUnfragmented),
        Command::Read => Err(Refusal::TooLong),
        Command::Write => Ok(Call::Write { offset: range.start, durability }),
        Command::Trim => Ok(Call::Zero { range, how: Zeroing::Trim, durability }),
        Command::WriteZeroes => {
            let how = if has(command_flags::NO_HOLE) { Zeroing::KeepSpace } else { Zeroing::MayPunch };
            Ok(Call::Zero { range, how, durability })
        }
        Command::Cache => Ok(Call::Prefetch { range }),
        Command::BlockStatus if !terms.allocation || range.is_empty() => Err(Refusal::Status),
        Command::BlockStatus => {
            let limit = if has(command_flags::REQ_ONE) { 1 } else { EXTENTS_MAX };
            Ok(Call::Allocation { range, limit })
        }
        Command::Flush | Command::Disconnect => unreachable!("handled before"),
        Command::Unknown(code) => Err(Refusal::UnknownCommand(code)),
    }
}

/// FUA is accepted with every command, as the protocol demands from a server that offers it.
fn allowed_flags(command: Command, terms: Terms) -> Result<u16, Refusal> {
    use command_flags::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
    match command {
        Command::Read if terms.structured => Ok(FUA | DF),
        Command::WriteZeroes => Ok(FUA | NO_HOLE | FAST_ZERO),
        Command::BlockStatus => Ok(FUA | REQ_ONE),
        Command::Read | Command::Write | Command::Flush | Command::Trim | Command::Cache => Ok(FUA),
        Command::Disconnect => Ok(FUA),
        Command::Unknown(code) => Err(Refusal::UnknownCommand(code)),
    }
}

pub(super) fn writes(command: Command) -> bool {
    matches!(command, Command::Write | Command::Trim | Command::WriteZeroes)
}

fn range_of(request: &Request, terms: Terms, geometry: DeviceGeometry) -> Result<Range<u64>, Refusal> {
    let end = request.offset.checked_add(request.len.into()).ok_or(Refusal::OutOfRange)?;
    if end > geometry.size_bytes {
        return Err(Refusal::OutOfRange);
    }
    let aligned = request.offset.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES);
    if terms.aligned && !aligned { Err(Refusal::Unaligned) } else { Ok(request.offset..end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::transmission::Cookie;

    const TERMS: Terms = Terms { structured: true, allocation: true, aligned: true };
    const GEOMETRY: DeviceGeometry = DeviceGeometry { size_bytes: 1 << 30, read_only: false };

    fn request(command: Command, flags: u16, offset: u64, len: u32) -> Request {
        Request { flags, command, cookie: Cookie(1), offset, len }
    }

    #[test]
    fn ranges_are_checked_without_overflow() {
        for (offset, len) in [(u64::MAX, 4096), (1 << 30, 4096), (u64::MAX - 4095, u32::MAX)] {
            let read = request(Command::Read, 0, offset, len);
            assert_eq!(call_for(&read, TERMS, GEOMETRY), Err(Refusal::OutOfRange));
        }
        let last = request(Command::Read, 0, (1 << 30) - 4096, 4096);
        assert!(call_for(&last, TERMS, GEOMETRY).is_ok());
    }

    #[test]
    fn alignment_binds_only_clients_that_asked_for_it() {
        let odd = request(Command::Write, 0, 512, 512);
        assert_eq!(call_for(&odd, TERMS, GEOMETRY), Err(Refusal::Unaligned));
        assert!(call_for(&odd, Terms { aligned: false, ..TERMS }, GEOMETRY).is_ok());
    }

    #[test]
    fn a_read_only_device_refuses_only_writes() {
        let geometry = DeviceGeometry { read_only: true, ..GEOMETRY };
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            let refused = call_for(&request(command, 0, 0, 4096), TERMS, geometry);
            assert_eq!(refused, Err(Refusal::ReadOnly));
            assert_eq!(Refusal::ReadOnly.code(), ErrorCode::Perm);
        }
        for command in [Command::Read, Command::Cache, Command::BlockStatus] {
            assert!(call_for(&request(command, 0, 0, 4096), TERMS, geometry).is_ok());
        }
        assert_eq!(call_for(&request(Command::Flush, 0, 0, 0), TERMS, geometry), Ok(Call::Flush));
    }

    #[test]
    fn foreign_flags_and_commands_are_refused() {
        let read = request(Command::Read, command_flags::NO_HOLE, 0, 4096);
        assert!(matches!(call_for(&read, TERMS, GEOMETRY), Err(Refusal::Flags(_))));
        let df = request(Command::Read, command_flags::DF, 0, 4096);
        assert!(call_for(&df, Terms { structured: false, ..TERMS }, GEOMETRY).is_err());
        let unknown = request(Command::Unknown(99), 0, 0, 0);
        assert_eq!(call_for(&unknown, TERMS, GEOMETRY), Err(Refusal::UnknownCommand(99)));
    }

    #[test]
    fn four_gib_can_be_trimmed_at_once() {
        let geometry = DeviceGeometry { size_bytes: 1 << 40, read_only: false };
        let trim = request(Command::Trim, command_flags::FUA, 4096, u32::MAX - 4095);
        let (how, durability) = (Zeroing::Trim, Durability::Forced);
        let range = 4096..1 << 32;
        assert_eq!(call_for(&trim, TERMS, geometry), Ok(Call::Zero { range, how, durability }));
    }
}
