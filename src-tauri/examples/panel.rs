//! A desktop's panel and notification service, for tests. It takes icons for its tray (StatusNotifierWatcher), reads and clicks their
//! menus, and keeps the notifications that it gets.
//!
//! It reads commands from its standard input, one on a line, answers each with a line of JSON, and ends with its input:
//!
//! - `come`, `go`: the tray appears, or disappears
//! - `icon`: the icon in the tray; null if there is none
//! - `menu`: its menu
//! - `click LABEL[/LABEL]`: chooses an entry
//! - `activate`: clicks the icon
//! - `notices`: all notifications until now
//! - `press ID`: clicks a notification
#![allow(clippy::unwrap_used, reason = "a test's tool may panic")]
#![allow(missing_docs, reason = "of what zbus makes of the interfaces")]

use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::{OwnedValue, Structure, Value};
use zbus::{Connection, connection, interface};

const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const ITEM: &str = "org.kde.StatusNotifierItem";
const ITEM_PATH: &str = "/StatusNotifierItem";
const MENU: &str = "com.canonical.dbusmenu";

#[derive(Clone, Default)]
struct Panel {
    /// The last program that put an icon into the tray.
    item: Arc<Mutex<Option<String>>>,
    notices: Arc<Mutex<Vec<Json>>>,
}

struct Watcher(Panel);

#[interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: String, #[zbus(header)] header: Header<'_>) {
        let sender = header.sender().unwrap().to_string();
        let name = if service.starts_with('/') { sender } else { service };
        *self.0.item.lock().unwrap() = Some(name);
    }

    fn register_status_notifier_host(&self, _service: String) {}

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

struct Notifications(Panel);

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    #[expect(clippy::too_many_arguments, reason = "the specification has them")]
    fn notify(
        &self,
        app_name: String,
        replaces_id: u32,
        _app_icon: String,
        summary: String,
        body: String,
        actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _expire_timeout: i32,
    ) -> u32 {
        let mut notices = self.0.notices.lock().unwrap();
        let id = if replaces_id > 0 { replaces_id } else { notices.len() as u32 + 1 };
        notices.push(json!({
            "id": id, "app": app_name, "replaces": replaces_id, "title": summary, "body": body, "actions": actions,
        }));
        id
    }

    #[zbus(signal)]
    async fn action_invoked(emitter: &SignalEmitter<'_>, id: u32, action: &str) -> zbus::Result<()>;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let panel = Panel::default();
    let bus = connection::Builder::session()
        .unwrap()
        .serve_at("/StatusNotifierWatcher", Watcher(panel.clone()))
        .unwrap()
        .serve_at("/org/freedesktop/Notifications", Notifications(panel.clone()))
        .unwrap()
        .name("org.freedesktop.Notifications")
        .unwrap()
        .build()
        .await
        .unwrap();
    say(&json!("ready"));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            tell.send(line.unwrap()).unwrap();
        }
    });
    while let Some(line) = told.recv().await {
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match command {
            "come" => bus.request_name(WATCHER).await.map(|_| json!("ok")),
            "go" => {
                *panel.item.lock().unwrap() = None;
                bus.release_name(WATCHER).await.map(|_| json!("ok"))
            }
            "icon" => icon(&bus, &panel).await,
            "menu" => menu(&bus, &panel).await,
            "click" => click(&bus, &panel, rest).await,
            "activate" => {
                call(&bus, &panel, ITEM_PATH, ITEM, "Activate", &(0_i32, 0_i32)).await.map(|_| json!("ok"))
            }
            "notices" => Ok(Json::Array(panel.notices.lock().unwrap().clone())),
            "press" => {
                let emitter = SignalEmitter::new(&bus, "/org/freedesktop/Notifications").unwrap();
                let id = rest.parse().unwrap();
                Notifications::action_invoked(&emitter, id, "default").await.map(|()| json!("ok"))
            }
            other => panic!("{other}: not a command"),
        };
        // An icon that is gone no longer answers; the test tries again, or reports what is missing.
        say(&answer.unwrap_or_else(|error| json!({"error": error.to_string()})));
    }
}

