//! Tests that the real binary obtains certificates from an ACME server.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use thruway_testkit::acme::{AcmeServer, Misbehavior};

use crate::admin::get_admin;
use crate::client::Client;
use crate::process::{Ended, RELOADED, Thruway};

/// Site with ACME certificates, as shown in its example.
const EXAMPLE: &str = include_str!("../../../daemon/examples/acme.toml");

/// Returns the example config, changed to use the ACME server `server`.
fn example(server: &AcmeServer, directory: &Path) -> String {
    fs::copy(server.root(), directory.join("root.pem")).unwrap();
    EXAMPLE
        .replace(
            "directory = \"https://acme-staging-v02.api.letsencrypt.org/directory\"",
            &format!("directory = \"{}\"\nroots = [\"root.pem\"]", server.directory_url()),
        )
        .replace("127.0.0.1:8443", "127.0.0.1:0")
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("127.0.0.1:8081", "127.0.0.1:0")
}

/// A running server with the example config.
struct Site {
    thruway: Thruway,
    secured: String,
    plain: String,
    admin: String,
}

impl Site {
    fn serve(directory: &Path, config: &str) -> Self {
        let mut thruway = Thruway::serve(directory, config);
        let (secured, plain) = (thruway.address(), thruway.address());
        let admin = thruway.admin_address();
        Self { thruway, secured, plain, admin }
    }

    /// Makes the ACME server send its validation requests to this site.
    fn validate_by(&self, server: &AcmeServer) {
        let port = |url: &str| url.rsplit(':').next().unwrap().parse().unwrap();
        server.set_validation_ports(port(&self.plain), port(&self.secured));
    }

    fn get(&self, path: &str) -> String {
        get_admin(&self.admin, path).text().to_owned()
    }

    /// Waits until the listener uses a new certificate.
    fn wait_for_new_certificate(&mut self) {
        self.thruway.wait_for_log("certificates reloaded");
    }
}

