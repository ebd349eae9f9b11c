//! Paired devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// This device and the devices that are paired with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Devices {
    /// This device.
    pub this: ThisDevice,
    /// The paired devices, by name.
    pub paired: Vec<PairedDevice>,
}

/// This device, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThisDevice {
    /// Its name.
    pub name: String,
    /// Its uuid.
    pub uuid: String,
    /// The fingerprint of its key.
    pub fingerprint: String,
    /// Whether other devices should be able to connect.
    pub listen: bool,
    /// The port at which they can; null while they cannot.
    pub port: Option<u16>,
    /// Why they cannot, though they should.
    pub error: Option<String>,
}

/// A paired device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairedDevice {
    /// Its name here.
    pub name: String,
    /// Its uuid.
    pub uuid: String,
    /// The fingerprint of its key.
    pub fingerprint: String,
    /// Where it was last reached, the latest first.
    pub addresses: Vec<String>,
    /// When it was paired, in milliseconds since 1970.
    pub paired_at: u64,
    /// When it was last connected, in milliseconds since 1970.
    pub seen_at: Option<u64>,
    /// How many connections with it are open.
    pub connections: u64,
}

/// Renames this device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameDevice {
    /// The new name.
    pub name: String,
}

/// Lets other devices connect, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenForDevices {
    /// Whether they can.
    pub on: bool,
    /// The port. If left out: the last one chosen, otherwise the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Begins a pairing, and ends one that is under way.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The code that the other device shows. If left out, this device shows a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Where the other device is, as `host:port`. If left out, it is looked for on the local network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl std::fmt::Debug for Pair {
    /// Does not show the code.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair(at {:?})", self.at)
    }
}

/// The answer of the person here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmPairing {
    /// Whether to pair.
    pub pair: bool,
}

/// Where a pairing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairingStage {
    /// No pairing was begun.
    None,
    /// This device shows a code.
    Showing,
    /// The other device is looked for.
    Looking,
    /// The person here is asked.
    Confirm,
    /// The person at the other device is asked.
    Waiting,
    /// The devices are paired.
    Paired,
    /// The pairing has failed.
    Failed,
}

/// A pairing. It ends when nobody has asked for it for 15 seconds.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct PairingStatus {
    /// Where it is.
    pub stage: PairingStage,
    /// The code to type on the other device.
    pub code: Option<String>,
    /// How long the code is valid.
    pub time_left_ms: u64,
    /// How many codes may still be tried.
    pub tries_left: u8,
    /// The other device's name, once it is known.
    pub name: Option<String>,
    /// The other device's fingerprint, while a person is asked.
    pub fingerprint: Option<String>,
    /// The port at which this device can be reached.
    pub port: Option<u16>,
    /// Why it failed.
    pub failure: Option<crate::Failure>,
}

impl std::fmt::Debug for PairingStatus {
    /// Does not show the code.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PairingStatus({:?})", self.stage)
    }
}
