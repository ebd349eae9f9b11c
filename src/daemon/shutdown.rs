//! Whether the computer is shutting down: then programs that use a drive are about to end, and no other daemon will serve it.

use std::time::Duration;
use zbus::Connection;
use zbus::zvariant::Value;

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// The state of systemd once it starts the units for a shutdown.
const STOPPING: &str = "stopping";
/// Short, because the bus may be ending too.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether systemd says so. If it cannot be asked, the computer counts as staying on.
pub async fn is_under_way() -> bool {
    match tokio::time::timeout(PATIENCE, state()).await {
        Ok(Ok(state)) => state == STOPPING,
        Ok(Err(error)) => {
            tracing::debug!(%error, "it is unknown whether the computer is shutting down");
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
