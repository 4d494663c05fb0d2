//! An endpoint, and requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_daemon::Daemon;
use thruway_mcp_sdk::McpServer;
use thruway_server::{RunningServer, Server};
use thruway_testkit::JwtIssuer;

use super::member::{Recorder, server};
use crate::client::{address_of, connect, end};

/// A daemon with an endpoint, and the MCP server behind the endpoint.
pub(super) struct Scene {
    pub(super) daemon: Daemon,
    pub(super) server: RunningServer,
    pub(super) heads: Arc<Mutex<Vec<String>>>,
    /// The token that the server refuses.
    pub(super) refused_token: Arc<Mutex<Option<String>>>,
    /// Contains the config and the audit log.
    pub(super) directory: tempfile::TempDir,
}

/// The parts of a request that tests change.
pub(super) struct Post<'a> {
    /// The value of `Mcp-Name`.
    pub(super) name: &'a str,
    pub(super) params: Value,
    /// The HTTP method.
    pub(super) method: &'a str,
    /// `false` sends the body in two parts, after the server has received the head.
    pub(super) is_whole: bool,
    /// The token of the caller.
    pub(super) token: &'a str,
    /// Further header lines.
    pub(super) lines: &'a str,
}

impl Post<'_> {
    pub(super) fn new(params: Value) -> Self {
        Self { name: "web__hello", params, method: "POST", is_whole: true, token: "sesame", lines: "" }
    }

    /// Returns the body.
    pub(super) fn content(&self) -> String {
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": self.params}).to_string()
    }

    /// Returns the head. `framing` contains the headers that frame the body.
    pub(super) fn head(&self, framing: &str) -> String {
        let Self { method, name, token, lines, .. } = self;
        let expect = if self.is_whole { "" } else { "Expect: 100-continue\r\n" };
        format!(
            "{method} /dev HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUser-Agent: client-7\r\n\
             Authorization: Bearer {token}\r\nCookie: sesame=1\r\nX-Other: sesame\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n\
             {expect}{lines}{framing}\r\n"
        )
    }
}

impl Scene {
    /// Starts an endpoint. `rest` follows its first keys in the config.
    pub(super) fn start(rest: &str) -> Self {
        Self::start_with_server(&server(), rest)
    }

    /// Starts an endpoint of the server `mcp`.
    pub(super) fn start_with_server(mcp: &McpServer, rest: &str) -> Self {
        Self::start_as(mcp, "sesame", "", "", rest)
    }

    /// Starts an endpoint whose callers have tokens of `keys`. `server_keys` contains keys of the MCP server.
    pub(super) fn start_with_tokens(keys: &JwtIssuer, server_keys: &str, rest: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.json");
        std::fs::write(&file, keys.keys()).unwrap();
        let policy = format!("[policies.tokens.jwt]\nkeys_file = \"{}\"\n", file.display());
        let first = keys.token(&claims("first"));
        Self::start_as(
            &server(),
            &first,
            server_keys,
            "policies = [\"tokens\"]\n",
            &format!("{rest}{policy}"),
        )
    }

    /// `token` is the token of the first call. `server_keys` and `route` contain keys of the MCP server and of the route.
    fn start_as(mcp: &McpServer, token: &str, server_keys: &str, route: &str, rest: &str) -> Self {
        let heads = Arc::<Mutex<Vec<_>>>::default();
        let refused_token = Arc::<Mutex<_>>::default();
        let recorder =
            Recorder { endpoint: mcp.endpoint(), heads: heads.clone(), refused_token: refused_token.clone() };
        let server = Server::new(recorder).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [upstreams.web]\nservers = [\"{}\"]\n\
             [mcp.servers.web]\nupstream = \"web\"\npath = \"/tools\"\nheaders = {{ X-Key = \"of the gateway\" }}\n\
             tools = {{ deny = [\"secret\"] }}\n{server_keys}\
             [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n{route}\
             [mcp.endpoints.dev]\nservers = [\"web\"]\nlist_wait = \"1m\"\n{rest}",
            server.addresses()[0]
        );
        let file = directory.path().join("thruway.toml");
        std::fs::write(&file, config).unwrap();
        let daemon = Daemon::from_file(&file).unwrap();
        let scene = Self { daemon, server, heads, refused_token, directory };
        // The first call uses the slow path, and waits for the connection to the server.
        scene.post(&Post { name: "web__fail", token, ..Post::new(slow("web__fail")) });
        scene
    }

    /// Returns the status and the JSON-RPC response.
    pub(super) fn post(&self, post: &Post<'_>) -> (String, Value) {
        let response = self.response(post);
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let whole;
        let body = if head.contains("chunked") {
            whole = dechunked(body);
            whole.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&whole)
        } else {
            body
        };
        assert!(!head.to_ascii_lowercase().contains("set-cookie"), "{head}");
        (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap())
    }

    /// Returns the whole response.
    pub(super) fn response(&self, post: &Post<'_>) -> String {
        let content = post.content();
        let head = post.head(&format!("Content-Length: {}\r\n", content.len()));
        let mut stream = connect(&address_of(&self.daemon));
        if post.is_whole {
            stream.write_all(format!("{head}{content}").as_bytes()).unwrap();
        } else {
            stream.write_all(head.as_bytes()).unwrap();
            // The response shows that the server has received the head.
            assert_eq!(read_head(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
            let (first, rest) = content.split_at(content.len() / 2);
            stream.write_all(first.as_bytes()).unwrap();
            stream.write_all(rest.as_bytes()).unwrap();
        }
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    pub(super) fn call(&self, name: &str, params: &Value) -> (String, Value) {
        self.post(&Post { name, ..Post::new(params.clone()) })
    }

    /// Returns the headers that the server got with calls on the fast path. Only these calls have the
    /// `User-Agent` of the client.
    pub(super) fn relayed(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads.iter().filter(|head| head.contains("client-7")).cloned().collect()
    }

    pub(super) fn end(self) {
        end(self.daemon);
        drop(self.directory);
        self.server.drain();
        self.server.join();
    }
}

/// Reads a head without a body.
pub(super) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Returns the body without its chunk headers.
fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or_else(|_| panic!("{body}"));
        whole += &rest[..length];
        body = rest[length..].strip_prefix("\r\n").unwrap_or_default();
    }
    whole
}

/// Returns the claims of a token.
pub(super) fn claims(subject: &str) -> Value {
    json!({"iss": "https://login.example", "sub": subject, "exp": 4_000_000_000_u64})
}

/// Returns the parameters of a call that the endpoint relays.
pub(super) fn fast(name: &str) -> Value {
    json!({"name": name, "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
    }})
}

/// Returns the parameters of a call that the endpoint parses, because it has an unknown member.
pub(super) fn slow(name: &str) -> Value {
    let mut params = fast(name);
    params["unknown"] = json!(true);
    params
}
