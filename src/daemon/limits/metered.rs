//! Whether the network is metered: NetworkManager says so over D-Bus, where there is one.

use futures_util::StreamExt;
use std::time::Duration;
use zbus::proxy::CacheProperties;
use zbus::{Connection, Proxy};

const NAME: &str = "org.freedesktop.NetworkManager";
const PATH: &str = "/org/freedesktop/NetworkManager";
/// The pause before looking again for a NetworkManager that is not there or has gone. Looking costs one message on this computer.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Reports what is known now and whenever it changes; `None` if nobody can say.
pub(super) async fn follow(mut tell: impl FnMut(Option<bool>)) {
    let mut said = None;
    loop {
        if let Err(error) = follow_one(&mut tell).await {
            let error = error.to_string();
            // Most servers have none: once is enough.
            if said.as_ref() != Some(&error) {
                tracing::debug!(error, "NetworkManager does not say whether the network is metered");
                said = Some(error);
            }
        }
        tell(None);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Follows one NetworkManager until it goes.
async fn follow_one(tell: &mut impl FnMut(Option<bool>)) -> zbus::Result<()> {
    let connection = Connection::system().await?;
    let proxy: Proxy<'_> = zbus::proxy::Builder::new(&connection)
        .destination(NAME)?
        .path(PATH)?
        .interface(NAME)?
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let mut owners = proxy.receive_owner_changed().await?;
    let properties = zbus::fdo::PropertiesProxy::new(&connection, NAME, PATH).await?;
    let mut changes = properties.receive_properties_changed().await?;
    loop {
        tell(means(proxy.get_property("Metered").await?));
        tokio::select! {
            change = changes.next() => if change.is_none() { return Ok(()) },
            owner = owners.next() => if !matches!(owner, Some(Some(_))) { return Ok(()) },
        }
    }
}

/// NMMetered: 0 unknown, 1 yes, 2 no, 3 yes as far as can be guessed, 4 no as far as can be guessed (NetworkManager's D-Bus
/// reference).
fn means(metered: u32) -> Option<bool> {
    match metered {
        1 | 3 => Some(true),
        2 | 4 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::means;

    #[test]
    fn guesses_count() {
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(means),
            [None, Some(true), Some(false), Some(true), Some(false), None]
        );
    }
}
