//! Uploads in parts: each part is a request, and the last request makes the file.

use super::{Request, SimRemote};
use crate::store::StoreError;
use crate::store::remote::{Put, RemoteError};
use bytes::Bytes;

/// Parts that the server has of a file that is not there yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Upload {
    parts: Vec<Bytes>,
}

impl Upload {
    /// Bytes that it takes at the server.
    pub(super) fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// What an upload needs to be resumed: its number at the server, and how many parts it had.
struct Resume {
    id: u64,
    parts: u64,
}

impl Resume {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (id, parts) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
        Some(Self { id: id.parse().ok()?, parts: parts.parse().ok()? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        format!("{} {}", self.id, self.parts).into_bytes()
    }
}

impl SimRemote {
    /// Sends the bytes of a file, in one request or in parts. The last request is left to the caller.
    pub(super) async fn send(&self, put: &Put<'_>) -> Result<(Bytes, Option<u64>), RemoteError> {
        let whole = |len: u64, at: u64| {
            let mut bytes = vec![0; len as usize];
            let read = put.content.read_at(&mut bytes, at);
            read.map(|()| Bytes::from(bytes)).map_err(|error| RemoteError::Local(error.to_string()))
        };
        let part_bytes = self.world.lock().habits.part_bytes.filter(|part_bytes| put.len > *part_bytes);
        let Some(part_bytes) = part_bytes else {
            let bytes = whole(put.len, 0)?;
            put.progress.sent(put.len);
            return Ok((bytes, None));
        };
        let resumed = put.resume.and_then(Resume::parse).filter(|resume| {
            let world = self.world.lock();
            world.uploads.get(&resume.id).is_some_and(|upload| upload.parts.len() as u64 >= resume.parts)
        });
        let mut resume = match resumed {
            Some(resume) => {
                let mut world = self.world.lock();
                let upload = world.uploads.get_mut(&resume.id);
                upload.into_iter().for_each(|upload| upload.parts.truncate(resume.parts as usize));
                resume
            }
            None => {
                let mut world = self.world.lock();
                world.changes += 1;
                let id = world.changes;
                world.uploads.insert(id, Upload::default());
                Resume { id, parts: 0 }
            }
        };
        while resume.parts * part_bytes < put.len {
            let at = resume.parts * part_bytes;
            let bytes = whole(part_bytes.min(put.len - at), at)?;
            let len = bytes.len() as u64;
            self.arrive(Request::Part).await?;
            self.world.lock().take_part(resume.id, bytes)?;
            resume.parts += 1;
            put.progress.sent(len);
            put.progress
                .can_resume(&resume.to_bytes())
                .await
                .map_err(|error| RemoteError::Local(error.to_string()))?;
        }
        let world = self.world.lock();
        let parts = world.uploads.get(&resume.id).map(|upload| upload.parts.concat());
        match parts {
            Some(bytes) if bytes.len() as u64 == put.len => Ok((bytes.into(), Some(resume.id))),
            _ => Err(StoreError::Unreachable { reason: "the upload is gone".into() }.into()),
        }
    }

    /// Forgets an unfinished upload.
    pub(super) fn forget(&self, resume: &[u8]) {
        if let Some(resume) = Resume::parse(resume) {
            self.world.lock().uploads.remove(&resume.id);
        }
    }
}

impl super::World {
    fn take_part(&mut self, id: u64, bytes: Bytes) -> Result<(), RemoteError> {
        if self.chance(self.faults.forgotten) {
            self.uploads.remove(&id);
        }
        let free = self.habits.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()));
        if bytes.len() as u64 > free {
            return Err(StoreError::Full { reason: "the quota is used up".into() }.into());
        }
        match self.uploads.get_mut(&id) {
            Some(upload) => upload.parts.push(bytes),
            None => return Err(StoreError::Unreachable { reason: "the upload is gone".into() }.into()),
        }
        Ok(())
    }
}
