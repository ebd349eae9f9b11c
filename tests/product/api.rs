//! The daemon's API as a program sees it. Its answers match its OpenAPI document, and closing a connection leaves nothing half
//! done. Runs as root, with FUSE and loop devices.

use crate::bench::discreet;
use crate::programs;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A daemon with its own directories. It must not write down any secret that it was given.
struct Daemon {
    dir: TempDir,
    process: Child,
    told: RefCell<Vec<String>>,
}

struct Answer {
    status: u16,
    kind: String,
    body: BufReader<UnixStream>,
}

impl Answer {
    /// The remaining lines.
    fn lines(self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }

    fn document(mut self) -> Value {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Daemon {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("holdall").tempdir().unwrap();
        let process = spawn(&dir);
        let daemon = Self { dir, process, told: RefCell::default() };
        while UnixStream::connect(daemon.socket()).is_err() {
            std::thread::yield_now();
        }
        daemon
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("run/daemon.sock")
    }

    /// Sends a request, and returns once the answer has begun.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        self.told
            .borrow_mut()
            .extend(discreet::noted(body.into_iter().flat_map(discreet::secrets_of).collect()));
        let body = body.map(Value::to_string).unwrap_or_default();
        // HTTP/1.0 ends a body by closing the connection, so there are no chunks to parse.
        let request = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut kind = String::new();
        loop {
            match line().to_lowercase() {
                line if line.is_empty() => break,
                line => kind = line.strip_prefix("content-type: ").map(str::to_owned).unwrap_or(kind),
            }
        }
        Answer { status, kind, body: answer }
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None).document()
    }

    /// Sends a request that must succeed, and returns its result.
    fn post(&self, path: &str, body: &Value) -> Value {
        let last = self.ask("POST", path, Some(body)).lines().pop().unwrap();
        assert!(!last["result"].is_null(), "{path}: {last}");
        last["result"].clone()
    }

    fn create(&self, name: &str) {
        let store = format!("file://{}", self.path("store").display());
        let request = json!({"name": name, "store": store, "size_bytes": 64 << 20, "encrypt": false});
        self.post("/v1/drives", &request);
    }

    /// The status of drive `d`, once `wanted` holds for it.
    fn status_when(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        const LIMIT: Duration = Duration::from_secs(90);
        let begun = Instant::now();
        loop {
            let status = self.get("/v1/drives/d");
            if wanted(&status) {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "it does not come to that: {status}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn take_store_away(&self) {
        std::fs::rename(self.path("store"), self.path("away")).unwrap();
    }

    fn bring_store_back(&self) {
        std::fs::rename(self.path("away"), self.path("store")).unwrap();
    }
}

fn in_directories<'a>(dir: &TempDir, command: &'a mut Command) -> &'a mut Command {
    for (variable, name) in
        [("HOLDALL_STATE_DIR", "state"), ("HOLDALL_CACHE_DIR", "cache"), ("HOLDALL_RUNTIME_DIR", "run")]
    {
        command.env(variable, dir.path().join(name));
    }
    command.stdin(Stdio::null())
}

fn spawn(dir: &TempDir) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdalld"));
    let log = File::options().append(true).create(true).open(dir.path().join("log")).unwrap();
    in_directories(dir, command.env("HOLDALL_LOG", "debug")).stderr(log).spawn().unwrap()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A test that failed may have left the drive mounted, with or without a daemon.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let ends: [&[&str]; 3] = [&["drive", "close", "d"], &["doctor", "--repair"], &["daemon", "stop"]];
        for arguments in ends {
            let mut command = Command::new(programs::holdall());
            let _ = in_directories(&self.dir, command.args(arguments)).output();
        }
        if !std::thread::panicking() {
            let mut places = vec![("the log".to_owned(), std::fs::read(self.path("log")).unwrap())];
            for name in ["state", "run"] {
                discreet::files_below(&self.path(name), 4 << 20, &mut places);
            }
            discreet::assert_discreet(&places, &self.told.borrow());
        }
    }
}

