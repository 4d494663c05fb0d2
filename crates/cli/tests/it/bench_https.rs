//! Tests of `thruway bench` over TLS and HTTP/2: small real loads, and rejected command lines.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use thruway_testkit::CertificateAuthority;

use crate::process::{Ended, Thruway};

/// The demo with a TLS certificate, with or without HTTP/2.
struct Site {
    directory: TempDir,
    authority: CertificateAuthority,
    demo: Thruway,
    /// The origin with host `localhost`, for which the certificate is valid.
    origin: String,
}

impl Site {
    fn start(settings: &str) -> Self {
        let (authority, directory) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
        let files = authority.issue("server", &["localhost"]);
        let config = format!(
            "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n{settings}\n\
             tls.certificates = [{{ chain = \"{}\", key = \"{}\" }}]\n[[routes]]\npath = \"/\"\ndemo = true\n",
            files.chain.display(),
            files.key.display()
        );
        let mut demo = Thruway::serve(directory.path(), &config);
        let origin = demo.address().replace("127.0.0.1", "localhost");
        Self { directory, authority, demo, origin }
    }

    fn url(&self, target: &str) -> String {
        format!("{}{target}", self.origin)
    }

    /// Runs `thruway bench` with the test authority as trusted root.
    fn bench(&self, args: &[&str]) -> Ended {
        let root = self.authority.root();
        let args = [&["bench"], args, &["--ca", root.to_str().unwrap()]].concat();
        Thruway::start_in(self.directory.path(), &args).end()
    }
}

#[test]
fn scenario_runs_over_tls() {
    let site = Site::start("");
    let file = format!("url = '{}'\n[[steps]]\nname = 'page'\nurl = '/ok'\n", site.origin);
    fs::write(site.directory.path().join("a.toml"), file).unwrap();
    let load = ["scenario", "a.toml", "-n", "20", "-c", "2", "--no-keep-alive", "--output", "json"];
    let report = site.bench(&load).answered(20);
    assert_eq!((&report["steps"][0]["answered"], &report["connections"]["opened"]), (&20.into(), &20.into()));
    let handshakes = &report["handshakes"];
    assert_eq!(handshakes["full"].as_u64().unwrap() + handshakes["resumed"].as_u64().unwrap(), 20);
}

#[test]
fn http2_load_runs_over_tls_and_cleartext() {
    let site = Site::start("http2 = true");
    let load = ["-n", "500", "-c", "2", "--http2", "--streams", "16"];
    let over_tls = site.bench(&[&["http", &site.url("/plaintext"), "--output", "json"], &load[..]].concat());
    let report = over_tls.answered(500);
    assert_eq!(
        (&report["settings"]["http_version"], &report["settings"]["pipeline"]),
        (&"2".into(), &16.into())
    );
    assert_eq!(
        (&report["bytes"]["body_bytes"], &report["connections"]["opened"]),
        (&(500 * 13).into(), &2.into())
    );
    let pid = site.demo.pid().as_raw_nonzero().to_string();
    let text = site.bench(&[&["http", &site.url("/ok"), "--pid", &pid], &load[..]].concat());
    for part in
        ["2 connections, 1 worker, HTTP/2, 16 streams each", "500 answered, 0 failed", "CPU per request"]
    {
        assert!(text.stdout.contains(part), "{part}: {}{}", text.stdout, text.stderr);
    }

    let directory = tempfile::tempdir().unwrap();
    let config = "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\nhttp2 = true\n\
                  [[routes]]\npath = \"/\"\ndemo = true\n";
    let mut plain = Thruway::serve(directory.path(), config);
    let url = format!("{}/ok", plain.address());
    let args = [&["bench", "http", &url, "--output", "json"], &load[..]].concat();
    Thruway::start_in(Path::new("."), &args).end().answered(500);
}

#[test]
fn http2_load_sends_bodies_headers_and_request_files() {
    let site = Site::start("http2 = true");
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let load = ["-n", "60", "-c", "2", "--http2", "--streams", "4", "--output", "json"];
    let echo = site.url("/echo");
    let good = ["http", &echo, "--content", "hello", "--length", "5", "--sha256", digest, "--status", "200"];
    site.bench(&[&good[..], &load].concat()).answered(60);
    let wrong = site.bench(&[&["http", &echo, "--content", "hello", "--length", "6"], &load[..]].concat());
    assert_eq!((wrong.code, &wrong.json()["errors"][0]["kind"]), (Some(1), &"wrong_length".into()));

    // The body is larger than the HTTP/2 stream window (64 KiB) and differs in each request.
    let long = format!("{}{{n}}", "x".repeat(200_000));
    fs::write(site.directory.path().join("long"), long).unwrap();
    site.bench(&[&["http", &echo, "--content", "@long"], &load[..]].concat()).answered(60);

    let lines = format!(
        "{{\"url\": \"{}\"}}\n{{\"url\": \"{}\", \"status\": 404, \"weight\": 3}}\n",
        site.url("/plaintext?{n}"),
        site.url("/none")
    );
    fs::write(site.directory.path().join("requests.jsonl"), lines).unwrap();
    let report = site.bench(&[&["http", "@requests.jsonl"], &load[..]].concat()).answered(60);
    assert!(report["statuses"][1]["count"].as_u64().is_some_and(|missing| missing > 20), "{report}");

    let headers = site.bench(&[&["http", &site.url("/headers"), "-H", "X-Number: {n}"], &load[..]].concat());
    headers.answered(60);
}

