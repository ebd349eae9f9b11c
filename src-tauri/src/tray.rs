//! The icon in the tray (StatusNotifierItem). Its look shows how things are, and its menu, which is the daemon's menu data, has every
//! action.

use crate::act;
use crate::choice::Choice;
use crate::shell::{Known, Shell};
use crate::window;
use holdall_gui::{Entry, Tone};
use ksni::menu::{CheckmarkItem, StandardItem, SubMenu};
use ksni::{MenuItem, OfflineReason, Status, ToolTip, TrayMethods};
use std::sync::Arc;
use std::time::Duration;
use tauri::AppHandle;

mod icons;

/// Panels redraw the menu for each change, so changes that come faster are shown together.
const CHANGES_EVERY: Duration = Duration::from_secs(1);

/// Shows the icon as long as the app runs. If the desktop has no tray yet, a later one is used.
pub async fn keep(app: AppHandle, shell: Arc<Shell>) {
    let mut known = shell.known.subscribe();
    let shown = known.borrow_and_update().clone();
    // Assume that the icon is shown until we hear otherwise.
    shell.set_tray_is_shown(true);
    let item = Item { app, shell: shell.clone(), shown };
    let Ok(handle) = item.assume_sni_available(true).spawn().await else {
        // There is no session bus, so nothing can show the icon.
        shell.set_tray_is_shown(false);
        return;
    };
    while known.changed().await.is_ok() {
        let now = known.borrow_and_update().clone();
        if handle.update(|item| item.shown = now).await.is_none() {
            shell.set_tray_is_shown(false);
            return;
        }
        tokio::time::sleep(CHANGES_EVERY).await;
    }
}

struct Item {
    app: AppHandle,
    shell: Arc<Shell>,
    shown: Known,
}

impl ksni::Tray for Item {
    fn id(&self) -> String {
        "holdall".to_owned()
    }

    fn title(&self) -> String {
        "Holdall".to_owned()
    }

    fn status(&self) -> Status {
        match self.shown.tone() {
            Tone::Attention => Status::NeedsAttention,
            Tone::Safe | Tone::Busy | Tone::Waiting | Tone::Quiet => Status::Active,
        }
    }

    fn icon_pixmap(&self) -> Vec<ksni::Icon> {
        icons::of(self.shown.tone())
    }

    fn attention_icon_pixmap(&self) -> Vec<ksni::Icon> {
        icons::of(Tone::Attention)
    }

    fn tool_tip(&self) -> ToolTip {
        let line = self.shown.menu().entries.first().map(|entry| entry.label.clone());
        ToolTip { title: self.title(), description: line.unwrap_or_default(), ..ToolTip::default() }
    }

    fn menu(&self) -> Vec<MenuItem<Self>> {
        self.shown.menu().entries.iter().map(item).collect()
    }

    fn activate(&mut self, _x: i32, _y: i32) {
        window::show(&self.app);
    }

    fn watcher_online(&self) {
        self.shell.set_tray_is_shown(true);
    }

    fn watcher_offline(&self, _: OfflineReason) -> bool {
        self.shell.set_tray_is_shown(false);
        true
    }
}

fn item(entry: &Entry) -> MenuItem<Item> {
    let label = plain(&entry.label);
    let enabled = entry.enabled;
    if label.is_empty() {
        return MenuItem::Separator;
    }
    if !entry.submenu.is_empty() {
        let submenu = entry.submenu.iter().map(item).collect();
        return SubMenu { label, enabled, submenu, ..SubMenu::default() }.into();
    }
    let choice = Choice::of(&entry.id);
    let activate = Box::new(move |item: &mut Item| {
        if let Some(choice) = choice.clone() {
            act::choose(&item.app, choice);
        }
    });
    match entry.checked {
        Some(checked) => {
            CheckmarkItem { label, enabled, checked, activate, ..CheckmarkItem::default() }.into()
        }
        None => StandardItem { label, enabled, activate, ..StandardItem::default() }.into(),
    }
}

/// Doubles underscores: a single one would mark an access key.
fn plain(label: &str) -> String {
    label.replace('_', "__")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, label: &str) -> Entry {
        Entry { id: id.into(), label: label.into(), enabled: true, checked: None, submenu: Vec::new() }
    }

    #[test]
    fn menu_entries_become_tray_items() {
        assert!(matches!(item(&entry("", "")), MenuItem::Separator));
        let MenuItem::Standard(drive) = item(&entry("drive:show:my_work", "my_work: Ready")) else {
            panic!("it opens nothing")
        };
        assert_eq!(drive.label, "my__work: Ready");
        let menu = Entry { submenu: vec![entry("pause:1h", "For an hour")], ..entry("pause", "Pause all") };
        let MenuItem::SubMenu(menu) = item(&menu) else { panic!("it opens a menu") };
        assert_eq!(menu.submenu.len(), 1);
        let checked = Entry { checked: Some(true), ..entry("window", "Show") };
        assert!(matches!(item(&checked), MenuItem::Checkmark(item) if item.checked));
    }
}
