//! Tests of access to the admin listener: users, roles, TLS, and the log of changes.

use std::fs;

use thruway_testkit::CertificateAuthority;

use crate::admin::get_admin;
use crate::client::{Client, Response};
use crate::process::{RELOADED, Thruway};
use crate::tls::ask_as;

const ALICE: &str = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWUgMQ==\r\n";
const BOB: &str = "Authorization: Basic Ym9iOm9wZW4gc2VzYW1lIDI=\r\n";
const WRONG_PASSWORD: &str = "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n";
const UNKNOWN_USER: &str = "Authorization: Basic bWFsbG9yeTpvcGVuIHNlc2FtZSAx\r\n";
const PROMETHEUS: &str = "Authorization: Bearer scrape-token-7f3a\r\n";
const DEPLOY: &str = "Authorization: bearer deploy-token-91bc\r\n";

/// Users with both roles and both kinds of credentials.
const USERS: &str = "[admin.authentication.users]\n\
    alice = { role = \"operator\", password_hash = \"$$2y$$04$$m1fzSdGx/3539BspwV46i.g/dJKwzr77i4dho1qEHz7NXpfxWrxMK\" }\n\
    bob = { role = \"read\", password_hash = \"$$2y$$04$$jOb.sUk9Zwh0eF9QIszf6uUpDR2IvyaCbhHnjoCxKRit6qVK4EIli\" }\n\
    prometheus = { role = \"read\", token_digest = \"sha256:39c09512190b2e4b8319b8c3e8792d7308998998f25796ec8b544758724dc0ff\" }\n\
    deploy = { role = \"operator\", token_digest = \"sha256:69022ee3c91326224c779e7f8c1f30a74ce0831f5ecf5119156da444be99c68b\" }\n";

/// Returns a config with one upstream. `admin` contains the keys of `[admin]` and the tables below it.
fn config(admin: &str) -> String {
    format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nupstream = \"backend\"\n\
         [upstreams.backend]\nservers = [\"127.0.0.1:9\"]\n[admin]\n{admin}"
    )
}

/// Returns the keys of a local admin listener with `users`.
fn local(users: &str) -> String {
    config(&format!("address = \"127.0.0.1:0\"\n{users}"))
}

fn start(directory: &tempfile::TempDir, config: &str) -> (Thruway, String) {
    let mut gateway = Thruway::serve(directory.path(), config);
    gateway.address();
    let admin = gateway.admin_address();
    (gateway, admin)
}

