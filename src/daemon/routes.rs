//! The API's routes: each is one call.

use super::Shared;
use super::failure;
use super::work::{Refused, Work, answer};
use crate::api::{self, Failure};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;

pub mod devices;
pub mod folders;

/// A request's JSON; an empty body counts as an object without fields.
pub struct Asked<T>(T);

impl<T: DeserializeOwned> FromRequest<Shared> for Asked<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Refused> {
        let nonsense = |why: String| {
            Refused(failure::request(format!("The request's body cannot be understood: {why}.")))
        };
        let bytes = Bytes::from_request(request, state).await.map_err(|error| nonsense(error.body_text()))?;
        let text = if bytes.is_empty() { b"{}" } else { &bytes[..] };
        serde_json::from_slice(text).map(Asked).map_err(|error| nonsense(discreet(&error)))
    }
}

/// A request's query.
pub struct Query<T>(T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Refused> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|axum::extract::Query(query)| Query(query)).map_err(|error| {
            Refused(failure::request(format!(
                "The request's query cannot be understood: {}.",
                error.body_text()
            )))
        })
    }
}

/// Describes a fault in a body, without the strings in it: one of them may be a misplaced password.
fn discreet(error: &serde_json::Error) -> String {
    let told = error.to_string();
    match told.split_once("string \"") {
        // The string is quoted as in Rust, and the rest has no quotes.
        Some((before, rest)) => {
            let after = rest.rsplit_once('"').map_or("", |(_, after)| after);
            format!("{before}a string{after}")
        }
        None => told,
    }
}

/// A path that the API lacks.
pub async fn unknown(request: Request) -> Refused {
    Refused(failure::no_route(request.uri().path()))
}

/// A path that the API has, with another method.
pub async fn wrong_method(request: Request) -> Refused {
    let asked = format!("{} {} is not a request of the API.", request.method(), request.uri().path());
    Refused(failure::request(asked))
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
        let drive = drives.get(&name)?;
        let url = drive.store_url();
        doing(drive, progress).await.map_err(|failure| failure::named(failure, &name, &url))
    })
}

fn plain<T: Serialize>(result: Result<T, Failure>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(failure) => Refused(failure).into_response(),
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
        let left = drives.left_mounted();
        drives.stop();
        Ok(api::Stopping { left })
    })
}

pub async fn list(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.statuses().await))
}

pub async fn create(State(drives): State<Shared>, Asked(request): Asked<api::Create>) -> Response {
    work(drives, |drives, work| async move { drives.create(request, work).await })
}

pub async fn add(State(drives): State<Shared>, Asked(request): Asked<api::Add>) -> Response {
    work(drives, |drives, _| async move { drives.add(request).await })
}

pub async fn limits(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.shown_limits()))
}

pub async fn set_limits(State(drives): State<Shared>, Asked(request): Asked<api::SetLimits>) -> Response {
    work(drives, |drives, _| async move { drives.set_limits(request).await })
}

pub async fn logins(State(drives): State<Shared>) -> Response {
    plain(drives.logins())
}

pub async fn log_in(State(drives): State<Shared>, Asked(request): Asked<api::LogIn>) -> Response {
    work(drives, |drives, _| async move { drives.log_in(request).await })
}

pub async fn log_out(State(drives): State<Shared>, Asked(request): Asked<api::LogOut>) -> Response {
    work(drives, |drives, _| async move { drives.log_out(request).await })
}

pub async fn test_store(State(drives): State<Shared>, Asked(request): Asked<api::TestStore>) -> Response {
    work(drives, |drives, work| async move { drives.test_store(request, work).await })
}

pub async fn find_drives(State(drives): State<Shared>, Asked(request): Asked<api::FindDrives>) -> Response {
    work(drives, |drives, _| async move { drives.find_drives(request).await })
}

pub async fn status(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(Ok(drive.status().await)),
        Err(failure) => Refused(failure).into_response(),
    }
}

pub async fn open(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Open>) -> Response {
    on_drive((state, name), async move |drive, _| drive.open(&request).await)
}

pub async fn close(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Close>) -> Response {
    on_drive((state, name), async move |drive, work| {
        let already = drive.close(request.wait, work).await?;
        Ok(api::Closed { drive: drive.status().await, already })
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

pub async fn directory(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Query(asked): Query<api::ListDirectory>,
) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(drive.directory(&asked.path).await),
        Err(failure) => Refused(failure).into_response(),
    }
}

pub async fn directories(
    State(drives): State<Shared>,
    Query(asked): Query<api::ListDirectories>,
) -> Response {
    plain(drives.directories(&asked.path).await)
}

pub async fn create_directory(
    State(drives): State<Shared>,
    Asked(request): Asked<api::CreateDirectory>,
) -> Response {
    work(drives, |drives, _| async move { drives.create_directory(request).await })
}

pub async fn activity(State(drives): State<Shared>, Query(asked): Query<api::ListActivity>) -> Response {
    plain(Ok(drives.activity().list(&asked)))
}

pub async fn diagnostics(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.diagnostics().await))
}

pub async fn queue(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    plain(drives.get(&name).map(|drive| drive.queue()))
}

pub async fn upload_now(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| drive.upload_now())
}

pub async fn pins(State(drives): State<Shared>) -> Response {
    plain(Ok(drives.pins()))
}

pub async fn pins_of(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    plain(drives.place(&name).map(|place| place.pins()))
}

pub async fn entries_at(State(drives): State<Shared>, Query(asked): Query<api::ListDirectory>) -> Response {
    plain(drives.entries_at(&asked.path).await)
}