/// The schema of answers of `kind`.
fn schema<'a>(document: &'a Value, method: &str, path: &str, status: u16, kind: &str) -> &'a Value {
    let responses = &document["paths"][path][method]["responses"];
    let response = if status == 200 { &responses["200"] } else { &responses["default"] };
    let schema = &response["content"][kind]["schema"];
    assert!(schema.is_object() || schema.is_boolean(), "{method} {path} {status} {kind}: {responses}");
    schema
}

/// Has another program check values against schemas.
fn validate(document: &Value, values: &[(Value, Value)]) {
    const PROGRAM: &str = "
import json, sys, jsonschema
document, values = json.load(sys.stdin)
for schema, value in values:
    jsonschema.Draft202012Validator({**schema, 'components': document['components']}).validate(value)
for name, schema in document['components']['schemas'].items():
    jsonschema.Draft202012Validator.check_schema(schema)
";
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .spawn()
        .expect("python3, with the Debian package python3-jsonschema");
    let text = json!([document, values]).to_string();
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success(), "see above; it takes the Debian package python3-jsonschema");
}

#[test]
fn every_documented_request_is_served_and_answers_as_documented() {
    let daemon = Daemon::start();
    let document = daemon.get("/v1/openapi.json");
    let printed = Command::new(programs::holdall()).args(["daemon", "openapi"]).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).unwrap(), document);
    daemon.create("d");
    let mut values = Vec::new();
    let mut seen = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            seen += 1;
            // These end the daemon, or never end.
            if ["/v1/daemon/stop", "/v1/events", "/v1/overview", "/v1/doctor/repair"].contains(&path.as_str())
            {
                continue;
            }
            // Once for an existing drive, if that changes nothing, and once for a missing one.
            let names: &[&str] = if method == "get" { &["d", "none"] } else { &["none"] };
            for name in names {
                let asked = path.replace("{name}", name).replace("{label}", "none");
                let answer = daemon.ask(&method.to_uppercase(), &asked, Some(&json!({})));
                let (status, kind) = (answer.status, answer.kind.clone());
                let schema = schema(&document, method, path, status, &kind).clone();
                let told = match kind.as_str() {
                    "application/json" => vec![answer.document()],
                    _ => answer.lines(),
                };
                for value in told {
                    assert!(!value["message"].to_string().contains("The API has no"), "{method} {path}");
                    values.push((schema.clone(), value));
                }
            }
        }
    }
    assert!(seen > 25, "{seen} requests");

    // Requests that change something, on an existing drive.
    let drive = "/v1/drives/{name}";
    for (path, body) in [
        (format!("{drive}/sync"), json!({})),
        (format!("{drive}/snapshots"), json!({"label": "one"})),
        (format!("{drive}/gc"), json!({})),
        (format!("{drive}/check"), json!({})),
        (format!("{drive}/clone"), json!({"name": "e", "snapshot": "one"})),
        (format!("{drive}/rollback"), json!({"label": "one"})),
        (format!("{drive}/resize"), json!({"size_bytes": 128 << 20})),
        (format!("{drive}/pause"), json!({})),
        (format!("{drive}/resume"), json!({})),
    ] {
        let answer = daemon.ask("POST", &path.replace("{name}", "d"), Some(&body));
        let schema = schema(&document, "post", &path, answer.status, &answer.kind).clone();
        let lines = answer.lines();
        assert!(!lines.last().unwrap()["result"].is_null(), "{path}: {lines:?}");
        values.extend(lines.into_iter().map(|line| (schema.clone(), line)));
    }
    values.push((
        schema(&document, "get", "/v1/drives", 200, "application/json").clone(),
        daemon.get("/v1/drives"),
    ));
    let mut events = daemon.ask("GET", "/v1/events", None);
    let mut event = String::new();
    events.body.read_line(&mut event).unwrap();
    let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(event["event"], "drive");
    values.push((schema(&document, "get", "/v1/events", 200, &events.kind).clone(), event));
    let mut overview = daemon.ask("GET", "/v1/overview", None);
    let mut told = String::new();
    overview.body.read_line(&mut told).unwrap();
    let told: Value = serde_json::from_str(told.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(told["drives"].as_array().unwrap().len(), 2);
    values.push((schema(&document, "get", "/v1/overview", 200, &overview.kind).clone(), told));
    validate(&document, &values);

    // Requests that are not documented are refused in the same form.
    let failure = json!({"$ref": "#/components/schemas/Failure"});
    let mut refused = Vec::new();
    for (method, path, body, status) in [
        ("GET", "/v2/drives", "", 404),
        ("DELETE", "/v1/drives", "", 400),
        ("POST", "/v1/drives", "{\"name\": 3}", 400),
        ("POST", "/v1/drives", "<xml/>", 400),
    ] {
        let body = serde_json::from_str::<Value>(body).ok().or(Some(json!(body)));
        let answer = daemon.ask(method, path, body.as_ref());
        assert_eq!(answer.status, status, "{method} {path}");
        refused.push((failure.clone(), answer.document()));
    }
    validate(&document, &refused);
}

