//! Whether the computer runs on its battery, according to `/sys/class/power_supply` (the kernel's
//! Documentation/ABI/testing/sysfs-class-power).

use std::path::Path;

const SUPPLIES: &str = "/sys/class/power_supply";

/// Whether it does so now. A computer that does not say is plugged in.
pub fn on_battery() -> bool {
    on_battery_at(Path::new(SUPPLIES))
}

fn on_battery_at(supplies: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(supplies) else { return false };
    let said = |supply: &Path, what: &str| {
        let text = std::fs::read_to_string(supply.join(what)).unwrap_or_default();
        text.trim().to_owned()
    };
    let mut discharges = false;
    for supply in entries.flatten().map(|entry| entry.path()) {
        match said(&supply, "type").as_str() {
            // Mice and telephones have batteries too.
            "Battery" if said(&supply, "scope") != "Device" => {
                discharges |= said(&supply, "status") == "Discharging";
            }
            "Mains" | "USB" | "Wireless" if said(&supply, "online") == "1" => return false,
            _ => {}
        }
    }
    discharges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A supply and its files.
    type Supply = (&'static str, &'static [(&'static str, &'static str)]);

    #[test]
    fn only_a_discharging_battery_of_the_computer_counts() {
        const EMPTIES: Supply =
            ("BAT0", &[("type", "Battery"), ("scope", "System"), ("status", "Discharging")]);
        const CHARGES: Supply = ("BAT0", &[("type", "Battery"), ("status", "Charging")]);
        const MOUSE: Supply = ("hid", &[("type", "Battery"), ("scope", "Device"), ("status", "Discharging")]);
        const UNPLUGGED: Supply = ("AC", &[("type", "Mains"), ("online", "0")]);
        const PLUGGED: Supply = ("AC", &[("type", "Mains"), ("online", "1")]);
        let rows: [(&[Supply], bool); 6] = [
            (&[], false),
            (&[EMPTIES], true),
            (&[EMPTIES, UNPLUGGED], true),
            (&[EMPTIES, PLUGGED], false),
            (&[CHARGES, UNPLUGGED], false),
            (&[MOUSE], false),
        ];
        for (supplies, expected) in rows {
            let dir = tempfile::tempdir().unwrap();
            for (name, files) in supplies {
                std::fs::create_dir(dir.path().join(name)).unwrap();
                for (file, text) in *files {
                    std::fs::write(dir.path().join(name).join(file), format!("{text}\n")).unwrap();
                }
            }
            assert_eq!(on_battery_at(dir.path()), expected, "{supplies:?}");
        }
        assert!(!on_battery_at(Path::new("/nowhere")));
    }
}
