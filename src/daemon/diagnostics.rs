//! A support report, as texts without secrets. Nothing is sent anywhere.

use super::drives::Drives;
use super::secrets::Kept;
use super::systemd;
use crate::api::{DiagnosticFile, Diagnostics, ListActivity};
use redact::redact;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

mod redact;

/// How much of the log's end is included: about the last thousands of lines.
const LOG_BYTES: u64 = 256 << 10;
const ACTIVITY_ROWS: u32 = 300;
/// How long the systemd journal may take to answer.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);
const NO_LOG: &str =
    "There is no log file. Under systemd, the log is in the journal: journalctl _UID=$(id -u) _COMM=holdalld";

impl Drives {
    /// The texts. Collecting them examines this computer as the doctor does.
    pub async fn diagnostics(&self) -> Diagnostics {
        let secrets = self.known_secrets();
        let activity = ListActivity { limit: Some(ACTIVITY_ROWS), ..ListActivity::default() };
        let rows = self.activity().list(&activity);
        let happened = rows.iter().map(|row| {
            let name = row.drive.as_deref().or(row.folder.as_deref()).unwrap_or("-");
            format!("{} {name} {:?}: {}", row.at, row.kind, row.message)
        });
        let found = match self.doctor(false, None).await {
            Ok(diagnosis) => pretty(&diagnosis),
            Err(failure) => failure.message,
        };
        let files = [
            ("about.txt", self.about()),
            ("drives.json", pretty(&self.statuses().await)),
            ("folders.json", pretty(&self.folders().statuses())),
            ("limits.json", pretty(&self.limits().shown())),
            ("doctor.json", found),
            ("activity.txt", happened.collect::<Vec<_>>().join("\n")),
            ("daemon.log", self.end_of_log().await),
        ];
        let file = |(name, text): (&str, String)| DiagnosticFile {
            name: name.to_owned(),
            text: redact(&text, &secrets),
        };
        Diagnostics { files: files.into_iter().map(file).collect() }
    }

    fn about(&self) -> String {
        let system = rustix::system::uname();
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<8} {value}");
        };
        let daemon = self.daemon();
        line("holdall", &daemon.version);
        line("up", &crate::sizes::format_duration(Duration::from_millis(daemon.uptime_ms)));
        line("kernel", &system.release().to_string_lossy());
        line("machine", &system.machine().to_string_lossy());
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        line("system", pretty.unwrap_or("unknown").trim_matches('"'));
        line("user", &format!("uid {}", rustix::process::getuid().as_raw()));
        line("nbd", if Path::new("/sys/module/nbd").exists() { "loaded" } else { "not loaded" });
        line("fuse", if Path::new("/dev/fuse").exists() { "there" } else { "not there" });
        text
    }

    /// A service under systemd writes to the systemd journal; then whatever the file has is older.
    async fn end_of_log(&self) -> String {
        if systemd::keeps_us()
            && let Some(text) = end_of_journal().await
        {
            return text;
        }
        match tail(&self.paths().daemon_log()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => NO_LOG.to_owned(),
            Err(error) => format!("The log cannot be read: {error}"),
        }
    }

    /// Every word of all credentials that are not in a keyring. Credentials in a keyring are nowhere else, and reading them may prompt a
    /// person.
    fn known_secrets(&self) -> Vec<String> {
        let logins = self.stores().secrets().list().unwrap_or_default();
        let mut secrets = Vec::new();
        for login in &logins {
            if let Kept::File(credentials) = &login.kept
                && let Ok(value) = serde_json::to_value(credentials)
            {
                strings(&value, &mut secrets);
            }
        }
        secrets
    }
}

fn strings(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings(value, into)),
        // The kind of credentials is no secret.
        Value::Object(fields) => {
            fields.iter().filter(|(name, _)| *name != "kind").for_each(|(_, value)| strings(value, into))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("the API's types become JSON")
}

/// The last messages of this user's services; `None` if the systemd journal does not give them.
async fn end_of_journal() -> Option<String> {
    let user = format!("_UID={}", rustix::process::getuid().as_raw());
    let mut command = tokio::process::Command::new("journalctl");
    command.args(["--quiet", "--no-pager", "--lines=2000", "--output=short-iso", &user, "_COMM=holdalld"]);
    let said = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(JOURNAL_PATIENCE, said).await.ok()?.ok()?;
    let from = output.stdout.len().saturating_sub(LOG_BYTES as usize);
    let text = String::from_utf8_lossy(&output.stdout[from..]).into_owned();
    (output.status.success() && !text.trim().is_empty()).then_some(text)
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(LOG_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
