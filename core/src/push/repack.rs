//! Moving live data out of segments that are mostly garbage.

use super::PushError;
use super::gc::Asking;
use super::interrupt::Stage;
use super::pack::{Packed, joins, split};
use super::task::Task;
use crate::format::id::{ObjectId, ObjectKind};
use crate::format::segment::{Directory, SegmentBuilder};
use crate::map::{self, Content, Frame, ReadError};
use crate::units::BlockRange;

/// Live data that is moved in one commit.
const REPACK_BYTES: u64 = 64 << 20;

impl Task {
    /// Moves live data out of segments that are less than half live, in the order of the drive. Returns how many segments
    /// became empty.
    pub(super) async fn repack(&mut self, asking: Asking) -> Result<u64, PushError> {
        let drive = self.committer.head().drive;
        let usage = self.usage().await?;
        let victims = usage
            .iter()
            .filter(|(id, usage)| id.drive == drive && usage.reached.saturating_mul(2) < usage.len);
        let victims: Vec<_> = victims.map(|(id, usage)| (*id, *usage)).collect();
        let (mut emptied, total) = (0, victims.len() as u64);
        let mut moving: Vec<(BlockRange, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        for (id, usage) in victims {
            // Nothing may be committed while some runs are being moved.
            if moving.is_empty() {
                self.between_steps(asking, Stage::Repacking, (emptied, total)).await?;
            }
            for piece in self.unless_cut_off(asking, self.live_pieces(id)).await? {
                bytes += piece.1.len() as u64;
                moving.push(piece);
            }
            emptied += 1;
            if bytes + usage.reached > REPACK_BYTES {
                self.rewrite(asking, std::mem::take(&mut moving)).await?;
                bytes = 0;
            }
        }
        self.rewrite(asking, moving).await?;
        Ok(emptied)
    }

    /// The runs that the map still reads from a segment, with their data.
    async fn live_pieces(&self, id: ObjectId) -> Result<Vec<(BlockRange, Vec<u8>)>, PushError> {
        let objects = self.committer.objects();
        let name = id.name(ObjectKind::Segment);
        let decode = |body: &[u8]| crate::format::segment::decode(objects.sealer(), &name, body);
        let (directory, fetched) = map::read(objects.store().as_ref(), &name, None, decode).await?;
        let body = fetched.bytes;
        let Directory::Data { frames, .. } = directory else { return Ok(Vec::new()) };
        let mut live = Vec::new();
        for entry in frames {
            let (offset, stored_len, blocks) = (entry.offset, entry.stored_len, entry.blocks);
            let frame = Frame { segment: id, segment_len: body.len() as u64, offset, stored_len, blocks };
            let found = self.map.look_up(blocks).await?;
            let ours = found.into_iter().filter(|(_, content)| *content == Content::Frame(frame));
            let ours: Vec<_> = ours.map(|(run, _)| run).collect();
            if ours.is_empty() {
                continue;
            }
            let sealed = body.get(offset as usize..(offset + stored_len) as usize).unwrap_or_default();
            let opened = objects.open_frame(&frame, sealed);
            let data = opened.map_err(|error| ReadError::Format { name: name.clone(), error })?;
            for run in ours {
                let from = ((run.start - blocks.start) * crate::units::BLOCK_BYTES) as usize;
                live.push((run, data[from..from + run.byte_len() as usize].to_vec()));
            }
        }
        Ok(live)
    }

    /// Writes moved runs to new segments and commits that. Nothing else is committed in between, so each map entry still
    /// equals what was copied.
    async fn rewrite(
        &mut self,
        asking: Asking,
        mut moving: Vec<(BlockRange, Vec<u8>)>,
    ) -> Result<(), PushError> {
        if moving.is_empty() {
            return Ok(());
        }
        moving.sort_unstable_by_key(|(run, _)| run.start);
        let geometry = self.committer.root().geometry;
        let mut frames: Vec<(BlockRange, Vec<u8>)> = Vec::new();
        for (run, data) in moving {
            for piece in split(run, geometry.frame_blocks) {
                let from = ((piece.start - run.start) * crate::units::BLOCK_BYTES) as usize;
                let bytes = &data[from..from + piece.byte_len() as usize];
                match frames.last_mut() {
                    Some((frame, data)) if joins(*frame, piece, geometry.frame_blocks) => {
                        frame.end = piece.end;
                        data.extend_from_slice(bytes);
                    }
                    _ => frames.push((piece, bytes.to_vec())),
                }
            }
        }
        let sealer = self.committer.objects().sealer().clone();
        let mut frames = frames.into_iter().peekable();
        let mut packed = Vec::new();
        while frames.peek().is_some() {
            let id = self.committer.namer().next();
            let mut builder = SegmentBuilder::data(&sealer, id.name(ObjectKind::Segment));
            while let Some((blocks, data)) =
                frames.next_if(|_| (builder.body_len() as u64) < geometry.segment_bytes)
            {
                builder.frame(blocks, &data);
                tokio::task::yield_now().await;
            }
            packed.push(Packed::new(id, builder, 0));
        }
        // If this is cut off, segments that still arrive are garbage: no root has named them.
        let segments = self.unless_cut_off(asking, async { Ok(self.put_all(packed).await) }).await?;
        let tail: Vec<_> = segments.iter().map(|(segment, _)| *segment).collect();
        self.committer.commit(move |root| root.tail.extend(tail)).await?;
        self.map.commit(&segments);
        self.announce();
        Ok(())
    }
}