/// Sends a request without a body. `line` contains the method and the target.
fn ask(admin: &str, line: &str, fields: &str) -> Response {
    let mut client = Client::connect(admin);
    client.send(&format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{fields}\r\n"));
    client.response(line.starts_with("HEAD"))
}

/// Requests that need a user.
const LINES: [&str; 9] = [
    "GET /",
    "GET /status",
    "GET /metrics",
    "GET /history",
    "GET /events",
    "GET /config",
    "HEAD /status",
    "POST /reload",
    DRAIN,
];

const DRAIN: &str = "POST /upstreams/backend/servers/127.0.0.1:9/drain";

#[test]
fn request_without_valid_credentials_gets_a_challenge() {
    let directory = tempfile::tempdir().unwrap();
    let (_gateway, admin) = start(&directory, &local(USERS));
    let challenge = "www-authenticate: basic realm=\"thruway admin\", charset=\"utf-8\"";
    // Few requests with wrong credentials, because more than ten in a minute get 429.
    let wrong = [WRONG_PASSWORD, UNKNOWN_USER, "Authorization: Negotiate YWxpY2U=\r\n"];
    let wrong = wrong.into_iter().flat_map(|fields| [("GET /status", fields), (DRAIN, fields)]);
    for (line, fields) in LINES.map(|line| (line, "")).into_iter().chain(wrong) {
        let refused = ask(&admin, line, fields);
        assert_eq!(refused.status(), "401", "{line} {fields}");
        assert!(refused.has(challenge), "{}", refused.head);
    }
    for fields in ["Authorization: Bearer scrape-token-7f3b\r\n", "Authorization: Bearer alice\r\n"] {
        let refused = ask(&admin, "GET /status", fields);
        let challenge = "www-authenticate: bearer realm=\"thruway admin\", error=\"invalid_token\"";
        assert!(refused.status() == "401" && refused.has(challenge), "{}", refused.head);
    }
    let twice = format!("{ALICE}{BOB}");
    assert_eq!(ask(&admin, "GET /status", &twice).status(), "401", "ambiguous credentials");
}

#[test]
fn client_with_too_many_failed_logins_must_wait() {
    let directory = tempfile::tempdir().unwrap();
    let (mut gateway, admin) = start(&directory, &local(USERS));
    for attempt in 0..10 {
        let fields = [WRONG_PASSWORD, "Authorization: Bearer guess\r\n"][attempt % 2];
        assert_eq!(ask(&admin, "GET /status", fields).status(), "401");
    }
    assert!(gateway.wait_for_log("too many failed logins").contains("127.0.0.1:"));
    // The response does not show whether the credentials are valid.
    for fields in [ALICE, PROMETHEUS, WRONG_PASSWORD] {
        let refused = ask(&admin, "GET /status", fields);
        assert_eq!((refused.status(), refused.text()), ("429", "too many failed logins from this address\n"));
        let wait = refused.head.split("retry-after: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        assert!((1..=60).contains(&wait.unwrap().parse::<u32>().unwrap()), "{}", refused.head);
    }
    assert_eq!(ask(&admin, DRAIN, ALICE).status(), "429");
    let logged = change(&mut gateway);
    assert!(logged.contains("result=\"refused\" reason=\"too_many_failed_logins\""), "{logged}");
    assert_eq!(ask(&admin, "GET /status", "").status(), "401", "a request without credentials is no login");
    assert_eq!(get_admin(&admin, "/ready").text(), "ready\n");
}

#[test]
fn event_stream_ends_when_a_reload_changes_the_users() {
    let directory = tempfile::tempdir().unwrap();
    let (mut gateway, admin) = start(&directory, &local(USERS));
    let open = |fields: &str| {
        let mut client = Client::connect(&admin);
        client.send(&format!("GET /events HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        assert!(client.head().starts_with("http/1.1 200 "));
        let first = String::from_utf8(client.chunk()).unwrap();
        (client, first)
    };
    let (mut removed, first) = open(PROMETHEUS);
    assert!(first.contains("event: access\n") && first.contains("data: {\"role\":\"read\"}\n"), "{first}");
    let (mut kept, first) = open(DEPLOY);
    assert!(first.contains("data: {\"role\":\"operator\"}\n"), "{first}");
    // A reload with the same users changes nothing.
    gateway.reload(directory.path(), &local(USERS), RELOADED);
    for client in [&mut removed, &mut kept] {
        (0..3).for_each(|_| assert!(!client.chunk().is_empty()));
    }
    let others: Vec<_> = USERS.lines().filter(|line| !line.starts_with("prometheus")).collect();
    gateway.reload(directory.path(), &local(&others.join("\n")), RELOADED);
    for client in [&mut removed, &mut kept] {
        while !client.chunk().is_empty() {}
    }
    let (_, first) = open(DEPLOY);
    assert!(first.contains("operator"), "{first}");
}

#[test]
fn health_and_readiness_need_no_credentials() {
    let directory = tempfile::tempdir().unwrap();
    let (_gateway, admin) = start(&directory, &local(USERS));
    assert_eq!(get_admin(&admin, "/health").text(), "alive\n");
    assert_eq!(get_admin(&admin, "/ready").text(), "ready\n");
    assert_eq!(ask(&admin, "HEAD /health", "").status(), "200");
    assert_eq!(ask(&admin, "POST /ready", "").status(), "401");
}

#[test]
fn read_role_can_only_read_and_operator_can_change() {
    let directory = tempfile::tempdir().unwrap();
    let (_gateway, admin) = start(&directory, &local(USERS));
    for reader in [BOB, PROMETHEUS] {
        for line in ["GET /status", "HEAD /status", "GET /metrics", "GET /health", "GET /", "GET /config"] {
            assert_eq!(ask(&admin, line, reader).status(), "200", "{line}");
        }
        for line in [DRAIN, "POST /reload", "DELETE /status", "PUT /nothing", "OPTIONS /reload"] {
            assert_eq!(ask(&admin, line, reader).status(), "403", "{line}");
        }
    }
    assert!(ask(&admin, DRAIN, BOB).text().contains("needs the role `operator`"));
    assert!(ask(&admin, "GET /status", BOB).text().contains("\"state\":\"up\""), "nothing has changed");
    for operator in [ALICE, DEPLOY] {
        for line in ["GET /status", DRAIN, "POST /reload"] {
            assert_eq!(ask(&admin, line, operator).status(), "200", "{line}");
        }
    }
    let status = ask(&admin, "GET /status", BOB);
    for name in ["alice", "deploy"] {
        assert!(status.text().contains(&format!("drain by {name} (127.0.0.1:")), "{}", status.text());
    }
    let shown = ask(&admin, "GET /config", BOB);
    assert!(shown.text().contains("role = ") && !shown.text().contains("539BspwV46i"), "{}", shown.text());
}

/// Returns the next log line about a change.
fn change(gateway: &mut Thruway) -> String {
    let line = gateway.wait_for_log("admin change");
    // Without the styles of the terminal.
    line.replace("\u{1b}[0m", "").replace("\u{1b}[3m", "").replace("\u{1b}[2m", "")
}

#[test]
fn each_change_and_each_refused_change_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let (mut gateway, admin) = start(&directory, &local(USERS));
    let server = "object=\"upstreams/backend/servers/127.0.0.1:9\"";
    let other_page = format!("{ALICE}Origin: https://evil.example\r\n");
    for (line, fields, parts) in [
        (DRAIN, ALICE, &["INFO", "user=\"alice\"", "action=\"drain\"", server, "result=\"done\""][..]),
        (DRAIN, BOB, &["WARN", "user=\"bob\"", "action=\"drain\"", server, "result=\"refused\" status=403"]),
        (DRAIN, "", &["WARN", "action=\"drain\"", server, "result=\"refused\" reason=\"unauthenticated\""]),
        (DRAIN, WRONG_PASSWORD, &["WARN", server, "result=\"refused\" reason=\"unauthenticated\""]),
        (DRAIN, &other_page, &["WARN", server, "result=\"refused\" reason=\"other_origin\""]),
        (
            "POST /upstreams/x/servers/y/drain",
            DEPLOY,
            &["WARN", "user=\"deploy\"", "result=\"failed\" status=404"],
        ),
        ("POST /reload", DEPLOY, &["INFO", "user=\"deploy\"", "action=\"reload\"", "object=\"config\""]),
    ] {
        ask(&admin, line, fields);
        let logged = change(&mut gateway);
        for part in parts.iter().chain(&["client=\"127.0.0.1:"]) {
            assert!(logged.contains(part), "{part} is missing in {logged}");
        }
    }
    fs::write(directory.path().join("thruway.toml"), "workers = 0").unwrap();
    ask(&admin, "POST /reload", ALICE);
    assert!(change(&mut gateway).contains("result=\"failed\" status=422"));
}

#[test]
fn changes_are_logged_without_authentication_too() {
    let directory = tempfile::tempdir().unwrap();
    let (mut gateway, admin) = start(&directory, &local(""));
    assert_eq!(ask(&admin, DRAIN, "").status(), "200");
    let logged = change(&mut gateway);
    assert!(logged.contains("action=\"drain\"") && !logged.contains("user="), "{logged}");
}

#[test]
fn request_from_a_page_of_another_origin_is_refused_despite_valid_credentials() {
    let directory = tempfile::tempdir().unwrap();
    let (_gateway, admin) = start(&directory, &local(USERS));
    for fields in ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Origin: http://localhost:1\r\n"] {
        let refused = ask(&admin, DRAIN, &format!("{ALICE}{fields}"));
        assert_eq!(refused.status(), "403", "{fields}");
    }
    for site in ["cross-site", "same-site"] {
        let fields = format!("{ALICE}Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: no-cors\r\n");
        assert_eq!(ask(&admin, DRAIN, &fields).status(), "403", "{site}");
        assert_eq!(ask(&admin, "GET /status", &fields).status(), "403", "{site}");
    }
    assert!(ask(&admin, "GET /status", ALICE).text().contains("\"state\":\"up\""), "nothing has changed");
    let own_page = format!("{ALICE}Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(ask(&admin, DRAIN, &own_page).status(), "200");
}

#[test]
fn reload_replaces_users_but_never_removes_authentication() {
    let directory = tempfile::tempdir().unwrap();
    let (mut gateway, admin) = start(&directory, &local(USERS));
    assert_eq!(ask(&admin, "GET /status", PROMETHEUS).status(), "200");
    let others: Vec<_> = USERS.lines().filter(|line| !line.starts_with("prometheus")).collect();
    gateway.reload(directory.path(), &local(&others.join("\n")), RELOADED);
    assert_eq!(ask(&admin, "GET /status", PROMETHEUS).status(), "401");
    assert_eq!(ask(&admin, "GET /status", ALICE).status(), "200");
    // Without authentication, the next reload would otherwise open the running listener to everybody.
    gateway.reload(
        directory.path(),
        &local(""),
        "`admin` has changed: restart the process to apply the change",
    );
    gateway.wait_for_log(RELOADED);
    assert_eq!(ask(&admin, "GET /status", "").status(), "401");
    assert_eq!(ask(&admin, "GET /status", ALICE).status(), "200");
    // Users that a reload adds take effect at once.
    let other = tempfile::tempdir().unwrap();
    let (mut open, admin) = start(&other, &local(""));
    assert_eq!(ask(&admin, "GET /status", "").status(), "200");
    open.reload(other.path(), &local(USERS), RELOADED);
    assert_eq!(ask(&admin, "GET /status", "").status(), "401");
}

#[test]
fn users_file_contains_names_roles_and_hashes() {
    let directory = tempfile::tempdir().unwrap();
    let users = "# users\n\
        alice:operator:$2y$04$m1fzSdGx/3539BspwV46i.g/dJKwzr77i4dho1qEHz7NXpfxWrxMK\n\
        bob:read:$2y$04$jOb.sUk9Zwh0eF9QIszf6uUpDR2IvyaCbhHnjoCxKRit6qVK4EIli\n\
        prometheus:read:sha256:39c09512190b2e4b8319b8c3e8792d7308998998f25796ec8b544758724dc0ff\n";
    fs::write(directory.path().join("users"), users).unwrap();
    let (_gateway, admin) = start(&directory, &local("[admin.authentication]\nusers_file = \"users\"\n"));
    for (fields, status) in [(ALICE, "200"), (BOB, "403"), (PROMETHEUS, "403"), (DEPLOY, "401")] {
        assert_eq!(ask(&admin, DRAIN, fields).status(), status, "{fields}");
    }
}

#[test]
fn remote_admin_listener_serves_https_to_its_users() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str| {
        let files = authority.issue(name, &[name]);
        fs::copy(&files.chain, directory.path().join("admin.pem")).unwrap();
        fs::copy(&files.key, directory.path().join("admin.key")).unwrap();
    };
    put("admin.example");
    let tls = "address = \"0.0.0.0:0\"\ntls.certificates = [{ chain = \"admin.pem\", key = \"admin.key\" }]\n\
               tls.strict_transport_security = \"max-age=60\"\n";
    let (_gateway, admin) = start(&directory, &config(&format!("{tls}{USERS}")));
    let admin = admin.replace("https://0.0.0.0:", "https://127.0.0.1:");
    let ask = |line: &str, fields: &str| {
        let head = format!("{line} HTTP/1.1\r\nHost: admin.example\r\nConnection: close\r\n{fields}");
        ask_as(&authority, &admin, "admin.example", None, &format!("{head}Content-Length: 0\r\n\r\n"))
            .unwrap()
    };
    assert!(ask("GET /health", "").starts_with("HTTP/1.1 200 "));
    assert!(ask("GET /status", "").starts_with("HTTP/1.1 401 "));
    let status = ask("GET /status", BOB);
    assert!(status.starts_with("HTTP/1.1 200 ") && status.contains("Strict-Transport-Security: max-age=60"));
    assert!(status.contains("\"names\":[\"admin.example\"]"), "{status}");
    assert!(ask(DRAIN, BOB).starts_with("HTTP/1.1 403 "));
    assert!(ask(DRAIN, ALICE).starts_with("HTTP/1.1 200 "));
    let page = |origin: &str| format!("{ALICE}Origin: {origin}\r\n");
    assert!(ask(DRAIN, &page("https://evil.example")).starts_with("HTTP/1.1 403 "));
    assert!(ask(DRAIN, &page("http://admin.example")).starts_with("HTTP/1.1 403 "));
    assert!(ask(DRAIN, &page("https://admin.example")).starts_with("HTTP/1.1 200 "), "the own page");
    put("renewed.example");
    assert!(ask("POST /reload", DEPLOY).starts_with("HTTP/1.1 200 "));
    let request = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let renewed = ask_as(&authority, &admin, "renewed.example", None, request);
    assert!(renewed.unwrap().starts_with("HTTP/1.1 200 "));
}

#[test]
fn top_sends_the_token_of_its_user() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    let files = authority.issue("admin", &["localhost"]);
    fs::copy(&files.chain, directory.path().join("admin.pem")).unwrap();
    fs::copy(&files.key, directory.path().join("admin.key")).unwrap();
    fs::write(directory.path().join("token"), "scrape-token-7f3a\n").unwrap();
    fs::write(directory.path().join("wrong"), "scrape-token-7f3b\n").unwrap();
    let keys =
        "address = \"127.0.0.1:0\"\ntls.certificates = [{ chain = \"admin.pem\", key = \"admin.key\" }]\n";
    let (_gateway, admin) = start(&directory, &config(&format!("{keys}{USERS}")));
    let (url, root) = (admin.replace("127.0.0.1", "localhost"), authority.root());
    let top = |rest: &[&str]| {
        let args = ["top", &url, "--once", "--roots", root.to_str().unwrap()];
        Thruway::start_in(directory.path(), &[&args, rest].concat()).end()
    };
    let printed = top(&["--token-file", "token"]);
    assert!(printed.code == Some(0) && printed.stdout.contains("backend"), "{}", printed.stderr);
    for rest in [&[][..], &["--token-file", "wrong"]] {
        let refused = top(rest);
        assert!(refused.code == Some(2) && refused.stderr.contains("401"), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("--token-file") && !refused.stderr.contains("7f3b"),
            "{}",
            refused.stderr
        );
    }
}
