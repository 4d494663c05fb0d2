//! Tests of external authorization: an authorization server decides about each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use tempfile::TempDir;
use thruway_daemon::Daemon;
use thruway_server::ListenAddr;

use crate::client::{address_of, connect, end, get};

/// Starts a server that answers each connection with the next of `responses`. Returns its address, and the
/// headers and bodies of its requests.
fn server<R: AsRef<[u8]> + Send + 'static>(responses: Vec<R>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, requests) = channel();
    thread::spawn(move || {
        for response in responses {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut request, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                request.push_str(&line);
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            request.push_str(str::from_utf8(&body).unwrap());
            sender.send(request).unwrap();
            stream.get_mut().write_all(response.as_ref()).unwrap();
        }
    });
    (address, requests)
}

/// Starts a gateway in front of `backend`, with the authorization server `auth`.
fn gateway(auth: &str, backend: &str) -> (TempDir, Daemon) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("thruway.toml");
    let config = format!(
        r#"
workers = 1
[[listeners]]
address = "127.0.0.1:0"
[[routes]]
path = "/"
policies = ["login"]
upstream = "backend"
[upstreams.backend]
servers = ["{backend}"]
[upstreams.auth]
servers = ["{auth}"]
retries_max = 0
pool.per_server_max = 0
[policies.login.forward_auth]
upstream = "auth"
path = "/verify?site=a"
headers = ["X-User", "X-Groups"]
timeout = "300ms"
"#
    );
    std::fs::write(&path, config).unwrap();
    let daemon = Daemon::from_file(&path).unwrap();
    (directory, daemon)
}

fn ask(address: &ListenAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

#[test]
fn admitted_request_gets_the_headers_of_the_server() {
    let (auth, questions) =
        server(vec!["HTTP/1.1 204 No Content\r\nX-User: ada\r\nX-Other: no\r\nConnection: close\r\n\r\n"]);
    let (backend, requests) = server(vec![OK]);
    let (_directory, daemon) = gateway(&auth, &backend);
    let response = ask(
        &address_of(&daemon),
        "POST /a/b?c=d HTTP/1.1\r\nHost: site.example\r\nCookie: session=1\r\nX-User: root\r\nx_groups: admin\r\n\
         X-Forwarded-Uri: /public\r\nX_Forwarded_Method: GET\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\
         Expect: 100-continue\r\nX-Secret-Hop: 1\r\nConnection: close, X-Forwarded-Uri, X-User, X-Secret-Hop\r\n\r\nbody",
    );
    assert!(response.ends_with("\r\n\r\nok"), "{response}");
    let question = questions.recv().unwrap();
    assert!(
        question.starts_with("GET /verify?site=a HTTP/1.1\r\n") && question.ends_with("\r\n\r\n"),
        "{question}"
    );
    let question = question.to_ascii_lowercase();
    for line in [
        "host: site.example",
        "cookie: session=1",
        "x-forwarded-method: post",
        "x-forwarded-uri: /a/b?c=d",
        "x-forwarded-host: site.example",
        "x-forwarded-proto: http",
        "x-forwarded-for: 127.0.0.1",
    ] {
        assert_eq!(question.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {question}");
    }
    for name in ["content-", "expect", "transfer-encoding", "x_forwarded", "/public", "x-secret-hop"] {
        assert!(!question.contains(name), "{name}: {question}");
    }
    let request = requests.recv().unwrap();
    assert!(
        request.starts_with("POST /a/b?c=d HTTP/1.1\r\n") && request.ends_with("\r\n\r\nbody"),
        "{request}"
    );
    let request = request.to_ascii_lowercase();
    assert_eq!(request.matches("x-user: ").count(), 1, "{request}");
    assert!(request.contains("\r\nx-user: ada\r\n"), "{request}");
    assert!(!request.contains("groups") && !request.contains("x-other"), "{request}");
    end(daemon);
}

#[test]
fn client_gets_other_responses_of_the_server() {
    let (auth, _questions) = server(vec![
        "HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\
         Connection: close\r\n\r\nlogin",
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ]);
    let (_directory, daemon) = gateway(&auth, "unix:missing.sock");
    let address = address_of(&daemon);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let response = ask(&address, request);
    assert!(response.starts_with("HTTP/1.1 302 ") && response.ends_with("\r\n\r\nlogin"), "{response}");
    assert!(
        response.contains("Location: https://login.example/\r\n") && response.contains("Set-Cookie: a=b\r\n")
    );
    let response = ask(&address, request);
    assert!(
        response.starts_with("HTTP/1.1 401 ") && response.contains("WWW-Authenticate: Basic\r\n"),
        "{response}"
    );
    end(daemon);
}

#[test]
fn upgrade_request_is_not_an_upgrade_for_the_server() {
    let (auth, questions) =
        server(vec!["HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]);
    let (_directory, daemon) = gateway(&auth, "unix:missing.sock");
    let response = ask(
        &address_of(&daemon),
        "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    let question = questions.recv().unwrap().to_ascii_lowercase();
    assert!(!question.contains("upgrade") && !question.contains("websocket"), "{question}");
    end(daemon);
}

#[test]
fn request_without_a_decision_is_refused() {
    let (backend, requests) = server(vec![OK]);
    let (_directory, daemon) = gateway("unix:missing.sock", &backend);
    assert_eq!(get(&address_of(&daemon), "/").0, "502");
    end(daemon);
    // The backlog of this socket accepts the connection, but no server responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_directory, daemon) = gateway(&silent.local_addr().unwrap().to_string(), &backend);
    assert_eq!(get(&address_of(&daemon), "/").0, "504");
    end(daemon);
    let (broken, _questions) = server(vec!["nonsense\r\n\r\n"]);
    let (_directory, daemon) = gateway(&broken, &backend);
    assert_eq!(get(&address_of(&daemon), "/").0, "502");
    end(daemon);
    assert!(requests.try_recv().is_err());
}

#[test]
fn client_gets_no_interim_responses_of_the_server() {
    let early = "HTTP/1.1 103 Early Hints\r\nX-User: ada\r\n\r\n\
                 HTTP/1.1 204 No Content\r\nX-User: ada\r\nConnection: close\r\n\r\n";
    let (auth, _questions) = server(vec![early]);
    let (backend, _requests) = server(vec![format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{OK}")]);
    let (_directory, daemon) = gateway(&auth, &backend);
    let response = ask(&address_of(&daemon), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(
        response.starts_with("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK"),
        "{response}"
    );
    assert!(!response.contains("ada"), "{response}");
    end(daemon);
}
