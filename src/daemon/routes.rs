//! The API's routes: each is one call.

use super::Shared;
use super::work::{Work, answer};
use crate::api::{self, Failure};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Serialize;
use std::future::Future;
use std::sync::Arc;

/// All routes.
pub fn router(drives: Shared) -> Router {
    Router::new()
        .route("/v1/daemon", get(async |State(drives): State<Shared>| Json(drives.daemon())))
        .route("/v1/daemon/stop", post(stop))
        .route("/v1/drives", get(list).post(create))
        .route("/v1/drives/add", post(add))
        .route("/v1/drives/{name}", get(status))
        .route("/v1/drives/{name}/open", post(open))
        .route("/v1/drives/{name}/close", post(close))
        .route("/v1/drives/{name}/sync", post(sync))
        .route("/v1/drives/{name}/pause", post(pause))
        .route("/v1/drives/{name}/resume", post(resume))
        .route("/v1/drives/{name}/map", get(map))
        .route("/v1/drives/{name}/check", post(check))
        .route("/v1/drives/{name}/gc", post(collect))
        .route("/v1/drives/{name}/resize", post(resize))
        .route("/v1/drives/{name}/snapshots", get(snapshots).post(snapshot))
        .route("/v1/drives/{name}/snapshots/{label}", delete(drop_snapshot))
        .route("/v1/drives/{name}/rollback", post(rollback))
        .route("/v1/drives/{name}/clone", post(clone))
        .route("/v1/drives/{name}/passphrase", post(passphrase))
        .route("/v1/drives/{name}/remove", post(remove))
        .route("/v1/drives/{name}/serve", post(serve))
        .route("/v1/doctor", get(doctor))
        .route("/v1/doctor/repair", post(repair))
        .route("/v1/events", get(super::events::stream))
        .with_state(drives)
}

type Named = (State<Shared>, Path<String>);

/// A POST on one drive.
fn on_drive<T, F>(
    (State(drives), Path(name)): Named,
    work: impl FnOnce(Arc<super::drive::Drive>, Work) -> F + Send + 'static,
) -> Response
where
    T: Serialize,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    answer(move |progress| async move { work(drives.get(&name)?, progress).await })
}

fn plain<T: Serialize>(result: Result<T, Failure>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(failure) => failure.into_response(),
    }
}

async fn stop(State(drives): State<Shared>) -> Response {
    answer(move |_| async move {
        drives.stop();
        Ok(serde_json::json!({}))
    })
}

async fn list(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.statuses().await))
}

async fn create(State(drives): State<Shared>, Json(request): Json<api::Create>) -> Response {
    answer(move |_| async move { drives.create(request).await })
}

async fn add(State(drives): State<Shared>, Json(request): Json<api::Add>) -> Response {
    answer(move |_| async move { drives.add(request).await })
}

async fn status(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(Ok(drive.status().await)),
        Err(failure) => failure.into_response(),
    }
}

async fn open(state: State<Shared>, name: Path<String>, Json(request): Json<api::Open>) -> Response {
    on_drive((state, name), async move |drive, work| drive.open(request, work).await)
}

async fn close(state: State<Shared>, name: Path<String>, Json(request): Json<api::Close>) -> Response {
    on_drive((state, name), async move |drive, work| {
        drive.close(request.wait, work).await?;
        Ok(drive.status().await)
    })
}

async fn sync(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.sync(work).await)
}

async fn pause(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| {
        drive.set_paused(true)?;
        Ok(drive.status().await)
    })
}

async fn resume(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| {
        drive.set_paused(false)?;
        Ok(drive.status().await)
    })
}

async fn map(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    plain(drives.get(&name).and_then(|drive| drive.map()))
}

async fn check(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.check(work).await)
}

async fn collect(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| drive.collect().await)
}

async fn resize(state: State<Shared>, name: Path<String>, Json(request): Json<api::Resize>) -> Response {
    on_drive((state, name), async move |drive, _| {
        drive.resize(request.size_bytes).await?;
        Ok(drive.status().await)
    })
}

async fn snapshots(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(drive.snapshots().await),
        Err(failure) => failure.into_response(),
    }
}

async fn snapshot(state: State<Shared>, name: Path<String>, Json(request): Json<api::Label>) -> Response {
    on_drive((state, name), async move |drive, work| drive.snapshot(&request.label, work).await)
}

async fn drop_snapshot(
    State(drives): State<Shared>,
    Path((name, label)): Path<(String, String)>,
) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(drive.drop_snapshot(&label).await.map(|()| serde_json::json!({}))),
        Err(failure) => failure.into_response(),
    }
}

async fn rollback(state: State<Shared>, name: Path<String>, Json(request): Json<api::Label>) -> Response {
    on_drive((state, name), async move |drive, _| drive.rollback(&request.label).await)
}

async fn clone(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Json(request): Json<api::Clone>,
) -> Response {
    answer(move |_| async move { drives.clone_drive(&name, request).await })
}

async fn passphrase(
    state: State<Shared>,
    name: Path<String>,
    Json(request): Json<api::Passphrase>,
) -> Response {
    on_drive((state, name), async move |drive, _| {
        drive.change_passphrase(request.new_passphrase).await?;
        Ok(serde_json::json!({}))
    })
}

async fn remove(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Json(request): Json<api::Remove>,
) -> Response {
    answer(move |_| async move {
        drives.remove(&name, request).await?;
        Ok(serde_json::json!({}))
    })
}

async fn serve(state: State<Shared>, name: Path<String>, Json(request): Json<api::Serve>) -> Response {
    on_drive((state, name), async move |drive, work| drive.serve(request, work).await)
}

async fn doctor(State(drives): State<Shared>) -> Response {
    plain(drives.doctor(false).await)
}

async fn repair(State(drives): State<Shared>) -> Response {
    answer(move |_| async move { drives.doctor(true).await })
}
