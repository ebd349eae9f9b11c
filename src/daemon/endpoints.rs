//! The API as one table: the server and the documentation are both made from it, and cannot differ.

use super::{Shared, events, overview, routes};
use crate::api;
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Makes a type's schema.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A request of the API.
pub struct Endpoint {
    /// In lower case, as in OpenAPI.
    pub method: &'static str,
    /// With `{parameters}`.
    pub path: &'static str,
    /// A sentence for the documentation.
    pub summary: &'static str,
    /// The type of its body.
    pub body: Option<SchemaOf>,
    /// The type of its query.
    pub query: Option<SchemaOf>,
    /// Its answer on success.
    pub answer: Answer,
    handler: MethodRouter<Shared>,
}

/// The form of an answer.
#[derive(Clone, Copy)]
pub enum Answer {
    /// One JSON document.
    Document(SchemaOf),
    /// Lines of progress, then the result or an error.
    Lines(SchemaOf),
    /// Server-sent events.
    Events(SchemaOf),
}

impl Endpoint {
    fn takes<T: JsonSchema>(self) -> Self {
        Endpoint { body: Some(|schemas| schemas.subschema_for::<T>()), ..self }
    }

    fn asks<T: JsonSchema>(self) -> Self {
        Endpoint { query: Some(|schemas| schemas.root_schema_for::<T>()), ..self }
    }
}

fn get<T: JsonSchema, H: Handler<M, Shared>, M: 'static>(
    path: &'static str,
    summary: &'static str,
    handler: H,
) -> Endpoint {
    let answer = Answer::Document(|schemas| schemas.subschema_for::<T>());
    Endpoint {
        method: "get",
        path,
        summary,
        body: None,
        query: None,
        answer,
        handler: on(MethodFilter::GET, handler),
    }
}

fn post<T: JsonSchema, H: Handler<M, Shared>, M: 'static>(
    path: &'static str,
    summary: &'static str,
    handler: H,
) -> Endpoint {
    let answer = Answer::Lines(|schemas| schemas.subschema_for::<T>());
    Endpoint {
        method: "post",
        path,
        summary,
        body: None,
        query: None,
        answer,
        handler: on(MethodFilter::POST, handler),
    }
}