#[test]
fn lists_a_stores_drives_to_anyone_who_can_unlock_them() {
    let daemon = Daemon::start();
    let store = |name: &str| format!("file://{}", daemon.path(name).display());
    let find = |store: &str, secrets: Value| {
        let request = json!({"store": store, "secrets": secrets});
        daemon.ask("POST", "/v1/stores/drives", Some(&request)).lines().pop().unwrap()
    };
    daemon.create("d");
    daemon.post("/v1/drives/d/clone", &json!({"name": "e"}));
    daemon.post("/v1/drives/d/remove", &json!({}));
    let found = find(&store("store"), json!({}))["result"].clone();
    let told =
        |key: &str| found.as_array().unwrap().iter().map(|drive| drive[key].clone()).collect::<Vec<_>>();
    assert_eq!(
        (told("name"), told("known_as")),
        (vec![json!("d"), json!("e")], vec![json!(null), json!("e")])
    );
    assert_eq!((told("held"), told("is_fork")), (vec![json!(false); 2], vec![json!(false); 2]));
    assert_eq!(found[0]["current"]["size_bytes"], 64 << 20);
    // A listed drive can be added, under any local name.
    daemon.post(
        "/v1/drives/add",
        &json!({"name": "again", "store": store("store"), "drive": found[0]["uuid"]}),
    );
    assert_eq!(daemon.get("/v1/drives/again")["uuid"], found[0]["uuid"]);
    assert_eq!(find(&store("store"), json!({}))["result"][0]["known_as"], "again");

    let secrets = json!({"passphrase": "tangerine"});
    let sealed = json!({"name": "s", "store": store("sealed"), "size_bytes": 64 << 20, "encrypt": true, "secrets": secrets});
    daemon.post("/v1/drives", &sealed);
    assert_eq!(find(&store("sealed"), json!({}))["error"]["code"], "passphrase_needed");
    let wrong = json!({"passphrase": "paperclip"});
    assert_eq!(find(&store("sealed"), wrong)["error"]["code"], "passphrase_wrong");
    assert_eq!(find(&store("sealed"), secrets)["result"][0]["name"], "s");
    std::fs::create_dir(daemon.path("empty")).unwrap();
    assert_eq!(find(&store("empty"), json!({}))["error"]["code"], "not_found");
}

