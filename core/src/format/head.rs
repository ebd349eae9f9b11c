//! HEAD: the one mutable object of a drive, changed only by compare-and-swap.

use super::FormatError;
use super::id::{ObjectId, possible};
use super::wire::{Reader, Writer};
use crate::seal::{Purpose, Sealer};
use crate::store::names;
use crate::units::Epoch;
use uuid::Uuid;

const MAGIC: &[u8; 8] = b"HLDHEAD\x01";
/// The longest HEAD: fixed fields and a device name.
pub const HEAD_BYTES_MAX: usize = 4096;
/// The longest address that a HEAD contains: it has to fit beside a device name.
const ADDRESS_BYTES_MAX: usize = 2048;

/// The current version of a drive, and the device that may write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The drive.
    pub drive: Uuid,
    /// The writer's generation.
    pub epoch: Epoch,
    /// A number of its own for every write, usually random: it shows whose write a read-back returns.
    pub nonce: u128,
    /// The device that wrote it.
    pub device: Uuid,
    /// Its name, for people.
    pub device_name: String,
    /// Whether that device still has the drive open.
    pub state: HeadState,
    /// When it was written, Unix time in ms, for people.
    pub written_ms: u64,
    /// The current version.
    pub root: ObjectId,
    /// BLAKE3 of the root object.
    pub root_hash: [u8; 32],
    /// The version before.
    pub parent: ObjectId,
    /// The sealed address that it has [`HeadState::Moved`] to; empty if that was not recorded, and in every other state.
    pub moved_to: Vec<u8>,
}

/// The state of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadState {
    /// No device has it open.
    Released,
    /// The device has it open for writing.
    Held,
    /// The drive was removed. The name stays, so that the drive can never be created again behind the back of a zombie, a writer that still
    /// thinks it holds it.
    Removed,
    /// The drive lives in another store: nobody commits here any longer.
    Moved,
}

impl HeadState {
    /// Whether the drive is in use in this store: neither removed nor moved.
    pub fn is_here(self) -> bool {
        match self {
            HeadState::Released | HeadState::Held => true,
            HeadState::Removed | HeadState::Moved => false,
        }
    }
}

/// The prefix of all HEADs.
pub const ALL: &str = "head/";

/// The name of a drive's HEAD.
pub fn name(drive: Uuid) -> String {
    format!("{ALL}{}", drive.simple())
}

/// Whether `text` is exactly a name that [`name`] makes.
pub fn is_name_of_drive(text: &str) -> bool {
    names::kind(text) == Some(names::Kind::Head)
}

/// Whether `name` lies where HEADs do.
pub fn is_name(name: &str) -> bool {
    name.starts_with(ALL)
}

/// The epoch and the nonce of an apparent HEAD: all that can be known without its family's key.
pub fn peek(bytes: &[u8]) -> Option<(Epoch, u128)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let epoch = u64::from_le_bytes(*rest.get(16..)?.first_chunk()?);
    let nonce = u128::from_le_bytes(*rest.get(24..)?.first_chunk()?);
    Some((Epoch(epoch), nonce))
}

impl Head {
    /// Whether a device has the drive open.
    pub fn is_held(&self) -> bool {
        self.state == HeadState::Held
    }

    /// Whether the drive lives in another store.
    pub fn has_moved(&self) -> bool {
        self.state == HeadState::Moved
    }

    /// Whether a replica was made the primary, and the promotion is not finished: versions that reached the replica later may have to
    /// follow. The nonce says so.
    pub fn is_provisional(&self) -> bool {
        self.state == HeadState::Released && self.nonce == self.provisional_nonce()
    }

    /// The nonce of this HEAD if it is provisional. It follows from all else that the HEAD says, so equal nonces are equal HEADs.
    pub fn provisional_nonce(&self) -> u128 {
        let rest = Head { nonce: 0, ..self.clone() }.fields();
        let hash = blake3::derive_key("holdall 2026 HEAD of a promotion that is not finished", &rest);
        u128::from_le_bytes(*hash.first_chunk().expect("32 bytes have 16"))
    }

    /// The object's bytes, with their MAC.
    pub fn encode(&self, sealer: &Sealer) -> Vec<u8> {
        let mut bytes = self.fields();
        let mac = sealer.head_mac(&bytes);
        bytes.extend_from_slice(&mac);
        bytes
    }

    /// The object's bytes before their MAC.
    fn fields(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.raw(MAGIC).raw(self.drive.as_bytes()).u64(self.epoch.0).raw(&self.nonce.to_le_bytes());
        w.raw(self.device.as_bytes());
        w.u8(match self.state {
            HeadState::Released => 0,
            HeadState::Held => 1,
            HeadState::Removed => 2,
            HeadState::Moved => 3,
        });
        w.str(&self.device_name).varint(self.written_ms);
        self.root.write(&mut w);
        w.raw(&self.root_hash);
        self.parent.write(&mut w);
        if self.state == HeadState::Moved {
            w.varint(self.moved_to.len() as u64).raw(&self.moved_to);
        }
        w.finish()
    }

