//! Tests of TLS to clients and to upstream servers.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use thruway_net::tls::CertificateFiles;
use thruway_testkit::CertificateAuthority;
use thruway_testkit::ocsp::{OcspAnswer, OcspResponder};

use crate::admin::get_admin;
use crate::client::Client;
use crate::process::{RELOADED, TIMEOUT, Thruway};

/// Site with TLS, as shown in its example.
const EXAMPLE: &str = include_str!("../../../daemon/examples/tls.toml");

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(
    authority: &CertificateAuthority,
    address: &str,
    name: &str,
    client: Option<&CertificateFiles>,
) -> Stream {
    connect_trusting(&authority.root(), address, name, client)
}

fn connect_trusting(root: &Path, address: &str, name: &str, client: Option<&CertificateFiles>) -> Stream {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let chain = CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TcpStream::connect(address.strip_prefix("https://").unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// Gets `/headers`, where the demo responds with the request head.
fn get(stream: &mut Stream) -> String {
    ask(stream, "/headers", "")
}

fn ask(stream: &mut Stream, path: &str, lines: &str) -> String {
    let fields = format!("Host: www.example\r\nConnection: close\r\n{lines}");
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Gets `/headers` from a server. `root` must have issued its certificate for `name`.
pub(crate) fn get_from(root: &Path, address: &str, name: &str) -> String {
    get(&mut connect_trusting(root, address, name, None))
}

/// Returns the error of a connection that must fail.
pub(crate) fn connection_error(root: &Path, address: &str, name: &str) -> String {
    connect_trusting(root, address, name, None).write_all(b"GET").unwrap_err().to_string()
}

/// Sends `request` to a server with a certificate for `name` and returns the response. The request must make
/// the server close the connection. `client` is the client certificate, if any.
pub(crate) fn ask_as(
    authority: &CertificateAuthority,
    address: &str,
    name: &str,
    client: Option<&CertificateFiles>,
    request: &str,
) -> io::Result<String> {
    let mut stream = connect(authority, address, name, client);
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Returns the certificate that the server presents for `name`.
fn served_certificate(
    authority: &CertificateAuthority,
    address: &str,
    name: &str,
) -> CertificateDer<'static> {
    let mut stream = connect(authority, address, name, None);
    get(&mut stream);
    stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

/// Copies the certificate `files` into the directory as `name`.
fn put(directory: &Path, name: &str, files: &CertificateFiles) {
    fs::copy(&files.key, directory.join(format!("{name}.key"))).unwrap();
    fs::copy(&files.chain, directory.join(format!("{name}.pem"))).unwrap();
}

fn certificate(files: &CertificateFiles) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(&files.chain).unwrap()
}

/// Starts the demo with one certificate.
fn demo(directory: &TempDir, authority: &CertificateAuthority) -> Thruway {
    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    Thruway::serve(directory.path(), DEMO)
}

const DEMO: &str = "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
    tls.certificates = [{ chain = \"www.pem\", key = \"www.key\" }]\n\
    [[routes]]\npath = \"/\"\ndemo = true\n";

#[test]
fn tls_example_uses_tls_to_clients_and_upstream_servers() {
    let (authority, internal) = (CertificateAuthority::new(), CertificateAuthority::new());
    let directory = tempfile::tempdir().unwrap();
    let backend_directory = tempfile::tempdir().unwrap();
    put(backend_directory.path(), "www", &internal.issue("backend", &["backend.internal"]));
    fs::copy(internal.root(), backend_directory.path().join("internal.pem")).unwrap();
    let strict = "tls.client_certificates = { roots = [\"internal.pem\"] }\n[[routes]]";
    let mut backend = Thruway::serve(backend_directory.path(), &DEMO.replacen("[[routes]]", strict, 1));
    let backend_address = backend.address();

    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    put(directory.path(), "wildcard", &authority.issue("wildcard", &["*.apps.example"]));
    put(directory.path(), "gateway", &internal.issue_client("gateway", "gateway"));
    fs::copy(authority.root(), directory.path().join("clients.pem")).unwrap();
    fs::copy(internal.root(), directory.path().join("internal.pem")).unwrap();
    let config = EXAMPLE
        .replace("127.0.0.1:8443", "127.0.0.1:0")
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("127.0.0.1:9443", backend_address.strip_prefix("https://").unwrap());
    let mut thruway = Thruway::serve(directory.path(), &config);
    let (address, plain) = (thruway.address(), thruway.address());

    let answer = get(&mut connect(&authority, &address, "www.example", None));
    assert!(answer.contains("\r\nStrict-Transport-Security: max-age=300\r\n"), "{answer}");
    assert!(answer.contains("[\"x-forwarded-proto\",\"https\"]"), "{answer}");
    assert!(answer.contains("[\"x-client-subject\",\"\"]"), "{answer}");
    let alice = authority.issue_client("alice", "alice");
    let answer = get(&mut connect(&authority, &address, "other.apps.example", Some(&alice)));
    assert!(answer.contains("[\"x-client-subject\",\"CN=alice\"]"), "{answer}");
    assert!(answer.contains("\"version\":\"HTTP/2.0\""), "the backend negotiated HTTP/2: {answer}");
    let staff = |client: Option<&CertificateFiles>| {
        let mut stream = connect(&authority, &address, "www.example", client);
        ask(&mut stream, "/staff", "X-Client-Subject: CN=alice\r\n")[9..12].to_owned()
    };
    // The backend has no such path. Its 404 shows that the request was forwarded.
    let bob = authority.issue_client("bob", "bob");
    let deploy = authority.issue_named_client("deploy", "deploy");
    assert_eq!([staff(None), staff(Some(&bob))], ["403", "403"]);
    assert_eq!([staff(Some(&alice)), staff(Some(&deploy))], ["404", "404"]);
    let redirect = Client::connect(&plain).request("GET /a?b", "Connection: close\r\n");
    assert!(redirect.head.contains("location: https://a:8443/a?b\r\n"), "{}", redirect.head);

    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"tls.client.subject\":\"CN=alice\""), "{}", ended.stdout);
    assert!(ended.stdout.contains("\"tls.client.server_name\":\"other.apps.example\""), "{}", ended.stdout);
    for reason in ["certificate_missing", "certificate_not_allowed"] {
        let entry = format!("\"policy\":\"staff\",\"reason\":\"{reason}\"");
        assert!(ended.stdout.contains(&entry), "{}", ended.stdout);
    }
}

#[test]
fn ocsp_staple_is_fetched_and_shown_in_status_and_metrics() {
    let responder = OcspResponder::start(CertificateAuthority::new());
    let directory = tempfile::tempdir().unwrap();
    let files = responder.authority().issue_with_responder("www", &["www.example"], &responder.url());
    put(directory.path(), "www", &files);
    let with_stapling = "tls.ocsp_stapling = true\n[admin]\naddress = \"127.0.0.1:0\"\n[[routes]]";
    let mut thruway = Thruway::serve(directory.path(), &DEMO.replacen("[[routes]]", with_stapling, 1));
    let _address = thruway.address();
    let admin = thruway.admin_address();
    thruway.wait_for_log("OCSP response fetched");
    // The status shows the response a moment later.
    let status = loop {
        let status = get_admin(&admin, "/status").text().to_owned();
        if status.contains("\"next_update\":") {
            break status;
        }
        thread::yield_now();
    };
    assert!(status.contains("\"staples\":[{\"file\":\"www.pem\",\"next_update\":\""), "{status}");
    let metrics = get_admin(&admin, "/metrics").text().to_owned();
    assert!(metrics.contains("\nthruway_ocsp_consecutive_failures{file=\"www.pem\"} 0\n"), "{metrics}");
    assert_eq!(responder.requests(), 1);
}

/// Clients once received any bytes from this file, even after they had expired.
#[test]
fn invalid_ocsp_file_fails_check_and_is_not_sent_to_clients() {
    let responder = OcspResponder::start(CertificateAuthority::new());
    let directory = tempfile::tempdir().unwrap();
    let files = responder.authority().issue_with_responder("www", &["www.example"], &responder.url());
    put(directory.path(), "www", &files);
    let config = DEMO.replace("www.key\"", "www.key\", ocsp = \"www.ocsp\"");
    let put_ocsp = |response: &[u8]| fs::write(directory.path().join("www.ocsp"), response).unwrap();
    let check = || {
        fs::write(directory.path().join("a.toml"), &config).unwrap();
        Thruway::start_in(directory.path(), &["check", "a.toml"]).end()
    };
    put_ocsp(&responder.response_for(&files));
    assert_eq!(check().code, Some(0), "{}", check().stderr);
    responder.set_answer(OcspAnswer::Expired);
    let foreign = responder.authority().issue("other", &["www.example"]);
    for (response, message) in [
        (responder.response_for(&files), "the response has expired or is not valid yet"),
        (responder.response_for(&foreign), "the response is for another certificate"),
        (b"garbage".to_vec(), "not a valid OCSP response"),
    ] {
        put_ocsp(&response);
        let ended = check();
        assert_eq!(ended.code, Some(2), "{message}");
        assert!(
            ended.stderr.contains("cannot use `www.ocsp`: ") && ended.stderr.contains(message),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("a.toml:4"), "{}", ended.stderr);
    }
    let mut thruway = Thruway::serve(directory.path(), &config);
    let line = thruway.wait_for_log("OCSP response not sent to clients");
    assert!(line.contains("cannot use `www.ocsp`"), "{line}");
    assert!(get_from(&responder.authority().root(), &thruway.address(), "www.example").contains("200 OK"));
}

#[test]
fn changed_certificate_file_is_loaded_without_a_signal() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = demo(&directory, &authority);
    let address = thruway.address();
    let first = served_certificate(&authority, &address, "www.example");
    let renewed = authority.issue("renewed", &["www.example"]);
    // The new certificate does not match the old key.
    fs::copy(&renewed.chain, directory.path().join("www.pem")).unwrap();
    let line = thruway.wait_for_log("cannot use the changed certificates, keeping the previous certificates");
    assert!(line.contains("www.key` belongs to another certificate"), "{line}");
    assert_eq!(served_certificate(&authority, &address, "www.example"), first);
    fs::copy(&renewed.key, directory.path().join("www.key")).unwrap();
    thruway.wait_for_log("certificates reloaded");
    assert_eq!(served_certificate(&authority, &address, "www.example"), certificate(&renewed));
}

#[test]
fn reload_replaces_certificates_and_keeps_connections() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = demo(&directory, &authority);
    let address = thruway.address();
    let mut before = connect(&authority, &address, "www.example", None);
    before.write_all(b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut first = [0; 12];
    before.read_exact(&mut first).unwrap();
    let other = authority.issue("other", &["other.example"]);
    put(directory.path(), "other", &other);
    let config = DEMO.replace("\"www.", "\"other.");
    thruway.reload(directory.path(), &config, RELOADED);
    assert_eq!(served_certificate(&authority, &address, "other.example"), certificate(&other));
    // A failed reload changes nothing.
    let broken = DEMO.replace("www.key", "other.key");
    thruway.reload(directory.path(), &broken, "reload failed, keeping the previous config");
    assert_eq!(served_certificate(&authority, &address, "other.example"), certificate(&other));
    assert!(get(&mut before).contains("200 OK"));
}

#[test]
fn host_that_requires_client_certificate_gets_421_on_other_listener() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    put(directory.path(), "secret", &authority.issue("secret", &["secret.example"]));
    fs::copy(authority.root(), directory.path().join("clients.pem")).unwrap();
    let strict = "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
        tls.certificates = [{ chain = \"secret.pem\", key = \"secret.key\" }]\n\
        tls.client_certificates = { roots = [\"clients.pem\"] }\n[[routes]]";
    let mut thruway = Thruway::serve(directory.path(), &DEMO.replacen("[[routes]]", strict, 1));
    let (open, closed) = (thruway.address(), thruway.address());
    let alice = authority.issue_client("alice", "alice");
    let ask = |address: &str, name: &str, host: &str| {
        let mut stream = connect(&authority, address, name, Some(&alice));
        let request = format!("GET /ok HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!(ask(&open, "www.example", "www.example"), 200);
    assert_eq!(ask(&open, "www.example", "secret.example"), 421);
    assert_eq!(ask(&closed, "secret.example", "secret.example"), 200);
}

/// Connections once kept the rules from when they were accepted. So a client could reach hosts that a reload
/// had since restricted.
#[test]
fn reload_applies_client_certificate_rule_to_open_connections() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    put(directory.path(), "secret", &authority.issue("secret", &["secret.example"]));
    fs::copy(authority.root(), directory.path().join("clients.pem")).unwrap();
    let mut thruway = Thruway::serve(directory.path(), DEMO);
    let mut stream = connect(&authority, &thruway.address(), "www.example", None);
    let mut ask = |more: &str| {
        write!(stream, "HEAD /ok HTTP/1.1\r\nHost: secret.example\r\n{more}\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        head[..12].escape_ascii().to_string()
    };
    assert_eq!(ask(""), "HTTP/1.1 200");
    let strict = "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
        tls.certificates = [{ chain = \"secret.pem\", key = \"secret.key\" }]\n\
        tls.client_certificates = { roots = [\"clients.pem\"] }\n[[routes]]";
    thruway.reload(directory.path(), &DEMO.replacen("[[routes]]", strict, 1), RELOADED);
    assert_eq!(ask("Connection: close\r\n"), "HTTP/1.1 421");
}

#[test]
fn check_shows_tls_mistakes_with_line_and_hint() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    put(directory.path(), "other", &authority.issue("other", &["www.example"]));
    put(directory.path(), "old", &authority.issue_expired("old", &["www.example"]));
    let refused = |config: &str| {
        fs::write(directory.path().join("a.toml"), config).unwrap();
        let ended = Thruway::start_in(directory.path(), &["check", "a.toml"]).end();
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        ended.stderr
    };
    for (config, message, hint) in [
        (DEMO.replace("www.pem", "missing.pem"), "missing.pem`: No such file", "check the path"),
        (
            DEMO.replace("www.pem", "www.key"),
            "there is no certificate in `www.key`",
            "-----BEGIN CERTIFICATE-----",
        ),
        (
            DEMO.replace("www.key", "www.pem"),
            "there is no private key in `www.pem`",
            "-----BEGIN PRIVATE KEY-----",
        ),
        (
            DEMO.replace("www.key", "other.key"),
            "`other.key` belongs to another",
            "one of the two files may be outdated",
        ),
        (DEMO.replace("www", "old"), "the certificate in `old.pem` has expired", "renew the certificate"),
        (
            DEMO.replace("[{ chain = \"www.pem\", key = \"www.key\" }]", "[]"),
            "TLS needs a certificate",
            "write `certificates = ",
        ),
        (
            DEMO.replace("[[routes]]", "tls.strict_transport_security = \"always\"\n[[routes]]"),
            "not a valid value of `Strict-Transport-Security`",
            "write `max-age=",
        ),
        (
            DEMO.replace("[[routes]]", "tls.client_certificates = { roots = [\"www.key\"] }\n[[routes]]"),
            "there is no certificate in `www.key`",
            "-----BEGIN CERTIFICATE-----",
        ),
        (
            DEMO.replace("[[routes]]", "redirect_to_https = 443\n[[routes]]"),
            "a listener with `tls` or `tcp` cannot redirect to https",
            "move `redirect_to_https` to a listener that has neither `tls` nor `tcp`",
        ),
        (
            format!("{DEMO}[upstreams.a]\nservers = [\"127.0.0.1:1\"]\ntls.server_name = \"a b\"\n"),
            "not a valid server name",
            "write a host name",
        ),
        (
            format!("{DEMO}[upstreams.a]\nservers = [\"127.0.0.1:1\"]\ntls.roots = []\n"),
            "`roots` needs at least one file",
            "remove `roots` to trust the roots of the system",
        ),
    ] {
        let stderr = refused(&config);
        assert!(stderr.contains(message) && stderr.contains("hint: ") && stderr.contains(hint), "{stderr}");
        assert!(stderr.contains("a.toml:"), "{stderr}");
    }
    fs::write(directory.path().join("a.toml"), DEMO).unwrap();
    let ended = Thruway::start_in(directory.path(), &["check", "a.toml"]).end();
    assert!(ended.stdout.contains("127.0.0.1:0, TLS with 1 certificates"), "{}", ended.stdout);
}

/// `--listen` once silently replaced the TLS listener with one for plain HTTP.
#[test]
fn listen_option_keeps_tls_or_is_an_error() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    fs::write(directory.path().join("a.toml"), DEMO).unwrap();
    let args = ["serve", "a.toml", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut thruway = Thruway::start_in(directory.path(), &args);
    for address in [thruway.address(), thruway.address()] {
        assert!(address.starts_with("https://"), "{address}");
        let answer = get(&mut connect(&authority, &address, "www.example", None));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let redirect = "[[listeners]]\naddress = \"127.0.0.1:0\"\nredirect_to_https = 443\n[[routes]]";
    fs::write(directory.path().join("a.toml"), DEMO.replace("[[routes]]", redirect)).unwrap();
    let refused = Thruway::start_in(directory.path(), &args).end();
    assert_eq!((refused.code, &*refused.stdout), (Some(2), ""));
    let stderr = refused.stderr;
    assert!(
        stderr.starts_with("error: `--listen` cannot replace the 2 listeners of the config\n"),
        "{stderr}"
    );
    assert!(
        stderr.contains("hint: `--listen` would discard settings of a listener, such as `tls`"),
        "{stderr}"
    );
}

#[test]
fn expired_certificate_is_served_with_a_warning() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue_expired("www", &["www.example"]));
    let mut thruway = Thruway::serve(directory.path(), DEMO);
    assert!(thruway.wait_for_log("has expired").contains("most clients will refuse this certificate"));
    assert!(thruway.address().starts_with("https://"));
}

#[test]
fn mcp_client_uses_https_and_verifies_the_certificate() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["127.0.0.1"]));
    let mut thruway = Thruway::serve(directory.path(), DEMO);
    let url = format!("{}/mcp", thruway.address());
    let root = authority.root();
    let trusting = [("SSL_CERT_FILE", root.to_str().unwrap())];
    let ended = Thruway::start_with(directory.path(), &["mcp", "tools", &url], &trusting).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("add"), "{}", ended.stdout);
    let ended = Thruway::start_in(directory.path(), &["mcp", "tools", &url]).end();
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("the certificate issuer is not trusted"), "{}", ended.stderr);
}