#[test]
fn open_loop_ramp_and_compare_support_http2() {
    let site = Site::start("http2 = true");
    let url = site.url("/ok");
    let http2 = ["--http2", "--streams", "4", "-c", "2", "--output", "json"];
    let open = ["http", &url, "--rate", "200", "-d", "500ms"];
    let report = site.bench(&[&open[..], &http2].concat()).json();
    assert_eq!(report["offered_requests_per_second"], 200.0);
    let requests = &report["requests"];
    assert_eq!(requests["answered"].as_u64().unwrap() + requests["failed"].as_u64().unwrap(), 100);
    let ramp = ["ramp", &url, "-d", "50ms", "--rate", "100", "--p99", "1ns"];
    assert_eq!(site.bench(&[&ramp[..], &http2].concat()).json()["highest_requests_per_second"], Value::Null);
    let other = site.url("/plaintext");
    let compare = ["compare", &url, &other, "-n", "100", "--rounds", "2"];
    let ended = site.bench(&[&compare[..], &http2].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn invalid_tls_and_http2_options_are_errors() {
    let site = Site::start("http2 = false");
    let url = site.url("/ok");
    // The certificate is valid for `localhost` only.
    let address = url.replace("localhost", "127.0.0.1");
    for (args, message, hint) in [
        (vec!["http", &url, "--http2"], "HTTP/2", "omit `--http2` to use HTTP/1.1"),
        (vec!["http", &address], "certificate", "`--ca FILE`"),
        (vec!["http", &url, "--http2", "--pipeline", "2"], "cannot be used with", "--help"),
        (vec!["http", &url, "--http2", "--no-keep-alive"], "cannot be used with", "--help"),
        (vec!["http", &url, "--streams", "2"], "--http2", "--help"),
        (vec!["http", &url, "--http2", "--streams", "0"], "0 is not in 1..", "--help"),
        (
            vec!["http", &url, "--http2", "-H", "Host: a b"],
            "the `Host` or the path is not valid in HTTP/2",
            "",
        ),
    ] {
        let ended = site.bench(&args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(message), "{}", ended.stderr);
        assert!(ended.stderr.contains(hint), "{args:?}: {}", ended.stderr);
    }
    // Without TLS there is no protocol negotiation, so the client assumes HTTP/2.
    let mut plain = Thruway::demo(&[]);
    let args = ["bench", "http", &plain.address(), "--http2", "-n", "10", "--output", "json"];
    let ended = Thruway::start_in(Path::new("."), &args).end();
    assert_eq!((ended.code, &ended.json()["errors"][0]["kind"]), (Some(1), &"not_http2".into()));
}

#[test]
fn report_counts_full_and_resumed_tls_handshakes() {
    let site = Site::start("");
    let url = site.url("/ok");
    let load = ["http", &url, "-n", "60", "-c", "2", "--no-keep-alive"];
    let run = |args: &[&str]| site.bench(&[&load[..], args].concat());
    for (args, is_resumed) in [
        (&[][..], true),
        (&["--tls", "1.2"], true),
        (&["--tls", "1.3", "--classical-key-exchange"], true),
        (&["--full-handshakes"], false),
        (&["--full-handshakes", "--tls", "1.2"], false),
    ] {
        let report = run(&[args, &["--output", "json"]].concat()).answered(60);
        let handshakes = &report["handshakes"];
        let [full, resumed] = ["full", "resumed"].map(|kind| handshakes[kind].as_u64().unwrap());
        assert_eq!(full + resumed, 60, "{handshakes}");
        // Up to eight connections are open at once. Each may begin with a full handshake.
        assert!(if is_resumed { (1..=8).contains(&full) } else { resumed == 0 }, "{args:?}: {handshakes}");
        assert!(handshakes["handshakes_per_second"].as_f64().unwrap() > 0.0);
        let schema = site.bench(&["http", &url, "-n", "1", "--output", "json"]);
        assert_eq!(
            schema.json()["handshakes"]["handshakes_per_second"],
            0.0,
            "the connection was opened before the measurement"
        );
    }
    assert!(run(&["--full-handshakes"]).stdout.contains("handshakes/s: 60 full, 0 resumed"));
    let csv = run(&["--full-handshakes", "--output", "csv"]).stdout;
    assert!(
        csv.contains(",handshakes_full,handshakes_resumed,handshakes_per_second,") && csv.contains(",60,0,"),
        "{csv}"
    );
    assert!(run(&["--output", "markdown"]).stdout.contains("| handshakes | "));
    assert_eq!(run(&["--html", "page.html"]).code, Some(0));
    let page = fs::read_to_string(site.directory.path().join("page.html")).unwrap();
    assert!(page.contains("<th>handshakes</th>"));
}

#[test]
fn mcp_load_runs_over_tls() {
    let site = Site::start("");
    let url = site.url("/mcp");
    for args in
        [&[][..], &["--era", "legacy"], &["--era", "legacy", "--session", "per-call"], &["--no-keep-alive"]]
    {
        let load = ["mcp", &url, "-n", "40", "-c", "2", "--output", "json"];
        site.bench(&[&load[..], args].concat()).answered(40);
    }
    let fan_out = ["--subscribers", "3", "--tool", "count", "--uri", "example://counter", "-n", "5"];
    let ended = site.bench(&[&["mcp", &url, "--output", "json"], &fan_out[..]].concat());
    ended.answered(5);

    let insecure = ["bench", "mcp", &url, "-n", "5", "--insecure", "--output", "json"];
    Thruway::start_in(Path::new("."), &insecure).end().answered(5);
    let unknown = Thruway::start_in(Path::new("."), &["bench", "mcp", &url, "-n", "5"]).end();
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.stderr.contains("certificate") && unknown.stderr.contains("`--insecure`"),
        "{}",
        unknown.stderr
    );
    let child = Thruway::start_in(Path::new("."), &["bench", "mcp", "--insecure", "--", "cat"]).end();
    assert!(child.code == Some(2) && child.stderr.contains("cannot be used with"), "{}", child.stderr);
}
