//! A provider, a gateway and browsers on this machine.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::json;
use thruway_server::{IntoHandler, RunningServer, Server};

use super::super::cookies::Session;
use super::super::*;
use crate::policy::fields::VerifiedClient;
use crate::policy::{Guarded, Policy, PolicyConfig};

/// The answer of the token endpoint.
#[derive(Clone)]
pub(super) enum Answer {
    /// Tokens with the claims.
    Tokens,
    /// This status and body.
    Other(u16, Value),
    /// No response.
    Silence,
}

/// The behavior of a provider.
pub(super) struct Answers {
    pub(super) metadata: Value,
    pub(super) token: Answer,
    pub(super) claims: Value,
    pub(super) refresh_token: Option<String>,
    /// Seed of the key that signs ID tokens. The key set contains only the key with the seed 1.
    pub(super) seed: u8,
    forms: Vec<String>,
    credentials: Vec<String>,
}

pub(super) struct TestProvider {
    pub(super) issuer: String,
    answers: Arc<Mutex<Answers>>,
}

impl TestProvider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(Answers {
            metadata: json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize?ui=dark"),
                "token_endpoint": format!("{issuer}/token"),
                "jwks_uri": format!("{issuer}/jwks"),
                "end_session_endpoint": format!("{issuer}/end"),
            }),
            token: Answer::Tokens,
            claims: json!({
                "iss": issuer, "aud": "gateway", "sub": "5", "name": "ada", "groups": ["ops", "dev"],
                "iat": get_current_timestamp(), "exp": get_current_timestamp() + 600, "unused": "x",
            }),
            refresh_token: None,
            seed: 1,
            forms: Vec::new(),
            credentials: Vec::new(),
        }));
        let shared = answers.clone();
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let Some((head, body)) = read(&mut stream) else { continue };
                match respond(&mut shared.lock().unwrap(), &head, body) {
                    Some((status, content)) => {
                        let text = content.to_string();
                        let head = format!("HTTP/1.1 {status} S\r\nContent-Length: {}\r\n", text.len());
                        let _ = write!(stream.get_mut(), "{head}Connection: close\r\n\r\n{text}");
                    }
                    None => silent.push(stream),
                }
            }
        });
        Self { issuer, answers }
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.answers.lock().unwrap());
    }

    pub(super) fn set_nonce(&self, nonce: &str) {
        self.set(|answers| answers.claims["nonce"] = nonce.into());
    }

    /// Returns the forms that the token endpoint has received.
    pub(super) fn forms(&self) -> Vec<String> {
        self.answers.lock().unwrap().forms.clone()
    }

    pub(super) fn credentials(&self) -> Vec<String> {
        self.answers.lock().unwrap().credentials.clone()
    }
}

/// Reads a message, and returns its head and its body.
fn read(stream: &mut impl BufRead) -> Option<(String, String)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).ok()?))
}

fn respond(answers: &mut Answers, head: &str, body: String) -> Option<(u16, Value)> {
    if head.starts_with("GET /.well-known/openid-configuration ") {
        return Some((200, answers.metadata.clone()));
    }
    if head.starts_with("GET /jwks ") {
        let mut key = Jwk::from_encoding_key(&ed25519(1), Algorithm::EdDSA).unwrap();
        key.common.key_id = Some("one".to_owned());
        return Some((200, json!({ "keys": [key] })));
    }
    assert!(head.starts_with("POST /token "), "{head}");
    answers.forms.push(body);
    let credentials = head.lines().filter_map(|line| line.strip_prefix("Authorization: "));
    answers.credentials.extend(credentials.map(str::to_owned));
    match answers.token.clone() {
        Answer::Silence => None,
        Answer::Other(status, content) => Some((status, content)),
        Answer::Tokens => {
            let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::EdDSA) };
            let token = encode(&header, &answers.claims, &ed25519(answers.seed)).unwrap();
            let refresh_token = &answers.refresh_token;
            Some((200, json!({ "access_token": "a", "id_token": token, "refresh_token": refresh_token })))
        }
    }
}

fn ed25519(seed: u8) -> EncodingKey {
    // An Ed25519 key in PKCS #8: a fixed header and 32 bytes.
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend([seed; 32]);
    EncodingKey::from_ed_der(&der)
}

/// A gateway with the policy, in front of a handler that returns what it gets.
pub(super) struct Site {
    pub(super) provider: TestProvider,
    pub(super) config: OidcConfig,
    server: RunningServer,
}

