//! How much of the network and of the local disk Holdall may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The limits: of the network for all drives together, of the local disk for each drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Bytes per second to stores; `null` for no limit.
    pub up_bytes_per_s: Option<u64>,
    /// Bytes per second from stores; `null` for no limit.
    pub down_bytes_per_s: Option<u64>,
    /// Bytes of cache for each drive; `null` for half of the disk space that would be free without the cache.
    pub cache_bytes: Option<u64>,
    /// Bytes of cache for all drives and folders together, including closed ones; `null` for no limit.
    #[serde(default)]
    pub cache_total_bytes: Option<u64>,
    /// Bytes of cache for drives and folders with a limit of their own.
    #[serde(default)]
    pub cache_of: BTreeMap<String, u64>,
    /// How to treat programs that read the beginnings of one file after another.
    #[serde(default)]
    pub indexers: Indexers,
    /// What to do on a metered network.
    pub on_metered: OnMetered,
    /// Whether the network is metered now; `null` where this is not known (NetworkManager reports it).
    pub metered: Option<bool>,
    /// Whether uploads and background downloads wait now because the network is metered.
    pub waiting: bool,
    /// When the pause of uploads and background downloads of all drives ends; `null` if they are not paused.
    #[serde(default)]
    pub paused_until: Option<String>,
    /// The hours in which uploads and background downloads wait; `null` if there are none.
    #[serde(default)]
    pub quiet: Option<QuietHours>,
    /// Whether these hours are now.
    #[serde(default)]
    pub quiet_now: bool,
    /// Whether stores are reached through an HTTP proxy.
    #[serde(default)]
    pub proxy: ProxyUse,
    /// The proxy in use now, as host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_address: Option<String>,
    /// Hosts that are reached without the proxy, if they are set here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_except: Option<String>,
}

/// Whether stores are reached through an HTTP proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyUse {
    /// Stores are reached directly, whatever the service's environment says.
    #[default]
    Off,
    /// As `HTTPS_PROXY` (or `ALL_PROXY`) and `NO_PROXY` in the service's environment say.
    Environment,
    /// Through the proxy that is set here.
    Server,
}

/// Sets the proxy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "use", deny_unknown_fields)]
pub enum SetProxy {
    /// No proxy.
    Off,
    /// The proxy of the service's environment.
    Environment,
    /// This proxy.
    Server {
        /// `http://HOST:PORT`, without a login.
        address: String,
        /// Hosts to reach without the proxy, separated by commas: names with all their subdomains, addresses, `10.0.0.0/8`, `*`.
        #[serde(default)]
        except: String,
        /// The user at the proxy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The user's password. It is never shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<String>,
    },
}

impl std::fmt::Debug for SetProxy {
    /// Shows no secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SetProxy::Off => "no proxy",
            SetProxy::Environment => "the environment's proxy",
            SetProxy::Server { .. } => "a proxy",
        })
    }
}

/// Hours in which uploads and background downloads wait, by this computer's clock. Files that are opened are still downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// When they begin, in minutes from midnight.
    pub from_minute: u16,
    /// When they end. A time not after `from_minute` is on the next day.
    pub until_minute: u16,
    /// The days on which they begin, Monday first. With no day set there are no quiet hours.
    pub days: [bool; 7],
}

/// What to do on a metered network, such as a phone's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMetered {
    /// Uploads and background downloads wait for another network. Files that are opened are still downloaded.
    #[default]
    Pause,
    /// The same as on every network.
    GoOn,
}

/// How to treat programs that read the beginnings of one file after another, as thumbnailers and indexers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Indexers {
    /// Run few of their reads at once, and prefetch nothing for them.
    #[default]
    Slow,
    /// Serve them like any program.
    Full,
}

/// Changes of limits. Limits that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLimits {
    /// Bytes per second to stores; 0 removes the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_bytes_per_s: Option<u64>,
    /// Bytes per second from stores; 0 removes the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_bytes_per_s: Option<u64>,
    /// Bytes of cache for each drive; 0 removes the limit, so that it is half of the disk again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// The drive or folder for which `cache_bytes` is; if left out, it is for each drive without a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Bytes of cache for all drives and folders together; 0 removes the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_total_bytes: Option<u64>,
    /// How to treat programs that read the beginnings of one file after another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexers: Option<Indexers>,
    /// What to do on a metered network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_metered: Option<OnMetered>,
    /// For how long to pause uploads and background downloads of all drives from now on, a month at most; 0 ends the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_for_ms: Option<u64>,
    /// Hours in which uploads and background downloads wait; with no day set there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// The HTTP proxy through which stores are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<SetProxy>,
}
