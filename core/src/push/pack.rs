//! From records to segments: the latest version of each block, cut into frames, sealed.

use super::PushError;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::root::{Geometry, TailSegment};
use crate::format::segment::{self, Directory, SegmentBuilder};
use crate::journal::{JournalError, Operation, Place, Record};
use crate::runs::RunMap;
use crate::seal::Sealer;
use crate::units::{BlockRange, Epoch};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Most runs of zeros in one segment: their directory stays far below its limit.
const ZERO_RUNS_MAX: usize = 100_000;
/// Frames that are sealed before other tasks may run: about a millisecond.
const FRAMES_PER_TURN: usize = 32;

/// A segment that is ready to be put. Bodies are shared.
#[derive(Clone)]
pub(super) struct Packed {
    pub id: ObjectId,
    pub body: Bytes,
    pub directory: Directory,
    pub directory_len: u32,
    /// Bytes of the drive that its frames hold, for display.
    pub data_bytes: u64,
}

impl Packed {
    /// The content of `builder`, for the name `id`.
    pub fn new(id: ObjectId, builder: SegmentBuilder<'_>, data_bytes: u64) -> Self {
        let (body, directory, directory_len) = builder.finish();
        Self { id, body, directory, directory_len, data_bytes }
    }

    /// The same under another name.
    pub fn renamed(self, id: ObjectId, sealer: &Sealer) -> Self {
        let names = (&*self.id.name(ObjectKind::Segment), &*id.name(ObjectKind::Segment));
        let renamed = segment::renamed(sealer, names, &self.body);
        let (body, directory, directory_len) = renamed.expect("it was sealed here, and is in memory since");
        Self { id, body, directory, directory_len, ..self }
    }

    pub fn tail(&self) -> TailSegment {
        TailSegment { object: self.id, object_len: self.body.len() as u64, directory_len: self.directory_len }
    }
}

/// Names objects of one epoch.
pub(super) struct Namer {
    pub drive: Uuid,
    pub epoch: Epoch,
    /// The number of the last name.
    pub seq: AtomicU64,
}

impl Namer {
    /// A name that was never used.
    pub fn next(&self) -> ObjectId {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        ObjectId { drive: self.drive, epoch: self.epoch, seq, unique: crate::entropy::u128() }
    }
}

/// A frame, and where its parts are read from.
type Parts = (BlockRange, Vec<(BlockRange, Place)>);

/// The changes of one batch, as frames and runs of zeros.
pub(super) struct Batch {
    frames: std::vec::IntoIter<Parts>,
    zeros: std::vec::IntoIter<BlockRange>,
    /// Bytes of data that the frames hold.
    pub data_bytes: u64,
    /// The size of the drive, if the batch changes it.
    pub resized: Option<u64>,
}

impl Batch {
    /// The latest version of each block that the records write.
    pub fn new(records: &[Record], geometry: &Geometry) -> Self {
        let mut latest = RunMap::new();
        let mut resized = None;
        for record in records {
            match record.operation {
                Operation::Data(blocks) | Operation::Zero(blocks) => {
                    latest.insert(blocks, record.place.clone())
                }
                Operation::Resize(size) => resized = Some(size),
            }
        }
        let (mut frames, mut zeros): (Vec<Parts>, Vec<BlockRange>) = Default::default();
        for (run, place) in latest.iter() {
            match place {
                Place::Zero => match zeros.last_mut() {
                    Some(last) if last.end == run.start => last.end = run.end,
                    _ => zeros.push(run),
                },
                Place::Data { .. } => {
                    for piece in split(run, geometry.frame_blocks) {
                        let part = (piece, crate::runs::Run::skip(place, piece.start - run.start));
                        match frames.last_mut() {
                            Some((frame, parts)) if joins(*frame, piece, geometry.frame_blocks) => {
                                frame.end = piece.end;
                                parts.push(part);
                            }
                            _ => frames.push((piece, vec![part])),
                        }
                    }
                }
            }
        }
        let data_bytes = frames.iter().map(|(frame, _)| frame.byte_len()).sum();
        Self { frames: frames.into_iter(), zeros: zeros.into_iter(), data_bytes, resized }
    }

    /// The next segment; `None` when all is packed.
    pub async fn next(
        &mut self,
        namer: &Namer,
        sealer: &Sealer,
        geometry: &Geometry,
    ) -> Result<Option<Packed>, PushError> {
        let id = namer.next();
        let mut builder = SegmentBuilder::data(sealer, id.name(ObjectKind::Segment));
        self.zeros.by_ref().take(ZERO_RUNS_MAX).for_each(|run| builder.zeros(run));
        let mut data = Vec::new();
        let mut data_bytes = 0;
        let mut turn = 0;
        while (builder.body_len() as u64) < geometry.segment_bytes {
            let Some((blocks, parts)) = self.frames.next() else { break };
            data.resize(blocks.byte_len() as usize, 0);
            read_parts(blocks, &parts, &mut data)?;
            builder.frame(blocks, &data);
            data_bytes += blocks.byte_len();
            turn += 1;
            if turn % FRAMES_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        if builder.is_empty() {
            return Ok(None);
        }
        Ok(Some(Packed::new(id, builder, data_bytes)))
    }
}

fn read_parts(blocks: BlockRange, parts: &[(BlockRange, Place)], data: &mut [u8]) -> Result<(), PushError> {
    for (part, place) in parts {
        let from = ((part.start - blocks.start) * crate::units::BLOCK_BYTES) as usize;
        let Place::Data { file, offset } = place else { panic!("zeros are runs, not frames") };
        let bytes = &mut data[from..from + part.byte_len() as usize];
        file.read(bytes, *offset).map_err(JournalError::from)?;
    }
    Ok(())
}

/// Cuts a run at multiples of the frame size, so that a rewrite of the same blocks covers whole frames.
pub(super) fn split(run: BlockRange, frame_blocks: u64) -> impl Iterator<Item = BlockRange> {
    let mut at = run.start;
    std::iter::from_fn(move || {
        (at < run.end).then(|| {
            let end = ((at / frame_blocks + 1) * frame_blocks).min(run.end);
            let piece = BlockRange { start: at, end };
            at = end;
            piece
        })
    })
}

/// Whether a piece continues a frame: it follows the frame directly, in the same multiple of the frame size.
pub(super) fn joins(frame: BlockRange, piece: BlockRange, frame_blocks: u64) -> bool {
    frame.end == piece.start && frame.start / frame_blocks == piece.start / frame_blocks
}
