//! Requests that a daemon has done, and did not live to answer: the kernel sends them again to the next one.

use crate::lives::{Model, any_path};
use crate::rig::{NOBODY, Opened, WRITES};
use bytes::Bytes;
use holdall_core::folder::api::{Asked, FolderError, Renaming};
use holdall_core::folder::{Folder, Place};
use rand::Rng;
use rand::rngs::StdRng;

/// Such a request, as the kernel has it.
pub struct Unanswered {
    asked: Asked,
    what: What,
}

#[derive(Clone)]
enum What {
    /// A program has created a file, and writes this to it as soon as it has the answer.
    Create(Place, Vec<u8>),
    MakeDirectory(Place),
    Rename(Place, Place, Renaming),
    Unlink(Place),
    RemoveDirectory(Place),
}

impl What {
    async fn ask(self, folder: &Folder, asked: Asked) -> Result<(), FolderError> {
        match self {
            What::Create(place, content) => {
                let (_, opened) = folder.create(place, 0o644, WRITES, true, asked).await?;
                if !asked.is_repeated {
                    return Ok(());
                }
                let written = folder.write(opened.handle, 0, Bytes::from(content)).await;
                folder.release(opened.handle);
                written
            }
            What::MakeDirectory(place) => folder.make_directory(place, 0o755, asked).await.map(drop),
            What::Rename(from, to, how) => folder.rename(from, to, how, asked).await,
            What::Unlink(place) => folder.unlink(place, asked).await,
            What::RemoveDirectory(place) => folder.remove_directory(place, asked).await,
        }
    }
}

impl Unanswered {
    /// The kernel sends it to the next daemon.
    pub async fn repeat(self, folder: &Folder) -> Result<(), String> {
        let asked = Asked { is_repeated: true, ..self.asked };
        let done = self.what.ask(folder, asked).await;
        done.map_err(|error| format!("a request that was sent again: {error}"))
    }
}

/// Does something that is not answered any more. `None`: it could not be done for want of the remote.
pub async fn begin(open: &Opened, model: &mut Model, rng: &mut StdRng) -> Result<Option<Unanswered>, String> {
    let (at, to) = (any_path(rng), any_path(rng));
    let (Ok(place), Ok(target)) = (open.place(&at).await, open.place(&to).await) else { return Ok(None) };
    let is_free = |model: &Model, path: &str| model.has_above(path) && !model.here.contains_key(path);
    let what = match rng.random_range(0..4) {
        0 if is_free(model, &at) => What::Create(place, model.content(rng)),
        1 if model.is_file(&at) && at != to && is_free(model, &to) => {
            What::Rename(place, target, Renaming::NoReplace)
        }
        1 if model.is_file(&at) && at != to && model.is_file(&to) => {
            What::Rename(place, target, Renaming::Exchange)
        }
        2 if model.is_file(&at) => What::Unlink(place),
        3 if model.has_above("d1") && !model.here.contains_key("d1") => match open.place("d1").await {
            Ok(place) => What::MakeDirectory(place),
            Err(_) => return Ok(None),
        },
        3 if model.is_directory("d1") && model.is_empty("d1") => match open.place("d1").await {
            Ok(place) => What::RemoveDirectory(place),
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    let asked = Asked { request: 2 * (model.count + 1), ..NOBODY };
    model.count += 1;
    match what.clone().ask(&open.folder, asked).await {
        Ok(()) => {}
        Err(FolderError::Unavailable(_) | FolderError::Stale) => return Ok(None),
        Err(error) => return Err(format!("the last request of a life: {error}")),
    }
    match &what {
        What::Create(_, content) => model.wrote(&at, content.clone()),
        What::MakeDirectory(_) => drop(model.here.insert("d1".into(), None)),
        What::Rename(_, _, Renaming::Exchange) => model.exchanged(&at, &to),
        What::Rename(..) => model.renamed(&at, &to),
        What::Unlink(_) => model.gone(&at),
        What::RemoveDirectory(_) => model.gone("d1"),
    }
    Ok(Some(Unanswered { asked, what }))
}
