//! Whether the computer is going down: then who uses a drive is about to be ended, and no other daemon comes to serve it.

use std::time::Duration;
use zbus::Connection;
use zbus::zvariant::Value;

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// What systemd calls its state once the units for a shutdown are to be started.
const STOPPING: &str = "stopping";
/// The bus may be ending too.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether systemd says so. Where it cannot be asked the computer stays on.
pub async fn is_under_way() -> bool {
    match tokio::time::timeout(PATIENCE, state()).await {
        Ok(Ok(state)) => state == STOPPING,
        Ok(Err(error)) => {
            tracing::debug!(%error, "it is not known whether the computer goes down");
            false
        }
        Err(_) => false,
    }
}

async fn state() -> zbus::Result<String> {
    let bus = Connection::system().await?;
    let answer =
        bus.call_method(Some(NAME), PATH, Some(PROPERTIES), "Get", &(MANAGER, "SystemState")).await?;
    let body = answer.body();
    let state: Value<'_> = body.deserialize()?;
    Ok(String::try_from(state)?)
}