#[test]
fn bench_uses_https_and_verifies_the_certificate() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["127.0.0.1"]));
    let mut thruway = Thruway::serve(directory.path(), DEMO);
    let url = format!("{}/plaintext", thruway.address());
    let root = authority.root();
    let ca = ["--ca", root.to_str().unwrap()];
    let bench = |args: &[&str]| {
        let load = ["bench", "http", &url, "-n", "100", "-c", "2", "--output", "json"];
        Thruway::start_in(directory.path(), &[&load[..], args].concat()).end()
    };
    for args in [&ca[..], &["--insecure"], &["--insecure", "--no-keep-alive", "--full-handshakes"]] {
        let loaded = bench(args);
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        assert!(loaded.stdout.contains("\"answered\": 100"), "{}", loaded.stdout);
    }
    let refused = bench(&[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("the certificate issuer is not trusted"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: trust its issuer with `--ca FILE`"), "{}", refused.stderr);
}

#[test]
fn http2_is_used_to_upstream_and_client_without_alpn_gets_http1() {
    let authority = CertificateAuthority::new();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), "www", &authority.issue("www", &["www.example"]));
    fs::copy(authority.root(), directory.path().join("root.pem")).unwrap();
    // This listener accepts only HTTP/2.
    let only = DEMO.replacen("address =", "http2 = \"only\"\naddress =", 1);
    let mut backend = Thruway::serve(directory.path(), &only);
    let server = backend.address().strip_prefix("https://").unwrap().to_owned();
    let mut gateway = Thruway::serve(
        directory.path(),
        &format!(
            "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n\
             [upstreams.a]\nservers = [\"{server}\"]\nhttp2 = true\ntls = {{ roots = [\"root.pem\"], server_name = \"www.example\" }}\n"
        ),
    );
    let answer = Client::connect(&gateway.address()).request("GET /ok", "Connection: close\r\n");
    assert!(answer.head.starts_with("http/1.1 200 "), "{}", answer.head);

    // A client without ALPN uses HTTP/1.1 if the listener accepts it.
    let mut both = demo(&directory, &authority);
    assert!(get(&mut connect(&authority, &both.address(), "www.example", None)).starts_with("HTTP/1.1 200 "));
}