impl Site {
    pub(super) fn start(change: impl FnOnce(&mut OidcConfig)) -> Self {
        let provider = TestProvider::start();
        let secrets = OidcSecrets::from_lines(&"s".repeat(32)).unwrap();
        let origin = Url::for_request("https://shop.example").unwrap();
        let mut config = OidcConfig::new(&provider.issuer, "gateway", origin, secrets).unwrap();
        config.client_secret = Some(OidcClientSecret("s/cret".to_owned()));
        config.user_claim = "name".to_owned();
        config.fields =
            [("X-User", "name"), ("X-Groups", "groups")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        // The gateway tries again at once, so that tests need not wait.
        config.discovery.refresh_interval_min = Duration::from_millis(1);
        change(&mut config);
        let server = start(&config);
        Self { provider, config, server }
    }

    /// Starts another gateway with the same provider.
    pub(super) fn replica(&self, change: impl FnOnce(&mut OidcConfig)) -> RunningServer {
        let mut config = self.config.clone();
        change(&mut config);
        start(&config)
    }

    pub(super) fn browser(&self) -> Browser {
        Browser::at(&self.server)
    }

    /// Returns a browser with a session.
    pub(super) fn logged_in(&self) -> Browser {
        let mut browser = self.browser();
        let callback = browser.begin("/");
        self.provider.set_nonce(&browser.nonce_of(&callback));
        let response = browser.page(&callback);
        assert_eq!(response.status, 303, "{}", response.body);
        browser
    }

    /// Returns a browser with this session.
    pub(super) fn with_session(&self, session: &Session) -> Browser {
        let oidc = Oidc::new("office".into(), self.config.clone());
        let mut browser = self.browser();
        browser.store(&session.cookie(&oidc.names, &oidc.sealer, 0).unwrap());
        browser
    }
}

/// Starts a gateway with the policy `config`.
pub(super) fn start(config: &OidcConfig) -> RunningServer {
    let handler = |request: &Request<'_>| {
        if request.path() == "/user" {
            let client = request.extensions().get::<Arc<VerifiedClient>>().unwrap();
            let claims = Value::Object(client.claims.clone());
            return format!("{} of {}: {claims}", client.user.clone().unwrap_or_default(), client.policy);
        }
        let all = |name: &str| -> String {
            let values = request.field_lines().all(name).filter_map(|value| value.as_str());
            values.collect::<Vec<_>>().join("|")
        };
        format!("user {}, groups {}, cookies {}", all("x-user"), all("x-groups"), all("cookie"))
    };
    let policy = Arc::new(Policy::new("office", PolicyConfig::Oidc(config.clone())));
    let guarded = Guarded::new(policy, "route", handler.into_handler()).identified(true).recorded(true);
    Server::new(guarded).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap()
}

/// A client that keeps cookies.
pub(super) struct Browser {
    address: String,
    host: String,
    cookies: BTreeMap<String, String>,
    /// The nonce of each login that has begun, by the target of its callback.
    nonces: HashMap<String, String>,
}

pub(super) struct Received {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Browser {
    pub(super) fn at(server: &RunningServer) -> Self {
        Self::of_host(&server.addresses()[0].to_string(), "shop.example")
    }

    /// Returns a client of the server at `address`, which sends the host `host`.
    pub(super) fn of_host(address: &str, host: &str) -> Self {
        let (address, host) = (address.to_owned(), host.to_owned());
        Self { address, host, cookies: BTreeMap::new(), nonces: HashMap::new() }
    }

    /// Sends the following requests to another replica.
    pub(super) fn move_to(&mut self, server: &RunningServer) {
        self.address = server.addresses()[0].to_string();
    }

    /// Requests a page like a browser.
    pub(super) fn page(&mut self, target: &str) -> Received {
        self.get(target, "")
    }

    pub(super) fn get(&mut self, target: &str, lines: &str) -> Received {
        self.request("GET", target, &format!("Accept: text/html\r\n{lines}"))
    }

    pub(super) fn request(&mut self, method: &str, target: &str, lines: &str) -> Received {
        self.send(method, target, &format!("{lines}\r\n"))
    }

    /// Sends a form.
    pub(super) fn post(&mut self, target: &str, form: &str) -> Received {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        self.send("POST", target, &format!("{kind}Content-Length: {}\r\n\r\n{form}", form.len()))
    }

    /// Sends a request. `rest` has further header lines, an empty line and the body.
    fn send(&mut self, method: &str, target: &str, rest: &str) -> Received {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.host);
        write!(stream, "{head}{cookies}{rest}").unwrap();
        let (head, body) = read(&mut BufReader::new(stream)).unwrap();
        let received = Received { status: head[9..12].parse().unwrap(), head, body };
        received.cookies().iter().for_each(|cookie| self.store(cookie));
        received
    }

    /// Stores a cookie, or removes it.
    pub(super) fn store(&mut self, set_cookie: &str) {
        let (name, value) = set_cookie.split(';').next().unwrap().split_once('=').unwrap();
        if set_cookie.contains("Max-Age=0;") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }

    pub(super) fn cookie_count(&self) -> usize {
        self.cookies.len()
    }

    /// Returns the cookies, and replaces them by `cookies`.
    pub(super) fn replace_cookies(&mut self, cookies: BTreeMap<String, String>) -> BTreeMap<String, String> {
        std::mem::replace(&mut self.cookies, cookies)
    }

    /// Begins a login, and returns the target of its callback. The provider gets the nonce of this login.
    pub(super) fn begin(&mut self, page: &str) -> String {
        let response = self.page(page);
        self.callback(&response)
    }

    /// Returns the target of the callback for a redirect to the provider.
    pub(super) fn callback(&mut self, response: &Received) -> String {
        assert_eq!(response.status, 303, "{}", response.body);
        let asked = parameters(response.field("location").unwrap());
        let callback = format!("/oidc/callback?code=c&state={}", asked["state"]);
        self.nonces.insert(callback.clone(), asked["nonce"].clone());
        callback
    }

    pub(super) fn nonce_of(&self, callback: &str) -> String {
        self.nonces[callback].clone()
    }
}

impl Received {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).next()
    }

    pub(super) fn cookies(&self) -> Vec<&str> {
        self.fields("set-cookie").collect()
    }

    fn fields(&self, name: &str) -> impl Iterator<Item = &str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Returns the parameters in the query of a URL.
pub(super) fn parameters(url: &str) -> HashMap<String, String> {
    let query = url.split_once('?').unwrap().1;
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

pub(super) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
