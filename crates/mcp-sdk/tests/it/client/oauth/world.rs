//! An MCP server that requires tokens, an authorization server, another server, and a person with a login.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_client::Client;
use thruway_mcp_sdk::oauth::{LoginFuture, OAuth, OAuthError, UserAgent};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, McpClientOptions};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request that a server has received.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) query: String,
    pub(super) head: String,
    pub(super) content: String,
}

impl Seen {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns a parameter of the query or the form.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let form = format!("{}&{}", self.query, self.content);
        let found = form_urlencoded::parse(form.as_bytes()).find(|(one, _)| one == name);
        found.map(|(_, value)| value.into_owned())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.content).unwrap_or_default()
    }

    /// Returns the token of the request.
    pub(super) fn token(&self) -> Option<&str> {
        self.field("authorization")?.split_once(' ').map(|(_, token)| token)
    }
}

type Answer = Arc<dyn Fn(&Seen) -> String + Send + Sync>;

/// A mock server with adjustable answers. It stores its requests.
#[derive(Clone)]
pub(super) struct MockServer {
    pub(super) url: String,
    answers: Arc<Mutex<Vec<(String, Answer)>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl MockServer {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mock_server = Self { url, answers: Arc::default(), seen: Arc::default() };
        let own = mock_server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(stream));
            }
        });
        mock_server
    }

    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.is_ok_and(|read| read > 0) {}
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut content).await.unwrap();
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let content = String::from_utf8(content).unwrap();
        let seen = Seen { path: path.to_owned(), query: query.to_owned(), head, content };
        self.seen.lock().unwrap().push(seen.clone());
        let answer = self.answers.lock().unwrap().iter().rev().find(|(path, _)| *path == seen.path).cloned();
        let answer = answer.map_or_else(|| status("404 Not Found", ""), |(_, answer)| answer(&seen));
        // The client may have stopped waiting.
        let _ = stream.write_all(answer.as_bytes()).await;
        if answer.is_empty() {
            std::future::pending::<()>().await;
        }
    }

    /// Answers requests to `path` with `answer` from now on. An empty answer keeps the request open.
    pub(super) fn on(&self, path: &str, answer: impl Fn(&Seen) -> String + Send + Sync + 'static) {
        self.answers.lock().unwrap().push((path.to_owned(), Arc::new(answer)));
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn seen_at(&self, path: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.path == path).collect()
    }
}

pub(super) fn status(status: &str, fields: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n")
}

pub(super) fn document(content: &Value) -> String {
    content_of("200 OK", &content.to_string())
}

pub(super) fn refusal(status: &str, content: &Value) -> String {
    content_of(status, &content.to_string())
}

fn content_of(status: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{content}"
    )
}

pub(super) fn redirect(to: &str) -> String {
    status("302 Found", &format!("Location: {to}\r\n"))
}

/// Returns the answer of an MCP server that accepts the request.
pub(super) fn accepted(seen: &Seen) -> String {
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
    document(&json!({"jsonrpc": "2.0", "id": seen.json()["id"], "result": result}))
}

pub(super) const METADATA: &str = "/.well-known/oauth-authorization-server";
pub(super) const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// All servers. At first, all behave well. The tokens are `token-1`, `token-2` and so on, and the server
/// accepts the last one.
pub(super) struct World {
    pub(super) server: MockServer,
    pub(super) issuer: MockServer,
    pub(super) other: MockServer,
}

impl World {
    pub(super) async fn new() -> Self {
        let world = Self {
            server: MockServer::new().await,
            issuer: MockServer::new().await,
            other: MockServer::new().await,
        };
        world.guard("Bearer");
        World::behave(&world.issuer);
        world.server.on(RESOURCE_METADATA, {
            let document = world.resource();
            move |_| self::document(&document)
        });
        world
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.server.url)
    }

    /// Returns the metadata of the server.
    pub(super) fn resource(&self) -> Value {
        json!({"resource": self.url(), "authorization_servers": [self.issuer.url]})
    }

    /// Returns the metadata of an authorization server.
    pub(super) fn metadata(issuer: &MockServer) -> Value {
        let url = &issuer.url;
        json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
            "registration_endpoint": format!("{url}/register"), "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"], "authorization_response_iss_parameter_supported": true,
        })
    }

    /// Makes the server accept tokens that start with `token-`.
    pub(super) fn guard(&self, scheme: &'static str) {
        let metadata = format!("{}{RESOURCE_METADATA}", self.server.url);
        self.server.on("/mcp", move |seen| match seen.token() {
            Some(token) if token.starts_with("token-") => accepted(seen),
            _ => unauthorized(&format!("{scheme} resource_metadata=\"{metadata}\"")),
        });
    }

    /// Makes an authorization server behave well.
    pub(super) fn behave(issuer: &MockServer) {
        let metadata = Self::metadata(issuer);
        issuer.on(METADATA, move |_| document(&metadata));
        issuer.on("/register", |_| refusal("201 Created", &json!({"client_id": "registered"})));
        let url = issuer.url.clone();
        issuer.on("/authorize", move |seen| {
            let back = seen.parameter("redirect_uri").unwrap();
            let state = seen.parameter("state").unwrap();
            redirect(&format!("{back}?code=code&state={state}&iss={url}"))
        });
        let counted = issuer.clone();
        issuer.on("/token", move |seen| {
            let number = counted.seen_at("/token").len();
            let mut token = token(&format!("token-{number}"));
            token["scope"] = json!(seen.parameter("scope").unwrap_or_default());
            document(&token)
        });
    }

    pub(super) fn client(&self, oauth: OAuth) -> McpClient {
        self.patient_client(oauth, Duration::from_secs(10))
    }

    pub(super) fn patient_client(&self, oauth: OAuth, timeout: Duration) -> McpClient {
        let options = McpClientOptions { era: EraChoice::Modern, timeout, ..McpClientOptions::default() };
        McpClient::builder().options(options).oauth(oauth).http(&format!("{}#here", self.url()))
    }

    pub(super) fn logins(&self) -> usize {
        self.issuer.seen_at("/authorize").len()
    }
}

pub(super) fn unauthorized(challenge: &str) -> String {
    status("401 Unauthorized", &format!("WWW-Authenticate: {challenge}\r\n"))
}

pub(super) fn insufficient(scope: &str) -> String {
    let challenge = format!("WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n");
    status("403 Forbidden", &challenge)
}

pub(super) fn token(token: &str) -> Value {
    json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600})
}

pub(super) async fn call(client: &McpClient) -> Result<(), McpClientError> {
    let call = client.call_tool("do", json!({}));
    tokio::time::timeout(Duration::from_secs(30), call).await.expect("the call should end").map(drop)
}

/// Returns the authorization error of a call.
pub(super) async fn refused(client: &McpClient) -> OAuthError {
    match call(client).await {
        Err(McpClientError::Authorization(error)) => error,
        other => panic!("the client should have no token: {other:?}"),
    }
}

/// Follows every redirect of the authorization server, like a person in a browser.
pub(super) struct Browser;

impl UserAgent for Browser {
    fn redirect_uri(&self) -> io::Result<String> {
        Ok("http://127.0.0.1:1/callback".to_owned())
    }

    fn log_in<'a>(&'a self, url: &'a str) -> LoginFuture<'a> {
        Box::pin(async move {
            let client = Client::new();
            let response = client.get(url).send().await.map_err(io::Error::other)?;
            let location = response.field("location").and_then(|location| location.as_str());
            location.map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidData.into())
        })
    }
}

pub(super) fn login() -> OAuth {
    OAuth::login(Browser)
}