/// Returns a config with a listener whose certificate the local CA issues.
fn internal(tls: &str) -> String {
    format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.2:0\"\n{tls}\n\
         [[routes]]\npath = \"/\"\nrespond.body = \"any\"\n\
         [[routes]]\nhost = [\"shop.localhost\", \"c.example\"]\npath = \"/\"\nrespond.body = \"shop\"\n\
         [[routes]]\nhost = \"*.b.example\"\npath = \"/\"\nrespond.body = \"b\"\n"
    )
}

#[test]
fn local_ca_issues_certificates_for_localhost_hosts_of_routes_and_the_address() {
    let directory = tempfile::tempdir().unwrap();
    let (data, config) = (directory.path().join("data"), directory.path().join("thruway.toml"));
    let variables = [("XDG_DATA_HOME", data.to_str().unwrap())];
    let root = data.join("thruway/local-ca/root.pem");
    fs::write(&config, internal("tls = \"internal\"")).unwrap();
    let checked = Thruway::start_with(directory.path(), &["check", "thruway.toml"], &variables).end();
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains(&format!("must trust {}", root.display())), "{}", checked.stdout);
    assert!(!data.exists(), "`check` writes no files");

    let serve = || Thruway::start_with(directory.path(), &["serve", "thruway.toml"], &variables);
    let mut thruway = serve();
    let address = thruway.address();
    for name in ["localhost", "127.0.0.1", "127.0.0.2", "::1", "shop.localhost", "c.example", "a.b.example"] {
        let response = get_from(&root, &address, name);
        assert!(response.starts_with("HTTP/1.1 200 "), "{name}: {response}");
    }
    let error = connection_error(&root, &address, "other.example");
    assert!(error.contains("not valid for name"), "{error}");
    let advice = thruway.wait_for_log("clients must trust the root certificate");
    assert!(advice.contains(&format!("curl --cacert {}", root.display())), "{advice}");

    // A reload adds a name. The root certificate stays the same.
    let before = fs::read(&root).unwrap();
    thruway.reload(
        directory.path(),
        &internal("tls.certificates = [{ internal = [\"other.example\"] }]"),
        RELOADED,
    );
    assert!(get_from(&root, &address, "other.example").starts_with("HTTP/1.1 200 "));
    drop(thruway);
    let mut thruway = serve();
    assert!(get_from(&root, &thruway.address(), "other.example").starts_with("HTTP/1.1 200 "));
    assert_eq!(fs::read(&root).unwrap(), before);
}

