//! The window: shown; hidden if there is a tray; if there is none, closing it ends the app.

use crate::page::ToPage;
use crate::refusal;
use crate::shell::Shell;
use holdall_gui::Leaving;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tauri::webview::{PageLoadEvent, WebviewWindowBuilder};
use tauri::{AppHandle, Manager, WebviewUrl, Window, WindowEvent};

const LABEL: &str = "main";
const SIZE: (f64, f64) = (1120.0, 760.0);
/// As narrow as a phone: the pages have a layout for that.
const LEAST_SIZE: (f64, f64) = (380.0, 420.0);

/// Shows the window, from any thread. If that fails, a simpler dialog says why.
pub fn show(app: &AppHandle) {
    let handle = app.clone();
    let _ = app.run_on_main_thread(move || {
        if let Err(error) = open(&handle) {
            refusal::show(&refusal::no_window(&error));
        }
    });
}

/// Shows one of the window's screens.
pub fn go(app: &AppHandle, hash: impl Into<String>) {
    app.state::<Arc<Shell>>().page.tell(ToPage::Go(hash.into()));
    show(app);
}

fn open(app: &AppHandle) -> tauri::Result<()> {
    if let Some(window) = app.get_webview_window(LABEL) {
        window.show()?;
        window.unminimize()?;
        return window.set_focus();
    }
    let shell = app.state::<Arc<Shell>>().inner().clone();
    WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App("index.html".into()))
        .title("Holdall")
        .inner_size(SIZE.0, SIZE.1)
        .min_inner_size(LEAST_SIZE.0, LEAST_SIZE.1)
        // The window shows only our pages, whatever is in them.
        .on_navigation(|url| url.scheme() == "tauri")
        .on_page_load(move |_, load| {
            if load.event() == PageLoadEvent::Started {
                shell.asked.store(false, Ordering::Relaxed);
                shell.page.left();
                shell.hold(None);
                shell.calls.end_all();
            }
        })
        .build()
        .map(drop)
}

/// The effect of closing the window.
#[derive(Debug, PartialEq, Eq)]
enum Closing {
    /// The app stays in the tray.
    Hide,
    /// The app would end, but something is only on this computer, or in the window.
    Ask(Leaving),
    /// The app ends.
    End,
}

fn closing(tray_is_shown: bool, leaving: Option<Leaving>) -> Closing {
    match (tray_is_shown, leaving) {
        (true, _) => Closing::Hide,
        (false, Some(leaving)) => Closing::Ask(leaving),
        (false, None) => Closing::End,
    }
}

/// Handles an event of the window.
pub fn event(window: &Window, event: &WindowEvent) {
    if let WindowEvent::CloseRequested { api, .. } = event {
        api.prevent_close();
        let app = window.app_handle();
        let shell = app.state::<Arc<Shell>>();
        match closing(shell.tray_is_shown(), shell.leaving()) {
            Closing::Hide => {
                // Nobody sees the question any longer.
                shell.asked.store(false, Ordering::Relaxed);
                let _ = window.hide();
            }
            Closing::Ask(leaving) => ask(app, leaving),
            Closing::End => app.exit(0),
        }
    }
}

/// Quits. If something is only on this computer or in the window, asks first.
pub fn quit(app: &AppHandle) {
    match app.state::<Arc<Shell>>().leaving() {
        Some(leaving) => ask(app, leaving),
        None => app.exit(0),
    }
}

/// Asks. A person who quits again while the question is open means it, so a page that hangs stops nobody.
fn ask(app: &AppHandle, leaving: Leaving) {
    let shell = app.state::<Arc<Shell>>();
    if shell.asked.swap(true, Ordering::Relaxed) {
        return app.exit(0);
    }
    shell.page.tell(ToPage::Quit(leaving));
    show(app);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_ends_the_app_only_without_a_tray_and_asks_before() {
        let leaving = Leaving { message: "m".into(), stay: "s".into(), leave: "l".into() };
        assert_eq!(closing(true, Some(leaving.clone())), Closing::Hide);
        assert_eq!(closing(true, None), Closing::Hide);
        assert_eq!(closing(false, Some(leaving.clone())), Closing::Ask(leaving));
        assert_eq!(closing(false, None), Closing::End);
    }
}