#[test]
fn a_client_that_hangs_up_leaves_nothing_half_done() {
    let daemon = Daemon::start();
    daemon.create("d");
    let at = daemon.path("mnt");
    daemon.post("/v1/drives/d/open", &json!({"at": at, "attach": "loop"}));
    daemon.take_store_away();
    std::fs::write(at.join("file"), "what a person wrote").unwrap();
    // These wait for the store. Hanging up ends only the wait, and blocks no later request.
    for (path, body) in [("sync", json!({})), ("gc", json!({})), ("snapshots", json!({"label": "one"}))] {
        let answer = daemon.ask("POST", &format!("/v1/drives/d/{path}"), Some(&body));
        assert_eq!(answer.status, 200);
        drop(answer);
        assert_eq!(daemon.get("/v1/drives/d")["mountpoint"], json!(at));
    }
    // Changes to this computer run to their end.
    drop(daemon.ask("POST", "/v1/drives/d/close", Some(&json!({"wait": true}))));
    daemon.status_when(|status| status["mountpoint"].is_null());
    assert!(daemon.get("/v1/drives/d")["unpushed_bytes"].as_u64().unwrap() > 0);
    daemon.bring_store_back();
    daemon.status_when(|status| status["state"] == "Closed" && status["unpushed_bytes"] == 0);
    // Even while the end of the closing is still being uploaded.
    drop(daemon.ask("POST", "/v1/drives/d/open", Some(&json!({"at": at, "attach": "loop"}))));
    daemon.status_when(|status| status["state"] == "Ready" && status["mountpoint"] == json!(at));
    assert_eq!(std::fs::read(at.join("file")).unwrap(), b"what a person wrote");
    daemon.post("/v1/drives/d/close", &json!({"wait": true}));
    assert_eq!(daemon.post("/v1/drives/d/check", &json!({}))["ok"], true);
}

#[test]
fn an_ending_daemon_interrupts_waiting_requests() {
    let mut daemon = Daemon::start();
    daemon.create("d");
    let socket = daemon.path("nbd");
    // The drive is served until a client ends it.
    let mut serving = daemon.ask("POST", "/v1/drives/d/serve", Some(&json!({"socket": socket})));
    let mut first = String::new();
    serving.body.read_line(&mut first).unwrap();
    assert!(first.contains("nbd+unix"), "{first}");
    // Meanwhile other requests do not wait.
    daemon.post("/v1/drives/d/sync", &json!({}));
    let refused = daemon.ask("POST", "/v1/drives/d/open", None).lines();
    assert_eq!(refused.last().unwrap()["error"]["code"], "state");
    daemon.post("/v1/daemon/stop", &json!({}));
    let lines = serving.lines();
    assert_eq!(lines.last().unwrap()["error"]["code"], "interrupted", "{lines:?}");
    assert!(daemon.process.wait().unwrap().success());
    assert!(!socket.exists());
}

