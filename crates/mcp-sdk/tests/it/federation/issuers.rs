//! An authorization server on a local port, and members that accept only its tokens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_mcp_sdk::oauth::{RegisteredClient, TokenIssuer, TokenIssuerOptions, TokenTarget};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{
    Authorization, Context, EraChoice, Identity, InvalidToken, McpServer, Member, VerifyToken,
};
use thruway_server::{FieldLinesBuf, Request, Response, Router, StatusCode, with_state};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::sites;
use crate::fixtures::Nothing;

pub(super) const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// An authorization server. A token of the caller `NAME:GROUPS` is exchanged for a token of the subject
/// `NAME`.
pub(super) struct Issuer {
    site: sites::Site,
    state: Arc<IssuerState>,
}

#[derive(Default)]
struct IssuerState {
    requests: Mutex<Vec<TokenRequest>>,
    /// The subjects of the issued tokens and assertions.
    subjects: Mutex<HashMap<String, String>>,
    issued: AtomicUsize,
    refusal: Mutex<Option<Value>>,
    /// The identity provider whose assertions this issuer accepts.
    trusted: Mutex<Option<Arc<IssuerState>>>,
}

/// A request to the token endpoint.
#[derive(Clone, Debug)]
pub(super) struct TokenRequest {
    pub(super) authorization: Option<String>,
    form: HashMap<String, String>,
}

impl TokenRequest {
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.form.get(name).map(String::as_str)
    }
}

impl Issuer {
    pub(super) fn new() -> Self {
        let state = Arc::<IssuerState>::default();
        let router = Router::new().post("/token", with_state(&state, answer));
        Self { site: sites::Site::of(router), state }
    }

    /// Returns this issuer as a gateway uses it.
    pub(super) fn token_issuer(&self, name: &str) -> TokenIssuer {
        self.with_options(name, |_| {})
    }

    pub(super) fn with_options(
        &self,
        name: &str,
        change: impl FnOnce(&mut TokenIssuerOptions),
    ) -> TokenIssuer {
        let client = RegisteredClient::with_secret("gateway", "secret");
        let mut options = TokenIssuerOptions::new(name, self.url().replace("/mcp", "/token"), client);
        change(&mut options);
        TokenIssuer::new(options).unwrap()
    }

    pub(super) fn url(&self) -> &str {
        &self.site.url
    }

    pub(super) fn requests(&self) -> Vec<TokenRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Returns the requests for tokens of callers.
    pub(super) fn exchanges(&self) -> Vec<TokenRequest> {
        let is_exchange =
            |request: &TokenRequest| request.parameter("grant_type") != Some("client_credentials");
        self.requests().into_iter().filter(is_exchange).collect()
    }

    /// Refuses all requests with this document from now on, or accepts them again.
    pub(super) fn refuse(&self, refusal: Option<Value>) {
        *self.state.refusal.lock().unwrap() = refusal;
    }

    /// Accepts the assertions that `provider` issues from now on.
    pub(super) fn trust(&self, provider: &Self) {
        *self.state.trusted.lock().unwrap() = Some(provider.state.clone());
    }

    /// Members no longer accept the tokens that were issued before.
    pub(super) fn revoke(&self) {
        self.state.subjects.lock().unwrap().clear();
    }

    /// Returns the authorization of a member that accepts the tokens of this issuer.
    fn authorization(&self) -> Authorization {
        Authorization::given_tokens(Issued(self.state.clone()))
    }
}

/// Answers a request to the token endpoint.
fn answer(state: &IssuerState, request: &Request<'_>) -> Response {
    let form: HashMap<_, _> = form_urlencoded::parse(request.content()).into_owned().collect();
    let authorization = request.field("authorization").and_then(|value| value.as_str()).map(str::to_owned);
    let request = TokenRequest { authorization, form };
    state.requests.lock().unwrap().push(request.clone());
    if let Some(refusal) = &*state.refusal.lock().unwrap() {
        return document(refusal).with_status(StatusCode::BAD_REQUEST);
    }
    let subject = match request.parameter("grant_type").unwrap_or_default() {
        "client_credentials" => Some("gateway".to_owned()),
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            let trusted = state.trusted.lock().unwrap().clone();
            let assertion = request.parameter("assertion").unwrap_or_default();
            trusted.and_then(|trusted| trusted.subjects.lock().unwrap().get(assertion).cloned())
        }
        _ => request.parameter("subject_token").and_then(|token| Some(token.split_once(':')?.0.to_owned())),
    };
    let Some(subject) = subject else {
        return document(&json!({"error": "invalid_grant"})).with_status(StatusCode::BAD_REQUEST);
    };
    let token = format!("issued-{}", state.issued.fetch_add(1, Ordering::Relaxed));
    state.subjects.lock().unwrap().insert(token.clone(), subject);
    let requested = request.parameter("requested_token_type");
    let token_type = if requested == Some(ID_JAG) { "N_A" } else { "Bearer" };
    document(&json!({
        "access_token": token, "issued_token_type": requested, "token_type": token_type,
        "expires_in": 3600,
    }))
}

fn document(document: &Value) -> Response {
    const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");
    Response::ok(JSON, document.to_string())
}

/// Verifies the tokens of an issuer.
struct Issued(Arc<IssuerState>);

impl VerifyToken for Issued {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        let subject = self.0.subjects.lock().unwrap().get(token).cloned().ok_or(InvalidToken)?;
        Ok(Identity { issuer: "issuer".to_owned(), subject, ..Identity::default() })
    }
}

/// A server over HTTP that accepts only tokens of an issuer. Records all bytes that it receives.
pub(super) struct GuardedServer {
    _site: sites::Site,
    pub(super) url: String,
    received: Arc<Mutex<Vec<u8>>>,
}

impl GuardedServer {
    /// Starts a server with the tool `whoami`, which returns the subject of the token.
    pub(super) async fn start(issuer: &Issuer) -> Self {
        let server = McpServer::new("guarded", "1.0").tool(
            Tool::new("whoami"),
            |_: Nothing, context: Context| async move {
                context.identity().map(|identity| identity.subject.clone()).unwrap_or_default()
            },
        );
        let endpoint = server.endpoint().authorize(issuer.authorization());
        let site = sites::Site::of(Router::new().any("/mcp", endpoint));
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let target = site.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let url = record(target, received.clone()).await;
        Self { _site: site, url, received }
    }

    /// Returns this server as a member. The gateway uses only `era` toward the member.
    pub(super) fn member(&self, name: &str, era: EraChoice) -> Member {
        let url = self.url.clone();
        Member::new(name, move |builder| Ok(builder.era(era).http(&url)))
    }

    pub(super) fn target(&self) -> TokenTarget {
        TokenTarget { resource: Some(self.url.clone()), ..TokenTarget::default() }
    }

    /// Returns all bytes that the server has received.
    pub(super) fn received(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }
}

/// Starts a proxy for `target` that records the bytes from clients. Returns the URL of the proxy.
async fn record(target: String, received: Arc<Mutex<Vec<u8>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (target, received) = (target.clone(), received.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = TcpStream::connect(target).await.unwrap().into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    received.lock().unwrap().extend_from_slice(&buffer[..count]);
                    if to_server.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    url
}
