//! The routes of folders.

use super::{Asked, Query, plain, work};
use crate::api::{self, Failure};
use crate::daemon::Shared;
use crate::daemon::failure;
use crate::daemon::folder::Folder;
use crate::daemon::watched::Directory;
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

/// A POST on one watched directory. `None`: the name is a folder's.
fn on_directory<T, F>(
    (state, name): &Named,
    doing: impl FnOnce(Arc<Directory>, Work) -> F + Send + 'static,
) -> Option<Response>
where
    T: Serialize + Send,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let directory = match state.0.watched().get(&name.0)? {
        Ok(directory) => directory,
        Err(failure) => return Some(plain::<()>(Err(failure))),
    };
    Some(work(state.0.clone(), move |_, progress| async move {
        doing(directory.clone(), progress).await.map_err(|failure| directory.named(failure))
    }))
}

/// The watched directory of a request that only looks.
fn watched_directory(state: &State<Shared>, name: &Path<String>) -> Option<Result<Arc<Directory>, Failure>> {
    state.0.watched().get(&name.0)
}

pub async fn watch(State(drives): State<Shared>, Asked(request): Asked<api::WatchDirectory>) -> Response {
    work(drives, |drives, _| async move { drives.watch_directory(request).await })
}

pub async fn unwatch(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    work(drives, |drives, _| async move {
        drives.unwatch_directory(&name).await?;
        Ok(api::Nothing {})
    })
}

fn look<T: Serialize>(
    (State(drives), Path(name)): Named,
    looking: impl FnOnce(&Folder) -> Result<T, Failure>,
) -> Response {
    let found = folder(&drives, &name);
    plain(found.and_then(|folder| looking(&folder).map_err(|failure| folder.named(failure))))
}

pub async fn list(State(drives): State<Shared>) -> Response {
    let mut statuses = drives.folders().statuses();
    statuses.extend(drives.watched().statuses());
    plain(Ok(statuses))
}

pub async fn open(State(drives): State<Shared>, Asked(request): Asked<api::OpenFolder>) -> Response {
    work(drives, |drives, _| async move { drives.open_folder(request).await })
}

pub async fn status(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    if let Some(directory) = drives.watched().get(&name) {
        return plain(directory.map(|directory| directory.status()));
    }
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
    let named = (state, name);
    if let Some(answer) =
        on_directory(&named, async |directory: Arc<Directory>, work: Work| directory.sync(work).await)
    {
        return answer;
    }
    let (state, name) = named;
    on_folder((state, name), async |folder, work| folder.sync(work).await)
}

pub async fn pause(state: State<Shared>, name: Path<String>) -> Response {
    let named = (state, name);
    let doing = async |directory: Arc<Directory>, _: Work| {
        directory.set_paused(true)?;
        Ok(directory.status())
    };
    if let Some(answer) = on_directory(&named, doing) {
        return answer;
    }
    let (state, name) = named;
    on_folder((state, name), async |folder, _| {
        folder.set_paused(true)?;
        Ok(folder.status())
    })
}

pub async fn resume(state: State<Shared>, name: Path<String>) -> Response {
    let named = (state, name);
    let doing = async |directory: Arc<Directory>, _: Work| {
        directory.set_paused(false)?;
        Ok(directory.status())
    };
    if let Some(answer) = on_directory(&named, doing) {
        return answer;
    }
    let (state, name) = named;
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
    if let Some(directory) = watched_directory(&state, &name) {
        return plain(directory.map(|directory| directory.queue()));
    }
    look((state, name), |folder| Ok(folder.queue()))
}

pub async fn conflicts(state: State<Shared>, name: Path<String>) -> Response {
    match watched_directory(&state, &name) {
        Some(Ok(directory)) => return plain(directory.conflicts().await),
        Some(Err(failure)) => return plain::<()>(Err(failure)),
        None => {}
    }
    look((state, name), Folder::conflicts)
}

pub async fn keep(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::KeepVersion>,
) -> Response {
    let (named, asked) = ((state, name), request.clone());
    let doing = async move |directory: Arc<Directory>, _: Work| directory.keep(&asked).await;
    if let Some(answer) = on_directory(&named, doing) {
        return answer;
    }
    let (state, name) = named;
    on_folder((state, name), async move |folder, _| folder.keep(&request).await)
}

pub async fn deletions(state: State<Shared>, name: Path<String>) -> Response {
    match watched_directory(&state, &name) {
        Some(Ok(directory)) => return plain(directory.deletions().await),
        Some(Err(failure)) => return plain::<()>(Err(failure)),
        None => {}
    }
    look((state, name), Folder::deletions)
}

pub async fn accept_deletions(state: State<Shared>, name: Path<String>) -> Response {
    let named = (state, name);
    let doing = async |directory: Arc<Directory>, _: Work| directory.decide(true).await;
    if let Some(answer) = on_directory(&named, doing) {
        return answer;
    }
    let (state, name) = named;
    on_folder((state, name), async |folder, _| folder.accept_deletions().await)
}

pub async fn restore_deletions(state: State<Shared>, name: Path<String>) -> Response {
    let named = (state, name);
    let doing = async |directory: Arc<Directory>, _: Work| directory.decide(false).await;
    if let Some(answer) = on_directory(&named, doing) {
        return answer;
    }
    let (state, name) = named;
    on_folder((state, name), async |folder, _| folder.restore_deletions().await)
}

pub async fn directory(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Query(asked): Query<api::ListDirectory>,
) -> Response {
    let listed = match folder(&drives, &name) {
        Ok(folder) => {
            let listed = folder.directory_entries(&asked.path).await;
            listed.map_err(|failure| folder.named(failure))
        }
        Err(failure) => Err(failure),
    };
    plain(listed)
}