#[test]
fn acme_example_gets_and_serves_a_certificate_without_restart() {
    let (server, directory) = (AcmeServer::start(), tempfile::tempdir().unwrap());
    let config = example(&server, directory.path());
    let mut site = Site::serve(directory.path(), &config);
    site.validate_by(&server);
    site.wait_for_new_certificate();
    let root = directory.path().join("root.pem");
    let over_tls = || crate::tls::get_from(&root, &site.secured, "www.example.com");
    assert!(over_tls().ends_with("from https"));
    let redirect = Client::connect(&site.plain).request("GET /a", "Connection: close\r\n");
    assert!(redirect.head.contains("location: https://a:8443/a\r\n"), "{}", redirect.head);
    let elsewhere = Client::connect(&site.plain)
        .request("GET /.well-known/acme-challenge/unknown", "Connection: close\r\n");
    assert!(elsewhere.head.starts_with("http/1.1 308 "), "{}", elsewhere.head);
    let status = site.get("/status");
    assert!(status.contains("\"orders\":[{\"names\":[\"www.example.com\",\"example.com\"]"), "{status}");
    assert!(status.contains("\"consecutive_failures\":0"), "{status}");
    let metrics = site.get("/metrics");
    assert!(
        metrics.contains("\nthruway_acme_consecutive_failures{name=\"www.example.com\"} 0\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("\nthruway_certificate_not_after_timestamp_seconds{listener=\"127.0.0.1:0\",file="),
        "{metrics}"
    );
    assert_eq!(site.thruway.terminate().code, Some(0));

    // After a restart, the server uses the saved certificate.
    let site = Site::serve(directory.path(), &config);
    assert!(crate::tls::get_from(&root, &site.secured, "example.com").ends_with("from https"));
    assert_eq!((server.issued(), server.accounts()), (1, 1));
}

#[test]
fn reload_continues_pending_order_and_orders_new_certificates() {
    let (server, directory) = (AcmeServer::start(), tempfile::tempdir().unwrap());
    let config = example(&server, directory.path()).replace("challenge = \"http-01\"", "");
    let mut site = Site::serve(directory.path(), &config);
    // The ACME server keeps the order pending until it knows the address at which to validate the name.
    let more = config.replace("[{ acme =", "[{ acme = [\"new.example.com\"] }, { acme =");
    site.thruway.reload(directory.path(), &more, RELOADED);
    site.validate_by(&server);
    site.wait_for_new_certificate();
    let root = directory.path().join("root.pem");
    assert!(crate::tls::get_from(&root, &site.secured, "www.example.com").ends_with("from https"));
    while server.issued() < 2 {
        site.wait_for_new_certificate();
    }
    assert_eq!((server.issued(), server.accounts()), (2, 1));
}

#[test]
fn missing_certificate_causes_tls_alert_and_shows_the_acme_error() {
    let (server, directory) = (AcmeServer::start(), tempfile::tempdir().unwrap());
    server.set_misbehavior(Misbehavior::RateLimited("3600"));
    let mut site = Site::serve(directory.path(), &example(&server, directory.path()));
    let line = site.thruway.wait_for_log("cannot get a certificate");
    assert!(line.contains("too many"), "{line}");
    let root = directory.path().join("root.pem");
    let refused = crate::tls::connection_error(&root, &site.secured, "www.example.com");
    assert!(refused.contains("AccessDenied"), "{refused}");
    // The line in the log comes before the update of the status.
    let mut status = site.get("/status");
    while status.contains("\"consecutive_failures\":0") {
        status = site.get("/status");
    }
    assert!(
        status.contains(
            "\"consecutive_failures\":1,\"last_error\":\"the ACME server refused the request: too many"
        ),
        "{status}"
    );
    assert!(
        site.get("/metrics").contains("\nthruway_acme_consecutive_failures{name=\"www.example.com\"} 1\n")
    );
    assert!(TcpStream::connect(site.plain.strip_prefix("http://").unwrap()).is_ok());
}

/// Runs `thruway check` on `config`.
fn checked(directory: &Path, config: &str) -> Ended {
    fs::write(directory.join("a.toml"), config).unwrap();
    Thruway::start_in(directory, &["check", "a.toml"]).end()
}

#[test]
fn check_shows_mistakes_in_acme_settings_with_line_and_hint() {
    let directory = tempfile::tempdir().unwrap();
    for (from, to, message, hint) in [
        (
            "agreed = true",
            "agreed = false",
            "the terms of service of the ACME server are not accepted",
            "read the terms of service",
        ),
        ("[acme]\n", "[acme]\nroots = [\"none.pem\"]\n", "none.pem`: No such file", "check the path"),
        (
            "directory = \"https:",
            "directory = \"http:",
            "this is not the URL of an ACME directory",
            "write `https://`",
        ),
        ("\"mailto:admin", "\"admin", "this is not a URL", "write `mailto:`"),
        ("\"http-01\"", "\"dns-01\"", "unknown value `dns-01`", "possible here"),
        (
            "\"example.com\"] }",
            "\"*.example.com\"] }",
            "cannot order a certificate for `*.ex",
            "list each name: wildcards require the DNS challenge, which is not supported",
        ),
        (
            "\"example.com\"] }",
            "\"192.0.2.1\"] }",
            "`192.0.2.1` is an IP address",
            "write a host name, such as `www.example.com`",
        ),
        ("\"example.com\"] }", "\"www.example.com\"] }", "`www.example.com` is listed twice", "leave it out"),
        ("\"www.example.com\", \"example.com\"", "", "at least one name", "write host names: `acme ="),
        (
            "] }]",
            "] }, { acme = [\"www.example.com\"] }]",
            "another ACME certificate has the same first name",
            "put another name first, because the first name identifies a certificate",
        ),
        (
            "acme = [\"www",
            "chain = \"a\", acme = [\"www",
            "either `chain` and `key`, or `acme`",
            "for an ACME certificate",
        ),
        (
            "redirect_to_https = 8443",
            "tls.certificates = [{ acme = [\"a.example\"] }]",
            "`http-01` requires a listener without TLS, and the config has no such listener",
            "port 80",
        ),
        (
            "store = \"acme\"",
            "external_account = { key_id = \"a\", key = \"?\" }",
            "the key is not valid base64url",
            "copy the key from the ACME provider without changes",
        ),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let ended = checked(directory.path(), &EXAMPLE.replacen(from, to, 1));
        let stderr = &ended.stderr;
        assert_eq!(ended.code, Some(2), "{to}");
        assert!(stderr.contains(message) && stderr.contains("hint: ") && stderr.contains(hint), "{stderr}");
        assert!(stderr.contains("a.toml:"), "{stderr}");
    }
}

#[test]
fn check_shows_acme_orders_and_impossible_validation() {
    let directory = tempfile::tempdir().unwrap();
    let without_acme = "[[listeners]]\naddress = \"127.0.0.1:0\"\ntls.certificates = [{ acme = [\"a.example\"] }]\n\
                  [[routes]]\npath = \"/\"\ndemo = true\n";
    let ended = checked(directory.path(), without_acme);
    assert!(
        ended.stderr.contains("`acme` in a certificate requires the section `[acme]`"),
        "{}",
        ended.stderr
    );
    let by_handshake = EXAMPLE.replace("\"http-01\"", "\"tls-alpn-01\"");
    fs::copy(thruway_testkit::CertificateAuthority::new().root(), directory.path().join("clients.pem"))
        .unwrap();
    let clients = "\"example.com\"] }]\ntls.client_certificates = { roots = [\"clients.pem\"] }";
    let ended = checked(directory.path(), &by_handshake.replace("\"example.com\"] }]", clients));
    assert!(
        ended.stderr.contains(
            "the listener requires client certificates, but ACME servers have no client certificate for `tls-alpn-01`"
        ),
        "{}",
        ended.stderr
    );
    let ended = checked(directory.path(), EXAMPLE);
    let orders = "orders a certificate for www.example.com, example.com from https://acme-staging";
    assert!(ended.stdout.contains(orders), "{}{}", ended.stdout, ended.stderr);
    assert!(!directory.path().join("acme").exists());
}
