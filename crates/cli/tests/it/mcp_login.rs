//! Tests of `thruway mcp` with a server that requires tokens: logins, saved tokens and given tokens.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// MCP server and authorization server in one. The access token is `token`, and each login succeeds at once.
/// Each refresh token is new.
struct Guarded {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Guarded {
    fn start() -> Self {
        Self::start_with(3600)
    }

    /// Starts a server with refreshable tokens that are valid for this number of seconds.
    fn start_with(seconds: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let guarded = Self { url: url.clone(), seen: Arc::default() };
        let seen = guarded.seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (head, content) = read(stream.as_ref().unwrap());
                seen.lock().unwrap().push(format!("{head}{content}"));
                let renewals =
                    seen.lock().unwrap().iter().filter(|seen| seen.contains("POST /token")).count();
                let answer = answer(&url, &head, &content, seconds, renewals);
                stream.unwrap().write_all(answer.as_bytes()).unwrap();
            }
        });
        guarded
    }

    fn seen(&self, text: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.contains(text)).count()
    }

    fn ping(&self, home: &Path, args: &[&str]) -> Command {
        thruway(home, &[&["ping", &format!("{}/mcp", self.url), "--era", "modern"], args].concat())
    }

    /// Runs the same command through a bridge as a child process. Its output includes the errors of the
    /// bridge.
    fn ping_across(&self, home: &Path, args: &[&str]) -> Command {
        let url = format!("{}/mcp", self.url);
        let bridge = ["--", env!("CARGO_BIN_EXE_thruway"), "mcp", "bridge", &url, "--era", "modern"];
        thruway(home, &[&["ping", "--era", "modern"], &bridge[..], args].concat())
    }
}

fn thruway(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway"));
    command.arg("mcp").args(args);
    command.env("XDG_STATE_HOME", home).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command.stderr(Stdio::piped());
    command
}

fn read(stream: &TcpStream) -> (String, String) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|read| read > 0) {}
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut content).unwrap();
    (head, String::from_utf8(content).unwrap())
}

fn answer(url: &str, head: &str, content: &str, seconds: u32, renewals: usize) -> String {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let parameter =
        |name: &str| target.split(['?', '&']).find_map(|pair| pair.strip_prefix(name)).unwrap_or_default();
    match target.split('?').next().unwrap_or_default() {
        "/mcp" if head.contains("Authorization: Bearer token\r\n") => {
            let request: Value = serde_json::from_str(content).unwrap();
            let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
                "ttlMs": 0, "cacheScope": "private"});
            document(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
        }
        "/mcp" => response("401 Unauthorized", "WWW-Authenticate: Bearer scope=\"use\"\r\n", ""),
        "/.well-known/oauth-protected-resource/mcp" => {
            document(&json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]}))
        }
        "/.well-known/oauth-authorization-server" => document(&json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"), "code_challenge_methods_supported": ["S256"],
            "registration_endpoint": format!("{url}/register"),
        })),
        "/register" => document(&json!({"client_id": "registered"})),
        "/authorize" => {
            let back = parameter("redirect_uri=").replace("%3A", ":").replace("%2F", "/");
            let location = format!("Location: {back}?code=c&state={}\r\n", parameter("state="));
            response("302 Found", &location, "")
        }
        "/token" => document(&json!({"access_token": "token", "token_type": "Bearer", "expires_in": seconds,
            "refresh_token": format!("again{renewals}.")})),
        _ => response("404 Not Found", "", ""),
    }
}

fn document(content: &Value) -> String {
    response("200 OK", "Content-Type: application/json\r\n", &content.to_string())
}

fn response(status: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{content}")
}

/// Returns the `Location` of the response from `url`, or an empty string.
fn visit(url: &str) -> String {
    let (authority, path) = url["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    // Sends the request in a single write, because the server of these tests reads only once before it
    // responds and closes.
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    location.unwrap_or_default().to_owned()
}

#[test]
fn login_is_saved_and_readable_only_by_its_owner() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let mut child = server.ping(home.path(), &["--login", "--scope", "mine"]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let url = line.trim_end().strip_prefix("to log in, open ").unwrap();
    assert!(url.contains("&scope=use+mine"), "{url}");
    assert_eq!(visit(&visit(url)), "");
    assert!(child.wait().unwrap().success());
    let file = home.path().join("thruway/mcp_tokens.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    // Later commands need no login.
    let output = server.ping(home.path(), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.seen("GET /authorize"), 1);
}

#[test]
fn client_starts_no_login_without_the_login_option() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let output = server.ping(home.path(), &[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("--login"), "{stderr}");
    assert_eq!(server.seen("POST /register"), 0);
}

#[test]
fn given_bearer_token_is_sent_without_a_login() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let file = home.path().join("token");
    fs::write(&file, "token\n").unwrap();
    for bearer in ["token", &format!("@{}", file.display())] {
        assert!(
            server.ping(home.path(), &["--bearer", bearer]).output().unwrap().status.success(),
            "{bearer}"
        );
    }
    let output = server.ping(home.path(), &["--bearer", "other"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(server.seen("GET "), 0);
}

#[test]
fn client_credentials_are_sent_only_to_the_given_issuer() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let credentials =
        ["--client-id", "id", "--client-secret", "confidential", "--client-credentials", "--issuer"];
    let known = [&credentials[..], &[&*server.url]].concat();
    assert!(server.ping(home.path(), &known).output().unwrap().status.success());
    assert_eq!(server.seen("grant_type=client_credentials"), 1);
    let saved = fs::read_to_string(home.path().join("thruway/mcp_tokens.json")).unwrap();
    assert!(!saved.contains("confidential"), "{saved}");
    // The program does not send the secret to another issuer.
    let elsewhere = tempfile::tempdir().unwrap();
    let known = [&credentials[..], &["https://known.example"]].concat();
    let output = server.ping(elsewhere.path(), &known).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(server.seen("grant_type=client_credentials"), 1);
}

/// The program once sent the secret to the authorization server that the MCP server named.
#[test]
fn secret_without_issuer_is_an_error_before_any_request() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let secret = ["--client-id", "id", "--client-secret", "confidential"];
    for grant in [&["--client-credentials"][..], &["--login"], &[]] {
        let args = [&secret[..], grant].concat();
        for mut command in [server.ping(home.path(), &args), server.ping_across(home.path(), &args)] {
            let output = command.output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2), "{args:?}: {error}");
            assert!(error.contains("without `--issuer`") && error.contains("pass `--issuer URL`"), "{error}");
        }
    }
    assert_eq!(server.seen(""), 0);
}

