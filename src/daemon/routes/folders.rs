//! The routes of folders.

use super::{Asked, plain, work};
use crate::api::{self, Failure};
use crate::daemon::Shared;
use crate::daemon::failure;
use crate::daemon::folder::Folder;
use crate::daemon::work::Work;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

type Named = (State<Shared>, Path<String>);

/// A POST on one folder.
fn on_folder<T, F>(
    (State(drives), Path(name)): Named,
    doing: impl FnOnce(Arc<Folder>, Work) -> F + Send + 'static,
) -> Response
where
    T: Serialize + Send,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    work(drives, move |drives, progress| async move {
        let folder = folder(&drives, &name)?;
        doing(folder.clone(), progress).await.map_err(|failure| folder.named(failure))
    })
}

fn folder(drives: &Shared, name: &str) -> Result<Arc<Folder>, Failure> {
    let found = drives.folders().get(name);
    match found {
        Err(_) if drives.get(name).is_ok() => Err(failure::is_a_drive(name)),
        found => found,
    }
}

fn look<T: Serialize>(
    (State(drives), Path(name)): Named,
    looking: impl FnOnce(&Folder) -> Result<T, Failure>,
) -> Response {
    let found = folder(&drives, &name);
    plain(found.and_then(|folder| looking(&folder).map_err(|failure| folder.named(failure))))
}

pub async fn list(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.folders().statuses()))
}

pub async fn open(State(drives): State<Shared>, Asked(request): Asked<api::OpenFolder>) -> Response {
    work(drives, |drives, _| async move { drives.open_folder(request).await })
}

pub async fn status(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    // Damaged folders have a status too.
    let found = drives.folders().statuses().into_iter().find(|status| status.name == name);
    plain(match found {
        Some(status) => Ok(status),
        None => folder(&drives, &name).map(|folder| folder.status()),
    })
}

pub async fn close(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Close>) -> Response {
    on_folder((state, name), async move |folder, work| {
        let already = folder.close(request.wait, work).await?;
        Ok(api::FolderClosed { folder: folder.status(), already })
    })
}

pub async fn sync(state: State<Shared>, name: Path<String>) -> Response {
    on_folder((state, name), async |folder, work| folder.sync(work).await)
}

pub async fn pause(state: State<Shared>, name: Path<String>) -> Response {
    on_folder((state, name), async |folder, _| {
        folder.set_paused(true)?;
        Ok(folder.status())
    })
}

pub async fn resume(state: State<Shared>, name: Path<String>) -> Response {
    on_folder((state, name), async |folder, _| {
        folder.set_paused(false)?;
        Ok(folder.status())
    })
}

pub async fn forget(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Asked(request): Asked<api::ForgetFolder>,
) -> Response {
    work(drives, |drives, _| async move {
        drives.forget_folder(&name, request).await?;
        Ok(api::Nothing {})
    })
}

pub async fn queue(state: State<Shared>, name: Path<String>) -> Response {
    look((state, name), |folder| Ok(folder.queue()))
}

pub async fn conflicts(state: State<Shared>, name: Path<String>) -> Response {
    look((state, name), Folder::conflicts)
}

pub async fn keep(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::KeepVersion>,
) -> Response {
    on_folder((state, name), async move |folder, _| folder.keep(&request).await)
}

pub async fn deletions(state: State<Shared>, name: Path<String>) -> Response {
    look((state, name), Folder::deletions)
}

pub async fn accept_deletions(state: State<Shared>, name: Path<String>) -> Response {
    on_folder((state, name), async |folder, _| folder.accept_deletions().await)
}

pub async fn restore_deletions(state: State<Shared>, name: Path<String>) -> Response {
    on_folder((state, name), async |folder, _| folder.restore_deletions().await)
}
