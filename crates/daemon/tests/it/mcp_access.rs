//! Tests of the identity of MCP endpoints toward their servers.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_daemon::Daemon;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{McpEndpoint, McpServer};
use thruway_server::{
    Answer, FieldLinesBuf, Handler, Request, Response, Router, RunningServer, Server, StatusCode, with_state,
};
use thruway_testkit::JwtIssuer;

use crate::client::{address_of, connect, end};

/// An MCP server that accepts the tokens of the authorization server. Records the header `Authorization`.
struct Guarded {
    endpoint: McpEndpoint,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Handler for Guarded {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let token = request.field("Authorization").and_then(|value| value.as_str()).unwrap_or_default();
        self.seen.lock().unwrap().push(token.to_owned());
        if token.starts_with("Bearer issued") {
            return self.endpoint.handle(request);
        }
        Answer::Now(Response::text("").with_status(StatusCode::UNAUTHORIZED))
    }
}

/// A daemon, an authorization server, and an MCP server.
struct Scene {
    daemon: Daemon,
    servers: [RunningServer; 2],
    /// The forms that the authorization server has received.
    forms: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<String>>>,
    keys: JwtIssuer,
    _directory: tempfile::TempDir,
}

fn serve(handler: impl Handler) -> RunningServer {
    Server::new(handler).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap()
}

/// Answers a request to the token endpoint.
fn issue(forms: &Mutex<Vec<String>>, request: &Request<'_>) -> Response {
    const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");
    let form = String::from_utf8_lossy(request.content()).into_owned();
    let is_exchange = form.contains("token-exchange");
    forms.lock().unwrap().push(form);
    let token = if is_exchange { "issued-to-caller" } else { "issued-to-gateway" };
    let token = json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600});
    Response::ok(JSON, token.to_string())
}

impl Scene {
    fn start(auth: &str) -> Self {
        let forms = Arc::<Mutex<Vec<_>>>::default();
        let issuer = serve(Router::new().post("/token", with_state(&forms, issue)));
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let mcp = McpServer::new("tools", "1.0").tool(Tool::new("hello"), || "hello");
        let server = serve(Guarded { endpoint: mcp.endpoint(), seen: seen.clone() });
        let directory = tempfile::tempdir().unwrap();
        let keys = JwtIssuer::new("key");
        std::fs::write(directory.path().join("keys.json"), keys.keys()).unwrap();
        let config = format!(
            "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
             [policies.tokens.jwt]\nkeys_file = \"keys.json\"\n\
             [upstreams.web]\nservers = [\"{}\"]\n\
             [mcp.issuers.corp]\ntoken_url = \"http://{}/token\"\nclient_id = \"a\"\nclient_secret = \"b\"\n\
             [mcp.servers.web]\nupstream = \"web\"\nauth = {auth}\n\
             [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\npolicies = [\"tokens\"]\n\
             [mcp.endpoints.dev]\nservers = [\"web\"]\nlist_wait = \"1m\"\n",
            server.addresses()[0],
            issuer.addresses()[0],
        );
        let file = directory.path().join("thruway.toml");
        std::fs::write(&file, config).unwrap();
        let daemon = Daemon::from_file(&file).unwrap();
        Self { daemon, servers: [issuer, server], forms, seen, keys, _directory: directory }
    }

    fn token(&self, name: &str) -> String {
        self.keys.token(&json!({"iss": "https://login.example", "sub": name, "exp": 4_000_000_000_u64}))
    }

    /// Calls the tool `hello` as the caller with this token. The endpoint could relay the call.
    fn call(&self, token: &str) -> Value {
        let params = json!({"name": "web__hello", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        let content =
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
        let mut stream = connect(&address_of(&self.daemon));
        let request = format!(
            "POST /dev HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: web__hello\r\n\
             Content-Length: {}\r\n\r\n{content}",
            content.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn end(self) {
        end(self.daemon);
        for server in self.servers {
            server.drain();
            server.join();
        }
    }
}

#[test]
fn each_caller_has_an_exchanged_token_at_the_server() {
    let scene = Scene::start("{ exchange = \"corp\", scope = \"read\" }");
    for name in ["ada", "bob"] {
        let token = scene.token(name);
        for _ in 0..3 {
            assert_eq!(scene.call(&token)["result"]["content"][0]["text"], "hello");
        }
        let forms = scene.forms.lock().unwrap().clone();
        let exchanges: Vec<_> = forms.iter().filter(|form| form.contains(&token)).collect();
        assert_eq!(exchanges.len(), 1, "{forms:?}");
        assert!(
            exchanges[0].contains("scope=read") && exchanges[0].contains("resource=http"),
            "{exchanges:?}"
        );
        assert!(scene.seen.lock().unwrap().iter().all(|seen| !seen.contains(&token)));
    }
    assert!(scene.seen.lock().unwrap().iter().any(|seen| seen == "Bearer issued-to-caller"));
    scene.end();
}

#[test]
fn endpoint_uses_its_own_token_with_client_credentials_and_fixed_tokens() {
    for (auth, expected) in [
        ("{ client_credentials = \"corp\" }", "Bearer issued-to-gateway"),
        ("{ bearer = \"issued-by-hand\" }", "Bearer issued-by-hand"),
    ] {
        let scene = Scene::start(auth);
        for _ in 0..2 {
            let answer = scene.call(&scene.token("ada"));
            assert_eq!(answer["result"]["content"][0]["text"], "hello", "{auth} {answer}");
        }
        let seen = scene.seen.lock().unwrap().clone();
        assert!(seen.iter().all(|seen| seen == expected), "{auth} {seen:?}");
        scene.end();
    }
}
