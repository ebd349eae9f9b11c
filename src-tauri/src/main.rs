//! Holdall's desktop app: the pages in their own window, and the tray.
//!
//! It is a client of the daemon like the command line, and has no state of its own: ending it ends neither drives nor uploads. `commands`
//! has the pages' requests, `news` listens to the daemon, and `tray` and `notify` show the news.

use holdall_client::api::Failure;
use holdall_client::paths::Paths;
use instance::{First, Instance};
use shell::Shell;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tauri::RunEvent;

mod act;
mod autostart;
mod bridge;
mod calls;
mod choice;
mod commands;
mod directories;
mod instance;
mod news;
mod notify;
mod page;
mod refusal;
mod save;
mod shell;
mod tray;
mod window;
mod wishes;

/// Turns off a drawing method of WebKitGTK that leaves windows empty with some graphics drivers. A value that the user has set is kept.
const RENDERER_VARIABLE: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

const HELP: &str = "\
Shows Holdall's drives in a window and in the tray, and starts the background service if it is not running.

Usage: holdall-app [--background]

  --background   start in the tray, without a window
  --version      print the version
  --help         print this help";

fn main() -> ExitCode {
    let mut in_background = false;
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--background") => in_background = true,
            Some("--help" | "-h") => {
                let _ = writeln!(std::io::stdout(), "{HELP}");
                return ExitCode::SUCCESS;
            }
            Some("--version" | "-V") => {
                let _ = writeln!(std::io::stdout(), "holdall-app {}", env!("CARGO_PKG_VERSION"));
                return ExitCode::SUCCESS;
            }
            _ => {
                let _ = writeln!(
                    std::io::stderr(),
                    "holdall-app: unknown option {}.\n\n{HELP}",
                    argument.to_string_lossy()
                );
                return ExitCode::from(2);
            }
        }
    }
    match begin(in_background) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            refusal::tell(&failure);
            ExitCode::FAILURE
        }
    }
}

fn begin(in_background: bool) -> Result<(), Failure> {
    let has_screen = ["WAYLAND_DISPLAY", "DISPLAY"]
        .into_iter()
        .any(|variable| std::env::var_os(variable).is_some_and(|value| !value.is_empty()));
    if !has_screen {
        return Err(refusal::no_screen());
    }
    if std::env::var_os(RENDERER_VARIABLE).is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var(RENDERER_VARIABLE, "1") };
    }
    let paths = Paths::from_environment().map_err(refusal::no_place)?;
    paths.prepare().map_err(refusal::no_place)?;
    let claimed = Instance::claim(&paths, !in_background);
    match claimed.map_err(|error| refusal::no_lock(&paths.runtime, &error))? {
        Instance::First(first) => {
            // GTK has to answer first: other code uses the screen without checking whether it answers.
            gtk::init().map_err(|_| refusal::no_screen())?;
            run(paths, first, in_background).map_err(|error| refusal::no_window(&error))
        }
        Instance::Other => Ok(()),
    }
}

fn run(paths: Paths, first: First, in_background: bool) -> tauri::Result<()> {
    let shell = Arc::new(Shell::new(paths));
    let app = tauri::Builder::default()
        .manage(shell.clone())
        .invoke_handler(tauri::generate_handler![
            commands::autostart,
            commands::call,
            commands::end_call,
            commands::hold,
            commands::listen,
            commands::notices,
            commands::open_directory,
            commands::quit,
            commands::retry,
            commands::save_text,
            commands::set_autostart,
            commands::set_notice,
            commands::start_daemon,
            commands::stay,
            commands::tell_page,
        ])
        .on_window_event(window::event)
        .setup(move |app| {
            let handle = app.handle().clone();
            news::begin(&handle, &shell);
            if !in_background {
                window::show(&handle);
            }
            std::thread::spawn(move || first.hear(|| window::show(&handle)));
            Ok(())
        })
        .build(tauri::generate_context!())?;
    app.run(|_, event| {
        // The app ends when it is asked to, not when its last window closes.
        if let RunEvent::ExitRequested { api, code: None, .. } = event {
            api.prevent_exit();
        }
    });
    Ok(())
}