#[test]
fn token_is_refreshed_with_the_secret_only_at_its_issuer() {
    let (server, home) = (Guarded::start_with(1), tempfile::tempdir().unwrap());
    let known = ["--client-id", "id", "--client-secret", "confidential"];
    let there = [&known[..], &["--issuer", &server.url]].concat();
    let mut child = server.ping(home.path(), &[&there[..], &["--login"]].concat()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    visit(&visit(line.trim_end().strip_prefix("to log in, open ").unwrap()));
    assert!(child.wait().unwrap().success());
    let renewals = || server.seen("grant_type=refresh_token");
    let before = renewals();
    let elsewhere = server.ping(home.path(), &[&known[..], &["--issuer", "https://known.example"]].concat());
    assert_eq!({ elsewhere }.output().unwrap().status.code(), Some(2));
    assert_eq!(renewals(), before);
    assert!(server.ping(home.path(), &there).output().unwrap().status.success());
    assert_eq!(renewals(), before + 1);
}

/// Each process once refreshed the token that it had read at its start, so it could use a refresh token
/// twice. Servers then reject the token or revoke the whole login.
#[test]
fn concurrent_processes_use_each_refresh_token_once() {
    let (server, home) = (Guarded::start_with(1), tempfile::tempdir().unwrap());
    let mut child = server.ping(home.path(), &["--login"]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    visit(&visit(line.trim_end().strip_prefix("to log in, open ").unwrap()));
    assert!(child.wait().unwrap().success());
    let pings: Vec<_> = (0..6).map(|_| server.ping(home.path(), &[]).spawn().unwrap()).collect();
    for ping in pings {
        let output = ping.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let renewals = server.seen("grant_type=refresh_token");
    assert!(renewals >= 6, "{renewals}");
    for n in 1..=renewals {
        assert_eq!(server.seen(&format!("refresh_token=again{n}.")), 1, "{n} of {renewals}");
    }
}

/// The program once took this id for the URL of a client metadata document and required a login.
#[test]
fn client_credentials_work_with_a_url_as_client_id() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let id =
        ["--client-id", "https://app.example/id", "--client-secret", "confidential", "--issuer", &server.url];
    let credentials = [&id[..], &["--client-credentials"]].concat();
    let output = server.ping(home.path(), &credentials).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.seen("grant_type=client_credentials"), 1);
    // A token from the client credentials grant must not be used in place of a login.
    let output = server.ping(home.path(), &id).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("--login"), "{stderr}");
}

/// A bridge could once only send a token that was given to it.
#[test]
fn bridge_login_is_saved_and_reused() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let mut child = server.ping_across(home.path(), &["--login"]).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(visit(&visit(line.trim_end().strip_prefix("to log in, open ").unwrap())), "");
    assert!(child.wait().unwrap().success());
    // The bridge saves its token for other commands, and it can use their tokens.
    for mut again in [server.ping_across(home.path(), &[]), server.ping(home.path(), &[])] {
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(server.seen("GET /authorize"), 1);
}

#[test]
fn bridge_sends_the_given_token() {
    let (server, home) = (Guarded::start(), tempfile::tempdir().unwrap());
    let token = ["--bearer", "token"];
    let header = ["-H", "Authorization: Bearer token"];
    for args in [token, header] {
        assert!(server.ping_across(home.path(), &args).output().unwrap().status.success(), "{args:?}");
    }
    assert_eq!(server.seen("GET "), 0);
    let output = server.ping_across(home.path(), &[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("pass `--login` to log in"), "{stderr}");
}

#[test]
fn login_options_are_errors_for_a_command() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["--login"][..], &["--bearer", "token"], &["--client-id", "id"], &["--scope", "a"]] {
        let output = thruway(home.path(), &[&["bridge"], args, &["--", "true"]].concat()).output();
        let output = output.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && stderr.contains("cannot be used with"),
            "{args:?}: {stderr}"
        );
    }
}
