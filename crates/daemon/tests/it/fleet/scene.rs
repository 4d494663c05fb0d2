//! A fleet of three replicas in this process, and the MCP servers behind them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_daemon::{ConfigSource, Daemon};
use thruway_mcp_sdk::backend::{Status, json_message};
use thruway_mcp_sdk::schema::{ElicitRequestFormParams, PrimitiveSchemaDefinition, Tool};
use thruway_mcp_sdk::{Context, HandlerError, McpEndpoint, McpServer};
use thruway_message::Method;
use thruway_server::{Answer, Handler, Request, Response, RunningServer, Server, StatusCode};
use thruway_store::Store;

use crate::client::{address_of, connect, end};

/// The operator key of the fleet.
pub(super) const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// The replicas of a fleet.
pub(super) struct Fleet {
    replicas: Vec<Option<Daemon>>,
    servers: [RunningServer; 3],
    /// The MCP server behind the upstream `old`.
    pub(super) old: McpServer,
    /// `true` if the tasks of the server `past` are finished.
    is_past_finished: Arc<AtomicBool>,
    store: Option<Store>,
    /// Keys of the table `shared`, and further tables.
    shared: String,
    /// Keys of the route.
    route: String,
    directory: tempfile::TempDir,
}

impl Fleet {
    /// Starts three replicas.
    pub(super) fn start() -> Self {
        Self::start_with("", "")
    }

    /// Starts three replicas. `shared` contains keys of the table `shared`, and further tables. `route` contains keys of
    /// the route.
    pub(super) fn start_with(shared: &str, route: &str) -> Self {
        Self::start_on(Some(Store::memory()), shared, route)
    }

    /// Starts three replicas. Without `store`, `shared` must contain the URL of a store.
    pub(super) fn start_on(store: Option<Store>, shared: &str, route: &str) -> Self {
        let mut fleet = Self::without_replicas_on(store, shared, route);
        for name in ["a", "b", "c"] {
            let replica = fleet.replica(name, KEY);
            fleet.replicas.push(Some(replica));
        }
        fleet
    }

    /// Starts the MCP servers of a fleet, and no replica.
    pub(super) fn without_replicas(shared: &str, route: &str) -> Self {
        Self::without_replicas_on(Some(Store::memory()), shared, route)
    }

    fn without_replicas_on(store: Option<Store>, shared: &str, route: &str) -> Self {
        let [web, old] = [(); 2].map(|()| {
            McpServer::new("tools", "1.0").tool(Tool::new("hello"), || "hello").tool(Tool::new("ask"), ask)
        });
        let is_past_finished = Arc::<AtomicBool>::default();
        let past = PastServer(is_past_finished.clone());
        let servers = [serve(web.endpoint()), serve(LegacyOnly(old.endpoint())), serve(past)];
        let directory = tempfile::tempdir().unwrap();
        for (file, script) in [("jobs.sh", JOBS), ("notes.sh", NOTES)] {
            std::fs::write(directory.path().join(file), script).unwrap();
        }
        let (shared, route) = (shared.to_owned(), route.to_owned());
        Self { replicas: Vec::new(), servers, old, is_past_finished, store, shared, route, directory }
    }

    /// Starts a replica that shares the store.
    pub(super) fn replica(&self, name: &str, key: &str) -> Daemon {
        let source = ConfigSource::file(self.write_config(name, key, "1m"));
        match &self.store {
            Some(store) => Daemon::with_store(source, store.clone()).unwrap(),
            None => Daemon::from_source(source).unwrap(),
        }
    }