/// All endpoints of the API.
#[rustfmt::skip]
pub fn all() -> Vec<Endpoint> {
    use api::*;
    vec![
        get::<DaemonStatus, _, _>("/v1/daemon", "How the daemon is", routes::daemon),
        post::<Stopping, _, _>("/v1/daemon/stop", "Ends the daemon; open drives stay mounted for the next one, and are named", routes::stop),
        get::<Limits, _, _>("/v1/limits", "What drives may take of the network and of the local disk", routes::limits),
        post::<Limits, _, _>("/v1/limits", "Changes what drives may take of the network and of the local disk", routes::set_limits).takes::<SetLimits>(),
        get::<Vec<Pin>, _, _>("/v1/pins", "What is always kept here of all drives", routes::pins),
        post::<Vec<Pin>, _, _>("/v1/pins", "Always keeps files here, or tells what that would be", routes::pin).takes::<PinPaths>(),
        post::<Vec<Pin>, _, _>("/v1/pins/remove", "Keeps files no more; answers with the pins that there were", routes::unpin).takes::<NamedPaths>(),
        post::<Evicted, _, _>("/v1/evict", "Takes files out of the cache, as far as the store has them", routes::evict).takes::<NamedPaths>(),
        post::<Waited, _, _>("/v1/wait", "Waits until enough of a file is here", routes::wait_for).takes::<WaitFor>(),
        get::<Vec<StoreLogin>, _, _>("/v1/stores", "Who is logged in to which store", routes::logins),
        post::<StoreLogin, _, _>("/v1/stores/login", "Keeps credentials for a store, after trying them", routes::log_in).takes::<LogIn>(),
        post::<StoreLogin, _, _>("/v1/stores/logout", "Forgets the credentials for a store", routes::log_out).takes::<LogOut>(),
        post::<StoreTested, _, _>("/v1/stores/test", "Tries what a store can do", routes::test_store).takes::<TestStore>(),
        post::<Vec<StoreDrive>, _, _>("/v1/stores/drives", "Which drives a store has, for whoever adds one of them", routes::find_drives).takes::<FindDrives>(),
        get::<Directories, _, _>("/v1/directories", "What directories of this computer are in one, for whoever chooses one on a page", routes::directories).asks::<ListDirectories>(),
        post::<Directories, _, _>("/v1/directories", "Creates a directory on this computer", routes::create_directory).takes::<CreateDirectory>(),
        get::<Vec<DriveStatus>, _, _>("/v1/drives", "How all drives are", routes::list),
        post::<Created, _, _>("/v1/drives", "Makes a drive", routes::create).takes::<Create>(),
        post::<Created, _, _>("/v1/drives/add", "Makes a drive known here that is in a store already", routes::add).takes::<Add>(),
        get::<DriveStatus, _, _>("/v1/drives/{name}", "How a drive is", routes::status),
        post::<Opened, _, _>("/v1/drives/{name}/open", "Takes a drive and mounts it", routes::open).takes::<Open>(),
        post::<Closed, _, _>("/v1/drives/{name}/close", "Unmounts a drive; the rest is uploaded in the background, or waited for", routes::close).takes::<Close>(),
        post::<Synced, _, _>("/v1/drives/{name}/sync", "Uploads all changes and waits for the commit", routes::sync),
        post::<DriveStatus, _, _>("/v1/drives/{name}/pause", "Stops uploading", routes::pause),
        post::<DriveStatus, _, _>("/v1/drives/{name}/resume", "Goes on uploading", routes::resume),
        get::<Vec<Pin>, _, _>("/v1/drives/{name}/pins", "What is always kept here of a drive", routes::pins_of),
        get::<Vec<FolderEntry>, _, _>("/v1/drives/{name}/folder", "What is in a folder of a mounted drive, one level deep, and how far it is here", routes::folder).asks::<ListFolder>(),
        get::<Vec<Queued>, _, _>("/v1/drives/{name}/queue", "What is being uploaded, and what waits for that", routes::queue),
        post::<Nothing, _, _>("/v1/drives/{name}/upload-now", "Uploads at once what waits, and tries again what the store did not take", routes::upload_now),
        post::<Nothing, _, _>("/v1/drives/{name}/prefetch/stop", "Stops fetching what was read first at the last openings", routes::stop_prefetch),
        get::<ChunkMap, _, _>("/v1/drives/{name}/map", "Which parts of an open drive are here", routes::map),
        post::<Checked, _, _>("/v1/drives/{name}/check", "Reads and checks everything that a drive has in its store", routes::check),
        post::<Collected, _, _>("/v1/drives/{name}/gc", "Deletes what none of a drive's versions needs", routes::collect),
        post::<Nothing, _, _>("/v1/drives/{name}/gc/stop", "Stops deleting what none of a drive's versions needs; the rest goes later", routes::stop_collecting),
        post::<DriveStatus, _, _>("/v1/drives/{name}/resize", "Grows a drive, mounted or not", routes::resize).takes::<Resize>(),
        get::<Vec<Snapshot>, _, _>("/v1/drives/{name}/snapshots", "The versions that are kept", routes::snapshots).asks::<ListSnapshots>(),
        post::<Snapshot, _, _>("/v1/drives/{name}/snapshots", "Keeps the version of this moment", routes::snapshot).takes::<Label>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, routes::drop_snapshot),
            ..post::<Nothing, _, _>("/v1/drives/{name}/snapshots/{label}", "Stops keeping a version", routes::drop_snapshot)
        },
        post::<Synced, _, _>("/v1/drives/{name}/rollback", "Makes a version that was kept the current one", routes::rollback).takes::<Label>(),
        post::<Created, _, _>("/v1/drives/{name}/clone", "Makes a drive from a version of another", routes::clone).takes::<Clone>(),
        get::<Vec<ReplicaStatus>, _, _>("/v1/drives/{name}/replicas", "Further stores that have what a drive's store has", routes::replicas),
        post::<ReplicaStatus, _, _>("/v1/drives/{name}/replicas", "Has a further store keep what a drive's store has", routes::add_replica).takes::<AddReplica>(),
        post::<Nothing, _, _>("/v1/drives/{name}/replicas/remove", "Keeps a replica up no more; what it has stays there", routes::remove_replica).takes::<NamedReplica>(),
        post::<Promoted, _, _>("/v1/drives/{name}/replicas/promote", "Makes a replica the drive's store", routes::promote).takes::<Promote>(),
        get::<Version, _, _>("/v1/drives/{name}/current", "The version of a drive that its store has, asked anew", routes::current),
        get::<Vec<Fork>, _, _>("/v1/drives/{name}/forks", "The forks of a drive that this device has", routes::forks),
        post::<Opened, _, _>("/v1/drives/{name}/forks/{fork}/open", "Mounts a fork", routes::open_fork).takes::<Open>(),
        post::<Compared, _, _>("/v1/drives/{name}/forks/{fork}/compare", "What differs between a fork and its drive's current version, by file; both are opened for that, and closed again", routes::compare_fork).takes::<Compare>(),
        post::<Created, _, _>("/v1/drives/{name}/forks/{fork}/keep", "Makes a fork an ordinary drive of this device", routes::keep_fork).takes::<Keep>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, routes::discard_fork),
            ..post::<Nothing, _, _>("/v1/drives/{name}/forks/{fork}", "Deletes a fork, here and in the store", routes::discard_fork)
        },
        post::<Nothing, _, _>("/v1/drives/{name}/passphrase", "Changes the passphrase", routes::passphrase).takes::<Passphrase>(),
        post::<RecoveryKey, _, _>("/v1/drives/{name}/recovery-key", "Makes another recovery key, told once; the former one opens the drive no more", routes::recovery_key),
        post::<Removed, _, _>("/v1/drives/{name}/remove", "Forgets a drive here, or deletes it", routes::remove).takes::<Remove>(),
        post::<Served, _, _>("/v1/drives/{name}/serve", "Serves a drive by NBD until the connection of this request ends", routes::serve).takes::<Serve>(),
        get::<Vec<ActivityRow>, _, _>("/v1/activity", "What has happened, newest first, over restarts", routes::activity).asks::<ListActivity>(),
        get::<Diagnostics, _, _>("/v1/diagnostics", "What somebody who is asked for help wants to see, without secrets", routes::diagnostics),
        post::<Diagnosis, _, _>("/v1/doctor", "Looks for what may be wrong: this computer, its disks, stores and logins", routes::doctor),
        post::<Diagnosis, _, _>("/v1/doctor/repair", "Mends what can be mended without losing anything", routes::repair),
        Endpoint {
            answer: Answer::Events(|schemas| schemas.subschema_for::<Event>()),
            ..get::<Event, _, _>("/v1/events", "What happens, beginning with the status of every drive", events::stream)
        },
        post::<WebAddress, _, _>("/v1/web", "Serves the pages to browsers on this computer, and invites one of them", routes::serve_web).takes::<ServeWeb>(),
        post::<ListeningWeb, _, _>("/v1/web/listen", "Serves the pages to browsers of other computers, which sign in with a password", routes::listen_web).takes::<ListenWeb>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, routes::end_web),
            ..post::<Nothing, _, _>("/v1/web", "Serves no pages any more; whoever was in is out", routes::end_web)
        },
        Endpoint {
            answer: Answer::Events(|schemas| schemas.subschema_for::<holdall_gui::Overview>()),
            ..get::<holdall_gui::Overview, _, _>("/v1/overview", "How things are at a glance, now and whenever that changes", overview::stream)
        },
        get::<serde_json::Map<String, serde_json::Value>, _, _>("/v1/openapi.json", "This document", routes::openapi),
    ]
}

/// Serves all endpoints.
pub fn routes() -> Router<Shared> {
    let router = all()
        .into_iter()
        .fold(Router::new(), |router, endpoint| router.route(endpoint.path, endpoint.handler));
    router.method_not_allowed_fallback(routes::wrong_method)
}

/// The same, and answers everything else with an error.
pub fn router(drives: Shared) -> Router {
    routes().fallback(routes::unknown).with_state(drives)
}
