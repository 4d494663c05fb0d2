//! Clients that use all features of an endpoint, over replicas that come and go.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_client::{Client as HttpClient, ClientConfig, Response};
use thruway_message::Method;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::outage::{Outcome, World};

/// A client with one legacy session at a time.
pub(super) struct Client {
    http: HttpClient,
    world: Arc<World>,
    number: usize,
    session: Option<Session>,
    /// The time of the last request.
    sent: Mutex<Instant>,
}

/// A legacy session with its event stream.
struct Session {
    id: String,
    owner: SocketAddr,
    events: watch::Receiver<Events>,
    reader: AbortHandle,
}

/// The state of the event stream of a session.
#[derive(Clone, Default)]
struct Events {
    is_open: bool,
    updates: u64,
    /// `true` if the session has ended.
    is_gone: bool,
    /// An unexpected response.
    failure: Option<String>,
}

/// A request, and the replica that has answered it.
struct Exchange {
    response: Response,
    replica: SocketAddr,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Client {
    pub(super) fn new(world: Arc<World>, number: usize) -> Self {
        let mut config = ClientConfig { connect: Duration::from_secs(2), ..ClientConfig::default() };
        config.exchange.timeouts.head = OPERATION_MAX;
        config.exchange.timeouts.content_idle = Duration::from_hours(1);
        Self {
            http: HttpClient::with_config(config),
            world,
            number,
            session: None,
            sent: Mutex::new(Instant::now()),
        }
    }

    /// Performs one operation after the other.
    pub(super) async fn run(mut self, until: Instant, pause: Duration) {
        let mut kind = self.number;
        while Instant::now() < until {
            if self.session.is_none() {
                self.begin_counted_session().await;
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            kind += 1;
            match kind % 6 {
                0 => self.in_session("session request", Self::hello).await,
                1 => self.in_session("stream event", Self::count).await,
                2 | 3 => self.in_session("elicitation", Self::ask).await,
                4 => self.in_session("stream event", Self::touch).await,
                _ => self.task().await,
            }
        }
        self.modern_question().await;
    }

    fn note(&self, kind: &'static str, owner: SocketAddr, begin: Instant, outcome: &Outcome) {
        self.world.note(kind, owner, (begin, *self.sent.lock().unwrap()), outcome);
    }

    /// Performs an operation of the session, and counts its outcome.
    async fn in_session(
        &mut self,
        kind: &'static str,
        operation: impl AsyncFn(&Self, &Session) -> Result<(), Outcome>,
    ) {
        let Some(session) = self.session.take() else { return };
        let begin = Instant::now();
        let outcome = match timeout(OPERATION_MAX, operation(self, &session)).await {
            Ok(Ok(())) => Outcome::Done,
            Ok(Err(outcome)) => outcome,
            Err(_) => Outcome::Hung,
        };
        self.note(kind, session.owner, begin, &outcome);
        // After each failure, the client begins a new session.
        if matches!(outcome, Outcome::Done) {
            self.session = Some(session);
        }
    }

    async fn begin_counted_session(&mut self) {
        let begin = Instant::now();
        let outcome = match timeout(OPERATION_MAX, self.begin_session()).await {
            Ok(Ok(session)) => {
                let owner = session.owner;
                self.session = Some(session);
                self.note(BEGIN, owner, begin, &Outcome::Done);
                return;
            }
            Ok(Err((owner, outcome))) => (owner, outcome),
            Err(_) => (None, Outcome::Hung),
        };
        let owner = outcome.0.unwrap_or_else(|| self.world.next_replica());
        self.note(BEGIN, owner, begin, &outcome.1);
    }

    async fn begin_session(&self) -> Result<Session, (Option<SocketAddr>, Outcome)> {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "client", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let begun = self.send(Method::Post, &[], &body.to_string()).await;
        let begun = begun.map_err(|reason| (None, Outcome::Failed(reason)))?;
        let id = begun.response.field("Mcp-Session-Id").and_then(|id| id.as_str().map(str::to_owned));
        let status = begun.response.status();
        let id = id.ok_or_else(|| (Some(begun.replica), failed(format!("initialize: {status:?}"))))?;
        let (sender, events) = watch::channel(Events::default());
        let reader = Self { http: self.http.clone(), ..Self::new(self.world.clone(), self.number) };
        let reading = id.clone();
        let reader = tokio::spawn(async move { reader.read_events(&reading, &sender).await }).abort_handle();
        let session = Session { id, owner: begun.replica, events, reader };
        let subscribe = json!({"uri": format!("note://{}", self.number)});
        match self.request(&session, "resources/subscribe", &subscribe).await {
            Ok(_) => Ok(session),
            Err(outcome) => Err((Some(session.owner), outcome)),
        }
    }

    /// Reads the event stream of a session, and opens it again at another replica if it ends.
    async fn read_events(&self, session: &str, sender: &watch::Sender<Events>) {
        let mut last = String::new();
        loop {
            let mut lines = session_lines(session);
            if !last.is_empty() {
                lines.push(("Last-Event-ID", last.clone()));
            }
            match self.send(Method::Get, &lines, "").await {
                Ok(Exchange { response, .. }) if response.status().as_u16() == 200 => {
                    sender.send_modify(|events| events.is_open = true);
                    let mut events = response.events();
                    while let Some(Ok(event)) = events.next().await {
                        if event.data.contains("notifications/resources/updated") {
                            sender.send_modify(|events| events.updates += 1);
                        }
                        if !event.id.is_empty() {
                            last = event.id;
                        }
                    }
                }
                Ok(Exchange { response, .. }) if response.status().as_u16() == 404 => {
                    sender.send_modify(|events| events.is_gone = true);
                    return;
                }
                Ok(Exchange { response, .. }) => {
                    let failure = format!("GET: status {}", response.status().as_u16());
                    sender.send_modify(|events| events.failure = Some(failure));
                }
                Err(reason) => sender.send_modify(|events| events.failure = Some(reason)),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn hello(&self, session: &Session) -> Result<(), Outcome> {
        self.call(session, "hello", &json!({}), "hello").await.map(drop)
    }

    /// Reads all events of a stream that answers a request.
    async fn count(&self, session: &Session) -> Result<(), Outcome> {
        let progress = self.call(session, "count", &json!({}), "counted").await?;
        if progress == [1, 2, 3, 4, 5] { Ok(()) } else { Err(failed(format!("events: {progress:?}"))) }
    }

    async fn ask(&self, session: &Session) -> Result<(), Outcome> {
        self.call(session, "ask", &json!({}), "hello Ada").await.map(drop)
    }

    /// Changes a resource, and waits for the notification in the event stream of the session.
    async fn touch(&self, session: &Session) -> Result<(), Outcome> {
        let mut events = session.events.clone();
        let is_open =
            timeout(OPERATION_MAX, events.wait_for(|events| events.is_open || events.is_gone)).await.is_ok();
        if !is_open {
            return Err(failed(format!("no stream: {:?}", events.borrow().failure)));
        }
        let before = events.borrow().updates;
        self.call(session, "touch", &json!({"number": self.number}), "touched").await?;
        let change = events.wait_for(|events| events.updates > before || events.is_gone);
        match timeout(EVENT_MAX, change).await {
            Ok(Ok(events)) if events.updates > before => Ok(()),
            Ok(Ok(_)) => Err(Outcome::Clear),
            Ok(Err(_)) | Err(_) => Err(failed(format!("no event: {:?}", session.events.borrow().failure))),
        }
    }

    /// Calls a tool, and answers its questions through other replicas. Returns the progress reports.
    async fn call(
        &self,
        session: &Session,
        tool: &str,
        arguments: &Value,
        text: &str,
    ) -> Result<Vec<u64>, Outcome> {
        let params =
            json!({"name": format!("old__{tool}"), "arguments": arguments, "_meta": {"progressToken": 1}});
        let (answer, progress) = self.request(session, "tools/call", &params).await?;
        match answer["result"]["content"][0]["text"].as_str() {
            Some(found) if found == text => Ok(progress),
            _ => Err(failed(answer.to_string())),
        }
    }

    /// Sends a request in the session, and reads its stream to the end, with several connections if necessary.
    async fn request(
        &self,
        session: &Session,
        method: &str,
        params: &Value,
    ) -> Result<(Value, Vec<u64>), Outcome> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let (mut progress, mut last) = (Vec::new(), String::new());
        loop {
            let exchange = if last.is_empty() {
                self.send(Method::Post, &session_lines(&session.id), &body).await
            } else {
                let mut lines = session_lines(&session.id);
                lines.push(("Last-Event-ID", last.clone()));
                self.send(Method::Get, &lines, "").await
            };
            let response = exchange.map_err(failed)?.response;
            match response.status().as_u16() {
                200 => {}
                404 => return Err(Outcome::Clear),
                status => {
                    let body = response.collect(1 << 20).await.unwrap_or_default();
                    let body = String::from_utf8_lossy(&body).into_owned();
                    // The first attempt reached its owner, but its response was lost.
                    if body.contains("already in progress") {
                        sleep(RETRY_PAUSE).await;
                        continue;
                    }
                    return Err(failed(format!("status {status}: {body}")));
                }
            }
            let is_json =
                response.field("Content-Type").is_some_and(|kind| kind.as_bytes() == b"application/json");
            if is_json {
                let Ok(body) = response.collect(1 << 20).await else { continue };
                let answer: Value =
                    serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
                return check(answer).map(|answer| (answer, progress));
            }
            let mut events = response.events();
            while let Some(Ok(event)) = events.next().await {
                last.clone_from(&event.id);
                let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
                if message["id"] == id && message["method"].is_null() {
                    return check(message).map(|answer| (answer, progress));
                }
                if let Some(number) = message["params"]["progress"].as_f64() {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "small numbers"
                    )]
                    progress.push(number as u64);
                }
                if message["method"] == "elicitation/create" {
                    sleep(QUESTION_TIME.mul_f64(fastrand::f64())).await;
                    let result = json!({"action": "accept", "content": {"name": "Ada"}});
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                    let sent = self.send(Method::Post, &session_lines(&session.id), &answer).await;
                    match sent.map_err(failed)?.response.status().as_u16() {
                        202 => {}
                        404 => return Err(Outcome::Clear),
                        status => return Err(failed(format!("answer: status {status}"))),
                    }
                }
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Begins a task of a child process, and polls it until its end.
    async fn task(&self) {
        self.modern("task", "jobs__work", async |client: &Self, begun: &Value| {
            let Some(task) = begun["result"]["taskId"].as_str() else {
                return Err(failed(begun.to_string()));
            };
            loop {
                sleep(QUESTION_TIME.mul_f64(0.3)).await;
                let (answer, _) = client.modern_request("tasks/get", task, &json!({"taskId": task})).await?;
                match answer["result"]["status"].as_str() {
                    Some("completed") => return Ok(()),
                    Some("working") => {}
                    _ => return Err(failed(answer.to_string())),
                }
            }
        })
        .await;
        self.modern_question().await;
    }

    /// Begins a call of a modern client that asks a question, and answers the question through another replica.
    async fn modern_question(&self) {
        self.modern("pending call", "old__ask", async |client: &Self, asked: &Value| {
            let Some(requests) = asked["result"]["inputRequests"].as_object() else { return Err(failed(asked.to_string())) };
            sleep(QUESTION_TIME.mul_f64(fastrand::f64())).await;
            let key = requests.keys().next().cloned().unwrap_or_default();
            let params = json!({"name": "old__ask", "arguments": {}, "requestState": asked["result"]["requestState"],
                "inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}}}});
            let (answer, _) = client.modern_request("tools/call", "old__ask", &params).await?;
            let text = answer["result"]["content"][0]["text"].as_str();
            if text == Some("hello Ada") { Ok(()) } else { Err(failed(answer.to_string())) }
        })
        .await;
    }

    /// Calls a tool with the modern era, and continues with `operation`. The replica that answers the call is the
    /// owner.
    async fn modern(
        &self,
        kind: &'static str,
        tool: &str,
        operation: impl AsyncFn(&Self, &Value) -> Result<(), Outcome>,
    ) {
        let params = json!({"name": tool, "arguments": {}});
        let begin = Instant::now();
        let called = timeout(OPERATION_MAX, self.modern_request("tools/call", tool, &params)).await;
        let (first, owner) = match called.unwrap_or(Err(Outcome::Hung)) {
            Ok(answered) => answered,
            Err(outcome) => return self.note(kind, self.world.next_replica(), begin, &outcome),
        };
        let begin = Instant::now();
        let outcome = match timeout_at(begin + OPERATION_MAX, operation(self, &first)).await {
            Ok(Ok(())) => Outcome::Done,
            Ok(Err(outcome)) => outcome,
            Err(_) => Outcome::Hung,
        };
        self.note(kind, owner, begin, &outcome);
    }

    async fn modern_request(
        &self,
        method: &str,
        name: &str,
        params: &Value,
    ) -> Result<(Value, SocketAddr), Outcome> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let lines = [
            ("MCP-Protocol-Version", "2026-07-28".to_owned()),
            ("Mcp-Method", method.to_owned()),
            ("Mcp-Name", name.to_owned()),
        ];
        let Exchange { response, replica } = self.send(Method::Post, &lines, &body).await.map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.collect(1 << 20).await.map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&body);
        let json = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let answer = serde_json::from_str(json).map_err(|_| failed(format!("status {status}: {text}")))?;
        check(answer).map(|answer| (answer, replica))
    }

    /// Sends a request to the next replica, and to another one if the connection fails.
    async fn send(
        &self,
        method: Method<'static>,
        lines: &[(&'static str, String)],
        body: &str,
    ) -> Result<Exchange, String> {
        *self.sent.lock().unwrap() = Instant::now();
        let mut reason = String::new();
        let mut failed = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            let replica = self.world.next_replica_but(&failed);
            let url = format!("http://{replica}/dev");
            let request = self.http.request(method, &url);
            let request = request.field("Accept", "application/json, text/event-stream");
            let request = lines.iter().fold(request, |request, (name, value)| request.field(name, value));
            let request = if body.is_empty() {
                request
            } else {
                request.field("Content-Type", "application/json").content(body.to_owned())
            };
            match request.send().await {
                Ok(response) => return Ok(Exchange { response, replica }),
                Err(error) => reason = error.to_string(),
            }
            failed.push(replica);
            sleep(RETRY_PAUSE).await;
        }
        Err(reason)
    }
}

/// Returns the answer, unless it is an error.
fn check(answer: Value) -> Result<Value, Outcome> {
    let error = &answer["error"];
    let is_of_end = error["message"].as_str().is_some_and(|message| message.contains("its session ended"));
    match error["code"].as_i64() {
        None => Ok(answer),
        Some(-32602) => Err(Outcome::Clear),
        Some(_) if is_of_end => Err(Outcome::Clear),
        Some(_) => Err(failed(answer.to_string())),
    }
}

fn failed(reason: impl Into<String>) -> Outcome {
    Outcome::Failed(reason.into())
}

fn session_lines(session: &str) -> Vec<(&'static str, String)> {
    vec![("Mcp-Session-Id", session.to_owned()), ("MCP-Protocol-Version", "2025-11-25".to_owned())]
}

/// The kind of operation that begins a session.
const BEGIN: &str = "new session";

/// The id of the next request.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Time after which an operation counts as hung. No operation should need more than a few seconds.
const OPERATION_MAX: Duration = Duration::from_secs(15);

/// Maximum time until a notification arrives.
const EVENT_MAX: Duration = Duration::from_secs(8);

/// Maximum time that a user needs for an answer.
const QUESTION_TIME: Duration = Duration::from_secs(2);

const RETRY_PAUSE: Duration = Duration::from_millis(50);

const ATTEMPTS_MAX: usize = 6;