    /// Writes the config of a replica. Returns its file.
    pub(super) fn write_config(&self, name: &str, key: &str, list_wait: &str) -> PathBuf {
        let Self { shared, route, .. } = self;
        let config = format!(
            "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [shared]\nkey = \"{key}\"\nreplica = \"{name}\"\npeer_listen = \"127.0.0.1:0\"\n{shared}\
             [upstreams.web]\nservers = [\"{}\"]\n[upstreams.old]\nservers = [\"{}\"]\n\
             [upstreams.past]\nservers = [\"{}\"]\n[mcp.servers.past]\nupstream = \"past\"\n\
             [mcp.servers.web]\nupstream = \"web\"\n[mcp.servers.old]\nupstream = \"old\"\n\
             [mcp.servers.jobs]\ncommand = [\"sh\", \"{}\"]\n\
             [mcp.servers.notes]\ncommand = [\"sh\", \"{}\"]\n\
             [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n{route}\
             [mcp.endpoints.dev]\nservers = [\"web\", \"old\", \"past\", \"jobs\", \"notes\"]\nlist_wait = \"{list_wait}\"\n",
            self.servers[0].addresses()[0],
            self.servers[1].addresses()[0],
            self.servers[2].addresses()[0],
            self.directory.path().join("jobs.sh").display(),
            self.directory.path().join("notes.sh").display(),
        );
        let file = self.directory.path().join(format!("{name}.toml"));
        std::fs::write(&file, config).unwrap();
        file
    }

    /// Opens a connection to the replica with this number.
    pub(super) fn connect(&self, replica: usize) -> TcpStream {
        connect(&address_of(self.daemon(replica)))
    }

    pub(super) fn daemon(&self, replica: usize) -> &Daemon {
        self.replicas[replica].as_ref().unwrap()
    }

    /// Returns the status and the JSON of the whole response of a replica.
    pub(super) fn request(&self, replica: usize, request: &Message) -> (String, Value) {
        let (status, _, body) = self.response(replica, request);
        let json = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        (status, json)
    }

    /// Returns the status, the head and the body of the whole response of a replica.
    pub(super) fn response(&self, replica: usize, request: &Message) -> (String, String, String) {
        response_on(self.connect(replica), request)
    }

    /// Opens an event stream at a replica.
    pub(super) fn stream(&self, replica: usize, request: &Message) -> EventStream {
        stream_on(self.connect(replica), request)
    }

    /// Begins a legacy session at a replica. Returns its id.
    pub(super) fn begin_session(&self, replica: usize) -> String {
        self.begin_session_as(replica, "")
    }

    /// Begins a legacy session at a replica, with further headers. Returns its id.
    pub(super) fn begin_session_as(&self, replica: usize, lines: &str) -> String {
        begin_session_on(self.connect(replica), lines)
    }

    /// Ends a replica without the graceful shutdown of its sessions. Its connections and its record stay as after a
    /// crash until they expire.
    pub(super) fn end_replica(&mut self, replica: usize) {
        end(self.replicas[replica].take().unwrap());
    }

    /// Finishes the tasks of the server `past`.
    pub(super) fn finish_past(&self) {
        self.is_past_finished.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(self) {
        self.replicas.into_iter().flatten().for_each(end);
        for server in self.servers {
            server.drain();
            server.join();
        }
    }
}

pub(super) fn serve(handler: impl Handler) -> RunningServer {
    Server::new(handler).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap()
}

/// Begins a legacy session, with further headers. Returns its id.
pub(super) fn begin_session_on(stream: TcpStream, lines: &str) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "client", "version": "1"}});
    let message = Message::legacy("", "initialize", &params).with_lines(lines);
    let (status, head, body) = response_on(stream, &message);
    assert_eq!(status, "200", "{body}");
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id: ")).unwrap();
    line["mcp-session-id: ".len()..].to_owned()
}

