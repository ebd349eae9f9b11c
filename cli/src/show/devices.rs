//! Paired devices in words.

use super::table::Table;
use crate::api::{Devices, PairingStatus, ThisDevice};
use crate::printable::printable;

/// The paired devices.
pub fn list(devices: &Devices) -> String {
    let this = &devices.this;
    let mut text = format!(
        "This computer is {} (key {}).\n{}\n",
        printable(&this.name),
        this.fingerprint,
        listening(this)
    );
    if devices.paired.is_empty() {
        text.push_str("No device is paired.");
        return text;
    }
    let mut table = Table::new(["NAME", "KEY", "ADDRESS", "CONNECTIONS"]);
    for device in &devices.paired {
        let address = device.addresses.first().map_or("-", String::as_str).to_owned();
        let name = printable(&device.name);
        table.row([name, device.fingerprint.clone(), address, device.connections.to_string()]);
    }
    text.push_str(table.to_string().trim_end());
    text
}

/// Whether others can connect.
pub fn listening(this: &ThisDevice) -> String {
    match (this.listen, this.port, &this.error) {
        (_, _, Some(why)) => format!("Other devices cannot connect: {why}."),
        (true, Some(port), None) => format!("Paired devices can connect at port {port}."),
        (true, None, None) => "Paired devices can connect soon.".to_owned(),
        (false, _, None) => "Other devices cannot connect: listening is off.".to_owned(),
    }
}

/// The new name.
pub fn renamed(devices: &Devices) -> String {
    format!(
        "This computer is now {}; paired devices learn it at the next connection",
        printable(&devices.this.name)
    )
}

/// A device that is not trusted any more.
pub fn unpaired(name: &str) -> String {
    format!(
        "{} is unpaired, and its connections are closed.\n\
         It may still have the passphrases and store credentials that were typed there. Change those if it is lost.",
        printable(name)
    )
}

/// A code to type on the other device.
pub fn code(status: &PairingStatus) -> String {
    let code = status.code.as_deref().unwrap_or_default();
    let port = status.port.map(|port| format!(" --at THIS-COMPUTER:{port}")).unwrap_or_default();
    format!(
        "{code}\nType this code on the other device within {} s: holdall device pair {code}\n\
         If it does not find this computer: holdall device pair {code}{port}",
        status.time_left_ms.div_ceil(1000)
    )
}

/// The end of a pairing.
pub fn paired(status: &PairingStatus) -> String {
    format!("Paired with {}", printable(status.name.as_deref().unwrap_or_default()))
}
