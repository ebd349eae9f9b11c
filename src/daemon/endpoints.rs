//! The API as one table: the server and the documentation are both made from it, and cannot differ.

use super::routes::{devices, folders};
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
        get::<DaemonStatus, _, _>("/v1/daemon", "The status of the daemon", routes::daemon),
        post::<Stopping, _, _>("/v1/daemon/stop", "Stops the daemon; lists the open drives, which stay mounted for the next one", routes::stop),
        get::<Limits, _, _>("/v1/limits", "The limits on network and local disk", routes::limits),
        post::<Limits, _, _>("/v1/limits", "Changes the limits on network and local disk", routes::set_limits).takes::<SetLimits>(),
        get::<Vec<Pin>, _, _>("/v1/pins", "The pins of all drives and folders", routes::pins),
        post::<Vec<Pin>, _, _>("/v1/pins", "Pins files, or reports what a pin would take", routes::pin).takes::<PinPaths>(),
        post::<Vec<Pin>, _, _>("/v1/pins/remove", "Unpins files; answers with the pins that were removed", routes::unpin).takes::<NamedPaths>(),
        get::<Vec<DirectoryEntry>, _, _>("/v1/entries", "The entries of a directory by its absolute path, on whichever drive or folder it is", routes::entries_at).asks::<ListDirectory>(),
        post::<Evicted, _, _>("/v1/evict", "Frees the cache of files that are in the store", routes::evict).takes::<NamedPaths>(),
        post::<Waited, _, _>("/v1/wait", "Waits until enough of a file is on this computer", routes::wait_for).takes::<WaitFor>(),
        get::<Vec<StoreLogin>, _, _>("/v1/stores", "The stores with saved credentials", routes::logins),
        post::<StoreLogin, _, _>("/v1/stores/login", "Tests and saves credentials for a store", routes::log_in).takes::<LogIn>(),
        post::<StoreLogin, _, _>("/v1/stores/logout", "Deletes the saved credentials for a store", routes::log_out).takes::<LogOut>(),
        post::<StoreTested, _, _>("/v1/stores/test", "Tests a store", routes::test_store).takes::<TestStore>(),
        post::<Vec<StoreDrive>, _, _>("/v1/stores/drives", "The drives in a store, to choose one to add", routes::find_drives).takes::<FindDrives>(),
        get::<Directories, _, _>("/v1/directories", "The directories in a directory of this computer, to choose one on a page", routes::directories).asks::<ListDirectories>(),
        post::<Directories, _, _>("/v1/directories", "Creates a directory on this computer", routes::create_directory).takes::<CreateDirectory>(),
        get::<Vec<DriveStatus>, _, _>("/v1/drives", "The status of all drives", routes::list),
        post::<Created, _, _>("/v1/drives", "Creates a drive", routes::create).takes::<Create>(),
        post::<Created, _, _>("/v1/drives/add", "Adds a drive that is already in a store", routes::add).takes::<Add>(),
        get::<DriveStatus, _, _>("/v1/drives/{name}", "The status of a drive", routes::status),
        post::<Opened, _, _>("/v1/drives/{name}/open", "Takes a drive and mounts it", routes::open).takes::<Open>(),
        post::<Closed, _, _>("/v1/drives/{name}/close", "Unmounts a drive; uploads continue in the background, or are waited for", routes::close).takes::<Close>(),
        post::<Synced, _, _>("/v1/drives/{name}/sync", "Uploads all changes and waits for the commit", routes::sync),
        post::<DriveStatus, _, _>("/v1/drives/{name}/pause", "Pauses uploads", routes::pause),
        post::<DriveStatus, _, _>("/v1/drives/{name}/resume", "Resumes uploads", routes::resume),
        get::<Vec<Pin>, _, _>("/v1/drives/{name}/pins", "The pins of a drive or folder", routes::pins_of),
        get::<Vec<DirectoryEntry>, _, _>("/v1/drives/{name}/directory", "The entries of a directory of a mounted drive, and how much of each is here", routes::directory).asks::<ListDirectory>(),
        get::<Vec<Queued>, _, _>("/v1/drives/{name}/queue", "The upload queue", routes::queue),
        post::<Nothing, _, _>("/v1/drives/{name}/upload-now", "Starts uploading pending changes, and retries failed uploads", routes::upload_now),
        post::<Nothing, _, _>("/v1/drives/{name}/prefetch/stop", "Stops fetching the data that was read first at the last openings", routes::stop_prefetch),
        get::<ChunkMap, _, _>("/v1/drives/{name}/map", "Which parts of an open drive are on this computer", routes::map),
        post::<Checked, _, _>("/v1/drives/{name}/check", "Reads and verifies everything that a drive has in its store", routes::check),
        post::<Collected, _, _>("/v1/drives/{name}/gc", "Deletes data that no version of a drive needs", routes::collect),
        post::<Nothing, _, _>("/v1/drives/{name}/gc/stop", "Stops deleting data that no version of a drive needs; the rest is deleted later", routes::stop_collecting),
        post::<DriveStatus, _, _>("/v1/drives/{name}/resize", "Grows a drive, mounted or not", routes::resize).takes::<Resize>(),
        get::<Vec<Snapshot>, _, _>("/v1/drives/{name}/snapshots", "The snapshots of a drive", routes::snapshots).asks::<ListSnapshots>(),
        post::<Snapshot, _, _>("/v1/drives/{name}/snapshots", "Takes a snapshot", routes::snapshot).takes::<Label>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, routes::drop_snapshot),
            ..post::<Nothing, _, _>("/v1/drives/{name}/snapshots/{label}", "Deletes a snapshot", routes::drop_snapshot)
        },
        post::<Synced, _, _>("/v1/drives/{name}/rollback", "Restores a drive to a snapshot", routes::rollback).takes::<Label>(),
        post::<Created, _, _>("/v1/drives/{name}/clone", "Creates a drive from a version of another", routes::clone).takes::<Clone>(),
        get::<Vec<ReplicaStatus>, _, _>("/v1/drives/{name}/replicas", "The replicas of a drive", routes::replicas),
        post::<ReplicaStatus, _, _>("/v1/drives/{name}/replicas", "Adds a replica", routes::add_replica).takes::<AddReplica>(),
        post::<Nothing, _, _>("/v1/drives/{name}/replicas/remove", "Stops updating a replica; its data stays there", routes::remove_replica).takes::<NamedReplica>(),
        post::<Promoted, _, _>("/v1/drives/{name}/replicas/promote", "Makes a replica the drive's store", routes::promote).takes::<Promote>(),
        get::<Version, _, _>("/v1/drives/{name}/current", "The current version of a drive, read again from its store", routes::current),
        get::<Vec<Fork>, _, _>("/v1/drives/{name}/forks", "The forks of a drive on this device", routes::forks),
        post::<Opened, _, _>("/v1/drives/{name}/forks/{fork}/open", "Mounts a fork", routes::open_fork).takes::<Open>(),
        post::<Compared, _, _>("/v1/drives/{name}/forks/{fork}/compare", "The differences between a fork and its drive's current version, by file; opens both, and closes them again", routes::compare_fork).takes::<Compare>(),
        post::<Created, _, _>("/v1/drives/{name}/forks/{fork}/keep", "Keeps a fork as an ordinary drive on this device", routes::keep_fork).takes::<Keep>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, routes::discard_fork),
            ..post::<Nothing, _, _>("/v1/drives/{name}/forks/{fork}", "Deletes a fork, here and in the store", routes::discard_fork)
        },
        post::<Nothing, _, _>("/v1/drives/{name}/passphrase", "Changes the passphrase", routes::passphrase).takes::<Passphrase>(),
        post::<RecoveryKey, _, _>("/v1/drives/{name}/recovery-key", "Creates a new recovery key and returns it once; the old one stops working", routes::recovery_key),
        post::<Removed, _, _>("/v1/drives/{name}/remove", "Removes a drive from this computer, or deletes it", routes::remove).takes::<Remove>(),
        post::<Served, _, _>("/v1/drives/{name}/serve", "Serves a drive by NBD until the connection of this request ends", routes::serve).takes::<Serve>(),
        get::<Vec<ActivityRow>, _, _>("/v1/activity", "The recent activity, newest first, kept across restarts", routes::activity).asks::<ListActivity>(),
        get::<Vec<FolderStatus>, _, _>("/v1/folders", "The status of all folders", folders::list),
        post::<FolderOpened, _, _>("/v1/folders", "Mounts the files at an address as a folder, or opens a known folder again", folders::open).takes::<OpenFolder>(),
        post::<FolderStatus, _, _>("/v1/watched", "Keeps a directory of this computer in a remote", folders::watch).takes::<WatchDirectory>(),
        post::<Nothing, _, _>("/v1/folders/{name}/unwatch", "Stops watching a directory; its files stay here and at the remote", folders::unwatch),
        get::<FolderStatus, _, _>("/v1/folders/{name}", "The status of a folder", folders::status),
        post::<FolderClosed, _, _>("/v1/folders/{name}/close", "Unmounts a folder; uploads continue in the background, or are waited for", folders::close).takes::<Close>(),
        post::<FolderStatus, _, _>("/v1/folders/{name}/sync", "Uploads all changes of a folder and waits until they are at the remote", folders::sync),
        post::<FolderStatus, _, _>("/v1/folders/{name}/pause", "Pauses a folder's uploads", folders::pause),
        post::<FolderStatus, _, _>("/v1/folders/{name}/resume", "Resumes a folder's uploads", folders::resume),
        post::<Nothing, _, _>("/v1/folders/{name}/forget", "Removes a folder from this device; its files at the remote stay", folders::forget).takes::<ForgetFolder>(),
        get::<Vec<DirectoryEntry>, _, _>("/v1/folders/{name}/directory", "The entries of a directory of an open folder, and how much of each is here", folders::directory).asks::<ListDirectory>(),
        get::<FolderQueue, _, _>("/v1/folders/{name}/queue", "The upload queue of a folder", folders::queue),
        get::<Vec<FolderConflict>, _, _>("/v1/folders/{name}/conflicts", "Files of an open folder of which both versions are kept", folders::conflicts),
        post::<Vec<FolderConflict>, _, _>("/v1/folders/{name}/conflicts/keep", "Settles a conflict; answers with those that are left", folders::keep).takes::<KeepVersion>(),
        get::<HeldDeletions, _, _>("/v1/folders/{name}/deletions", "Files of an open folder that were deleted at the remote, until a person has confirmed it", folders::deletions),
        post::<DeletionsSettled, _, _>("/v1/folders/{name}/deletions/accept", "Deletes these files here too", folders::accept_deletions),
        post::<DeletionsSettled, _, _>("/v1/folders/{name}/deletions/restore", "Uploads these files again", folders::restore_deletions),
        get::<Devices, _, _>("/v1/devices", "This device and its paired devices", devices::list),
        post::<Devices, _, _>("/v1/devices/name", "Renames this device", devices::rename).takes::<NameDevice>(),
        post::<Devices, _, _>("/v1/devices/listen", "Lets paired devices connect, or not", devices::listen).takes::<ListenForDevices>(),
        get::<PairingStatus, _, _>("/v1/devices/pairing", "The pairing that was begun last", devices::pairing),
        post::<PairingStatus, _, _>("/v1/devices/pairing", "Begins a pairing, with a code or by showing one; it ends when nobody asks for it for 15 seconds", devices::pair).takes::<Pair>(),
        post::<PairingStatus, _, _>("/v1/devices/pairing/confirm", "Confirms the pairing, or refuses it", devices::confirm).takes::<ConfirmPairing>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, devices::cancel),
            ..post::<Nothing, _, _>("/v1/devices/pairing", "Ends the pairing", devices::cancel)
        },
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, devices::unpair),
            ..post::<Devices, _, _>("/v1/devices/paired/{name}", "Unpairs a device, and closes its connections", devices::unpair)
        },
        get::<Diagnostics, _, _>("/v1/diagnostics", "A support report, without passwords and keys", routes::diagnostics),
        post::<Diagnosis, _, _>("/v1/doctor", "Looks for problems of this computer, its disks, stores and logins", routes::doctor),
        post::<Diagnosis, _, _>("/v1/doctor/repair", "Fixes problems that can be fixed safely", routes::repair),
        Endpoint {
            answer: Answer::Events(|schemas| schemas.subschema_for::<Event>()),
            ..get::<Event, _, _>("/v1/events", "Events, beginning with the status of every drive and folder", events::stream)
        },
        post::<WebAddress, _, _>("/v1/web", "Serves the pages to browsers on this computer, and invites one of them", routes::serve_web).takes::<ServeWeb>(),
        post::<ListeningWeb, _, _>("/v1/web/listen", "Serves the pages to browsers of other computers, which sign in with a password", routes::listen_web).takes::<ListenWeb>(),
        Endpoint {
            method: "delete",
            handler: on(MethodFilter::DELETE, routes::end_web),
            ..post::<Nothing, _, _>("/v1/web", "Stops serving the pages, and signs out all browsers", routes::end_web)
        },
        Endpoint {
            answer: Answer::Events(|schemas| schemas.subschema_for::<holdall_gui::Overview>()),
            ..get::<holdall_gui::Overview, _, _>("/v1/overview", "The state of everything at a glance, now and at each change", overview::stream)
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