/// Writes and reads of one open drive, with its store present and away.
#[test]
fn reports_files_map_and_queue_of_an_open_drive() {
    let daemon = Daemon::start();
    daemon.create("d");
    let mountpoint = daemon.path("mnt");
    daemon.post("/v1/drives/d/open", &json!({"at": mountpoint}));
    std::fs::create_dir(mountpoint.join("photos")).unwrap();
    std::fs::write(mountpoint.join("photos/one"), vec![7; 300_000]).unwrap();
    std::fs::write(mountpoint.join("note"), "short").unwrap();
    daemon.post("/v1/drives/d/sync", &json!({}));

    let directory = |path: &str| daemon.get(&format!("/v1/drives/d/directory?path={path}"));
    let named = |directory: &Value, name: &str| {
        directory.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap().clone()
    };
    // Hardly any of a new drive is in use.
    let map = daemon.get("/v1/drives/d/map");
    assert!(map["cells"].as_array().unwrap().iter().any(|cell| cell == "empty"), "{map}");

    let root = directory("");
    assert_eq!((&root, named(&root, "photos")["state"].clone()), (&directory("."), Value::Null));
    let note = json!({"name": "note", "kind": "file", "bytes": 5, "local_bytes": 5, "state": "available", "pinned_by": null});
    assert_eq!(named(&root, "note"), note);
    daemon.post("/v1/pins", &json!({"paths": [mountpoint.join("photos")]}));
    assert_eq!(named(&directory(""), "photos")["state"], "always_keep");
    let one = named(&directory("photos"), "one");
    assert_eq!((one["state"].as_str(), one["pinned_by"].as_str()), (Some("always_keep"), Some("photos")));
    assert_eq!(daemon.ask("GET", "/v1/drives/d/directory?path=none", None).document()["code"], "not_found");

    // New data is in the journal for a moment.
    daemon.status_when(|status| status["cache"]["pinned_bytes"].as_u64().unwrap() >= 300_000);
    assert_eq!(daemon.get("/v1/drives/d/queue"), json!([]));

    // The store is away: the queue says how often each upload was tried, and why it failed.
    daemon.take_store_away();
    std::fs::write(mountpoint.join("more"), vec![9; 200_000]).unwrap();
    std::fs::File::open(&mountpoint).unwrap().sync_all().unwrap();
    daemon.post("/v1/drives/d/upload-now", &json!({}));
    let tried = loop {
        let queue = daemon.get("/v1/drives/d/queue");
        if let Some(tried) = queue.as_array().unwrap().iter().find(|queued| !queued["next_try_at"].is_null())
        {
            break tried.clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(tried["tries"].as_u64().unwrap() >= 1 && tried["last_error"].is_string(), "{tried}");
    let map = daemon.get("/v1/drives/d/map");
    assert!(map["cells"].as_array().unwrap().iter().any(|cell| cell == "failed"), "{tried}");
    daemon.bring_store_back();
    daemon.post("/v1/drives/d/upload-now", &json!({}));
    daemon.status_when(|status| status["unpushed_bytes"] == 0);
    // The file system may write more until it is idle.
    while daemon.get("/v1/drives/d/queue") != json!([]) {
        daemon.post("/v1/drives/d/upload-now", &json!({}));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }

    daemon.post("/v1/drives/d/close", &json!({"wait": true}));
    let kinds = |rows: &Value| {
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let rows = daemon.get("/v1/activity?drive=d");
    assert_eq!(kinds(&rows).last().map(String::as_str), Some("drive"), "{rows}");
    for kind in ["opened", "closed", "uploaded", "pin"] {
        assert!(kinds(&rows).contains(&kind.to_owned()), "{kind} in {rows}");
    }
    assert_eq!(kinds(&daemon.get("/v1/activity?kind=opened&limit=1")), ["opened"]);
    assert_eq!(daemon.ask("GET", "/v1/activity?kind=odd", None).status, 400);
    assert_eq!(daemon.ask("POST", "/v1/drives/d/upload-now", None).lines()[0]["error"]["code"], "state");
}

#[test]
fn a_support_report_contains_no_secrets() {
    let daemon = Daemon::start();
    daemon.create("d");
    let credentials = json!({"kind": "s3", "access_key": "AKPLANTED1", "secret_key": "planted/secret+2"});
    let login = json!({"store": "s3://bucket?endpoint=https://s3.example.org", "credentials": credentials,
        "unchecked": true, "no_keyring": true});
    daemon.post("/v1/stores/login", &login);
    // As if something had logged secrets.
    let log = "WARN reached https://ann:planted3@dav.example.org/files\n\
               WARN refused AKPLANTED1 with planted/secret+2\n\
               WARN passphrase=\"planted four\" is wrong\n\
               INFO what helps stays\n";
    std::fs::write(daemon.path("state/daemon.log"), log).unwrap();
    let bundle = daemon.get("/v1/diagnostics");
    let text = bundle.to_string();
    for secret in ["AKPLANTED1", "planted/secret+2", "planted3", "planted four", "ann:"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert!(text.contains("what helps stays") && text.contains("dav.example.org/files"), "{text}");
    std::fs::remove_file(daemon.path("state/daemon.log")).unwrap();
    let names: Vec<_> = bundle["files"].as_array().unwrap().iter().map(|file| file["name"].clone()).collect();
    assert_eq!(
        names,
        [
            "about.txt",
            "drives.json",
            "folders.json",
            "limits.json",
            "doctor.json",
            "activity.txt",
            "daemon.log"
        ]
    );
}
