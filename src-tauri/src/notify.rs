//! Notifications, shown by the desktop's own service. Without one nothing is shown: the tray and the window have the same news.

use crate::act;
use crate::choice::{Choice, DriveAction};
use futures_util::StreamExt;
use holdall_gui::notices::{Kind, Notice};
use holdall_gui::texts::text;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tauri::AppHandle;
use zbus::Connection;
use zbus::zvariant::Value;

#[zbus::proxy(
    interface = "org.freedesktop.Notifications",
    default_service = "org.freedesktop.Notifications",
    default_path = "/org/freedesktop/Notifications",
    gen_blocking = false
)]
trait Notifications {
    #[expect(clippy::too_many_arguments, reason = "the specification has them")]
    fn notify(
        &self,
        app_name: &str,
        replaces_id: u32,
        app_icon: &str,
        summary: &str,
        body: &str,
        actions: &[&str],
        hints: HashMap<&str, Value<'_>>,
        expire_timeout_ms: i32,
    ) -> zbus::Result<u32>;

    #[zbus(signal)]
    fn action_invoked(&self, id: u32, action: String) -> zbus::Result<()>;
}

/// The connection to the desktop's service.
pub struct Notifier {
    service: NotificationsProxy<'static>,
    // Held only to store or look up what was shown: a click names just the number of a notification.
    shown: Arc<Mutex<BTreeMap<Kind, Shown>>>,
}

#[derive(Clone, Debug)]
struct Shown {
    id: u32,
    choice: Choice,
}

impl Notifier {
    /// `None` without a session bus.
    pub async fn connect(app: &AppHandle) -> Option<Notifier> {
        let connection = Connection::session().await.ok()?;
        let service = NotificationsProxy::new(&connection).await.ok()?;
        let shown = Arc::default();
        tauri::async_runtime::spawn(follow_clicks(app.clone(), service.clone(), Arc::clone(&shown)));
        Some(Notifier { service, shown })
    }

    /// Shows a notice in place of the last one of its kind.
    pub async fn show(&self, notice: &Notice) {
        // 0 stands for no notification.
        let replaces = self.shown.lock().get(&notice.kind).map_or(0, |shown| shown.id);
        let hints = HashMap::from([("desktop-entry", Value::from("holdall"))]);
        let actions = ["default", &text("app.notice.open")];
        let body = escaped(&notice.body);
        // In milliseconds; the service knows best how long.
        const BY_THE_SERVICE: i32 = -1;
        let shown = self.service.notify(
            "Holdall",
            replaces,
            "holdall",
            &notice.title,
            &body,
            &actions,
            hints,
            BY_THE_SERVICE,
        );
        if let Ok(id) = shown.await {
            self.shown.lock().insert(notice.kind, Shown { id, choice: choice(notice) });
        }
    }
}

async fn follow_clicks(
    app: AppHandle,
    service: NotificationsProxy<'static>,
    shown: Arc<Mutex<BTreeMap<Kind, Shown>>>,
) {
    let Ok(mut clicks) = service.receive_action_invoked().await else { return };
    while let Some(click) = clicks.next().await {
        let Ok(clicked) = click.args() else { continue };
        // This reports clicks on other programs' notifications too.
        let ours = shown.lock().values().find(|shown| shown.id == clicked.id).cloned();
        if let Some(shown) = ours {
            act::choose(&app, shown.choice);
        }
    }
}

/// Where a click on it leads.
fn choice(notice: &Notice) -> Choice {
    match &notice.drive {
        Some(name) => Choice::Drive { action: DriveAction::Show, name: name.clone() },
        None if notice.kind == Kind::Network => Choice::Window,
        None => Choice::Attention,
    }
}

/// A body may contain markup, so plain text has to be escaped.
fn escaped(body: &str) -> String {
    body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drives_name_is_no_markup() {
        assert_eq!(escaped("<b>R&D</b>"), "&lt;b&gt;R&amp;D&lt;/b&gt;");
    }

    #[test]
    fn a_click_opens_the_subject_of_the_notice() {
        let notice = |kind, drive: Option<&str>| Notice {
            kind,
            title: String::new(),
            body: String::new(),
            drive: drive.map(str::to_owned),
        };
        let name = "work".to_owned();
        let expected = Choice::Drive { action: DriveAction::Show, name };
        assert_eq!(choice(&notice(Kind::Conflict, Some("work"))), expected);
        assert_eq!(choice(&notice(Kind::Attention, None)), Choice::Attention);
        assert_eq!(choice(&notice(Kind::Network, None)), Choice::Window);
    }
}
