//! A fake daemon that gives prepared answers, and remembers the requests.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::oneshot;

/// For things that must happen. A test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    content_type: &'static str,
    frames: Vec<String>,
    /// Whether the connection stays open after the frames.
    stays: bool,
    /// Whether the daemon dies after this.
    last: bool,
}

impl Reply {
    /// A GET's answer.
    pub fn document(value: Value) -> Reply {
        Reply::new(200, "application/json", vec![value.to_string()])
    }

    /// A POST's answer, with one frame for each line.
    pub fn lines(lines: &[Value]) -> Reply {
        Reply::new(200, "application/x-ndjson", lines.iter().map(|line| format!("{line}\n")).collect())
    }

    /// A POST's answer that consists of a result only.
    pub fn result(value: Value) -> Reply {
        Reply::lines(&[serde_json::json!({ "result": value })])
    }

    /// An error with its HTTP status.
    pub fn failure(status: u16, failure: Value) -> Reply {
        Reply::new(status, "application/json", vec![failure.to_string()])
    }

    /// Server-sent events, as text.
    pub fn events(frames: &[&str]) -> Reply {
        Reply::new(200, "text/event-stream", frames.iter().map(|frame| (*frame).to_owned()).collect())
    }

    /// Keeps the connection open after the frames.
    pub fn and_stays(mut self) -> Reply {
        self.stays = true;
        self
    }

    /// Ends the daemon after the frames.
    pub fn and_dies(mut self) -> Reply {
        self.last = true;
        self
    }

    fn new(status: u16, content_type: &'static str, frames: Vec<String>) -> Reply {
        Reply { status, content_type, frames, stays: false, last: false }
    }
}

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Method and path.
    pub what: String,
    /// The body, or null if there is none.
    pub body: Value,
}

/// The daemon. It ends when it is dropped.
pub struct Fake {
    asked: Arc<Mutex<Vec<Asked>>>,
    left: Receiver<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Listens on `socket`. Answers to the same request are given in turn; the last one is repeated.
    pub fn listen(socket: &Path, replies: &[(&str, Reply)]) -> Fake {
        let mut turns: HashMap<String, VecDeque<Reply>> = HashMap::new();
        let daemon = serde_json::json!({"version": "0.1.0", "pid": 7, "uptime_ms": 90_000});
        turns.insert("GET /v1/daemon".to_owned(), VecDeque::from([Reply::document(daemon)]));
        for (what, _) in replies {
            turns.remove(*what);
        }
        for (what, reply) in replies {
            turns.entry((*what).to_owned()).or_default().push_back(reply.clone());
        }
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (left_sender, left) = channel();
        let (stop, stopped) = oneshot::channel();
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let state = Arc::new(State { turns: Mutex::new(turns), asked: asked.clone(), left: left_sender });
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, state, stopped));
        });
        Fake { asked, left, stop: Some(stop), thread: Some(thread) }
    }

    /// The requests so far, without those that only check whether the daemon is there.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.what != "GET /v1/daemon").cloned().collect()
    }

    /// Waits until a client has closed the connection of an answer that stays open. Returns its request.
    pub fn left(&self) -> String {
        self.left.recv_timeout(PATIENCE).expect("the client closes its connection")
    }

    /// Waits until the daemon has ended on its own.
    pub fn died(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

struct State {
    turns: Mutex<HashMap<String, VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    left: Sender<String>,
}

async fn serve(
    listener: std::os::unix::net::UnixListener,
    state: Arc<State>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = UnixListener::from_std(listener).unwrap();
    let (die, mut died) = tokio::sync::mpsc::unbounded_channel();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = &mut stopped => return,
            _ = died.recv() => return,
        };
        let (state, die) = (state.clone(), die.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, state.clone(), die.clone()));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
    die: tokio::sync::mpsc::UnboundedSender<()>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let what = format!("{} {}", request.method(), request.uri().path());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    state.asked.lock().unwrap().push(Asked { what: what.clone(), body });
    let reply = {
        let mut turns = state.turns.lock().unwrap();
        match turns.get_mut(&what) {
            Some(replies) if replies.len() > 1 => replies.pop_front().unwrap(),
            Some(replies) => replies[0].clone(),
            None => Reply::new(404, "text/plain", vec!["no such route".to_owned()]),
        }
    };
    let left = reply.stays.then(|| Left(what, state.left.clone()));
    let die = reply.last.then_some(die);
    let response = Response::builder().status(reply.status).header("content-type", reply.content_type);
    let body = match (left, die) {
        (None, None) => Full::new(Bytes::from(reply.frames.concat())).boxed(),
        (left, die) => Frames { frames: reply.frames.into(), left, die }.boxed(),
    };
    Ok(response.body(body).unwrap())
}

/// A body of frames. After them the connection stays open, or the daemon ends.
struct Frames {
    frames: VecDeque<String>,
    left: Option<Left>,
    die: Option<tokio::sync::mpsc::UnboundedSender<()>>,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(frame))))),
            None if self.left.is_some() => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Some(die) = self.die.take() {
            let _ = die.send(());
        }
    }
}

/// Reports to the test that a client has gone.
struct Left(String, Sender<String>);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = self.1.send(std::mem::take(&mut self.0));
    }
}
