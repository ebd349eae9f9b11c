//! `holdall limits`.

use crate::api::{Indexers, Limits, OnMetered, ProxyUse, SetLimits, SetProxy};
use crate::args::LimitsArguments;
use crate::args::quiet::Quiet;
use crate::drive::Session;
use crate::failure::CliError;
use crate::secrets;
use crate::show::at;
use crate::sizes::format_bytes;
use jiff::tz::TimeZone;

/// Shows the limits, after changing those that were given.
pub async fn run(arguments: &LimitsArguments, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    let LimitsArguments { up, down, cache, indexers, on_metered, pause, quiet, .. } = arguments;
    let changes = SetLimits {
        up_bytes_per_s: up.map(|rate| rate.0),
        down_bytes_per_s: down.map(|rate| rate.0),
        cache_bytes: cache.map(|bytes| bytes.0),
        drive: arguments.drive.clone(),
        cache_total_bytes: arguments.cache_total.map(|bytes| bytes.0),
        indexers: indexers.map(Into::into),
        on_metered: on_metered.map(Into::into),
        pause_for_ms: pause.map(|pause| pause.0),
        quiet: quiet.map(|quiet| quiet.0),
        proxy: proxy(arguments)?,
    };
    let value = match changes == SetLimits::default() {
        true => client.get("/v1/limits").await?,
        false => client.post("/v1/limits", &changes).await?,
    };
    output.result(&value, |limits: &Limits, _| shown(limits, &TimeZone::system())).map(drop)
}

/// The proxy that was given. Its login comes from a file: a command line is no place for a secret.
fn proxy(arguments: &LimitsArguments) -> Result<Option<SetProxy>, CliError> {
    let Some(given) = &arguments.proxy else { return Ok(None) };
    let login =
        arguments.proxy_login_file.as_deref().map(|file| secrets::read(file, "proxy login")).transpose()?;
    let login = match login.as_deref().map(|login| login.split_once(':')) {
        None => None,
        Some(Some((user, password))) => Some((user.to_owned(), password.to_owned())),
        Some(None) => {
            let message = "The file with the proxy login must contain one line, USER:PASSWORD.";
            return Err(CliError::usage(message, "Correct the file."));
        }
    };
    Ok(Some(match &**given {
        "off" => SetProxy::Off,
        "environment" => SetProxy::Environment,
        address => SetProxy::Server {
            address: address.to_owned(),
            except: arguments.proxy_except.clone().unwrap_or_default(),
            user: login.as_ref().map(|(user, _)| user.clone()),
            password: login.map(|(_, password)| password),
        },
    }))
}

/// The proxy, in words.
fn shown_proxy(limits: &Limits) -> String {
    let address = limits.proxy_address.as_deref();
    match (limits.proxy, address) {
        (ProxyUse::Off, _) => "off".to_owned(),
        (ProxyUse::Environment, None) => "environment (the service's environment sets none)".to_owned(),
        (ProxyUse::Environment, Some(address)) => format!("environment ({address})"),
        (ProxyUse::Server, address) => {
            let address = address.unwrap_or("unusable");
            let except = limits.proxy_except.as_ref().map(|hosts| format!(", not for {hosts}"));
            format!("{address}{}", except.unwrap_or_default())
        }
    }
}

fn shown(limits: &Limits, zone: &TimeZone) -> String {
    let rate =
        |rate: Option<u64>| rate.map_or("no limit".to_owned(), |rate| format!("{}/s", format_bytes(rate)));
    let metered = match (limits.on_metered, limits.metered) {
        (OnMetered::GoOn, _) => "go on",
        (OnMetered::Pause, None) => "pause (nothing on this computer tells which networks are metered)",
        (OnMetered::Pause, Some(false)) => "pause (this network is not metered)",
        (OnMetered::Pause, Some(true)) => "pause (this network is metered: uploads wait for another one)",
    };
    let indexers = match limits.indexers {
        Indexers::Slow => "slow (they read the beginnings of many files)",
        Indexers::Full => "full",
    };
    let quiet = match (limits.quiet, limits.quiet_now) {
        (None, _) => "none".to_owned(),
        (Some(hours), false) => Quiet(hours).to_string(),
        (Some(hours), true) => format!("{} (now: uploads wait)", Quiet(hours)),
    };
    let rows = [
        ("up", rate(limits.up_bytes_per_s)),
        ("down", rate(limits.down_bytes_per_s)),
        ("cache of each drive", limits.cache_bytes.map_or("half of the disk".to_owned(), format_bytes)),
        ("indexers", indexers.to_owned()),
        ("on metered networks", metered.to_owned()),
        ("quiet hours", quiet),
        ("proxy", shown_proxy(limits)),
        (
            "pause",
            limits
                .paused_until
                .as_ref()
                .map_or("off".to_owned(), |until| format!("until {}", at(until, zone))),
        ),
    ];
    let mut lines = rows.map(|(name, value)| format!("{name:<20} {value}")).to_vec();
    let total = limits.cache_total_bytes.map(|bytes| ("cache of all drives".to_owned(), bytes));
    let own = limits.cache_of.iter().map(|(name, bytes)| (format!("cache of {name}"), *bytes));
    let caches =
        total.into_iter().chain(own).map(|(name, bytes)| format!("{name:<20} {}", format_bytes(bytes)));
    // After the limits for each drive.
    drop(lines.splice(3..3, caches));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_worded() {
        let limits = Limits {
            up_bytes_per_s: Some(2 << 20),
            down_bytes_per_s: None,
            cache_bytes: Some(20 << 30),
            cache_total_bytes: Some(50 << 30),
            cache_of: [("work".to_owned(), 3 << 30)].into(),
            indexers: Indexers::Slow,
            on_metered: OnMetered::Pause,
            metered: Some(true),
            waiting: true,
            paused_until: None,
            quiet: Some("mon-fri 08:00-18:00".parse::<Quiet>().expect("hours").0),
            quiet_now: true,
            proxy: ProxyUse::Server,
            proxy_address: Some("p:3128".to_owned()),
            proxy_except: Some("nas".to_owned()),
        };
        let text = shown(&limits, &TimeZone::UTC);
        assert!(text.contains("2.0 MiB/s") || text.contains("2 MiB/s"), "{text}");
        assert!(text.contains("20 GiB") || text.contains("20.0 GiB"), "{text}");
        assert!(text.contains("cache of all drives  50 GiB\ncache of work        3 GiB"), "{text}");
        assert!(text.contains("no limit") && text.contains("wait for another one"), "{text}");
        assert!(text.contains("p:3128, not for nas"), "{text}");
        assert!(text.contains("mon-fri 08:00-18:00 (now: uploads wait)"), "{text}");
    }
}