pub async fn pin(State(drives): State<Shared>, Asked(request): Asked<api::PinPaths>) -> Response {
    work(drives, |drives, work| async move { drives.pin(request, work).await })
}

pub async fn unpin(State(drives): State<Shared>, Asked(request): Asked<api::NamedPaths>) -> Response {
    work(drives, |drives, _| async move { drives.unpin(request).await })
}

pub async fn evict(State(drives): State<Shared>, Asked(request): Asked<api::NamedPaths>) -> Response {
    work(drives, |drives, work| async move { drives.evict(request, work).await })
}

pub async fn wait_for(State(drives): State<Shared>, Asked(request): Asked<api::WaitFor>) -> Response {
    work(drives, |drives, work| async move { drives.wait_for(request, work).await })
}

pub async fn check(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.check(work).await)
}

pub async fn collect(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, work| drive.collect(work).await)
}

pub async fn stop_prefetch(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| Ok(drive.stop_prefetch()))
}

pub async fn stop_collecting(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async |drive, _| drive.stop_collecting())
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

pub async fn snapshots(
    (State(drives), Path(name)): Named,
    Query(asked): Query<api::ListSnapshots>,
) -> Response {
    match drives.get(&name) {
        Ok(drive) => {
            let found = drive.snapshots(asked.all).await;
            plain(found.map_err(|failure| failure::named(failure, &name, &drive.store_url())))
        }
        Err(failure) => Refused(failure).into_response(),
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
        let drive = drives.get(&name)?;
        let dropped = drive.drop_snapshot(&label, work).await;
        dropped.map_err(|failure| failure::named(failure, &name, &drive.store_url()))?;
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

pub async fn replicas(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    plain(drives.get(&name).map(|drive| drive.replica_statuses()))
}

pub async fn add_replica(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Asked(request): Asked<api::AddReplica>,
) -> Response {
    work(drives, |drives, work| async move { drives.add_replica(&name, request, work).await })
}

pub async fn remove_replica(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::NamedReplica>,
) -> Response {
    on_drive((state, name), async move |drive, _| {
        drive.remove_replica(&super::stores::read(&request.store)?)?;
        Ok(api::Nothing {})
    })
}

pub async fn promote(
    state: State<Shared>,
    name: Path<String>,
    Asked(request): Asked<api::Promote>,
) -> Response {
    on_drive((state, name), async move |drive, _| drive.promote(request).await)
}

pub async fn current(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    match drives.get(&name) {
        Ok(drive) => plain(drive.current().await),
        Err(failure) => Refused(failure).into_response(),
    }
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
        let fork = drives.fork(&name, &fork).await?;
        fork.open(&request).await.map_err(|failure| failure::named(failure, &fork.name, &fork.store_url()))
    })
}

pub async fn keep_fork(
    State(drives): State<Shared>,
    Path((name, fork)): Path<(String, String)>,
    Asked(request): Asked<api::Keep>,
) -> Response {
    work(drives, |drives, _| async move { drives.keep_fork(&name, &fork, &request.name).await })
}

pub async fn compare_fork(
    State(drives): State<Shared>,
    Path((name, fork)): Path<(String, String)>,
    Asked(request): Asked<api::Compare>,
) -> Response {
    work(drives, |drives, work| async move { drives.compare_fork(&name, &fork, request, work).await })
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

pub async fn recovery_key(state: State<Shared>, name: Path<String>) -> Response {
    on_drive((state, name), async move |drive, _| drive.new_recovery_key().await)
}

pub async fn remove(
    State(drives): State<Shared>,
    Path(name): Path<String>,
    Asked(request): Asked<api::Remove>,
) -> Response {
    work(drives, |drives, _| async move { drives.remove(&name, request).await })
}

pub async fn serve(state: State<Shared>, name: Path<String>, Asked(request): Asked<api::Serve>) -> Response {
    on_drive((state, name), async move |drive, work| drive.serve(request, work).await)
}

pub async fn serve_web(State(drives): State<Shared>, Asked(request): Asked<api::ServeWeb>) -> Response {
    work(drives, |drives, _| async move { drives.web().invite(drives.clone(), request).await })
}

pub async fn listen_web(State(drives): State<Shared>, Asked(request): Asked<api::ListenWeb>) -> Response {
    work(drives, |drives, _| async move { drives.web().listen(drives.clone(), request).await })
}

pub async fn end_web(State(drives): State<Shared>) -> Response {
    work(drives, |drives, _| async move {
        drives.web().stop(&drives.paths().state).await?;
        Ok(api::Nothing {})
    })
}

pub async fn doctor(State(drives): State<Shared>) -> Response {
    work(drives, |drives, work| async move { drives.doctor(false, Some(&work)).await })
}

pub async fn repair(State(drives): State<Shared>) -> Response {
    work(drives, |drives, work| async move { drives.doctor(true, Some(&work)).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_body_is_reported_without_its_content() {
        let error = |text: &str| discreet(&serde_json::from_str::<api::LogIn>(text).unwrap_err());
        let told = error(r#"{"store": "s3://b", "credentials": "hunter2\" x"}"#);
        assert!(!told.contains("hunter2") && told.contains("a string, expected"), "{told}");
        assert!(
            error(r#"{"credentials": {"kind": "bearer", "token": "t"}}"#).contains("missing field `store`")
        );
        let told = error(
            r#"{"store": "s3://b", "credentials": {"kind": "bearer", "token": "t"}, "unchecked": "hunter2"}"#,
        );
        assert!(!told.contains("hunter2"), "{told}");
    }
}
