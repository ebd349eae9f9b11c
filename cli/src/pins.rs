//! `holdall pin`, `unpin`, `pins`, `evict` and `wait`: each is a request, and its result in words.

use crate::api::{self, Evicted, Waited};
use crate::args::pins::{Pin, Wait, Which};
use crate::drive::Session;
use crate::failure::CliError;
use crate::show::pins as show;
use holdall_client::request::segment;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

/// Always keeps files here.
pub async fn pin(pin: &Pin, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    // If nobody can see the progress, nobody waits for it.
    let wait = pin.wait || !pin.no_wait && stderr().is_terminal();
    let (paths, drive) = named(&pin.which)?;
    let only_told = pin.dry_run || pin.status;
    let request =
        api::PinPaths { paths, drive, dry_run: pin.dry_run, look: pin.status, wait: wait && !only_told };
    let value = client.post("/v1/pins", &request).await?;
    let words = match (pin.status, pin.dry_run) {
        (true, _) => show::looked,
        (false, true) => show::would_be,
        (false, false) => show::kept,
    };
    output.result(&value, |pins: &Vec<api::Pin>, _| show::each(pins, words)).map(drop)
}

/// Stops keeping them.
pub async fn unpin(which: &Which, session: &Session<'_>) -> Result<(), CliError> {
    let (paths, drive) = named(which)?;
    let value = session.client.post("/v1/pins/remove", &api::NamedPaths { paths, drive }).await?;
    session.output.result(&value, |pins: &Vec<api::Pin>, _| show::unpinned(pins)).map(drop)
}

/// Shows the pins.
pub async fn list(name: Option<&str>, session: &Session<'_>) -> Result<(), CliError> {
    let path = match name {
        Some(name) => format!("/v1/drives/{}/pins", segment(name)),
        None => "/v1/pins".to_owned(),
    };
    let value = session.client.get(&path).await?;
    session.output.result(&value, |pins: &Vec<api::Pin>, paint| show::list(pins, paint)).map(drop)
}

/// Evicts files from the cache.
pub async fn evict(which: &Which, session: &Session<'_>) -> Result<(), CliError> {
    let (paths, drive) = named(which)?;
    let value = session.client.post("/v1/evict", &api::NamedPaths { paths, drive }).await?;
    session.output.result(&value, |evicted: &Evicted, _| show::evicted(evicted)).map(drop)
}

/// Waits until enough of a file is here.
pub async fn wait(wait: &Wait, session: &Session<'_>) -> Result<(), CliError> {
    let timeout_ms = wait.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let request = api::WaitFor { path: resolved(&wait.path)?, percent: wait.ready, timeout_ms };
    let value = session.client.post("/v1/wait", &request).await?;
    session.output.result(&value, |waited: &Waited, _| show::waited(waited)).map(drop)
}

fn named(which: &Which) -> Result<(Vec<String>, Option<String>), CliError> {
    let paths = which.paths.iter().map(|path| resolved(path)).collect::<Result<_, _>>()?;
    Ok((paths, which.drive.clone()))
}

/// The path as the daemon knows it: absolute, with the symbolic links on the way to its last part resolved. The last part may not exist, or
/// be a link itself, which is not followed.
fn resolved(path: &Path) -> Result<String, CliError> {
    let unusable = |why: &str| {
        CliError::usage(format!("{} cannot be used: {why}.", path.display()), "Give another path.")
    };
    let absolute = std::path::absolute(path).map_err(|error| unusable(&error.to_string()))?;
    let last = absolute.components().next_back();
    let resolved = match (absolute.parent(), absolute.file_name()) {
        // The last part is a name, and stays unchanged.
        (Some(parent), Some(name)) if matches!(last, Some(std::path::Component::Normal(_))) => {
            std::fs::canonicalize(parent).map(|parent| parent.join(name))
        }
        _ => std::fs::canonicalize(&absolute),
    };
    // A missing file may still be pinned.
    let resolved: PathBuf = resolved.unwrap_or(absolute);
    resolved.into_os_string().into_string().map_err(|_| unusable("its name is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_links_on_the_way_but_not_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("real/dangling")).unwrap();
        let of = |path: &str| PathBuf::from(resolved(&root.join(path)).unwrap());
        assert_eq!(of("link/file"), root.join("real/file"));
        assert_eq!(of("link/dangling"), root.join("real/dangling"));
        assert_eq!(of("link"), root.join("link"));
        assert_eq!(of("real/../real"), root.join("real"));
        assert_eq!(of("gone/file"), root.join("gone/file"));
    }
}
