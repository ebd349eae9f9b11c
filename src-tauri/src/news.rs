//! Listens to the daemon as long as the app runs: for the tray, and for notifications.

use crate::act;
use crate::bridge::{self, Heard};
use crate::notify::Notifier;
use crate::page::ToPage;
use crate::shell::{Known, Link, Shell};
use crate::tray;
use crate::window;
use holdall_client::api::Event;
use holdall_gui::notices::Notices;
use holdall_gui::texts::text;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tauri::AppHandle;

/// Often enough, because events that come together are shown together.
const NOTICES_EVERY: Duration = Duration::from_secs(1);

/// Starts the daemon, and listens to it.
pub fn begin(app: &AppHandle, shell: &Arc<Shell>) {
    tauri::async_runtime::spawn(tray::keep(app.clone(), shell.clone()));
    let notices = Arc::new(Mutex::new(Notices::default()));
    let began = Instant::now();
    tauri::async_runtime::spawn({
        let app = app.clone();
        let shell = shell.clone();
        let notices = notices.clone();
        async move {
            // Without the daemon nothing is uploaded. So a person has to know, even if the app started without a window.
            if let Err(failure) = act::start(&shell).await {
                shell.page.tell(ToPage::Failed { title: text("app.failed.start"), failure });
                window::show(&app);
            }
            shell.begun.send_replace(true);
            tokio::join!(overview(&shell), events(&shell, &notices, began));
        }
    });
    tauri::async_runtime::spawn(notify(app.clone(), shell.clone(), notices, began));
}

async fn overview(shell: &Shell) {
    bridge::follow(&shell.paths, "/v1/overview", &shell.retry, |heard| {
        shell.known.send_if_modified(|known| {
            let next = match heard {
                Heard::Live => return false,
                Heard::Down => Known { link: Link::Down, ..known.clone() },
                Heard::Data(data) => match serde_json::from_str(data) {
                    Ok(overview) => Known { overview: Some(overview), link: Link::Live },
                    // The daemon is of another version; the pages say so.
                    Err(_) => return false,
                },
            };
            let is_news = *known != next;
            *known = next;
            is_news
        });
        true
    })
    .await;
}

async fn events(shell: &Shell, notices: &Mutex<Notices>, began: Instant) {
    bridge::follow(&shell.paths, "/v1/events", &shell.retry, |heard| {
        if let Heard::Data(data) = heard {
            match serde_json::from_str(data) {
                Ok(Event::Drive(status)) => notices.lock().see(began.elapsed(), &status),
                Ok(Event::Removed { name }) => notices.lock().forget(&name),
                Ok(Event::Folder(status)) => notices.lock().see_folder(began.elapsed(), &status),
                Ok(Event::Activity(_) | Event::Notice { .. }) | Err(_) => {}
            }
        }
        true
    })
    .await;
}

async fn notify(app: AppHandle, shell: Arc<Shell>, notices: Arc<Mutex<Notices>>, began: Instant) {
    let Some(notifier) = Notifier::connect(&app).await else { return };
    loop {
        tokio::time::sleep(NOTICES_EVERY).await;
        let due = notices.lock().take(began.elapsed());
        for notice in due.into_iter().filter(|notice| shell.wishes.are_wanted(notice.kind)) {
            notifier.show(&notice).await;
        }
    }
}
