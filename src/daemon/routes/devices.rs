//! The API's routes for paired devices.

use super::{Asked, Shared, plain, work};
use crate::api;
use axum::extract::{Path, State};
use axum::response::Response;

pub async fn list(State(drives): State<Shared>) -> Response {
    plain(drives.devices().list())
}

pub async fn rename(State(drives): State<Shared>, Asked(request): Asked<api::NameDevice>) -> Response {
    work(drives, |drives, _| async move { drives.devices().rename(&request) })
}

pub async fn listen(State(drives): State<Shared>, Asked(request): Asked<api::ListenForDevices>) -> Response {
    work(drives, move |drives, _| async move { drives.devices().listen(request).await })
}

pub async fn pair(State(drives): State<Shared>, Asked(request): Asked<api::Pair>) -> Response {
    work(drives, |drives, _| async move { drives.devices().pair(request).await })
}

pub async fn pairing(State(drives): State<Shared>) -> Response {
    plain(drives.devices().pairing())
}

pub async fn confirm(State(drives): State<Shared>, Asked(request): Asked<api::ConfirmPairing>) -> Response {
    work(drives, move |drives, _| async move { drives.devices().confirm(request) })
}

pub async fn cancel(State(drives): State<Shared>) -> Response {
    work(drives, |drives, _| async move { drives.devices().cancel() })
}

pub async fn unpair(State(drives): State<Shared>, Path(name): Path<String>) -> Response {
    work(drives, |drives, _| async move { drives.devices().unpair(&name).await })
}
