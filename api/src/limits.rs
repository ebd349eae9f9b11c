//! What Holdall may take of the network and of the local disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What may be taken: of the network by all drives together, of the local disk by each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Bytes per second to stores; `null` is no limit.
    pub up_bytes_per_s: Option<u64>,
    /// Bytes per second from stores; `null` is no limit.
    pub down_bytes_per_s: Option<u64>,
    /// Bytes of cache for each drive; `null` is half of the disk that would be free without it.
    pub cache_bytes: Option<u64>,
    /// Bytes of cache for all drives together, those that are closed too; `null` is no limit.
    #[serde(default)]
    pub cache_total_bytes: Option<u64>,
    /// Bytes of cache for drives that have a limit of their own.
    #[serde(default)]
    pub cache_of: BTreeMap<String, u64>,
    /// What is done about programs that read the beginnings of one file after another.
    #[serde(default)]
    pub indexers: Indexers,
    /// What is done where the network counts what it carries.
    pub on_metered: OnMetered,
    /// Whether the network does so now; `null` where nobody can say (NetworkManager does).
    pub metered: Option<bool>,
    /// Whether uploads and background downloads wait because of that now.
    pub waiting: bool,
    /// Until when uploads and background downloads of all drives are paused; `null` where they are not.
    #[serde(default)]
    pub paused_until: Option<String>,
    /// The hours in which uploads and background downloads wait; `null` where there are none.
    #[serde(default)]
    pub quiet: Option<QuietHours>,
    /// Whether it is such an hour now.
    #[serde(default)]
    pub quiet_now: bool,
    /// Whether stores are asked through an HTTP proxy.
    #[serde(default)]
    pub proxy: ProxyUse,
    /// The proxy that is used now, as host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_address: Option<String>,
    /// Hosts that are asked directly all the same, where that is set here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_except: Option<String>,
}

/// Whether stores are asked through an HTTP proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyUse {
    /// They are asked directly, whatever the service's environment says.
    #[default]
    Off,
    /// As `HTTPS_PROXY` (or `ALL_PROXY`) and `NO_PROXY` of the service's environment say.
    Environment,
    /// Through the one that is set here.
    Server,
}

/// Sets the proxy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "use", deny_unknown_fields)]
pub enum SetProxy {
    /// None.
    Off,
    /// What the service's environment says.
    Environment,
    /// This one.
    Server {
        /// `http://HOST:PORT`, without a login.
        address: String,
        /// Hosts that are asked directly, separated by commas: names with all that is below them, addresses, `10.0.0.0/8`, `*`.
        #[serde(default)]
        except: String,
        /// Who asks it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// That one's password. It is never told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<String>,
    },
}

impl std::fmt::Debug for SetProxy {
    /// Says no secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SetProxy::Off => "no proxy",
            SetProxy::Environment => "the environment's proxy",
            SetProxy::Server { .. } => "a proxy",
        })
    }
}

/// Hours in which uploads and background downloads wait, by this computer's clock. What is read is still fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// When they begin, in minutes from midnight.
    pub from_minute: u16,
    /// When they end. Not after `from_minute`, it is on the next day.
    pub until_minute: u16,
    /// The days on which they begin, Monday first. Without any there are no quiet hours.
    pub days: [bool; 7],
}

/// What is done on a network that counts what it carries, such as a phone's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMetered {
    /// Uploads and background downloads wait for another network. What is read is still fetched.
    #[default]
    Pause,
    /// As on every network.
    GoOn,
}

/// What is done about programs that read the beginnings of one file after another, as thumbnailers and indexers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Indexers {
    /// Few of their reads are under way at once, and nothing is fetched ahead of them.
    #[default]
    Slow,
    /// They are served as any program.
    Full,
}

/// Changes of limits. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLimits {
    /// Bytes per second to stores; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_bytes_per_s: Option<u64>,
    /// Bytes per second from stores; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_bytes_per_s: Option<u64>,
    /// Bytes of cache for each drive; 0 takes the limit away, so that it is half of the disk again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// The drive that `cache_bytes` is for; without, it is for each that has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Bytes of cache for all drives together; 0 takes the limit away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_total_bytes: Option<u64>,
    /// What is done about programs that read the beginnings of one file after another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexers: Option<Indexers>,
    /// What is done where the network counts what it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_metered: Option<OnMetered>,
    /// For how long uploads and background downloads of all drives are paused from now on, a month at most; 0 ends the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_for_ms: Option<u64>,
    /// Hours in which uploads and background downloads wait; without any day there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// The HTTP proxy through which stores are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<SetProxy>,
}