#[test]
fn mistakes_in_internal_certificates_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::write(&data, "").unwrap();
    let file = directory.path().join("thruway.toml");
    let started = |tls: &str, command: &str, variables: &[(&str, &str)]| {
        fs::write(&file, internal(tls)).unwrap();
        let ended = Thruway::start_with(directory.path(), &[command, "thruway.toml"], variables).end();
        assert_ne!(ended.code, Some(0), "{tls}");
        ended.stderr
    };
    let home = [("XDG_DATA_HOME", data.to_str().unwrap())];
    let refused = |tls: &str| started(tls, "check", &home);
    let error = refused("tls = \"external\"");
    assert!(error.contains("expected `\"internal\"` or a table with `certificates`"), "{error}");
    let error = refused("tls.certificates = [{ internal = [] }]");
    assert!(error.contains("the certificate has no names"), "{error}");
    let error = refused("tls.certificates = [{ internal = [\"a b\"] }]");
    assert!(error.contains("`a b` is neither a host name nor an IP address"), "{error}");
    let error = refused("tls.certificates = [{ internal = [\"a\"], chain = \"b\" }]");
    assert!(
        error.contains("a certificate has either `chain` and `key`, or `acme`, or `internal`"),
        "{error}"
    );
    let error = started("tls = \"internal\"", "check", &[("XDG_DATA_HOME", ""), ("HOME", "")]);
    assert!(error.contains("neither `XDG_DATA_HOME` nor `HOME` is set"), "{error}");
    let error = started("tls = \"internal\"", "serve", &home);
    assert!(error.contains("for the local CA: Not a directory"), "{error}");
    assert!(error.contains("thruway.toml:4"), "{error}");
}
