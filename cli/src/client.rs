//! Sends a command's requests to the daemon, which is started if it does not run, and shows their progress.

use crate::api::Code;
use crate::failure::CliError;
use crate::progress::{Phase, Reporter};
use holdall_client::paths::Paths;
use holdall_client::request::{Answer, request};
use holdall_client::start;
use hyper::Method;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// A GET changes nothing: if the service ends meanwhile, the request is repeated to its successor, up to this number of requests.
const QUESTIONS_MAX: usize = 3;
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// A connection to the daemon, which is started if it does not run.
pub struct Client<'a> {
    paths: &'a Paths,
    progress: &'a Reporter,
}

impl<'a> Client<'a> {
    /// Connects nothing yet.
    pub fn new(paths: &'a Paths, progress: &'a Reporter) -> Client<'a> {
        Client { paths, progress }
    }

    /// Gets the document at `path`.
    pub async fn get(&self, path: &str) -> Result<Value, CliError> {
        let mut asked = 0;
        loop {
            let stream = start::connect_or_start(self.paths).await?;
            asked += 1;
            let answer = async { request(stream, Method::GET, path, None).await?.document().await }.await;
            match answer {
                Err(failure) if failure.code == Code::NoDaemon && asked < QUESTIONS_MAX => {
                    tokio::time::sleep(ASK_AGAIN_AFTER).await;
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Posts to `path`, and shows the progress meanwhile.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value, CliError> {
        let mut answer = self.posting(path, body).await?;
        self.result(&mut answer).await
    }

    /// Begins a POST whose answer the caller reads.
    pub async fn posting(&self, path: &str, body: &impl Serialize) -> Result<Answer, CliError> {
        let body = serde_json::to_vec(body).expect("requests are plain structures of strings and numbers");
        self.send(Method::POST, path, Some(body)).await
    }

    /// Waits for the result of a POST, and shows the progress meanwhile.
    pub async fn result(&self, answer: &mut Answer) -> Result<Value, CliError> {
        let result = answer.outcome(|step| self.progress.show(step)).await;
        self.progress.clear();
        Ok(result?)
    }

    /// Deletes what is at `path`.
    pub async fn delete(&self, path: &str) -> Result<Value, CliError> {
        let answer = self.send(Method::DELETE, path, None).await?;
        // The contract gives lines to POST and a document to GET, and leaves DELETE open.
        let result = answer.value(|step| self.progress.show(step)).await;
        self.progress.clear();
        Ok(result?)
    }

    async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Answer, CliError> {
        let stream = start::connect_or_start(self.paths).await?;
        self.progress.enter(Phase::Requested);
        Ok(request(stream, method, path, body).await?)
    }
}
