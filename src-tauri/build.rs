//! Makes Tauri build the pages into the program, and lists the commands that the pages may use.

use std::path::Path;

/// The commands that the pages may call; `capabilities/window.json` allows each of them to the one window.
const COMMANDS: &[&str] = &[
    "autostart",
    "call",
    "end_call",
    "hold",
    "listen",
    "notices",
    "open_directory",
    "quit",
    "retry",
    "save_text",
    "set_autostart",
    "set_notice",
    "start_daemon",
    "stay",
    "tell_page",
];

fn main() {
    const PAGES: &str = "../ui/dist";
    println!("cargo::rerun-if-changed={PAGES}");
    if !Path::new(PAGES).join("index.html").is_file() {
        println!("cargo::error=The pages are not built. Run: cd ui && npm ci && npm run build");
        return;
    }
    let attributes =
        tauri_build::Attributes::new().app_manifest(tauri_build::AppManifest::new().commands(COMMANDS));
    if let Err(error) = tauri_build::try_build(attributes) {
        println!("cargo::error={error:#}");
    }
}