/// Sends a request. Returns the status, the head and the body of the whole response. Of an event stream, returns the last
/// message.
pub(super) fn response_on(mut stream: TcpStream, request: &Message) -> (String, String, String) {
    stream.write_all(request.to_string("close").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    let events = body.lines().rev().find_map(|line| line.strip_prefix("data: "));
    (status, head.to_owned(), events.unwrap_or(body).to_owned())
}

/// Sends a request, and returns the event stream that answers it.
pub(super) fn stream_on(mut stream: TcpStream, request: &Message) -> EventStream {
    stream.write_all(request.to_string("keep-alive").as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    EventStream { reader, last_id: String::new() }
}

/// Asks the name of the user.
pub(super) async fn ask(context: Context) -> Result<String, HandlerError> {
    let name = PrimitiveSchemaDefinition::string();
    let form = ElicitRequestFormParams::new("Who are you?").with_required_field("name", name);
    Ok(format!("hello {}", context.elicit_form("name", form).await?.text("name")))
}

/// A server that supports only the legacy era.
pub(super) struct LegacyOnly(pub(super) McpEndpoint);

impl Handler for LegacyOnly {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if request.field("Mcp-Method").is_some() {
            return Answer::Now(Response::text("").with_status(StatusCode::BAD_REQUEST));
        }
        self.0.handle(request)
    }
}

/// A server of MCP revision 2025-11-25 without sessions. Its tool `job` begins a task.
struct PastServer(Arc<AtomicBool>);

impl Handler for PastServer {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if request.field("Mcp-Method").is_some() || request.method() != Method::Post {
            return Answer::Now(Response::text("").with_status(StatusCode::METHOD_NOT_ALLOWED));
        }
        let (is_finished, mut request) = (self.0.load(Ordering::Relaxed), request.take_owned());
        Answer::later(async move {
            let content = request.content().collect(1 << 20).await.unwrap();
            let message: Value = serde_json::from_slice(&content).unwrap();
            let task = json!({"taskId": "own", "status": if is_finished { "completed" } else { "working" },
                "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null});
            let result = match message["method"].as_str().unwrap() {
                "initialize" => json!({"protocolVersion": "2025-11-25",
                    "serverInfo": {"name": "past", "version": "1"},
                    "capabilities": {"tools": {}, "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}}}),
                "tools/list" => json!({"tools": [{"name": "job", "inputSchema": {"type": "object"},
                    "execution": {"taskSupport": "required"}}]}),
                "tools/call" => json!({"task": task}),
                "tasks/get" => task,
                "tasks/result" => json!({"content": [{"type": "text", "text": "past result"}],
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "own"}}}),
                "tasks/list" => json!({"tasks": []}),
                "ping" => json!({}),
                _ if message["id"].is_null() => {
                    return Response::text("").with_status(StatusCode::ACCEPTED);
                }
                _ => {
                    let error = json!({"code": -32601, "message": "no"});
                    return past_response(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                }
            };
            past_response(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        })
    }
}

fn past_response(message: &Value) -> Response {
    json_message(Status::Ok, message.to_string().into_bytes())
}

/// A request to the endpoint.
pub(super) struct Message {
    method: &'static str,
    lines: String,
    body: String,
}

impl Message {
    /// Returns a JSON-RPC request of a legacy client.
    pub(super) fn legacy(session: &str, method: &str, params: &Value) -> Self {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        Self::legacy_body(session, &body)
    }

    /// Returns a message of a legacy client.
    pub(super) fn legacy_body(session: &str, body: &Value) -> Self {
        let version = if session.is_empty() { "" } else { "MCP-Protocol-Version: 2025-11-25\r\n" };
        let session =
            if session.is_empty() { String::new() } else { format!("Mcp-Session-Id: {session}\r\n") };
        Self { method: "POST", lines: format!("{session}{version}"), body: body.to_string() }
    }

    /// Returns a request without a body.
    pub(super) fn empty(method: &'static str, session: &str, lines: &str) -> Self {
        let lines = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n{lines}");
        Self { method, lines, body: String::new() }
    }

    /// Returns a JSON-RPC request of a modern client that supports elicitation and tasks.
    pub(super) fn modern(method: &str, name: &str, params: &Value) -> Self {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let lines =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n");
        Self { method: "POST", lines, body }
    }

    /// Adds header lines.
    pub(super) fn with_lines(mut self, lines: &str) -> Self {
        self.lines.push_str(lines);
        self
    }

    fn to_string(&self, connection: &str) -> String {
        let Self { method, lines, body } = self;
        format!(
            "{method} /dev HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             {lines}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// An open event stream.
pub(super) struct EventStream {
    reader: BufReader<TcpStream>,
    /// The id of the last event.
    pub(super) last_id: String,
}

impl EventStream {
    /// Returns the next message.
    pub(super) fn next(&mut self) -> Value {
        let mut message = None;
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if let Some(id) = line.strip_prefix("id: ") {
                id.trim_end().clone_into(&mut self.last_id);
            }
            if let Some(data) = line.strip_prefix("data: ").filter(|data| !data.trim_end().is_empty()) {
                let parsed = serde_json::from_str(data);
                message = Some(parsed.unwrap_or_else(|error| panic!("{error}: {data}")));
            }
            // An empty line ends the event.
            if let Some(message) = message.take_if(|_| line == "\n") {
                return message;
            }
        }
    }

    /// Waits until the connection is cut off.
    pub(super) fn cut_off(mut self) {
        let mut line = String::new();
        while self.reader.read_line(&mut line).unwrap_or(0) > 0 {
            assert_ne!(line, "0\r\n", "the stream has ended");
            line.clear();
        }
    }

    /// Waits for the end of the stream.
    pub(super) fn end(mut self) {
        let mut line = String::new();
        // The last chunk is empty.
        while line != "0\r\n" {
            line.clear();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the connection has ended");
        }
    }
}

/// The bound for the answer to a request whose owner is gone.
pub(super) const BOUND: Duration = Duration::from_secs(2);

/// A modern child process whose tool `work` creates a task that works until the client cancels it. The task of the tool
/// `done` is finished at once.
const JOBS: &str = r#"
status=working
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[!0-9]*}
    times='"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null'
    case "$line" in
        *\"server/discover\"*) result='"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}' ;;
        *\"tools/list\"*) result='"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"done","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"' ;;
        *\"tools/call\"*)
            case "$line" in *'"name":"done"'*) task=2 ;; *) task=1 ;; esac
            echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"task\",\"taskId\":\"$task\",\"status\":\"working\",$times}}"
            continue ;;
        *\"tasks/get\"*'"taskId":"2"'*) result="\"taskId\":\"2\",\"status\":\"completed\",$times,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"finished\"}]}" ;;
        *\"tasks/get\"*) result="\"taskId\":\"1\",\"status\":\"$status\",$times" ;;
        *\"tasks/cancel\"*) status=cancelled; result='"_meta":{}' ;;
        *\"id\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}"; continue ;;
        *) continue ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",$result}}"
done
"#;

/// A legacy child process with tools that change its list of tools, and that report a change of the resource
/// `note://1`.
const NOTES: &str = r#"
more=
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[!0-9]*}
    note='{"jsonrpc":"2.0","method":"notifications/'
    text='"content":[{"type":"text","text":"done"}]'
    case "$line" in
        *\"initialize\"*) result='"protocolVersion":"2025-06-18","serverInfo":{"name":"notes","version":"1"},"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}' ;;
        *\"tools/list\"*) result="\"tools\":[{\"name\":\"grow\",\"inputSchema\":{\"type\":\"object\"}},{\"name\":\"touch\",\"inputSchema\":{\"type\":\"object\"}}$more]" ;;
        *\"tools/call\"*grow*)
            more=',{"name":"more","inputSchema":{"type":"object"}}'
            echo "${note}tools/list_changed\"}"
            result=$text ;;
        *\"tools/call\"*touch*)
            echo "${note}resources/updated\",\"params\":{\"uri\":\"note://1\"}}"
            result=$text ;;
        *\"resources/list\"*) result='"resources":[{"uri":"note://1","name":"one"}]' ;;
        *\"resources/templates/list\"*) result='"resourceTemplates":[]' ;;
        *\"resources/subscribe\"*|*\"resources/unsubscribe\"*|*\"ping\"*) result='"_meta":{}' ;;
        *\"id\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}"; continue ;;
        *) continue ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{$result}}"
done
"#;