fn say(line: &Json) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

async fn call<B: serde::Serialize + zbus::zvariant::DynamicType>(
    bus: &Connection,
    panel: &Panel,
    path: &str,
    interface: &str,
    method: &str,
    body: &B,
) -> zbus::Result<zbus::Message> {
    let name = panel.item.lock().unwrap().clone();
    let name = name.ok_or_else(|| zbus::Error::Failure("there is no icon".to_owned()))?;
    bus.call_method(Some(name.as_str()), path, Some(interface), method, body).await
}

async fn properties(bus: &Connection, panel: &Panel) -> zbus::Result<HashMap<String, OwnedValue>> {
    let got = call(bus, panel, ITEM_PATH, "org.freedesktop.DBus.Properties", "GetAll", &ITEM).await?;
    got.body().deserialize()
}

async fn icon(bus: &Connection, panel: &Panel) -> zbus::Result<Json> {
    if panel.item.lock().unwrap().is_none() {
        return Ok(Json::Null);
    }
    let properties = properties(bus, panel).await?;
    let text = |name: &str| properties.get(name).map(shown);
    let pixels = text("IconPixmap").unwrap_or_default();
    Ok(json!({"id": text("Id"), "title": text("Title"), "status": text("Status"), "pixels": digest(&pixels)}))
}

/// Two pictures are equal if their digests are.
fn digest(text: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{} characters, {:x}", text.len(), hasher.finish())
}

fn shown(value: &OwnedValue) -> String {
    match &**value {
        Value::Str(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

async fn menu(bus: &Connection, panel: &Panel) -> zbus::Result<Json> {
    let path = properties(bus, panel).await?.get("Menu").map(|value| match &**value {
        Value::ObjectPath(path) => path.to_string(),
        other => format!("{other:?}"),
    });
    let path = path.ok_or_else(|| zbus::Error::Failure("it has no menu".to_owned()))?;
    call(bus, panel, &path, MENU, "AboutToShow", &0_i32).await?;
    let all = (0_i32, -1_i32, Vec::<&str>::new());
    let layout = call(bus, panel, &path, MENU, "GetLayout", &all).await?;
    let (_, root): (u32, Layout) = layout.body().deserialize()?;
    Ok(json!({"path": path, "entries": entry(root)?["entries"]}))
}

type Layout = (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>);

fn entry((id, properties, below): Layout) -> zbus::Result<Json> {
    let mut entries = Vec::new();
    for child in below {
        let child = Layout::try_from(Structure::try_from(child)?)?;
        entries.push(entry(child)?);
    }
    // Properties that are left out have the specification's defaults.
    let is = |name: &str| properties.get(name).is_none_or(|value| matches!(&**value, Value::Bool(true)));
    let label = properties.get("label").map(shown).unwrap_or_default();
    Ok(json!({
        "id": id, "label": label, "enabled": is("enabled") && is("visible"), "entries": entries,
        "separator": properties.get("type").is_some_and(|value| shown(value) == "separator"),
    }))
}

async fn click(bus: &Connection, panel: &Panel, labels: &str) -> zbus::Result<Json> {
    let menu = menu(bus, panel).await?;
    let mut at = menu.clone();
    for label in labels.split('/') {
        let found = at["entries"].as_array().unwrap().iter().find(|entry| entry["label"] == label).cloned();
        at = found.ok_or_else(|| zbus::Error::Failure(format!("no {label} in {}", at["entries"])))?;
    }
    let id = i32::try_from(at["id"].as_i64().unwrap()).unwrap();
    let event = (id, "clicked", Value::from(""), 0_u32);
    call(bus, panel, menu["path"].as_str().unwrap(), MENU, "Event", &event).await?;
    Ok(json!("ok"))
}
