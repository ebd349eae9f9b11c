//! What the API's routes do: each is one call.

use super::Shared;
use super::failure;
use super::work::{Work, answer};
use crate::api::{self, Failure};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;

/// A request's JSON; none at all is an object without fields.
pub struct Asked<T>(T);

impl<T: DeserializeOwned> FromRequest<Shared> for Asked<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Failure> {
        let nonsense = |why: String| failure::request(format!("The request's body makes no sense: {why}."));
        let bytes = Bytes::from_request(request, state).await.map_err(|error| nonsense(error.body_text()))?;
        let text = if bytes.is_empty() { b"{}" } else { &bytes[..] };
        serde_json::from_slice(text).map(Asked).map_err(|error| nonsense(error.to_string()))
    }
}

/// A path that the API does not have.
pub async fn unknown(request: Request) -> Failure {
    failure::no_route(request.uri().path())
}

/// A path that the API has, with another method.
pub async fn wrong_method(request: Request) -> Failure {
    failure::request(format!("{} {} is not a request of the API.", request.method(), request.uri().path()))
}

type Named = (State<Shared>, Path<String>);

/// A POST.
fn work<T, F>(drives: Shared, work: impl FnOnce(Shared, Work) -> F) -> Response
where
    T: Serialize + Send,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    answer(drives.ending(), |progress| work(drives, progress))
}

/// A POST on one drive.
fn on_drive<T, F>(
    (State(drives), Path(name)): Named,
    doing: impl FnOnce(Arc<super::drive::Drive>, Work) -> F + Send + 'static,
) -> Response
where
    T: Serialize + Send,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    work(drives, move |drives, progress| async move {
        doing(drives.get(&name)?, progress).await.map_err(|failure| failure::named(failure, &name))
    })
}

fn plain<T: Serialize>(result: Result<T, Failure>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(failure) => failure.into_response(),
    }
}

pub async fn openapi() -> Response {
    plain(Ok(super::openapi::document()))
}

pub async fn daemon(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.daemon()))
}

pub async fn stop(State(drives): State<Shared>) -> Response {
    work(drives, |drives, _| async move {
        drives.stop();
        Ok(api::Nothing {})
    })
}

pub async fn list(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.statuses().await))
}

pub async fn create(State(drives): State<Shared>, Asked(request): Asked<api::Create>) -> Response {
    work(drives, |drives, _| async move { drives.create(request).await })
}

pub async fn add(State(drives): State<Shared>, Asked(request): Asked<api::Add>) -> Response {
    work(drives, |drives, _| async move { drives.add(request).await })
}

pub async fn status(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(Ok(drive.status().await)),
        Err(failure) => failure.into_response(),
    }
}

pub async fn open(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Open>) -> Response {
    on_drive((state, name), async move |drive, _| drive.open(&request).await)
}

pub async fn close(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Close>) -> Response {
    on_drive((state, name), async move |drive, work| {
        drive.close(request.wait, work).await?;
        Ok(drive.status().await)
    })
}

pub async fn sync(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.sync(work).await)
}

pub async fn pause(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| {
        drive.set_paused(true)?;
        Ok(drive.status().await)
    })
}

pub async fn resume(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| {
        drive.set_paused(false)?;
        Ok(drive.status().await)
    })
}

pub async fn map(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    plain(drives.get(&name).and_then(|drive| drive.map()))
}

pub async fn check(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.check(work).await)
}

pub async fn collect(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.collect(work).await)
}

pub async fn resize(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::Resize>,
) -> Response {
    on_drive((state, name), async move |drive, _| {
        drive.resize(request.size_bytes).await?;
        Ok(drive.status().await)
    })
}

pub async fn snapshots(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(drive.snapshots().await.map_err(|failure| failure::named(failure, &name))),
        Err(failure) => failure.into_response(),
    }
}

pub async fn snapshot(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::Label>,
) -> Response {
    on_drive((state, name), async move |drive, work| drive.snapshot(&request.label, work).await)
}

pub async fn drop_snapshot(
    State(drives): State<Shared>,
    Path((name, label)): Path<(String, String)>,
) -> Response {
    work(drives, |drives, work| async move {
        let dropped = drives.get(&name)?.drop_snapshot(&label, work).await;
        dropped.map_err(|failure| failure::named(failure, &name))?;
        Ok(api::Nothing {})
    })
}

pub async fn rollback(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::Label>,
) -> Response {
    on_drive((state, name), async move |drive, _| drive.rollback(&request.label).await)
}

pub async fn clone(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Asked(request): Asked<api::Clone>,
) -> Response {
    work(drives, |drives, work| async move { drives.clone_drive(&name, request, work).await })
}

pub async fn forks(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    plain(drives.get(&name).map(|drive| drive.forks()))
}

pub async fn open_fork(
    State(drives): State<Shared>,
    Path((name, fork)): Path<(String, String)>,
    Asked(request): Asked<api::Open>,
) -> Response {
    work(drives, |drives, _| async move {
        let fork = drives.fork(&name, &fork)?;
        fork.open(&request).await.map_err(|failure| failure::named(failure, &fork.name))
    })
}

pub async fn keep_fork(
    State(drives): State<Shared>,
    Path((name, fork)): Path<(String, String)>,
    Asked(request): Asked<api::Keep>,
) -> Response {
    work(drives, |drives, _| async move { drives.keep_fork(&name, &fork, &request.name).await })
}

pub async fn discard_fork(
    State(drives): State<Shared>,
    Path((name, fork)): Path<(String, String)>,
) -> Response {
    work(drives, |drives, _| async move {
        drives.discard_fork(&name, &fork).await?;
        Ok(api::Nothing {})
    })
}

pub async fn passphrase(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::Passphrase>,
) -> Response {
    on_drive((state, name), async move |drive, _| {
        drive.change_passphrase(request.new_passphrase).await?;
        Ok(api::Nothing {})
    })
}

pub async fn remove(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Asked(request): Asked<api::Remove>,
) -> Response {
    work(drives, |drives, _| async move {
        drives.remove(&name, request).await?;
        Ok(api::Nothing {})
    })
}

pub async fn serve(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Serve>) -> Response {
    on_drive((state, name), async move |drive, work| drive.serve(request, work).await)
}

pub async fn doctor(State(drives): State<Shared>) -> Response {
    plain(drives.doctor(false).await)
}

pub async fn repair(State(drives): State<Shared>) -> Response {
    work(drives, |drives, _| async move { drives.doctor(true).await })
}
