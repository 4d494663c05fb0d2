//! A test that no part of a caller's token reaches the servers of an MCP endpoint.

use std::collections::HashSet;
use std::io::{Read, Write, copy};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;
use thruway_testkit::{JwtIssuer, Random};

use crate::client::Client;
use crate::mcp_federate::{printed, serve};
use crate::process::Thruway;

/// All bytes that the servers over HTTP have received.
type Received = Arc<Mutex<Vec<u8>>>;

/// Records the bytes of all clients, and forwards them to the server at `authority`. Returns its own address.
fn recorder(authority: String, received: &Received) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let received = received.clone();
    thread::spawn(move || {
        for near in listener.incoming() {
            let (mut near, mut far) = (near.unwrap(), TcpStream::connect(&authority).unwrap());
            let (mut back, mut from_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let received = received.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; 16 << 10];
                while let Ok(length @ 1..) = near.read(&mut buffer) {
                    received.lock().unwrap().extend_from_slice(&buffer[..length]);
                    if far.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
            });
            thread::spawn(move || copy(&mut from_far, &mut back));
        }
    });
    address
}

/// Starts an authorization server. Returns its address and the number of its tokens.
fn issuer() -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, issued) = (listener.local_addr().unwrap().to_string(), Arc::<Mutex<usize>>::default());
    let count = issued.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut form, mut buffer) = (stream.unwrap(), Vec::new(), [0; 4096]);
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                form.extend_from_slice(&buffer[..length]);
                let text = String::from_utf8_lossy(&form);
                let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
                let expected = head.to_ascii_lowercase();
                let expected = expected.lines().find_map(|line| line.strip_prefix("content-length: "));
                if expected.is_some_and(|length| length.parse() == Ok(body.len())) {
                    break;
                }
            }
            *count.lock().unwrap() += 1;
            let token = json!({"access_token": "of-the-server", "token_type": "Bearer", "expires_in": 3600});
            let token = token.to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{token}", token.len());
        }
    });
    (address, issued)
}

fn config(web: &str, issuer: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[policies.tokens.jwt]\nkeys_file = \"keys.json\"\n\
         [upstreams.web]\nservers = [\"{web}\"]\n\
         [mcp.issuers.corp]\ntoken_url = \"http://{issuer}/token\"\nclient_id = \"a\"\nclient_secret = \"b\"\n\
         [mcp.servers.web]\nupstream = \"web\"\n\
         [mcp.servers.guarded]\nupstream = \"web\"\nauth = {{ exchange = \"corp\" }}\n\
         [mcp.servers.pipe]\ncommand = [\"sh\", \"-c\", \
         \"env >> env.txt; tee -a stdin.txt | ${{THRUWAY}} mcp serve --stdio\"]\n\
         [mcp.endpoints.dev]\nservers = [\"web\", \"guarded\", \"pipe\"]\nlist_wait = \"1m\"\n\
         [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\npolicies = [\"tokens\"]\n"
    )
}

/// Calls the tool `add` of `server` with a request that the endpoint relays if the server has no tokens.
fn call(authority: &str, server: &str, token: &str) {
    let name = format!("{server}__add");
    let params = json!({"name": name, "arguments": {"a": 1, "b": 2.5}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let content = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let mut client = Client::connect(&format!("http://{authority}"));
    client.send(&format!(
        "POST /dev?access_token={token} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: client-7\r\n\
         Authorization: Bearer {token}\r\nCookie: token={token}\r\nX-Access-Token: {token}\r\n\
         Proxy-Authorization: Bearer {token}\r\nReferer: http://localhost/?token={token}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n\
         Content-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    let response = client.response(false);
    assert!(response.text().contains("3.5"), "{server}: {}", response.text());
}

#[test]
fn no_part_of_a_callers_token_reaches_a_server_over_http_or_stdio() {
    let mut demo = Thruway::start_in(Path::new("."), &["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let received = Received::default();
    let (web, (token_server, issued)) = (recorder(demo.authority(), &received), issuer());
    let (directory, keys) = (tempfile::tempdir().unwrap(), JwtIssuer::new("key"));
    std::fs::write(directory.path().join("keys.json"), keys.keys()).unwrap();
    let mut thruway = serve(directory.path(), &config(&web, &token_server));
    let authority = thruway.authority();
    let url = format!("http://{authority}/dev");
    let (mut random, mut tokens) = (Random::new(79), Vec::new());
    for _ in 0..3 {
        let id = String::from_utf8(random.bytes(b"abcdefghijklmnopqrstuvwxyz0123456789", 24)).unwrap();
        let token = keys.token(&json!({"iss": "https://login.example", "sub": id, "exp": 4_000_000_000_u64}));
        let mut servers = ["web", "guarded", "pipe"].map(str::to_owned);
        servers.rotate_left(random.below(3));
        for server in &servers {
            for era in ["modern", "legacy"] {
                let tool = format!("{server}__add");
                let call = ["call", &url, &tool, "a=1", "b=2.5", "--era", era, "--bearer", &token];
                assert!(printed(&call).contains("3.5"));
            }
            call(&authority, server, &token);
        }
        tokens.push(token);
    }
    assert!(*issued.lock().unwrap() >= tokens.len(), "each caller has its own token");
    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(0));
    demo.terminate();
    let file = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    let received = received.lock().unwrap();
    let has = |part: &[u8]| received.windows(part.len()).any(|window| window == part);
    assert!(has(b"client-7"), "the endpoint relayed a call");
    assert!(has(b"Bearer of-the-server"), "the endpoint sent the tokens of the issuer");
    for bytes in [&received[..], &file("env.txt"), &file("stdin.txt"), ended.stderr.as_bytes()] {
        assert_no_part(bytes, &tokens);
    }
}

/// Checks the claims and the signature. The first part of a token is the same in all tokens of an issuer.
fn assert_no_part(bytes: &[u8], tokens: &[String]) {
    let secrets = tokens.iter().map(|token| token.split_once('.').unwrap().1.as_bytes());
    let parts: HashSet<&[u8]> = secrets.flat_map(|secret| secret.windows(PART_BYTES)).collect();
    let leaked = bytes.windows(PART_BYTES).find(|window| parts.contains(window));
    assert_eq!(leaked.map(String::from_utf8_lossy), None);
}

/// Length of a part of a token that cannot occur by chance.
const PART_BYTES: usize = 8;