    /// Reads and checks the object.
    pub fn decode(sealer: &Sealer, bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(FormatError::Invalid("it is longer than a HEAD can be"));
        }
        // The magic first: a web page in place of the HEAD is not "damaged".
        Reader::new(bytes).magic(MAGIC, "a HEAD")?;
        let (signed, mac) = bytes.split_last_chunk::<32>().ok_or(FormatError::Truncated)?;
        if sealer.head_mac(signed) != *mac {
            return Err(FormatError::Seal);
        }
        let mut r = Reader::new(&signed[MAGIC.len()..]);
        let mut head = Head {
            drive: Uuid::from_bytes(r.array()?),
            epoch: Epoch(possible(r.u64()?)?),
            nonce: u128::from_le_bytes(r.array()?),
            device: Uuid::from_bytes(r.array()?),
            state: match r.u8()? {
                0 => HeadState::Released,
                1 => HeadState::Held,
                2 => HeadState::Removed,
                3 => HeadState::Moved,
                _ => return Err(FormatError::Invalid("a HEAD has no such state")),
            },
            device_name: r.str()?,
            written_ms: r.varint()?,
            root: ObjectId::read(&mut r)?,
            root_hash: r.array()?,
            parent: ObjectId::read(&mut r)?,
            moved_to: Vec::new(),
        };
        if head.state == HeadState::Moved {
            let len = r.count(1)?;
            head.moved_to = r.raw(len)?.to_vec();
        }
        r.end()?;
        Ok(head)
    }

    /// Seals the address `to` for the `moved_to` of a HEAD of this epoch. An address that is too long is left out.
    pub fn seal_address(sealer: &Sealer, drive: Uuid, epoch: Epoch, to: &str) -> Vec<u8> {
        match to.len() <= ADDRESS_BYTES_MAX {
            true => sealer.seal(Purpose::Moved, &name(drive), &epoch.0.to_le_bytes(), to.as_bytes()),
            false => Vec::new(),
        }
    }

    /// The address of the store that has the drive now, if it was recorded.
    pub fn address(&self, sealer: &Sealer) -> Option<String> {
        let place = self.epoch.0.to_le_bytes();
        let address =
            sealer.open(Purpose::Moved, &name(self.drive), &place, &self.moved_to, ADDRESS_BYTES_MAX);
        String::from_utf8(address.ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{Cipher, DataKey};

    #[test]
    fn a_head_survives_the_round_trip_and_no_bit_may_flip() {
        let sealer = Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([1; 32].into()));
        let head = Head {
            drive: Uuid::from_u128(1),
            epoch: Epoch(2),
            nonce: 3,
            device: Uuid::from_u128(4),
            device_name: "laptop".into(),
            state: HeadState::Held,
            written_ms: 5,
            root: ObjectId { drive: Uuid::from_u128(1), epoch: Epoch(2), seq: 6, unique: 7 },
            root_hash: [8; 32],
            parent: ObjectId::NONE,
            moved_to: Vec::new(),
        };
        let bytes = head.encode(&sealer);
        assert_eq!(peek(&bytes), Some((head.epoch, head.nonce)));
        assert_eq!(Head::decode(&sealer, &bytes), Ok(head));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::decode(&sealer, &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn only_the_nonce_of_all_fields_is_provisional() {
        let drive = Uuid::from_u128(1);
        let root = ObjectId { drive, epoch: Epoch(2), seq: 6, unique: 7 };
        let head = Head {
            drive,
            epoch: Epoch(3),
            nonce: 0,
            device: Uuid::from_u128(4),
            device_name: "laptop".into(),
            state: HeadState::Released,
            written_ms: 5,
            root,
            root_hash: [8; 32],
            parent: ObjectId::NONE,
            moved_to: Vec::new(),
        };
        assert!(!head.is_provisional());
        let head = Head { nonce: head.provisional_nonce(), ..head };
        // Other computers have to find the same number.
        assert_eq!(format!("{:032x}", head.nonce), "b28d4afc38a2fed1d8300ca851cc79ff");
        assert!(head.is_provisional());
        for other in [
            Head { epoch: Epoch(4), ..head.clone() },
            Head { device: drive, ..head.clone() },
            Head { state: HeadState::Held, ..head.clone() },
            Head { written_ms: 6, ..head.clone() },
            Head { root_hash: [9; 32], ..head.clone() },
            Head { parent: root, ..head.clone() },
        ] {
            assert!(!other.is_provisional(), "{other:?}");
        }
    }

    #[test]
    fn a_head_shows_key_holders_where_its_drive_moved() {
        let sealer = |key: u8| Sealer::new(Cipher::XChaCha20Poly1305, &DataKey([key; 32].into()));
        let (drive, epoch, to) = (Uuid::from_u128(1), Epoch(2), "s3://backup/work");
        let head = Head {
            drive,
            epoch,
            nonce: 3,
            device: Uuid::from_u128(4),
            device_name: "laptop".into(),
            state: HeadState::Moved,
            written_ms: 5,
            root: ObjectId::NONE,
            root_hash: [8; 32],
            parent: ObjectId::NONE,
            moved_to: Head::seal_address(&sealer(1), drive, epoch, to),
        };
        let bytes = head.encode(&sealer(1));
        assert!(!bytes.windows(6).any(|window| window == b"backup"));
        let read = Head::decode(&sealer(1), &bytes).unwrap();
        assert_eq!((read.address(&sealer(1)).as_deref(), read.address(&sealer(2))), (Some(to), None));
        // An address that is too long is left out, and that is no damage.
        let long = Head { moved_to: Head::seal_address(&sealer(1), drive, epoch, &"x".repeat(5000)), ..head };
        let read = Head::decode(&sealer(1), &long.encode(&sealer(1))).unwrap();
        assert_eq!((read.state, read.address(&sealer(1))), (HeadState::Moved, None));
    }
}
