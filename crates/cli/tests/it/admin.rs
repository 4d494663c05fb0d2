//! Tests of the admin listener: status, metrics and commands.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::{Client, Response, get};
use crate::process::{Signal, Thruway};

/// A gateway with an admin listener, and the addresses of both.
struct Gateway {
    thruway: Thruway,
    address: String,
    admin: String,
}

impl Gateway {
    fn start(directory: &Path, config: &str) -> Self {
        let mut thruway = Thruway::serve(directory, config);
        let address = thruway.address();
        let admin = thruway.admin_address();
        Self { thruway, address, admin }
    }

    fn post(&self, target: &str) -> Response {
        post(&self.admin, target, "")
    }

    fn status(&self) -> Value {
        serde_json::from_str(get_admin(&self.admin, "/status").text()).unwrap()
    }

    /// Returns the states of the servers of the first upstream.
    fn states(&self) -> Vec<String> {
        let status = self.status();
        let servers = status["upstreams"][0]["servers"].as_array().unwrap();
        servers.iter().map(|server| server["state"].as_str().unwrap().to_owned()).collect()
    }
}

fn post(admin: &str, target: &str, fields: &str) -> Response {
    let fields = format!("Content-Length: 0\r\n{fields}");
    request(admin, &format!("POST {target}"), "localhost", &fields)
}

pub(crate) fn get_admin(admin: &str, target: &str) -> Response {
    request(admin, &format!("GET {target}"), "localhost", "")
}

fn request(admin: &str, line: &str, host: &str, fields: &str) -> Response {
    let mut client = Client::connect(admin);
    client.send(&format!("{line} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    client.response(false)
}

/// Returns a config with one upstream. `servers` are entries of its server list, as written in the file.
fn config(servers: &[String], rest: &str) -> String {
    format!(
        "workers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         [[routes]]\npath = \"/\"\nupstream = \"backend\"\n[upstreams.backend]\nservers = {servers:?}\n{rest}"
    )
}

/// Starts servers that respond with their names.
fn backends(names: &[&str]) -> (Vec<Thruway>, Vec<String>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut servers: Vec<Thruway> = Vec::new();
    let mut addresses = Vec::new();
    for name in names {
        let (server, address) = Thruway::answering(directory.path(), name);
        addresses.push(address);
        servers.push(server);
    }
    (servers, addresses, directory)
}

#[test]
fn disabled_server_gets_no_requests_until_it_is_enabled() {
    let (_servers, addresses, _directory) = backends(&["one", "two"]);
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &config(&addresses, ""));
    let names = || {
        let mut names: Vec<_> = (0..4).map(|_| get(&gateway.address, "/").text().to_owned()).collect();
        names.sort();
        names.dedup();
        names
    };
    let set_state = |server: &str, action: &str| {
        gateway.post(&format!("/upstreams/backend/servers/{server}/{action}")).status().to_owned()
    };
    assert_eq!(names(), ["one", "two"]);
    assert_eq!(set_state(&addresses[0], "disable"), "200");
    assert_eq!((names(), gateway.states()), (vec!["two".to_owned()], vec!["disabled".into(), "up".into()]));
    // A disabled server stays disabled when the config of its upstream changes.
    fs::write(directory.path().join("thruway.toml"), config(&addresses, "retries_max = 1")).unwrap();
    assert_eq!(gateway.post("/reload").status(), "200");
    assert_eq!(names(), ["two"]);
    assert_eq!(set_state(&addresses[1], "drain"), "200");
    assert_eq!(
        (gateway.states(), get(&gateway.address, "/").status()),
        (vec!["disabled".into(), "draining".into()], "503")
    );
    assert_eq!(get_admin(&gateway.admin, "/ready").text(), "the upstream `backend` has no server\n");
    for address in &addresses {
        assert_eq!(set_state(address, "enable"), "200");
    }
    assert_eq!((names().len(), get_admin(&gateway.admin, "/ready").status()), (2, "200"));
    for (server, action) in [("127.0.0.1:1", "disable"), (addresses[0].as_str(), "stop")] {
        assert_eq!(set_state(server, action), "404");
    }
    assert_eq!(gateway.post("/upstreams/other/servers/127.0.0.1:1/enable").status(), "404");
}

#[test]
fn status_shows_listeners_routes_and_upstreams() {
    let directory = tempfile::tempdir().unwrap();
    let servers = ["127.0.0.1:9".to_owned(), "unix:a.sock".to_owned()];
    let gateway = Gateway::start(directory.path(), &config(&servers, ""));
    let status = gateway.status();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(format!("http://{}", status["listeners"][0].as_str().unwrap()), gateway.address);
    assert_eq!(status["routes"][0]["requests"], "/ and below");
    assert_eq!(status["routes"][0]["action"], "forwarded to backend");
    let upstream = &status["upstreams"][0];
    assert_eq!((&upstream["name"], &upstream["queued_requests"]), (&"backend".into(), &0.into()));
    let server = serde_json::json!({
        "address": "127.0.0.1:9", "weight": 1, "backup": false, "state": "up", "requests_in_flight": 0,
        "requests_total": 0, "errors_total": 0, "failures": {}, "duration_buckets": vec![0; 16]
    });
    assert_eq!(upstream["servers"][0], server);
    assert_eq!(get_admin(&gateway.admin, "/health").text(), "alive\n");
    let path = upstream["servers"][1]["address"].as_str().unwrap().replace('/', "%2F");
    assert_eq!(gateway.post(&format!("/upstreams/backend/servers/{path}/disable")).status(), "200");
    assert_eq!(gateway.states(), ["up", "disabled"]);
}

#[test]
fn failed_reload_shows_the_error_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let servers = ["127.0.0.1:9".to_owned()];
    let gateway = Gateway::start(directory.path(), &config(&servers, ""));
    fs::write(directory.path().join("thruway.toml"), config(&servers, "retries_max = \"two\"")).unwrap();
    let refused = gateway.post("/reload");
    assert_eq!(refused.status(), "422");
    assert!(refused.text().starts_with("error: invalid type") && refused.text().contains("thruway.toml:"));
    assert_eq!(gateway.status()["routes"][0]["action"], "forwarded to backend");
    let other = "[[routes]]\npath = \"/gone\"\nrespond.status = 410";
    fs::write(directory.path().join("thruway.toml"), config(&servers, other)).unwrap();
    assert_eq!(gateway.post("/reload").text(), "config reloaded\n");
    assert_eq!(gateway.status()["routes"][1]["action"], "answers 410");
    assert_eq!(get(&gateway.address, "/gone").status(), "410");
}

#[test]
fn admin_requests_from_web_pages_of_other_origins_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &config(&["127.0.0.1:9".to_owned()], ""));
    for (origin, status) in [
        ("http://localhost", "200"),
        ("http://localhost:3000", "403"),
        ("http://example.com", "403"),
        ("null", "403"),
    ] {
        assert_eq!(
            post(&gateway.admin, "/reload", &format!("Origin: {origin}\r\n")).status(),
            status,
            "{origin}"
        );
    }
    let cross_site = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    assert_eq!(request(&gateway.admin, "GET /events", "localhost", cross_site).status(), "403");
    for (host, status) in [
        ("example.com", "403"),
        ("127.0.0.1.example.com", "403"),
        ("[::1]:9900", "200"),
        ("127.0.0.1", "200"),
    ] {
        assert_eq!(request(&gateway.admin, "GET /status", host, "").status(), status, "{host}");
    }
}

/// `/ready` once responded 200 although all servers failed their health checks.
#[test]
fn gateway_is_not_ready_without_healthy_server_of_required_upstream() {
    let (servers, addresses, directory) = backends(&["one"]);
    let check = "check = { interval = \"100ms\", fall = 1, rise = 1 }\n";
    let start =
        |required: &str| Gateway::start(directory.path(), &config(&addresses, &format!("{check}{required}")));
    let (required, other) = (start("required_for_ready = true"), start(""));
    let ready = |gateway: &Gateway| get_admin(&gateway.admin, "/ready");
    assert_eq!((ready(&required).status(), ready(&other).status()), ("200", "200"));
    for server in servers {
        drop(server.terminate());
    }
    let unready = std::iter::repeat_with(|| ready(&required)).find(|response| response.status() == "503");
    assert_eq!(unready.unwrap().text(), "no server of the upstream `backend` is healthy\n");
    std::iter::repeat_with(|| other.states()).find(|states| states == &["check_failing"]).unwrap();
    assert_eq!(ready(&other).text(), "ready\n", "readiness does not require this upstream");
}

#[test]
fn gateway_is_not_ready_if_all_required_servers_are_drained() {
    let (_servers, addresses, directory) = backends(&["one", "two"]);
    let gateway = Gateway::start(directory.path(), &config(&addresses, "required_for_ready = true"));
    for (address, status) in addresses.iter().zip(["200", "503"]) {
        gateway.post(&format!("/upstreams/backend/servers/{address}/drain"));
        assert_eq!(get_admin(&gateway.admin, "/ready").status(), status);
    }
}

#[test]
fn draining_gateway_is_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    let demo = "[[routes]]\npath = \"/demo\"\ndemo = true";
    let mut gateway = Gateway::start(directory.path(), &config(&["127.0.0.1:9".to_owned()], demo));
    assert_eq!(get_admin(&gateway.admin, "/ready").text(), "ready\n");
    let mut client = Client::connect(&gateway.address);
    client.send("GET /demo/headers HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    // The handler asks for the body. So the request counts as accepted, and the server waits for it at
    // shutdown.
    assert!(client.head().starts_with("http/1.1 100 "));
    gateway.thruway.signal(Signal::TERM);
    gateway.thruway.wait_for_log("draining");
    let unready = std::iter::repeat_with(|| get_admin(&gateway.admin, "/ready"))
        .find(|response| response.status() == "503");
    assert_eq!(unready.unwrap().text(), "draining\n");
    client.send("ab");
    assert_eq!(client.response(false).status(), "200");
    assert_eq!(gateway.thruway.end().code, Some(0));
}

#[test]
fn remote_admin_address_requires_tls_and_authentication() {
    let directory = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        fs::write(directory.path().join("a.toml"), text).unwrap();
        Thruway::start_in(directory.path(), &["check", "a.toml"]).end()
    };
    let text = |admin: &str| {
        config(&["127.0.0.1:9".to_owned()], "")
            .replace("[admin]\naddress = \"127.0.0.1:0\"", &format!("[admin]\n{admin}"))
    };
    let refused = check(&text("address = \"0.0.0.0:9900\"")).stderr;
    let message =
        "error: other machines can reach `0.0.0.0:9900`, but `[admin]` lacks `tls` and `authentication`\n";
    assert!(refused.starts_with(message), "{refused}");
    assert!(refused.contains("a.toml:3") && refused.contains("hint: "), "{refused}");
    let removed = check(&text("address = \"0.0.0.0:9900\"\nallow_remote = true")).stderr;
    assert!(removed.contains("hint: `allow_remote` was removed: "), "{removed}");
    for allowed in ["address = \"[::1]:9900\"", "address = \"unix:a.sock\""] {
        assert_eq!(check(&text(allowed)).code, Some(0), "{allowed}");
    }
}

/// Returns the name of the number of GET requests of a route with this status.
fn of_route(route: &str, status: u16) -> String {
    let error = if status >= 500 { format!(",error_type=\"{status}\"") } else { String::new() };
    format!(
        "http_server_request_duration_seconds_count{{http_route=\"{route}\",http_request_method=\"GET\",\
         url_scheme=\"http\",network_protocol_version=\"1.1\",http_response_status_code=\"{status}\"{error}}}"
    )
}

/// Returns the labels of a server.
fn server_labels(address: &str) -> String {
    let (host, port) = match address.strip_prefix("unix:") {
        Some(path) => (path, None),
        None => address.rsplit_once(':').map(|(host, port)| (host, Some(port))).unwrap(),
    };
    let port = port.map(|port| format!(",server_port=\"{port}\"")).unwrap_or_default();
    format!("server_address=\"{host}\"{port}")
}

/// Returns the value of the sample with this name and these labels.
fn sample(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn metrics_count_requests_policies_retries_and_failures() {
    let (servers, mut addresses, _directory) = backends(&["one"]);
    let directory = tempfile::tempdir().unwrap();
    let gone = format!("unix:{}", directory.path().join("nobody.sock").display());
    addresses.push(gone.clone());
    let text = config(
        &addresses,
        "[[routes]]\npath_exact = \"/gone\"\nrespond.status = 410\n\
         [[routes]]\npath = \"/closed\"\npolicies = [\"all\", \"none\"]\ndemo = true\n\
         [policies.all]\ndeny = [\"192.0.2.1\"]\n[policies.none]\nallow = [\"192.0.2.1\"]\n",
    );
    let gateway = Gateway::start(directory.path(), &text);
    let mut client = Client::connect(&gateway.address);
    assert_eq!(client.get("/closed").status(), "403");
    for _ in 0..4 {
        assert_eq!(client.get("/").text(), "one");
    }
    assert_eq!(client.get("/gone").status(), "410");
    assert_eq!(client.get("/../gone").status(), "400");
    let response = get_admin(&gateway.admin, "/metrics");
    assert!(response.has("content-type: text/plain; version=0.0.4; charset=utf-8"), "{}", response.head);
    let metrics = response.text();
    let [one, two] = [&addresses[0], &gone].map(|address| server_labels(address));
    for (name, value) in [
        (of_route("/ and below", 200), 4.0),
        (of_route("/gone", 410), 1.0),
        (of_route("/closed and below", 403), 1.0),
        ("thruway_unrouted_requests_total".to_owned(), 1.0),
        ("thruway_policy_refusals_total{route=\"/closed and below\",policy=\"all\"}".to_owned(), 0.0),
        ("thruway_policy_refusals_total{route=\"/closed and below\",policy=\"none\"}".to_owned(), 1.0),
        ("thruway_upstream_retries_total{upstream=\"backend\"}".to_owned(), 3.0),
        (format!("thruway_server_requests_total{{upstream=\"backend\",{one}}}"), 4.0),
        (format!("thruway_server_connections_reused_total{{upstream=\"backend\",{one}}}"), 3.0),
        (format!("thruway_server_requests_total{{upstream=\"backend\",{two}}}"), 0.0),
        (
            format!(
                "thruway_server_failures_total{{upstream=\"backend\",{two},error_type=\"connection_refused\"}}"
            ),
            3.0,
        ),
        (format!("thruway_server_state{{upstream=\"backend\",{one},state=\"up\"}}"), 1.0),
        ("thruway_client_connections_accepted_total".to_owned(), 1.0),
        (
            "http_server_active_requests{http_route=\"/gone\",http_request_method=\"GET\",url_scheme=\"http\"}".to_owned(),
            0.0,
        ),
        ("thruway_upstream_idle_connections{upstream=\"backend\"}".to_owned(), 1.0),
        ("thruway_upstream_queue_duration_seconds_bucket{upstream=\"backend\",le=\"+Inf\"}".to_owned(), 0.0),
        ("thruway_upstream_queue_duration_seconds_count{upstream=\"backend\"}".to_owned(), 0.0),
    ] {
        assert!((sample(metrics, &name) - value).abs() < f64::EPSILON, "{name} is not {value} in {metrics}");
    }
    assert!(sample(metrics, &of_route("/ and below", 200).replace("_count{", "_sum{")) > 0.0);
    // Counters keep their values over a reload, even if the settings of their upstream change.
    let text = format!("{text}[upstreams.backend.ejection]\nfailures = 9\n");
    fs::write(directory.path().join("thruway.toml"), text).unwrap();
    assert_eq!(gateway.post("/reload").status(), "200");
    let again = get_admin(&gateway.admin, "/metrics");
    assert!(sample(again.text(), &of_route("/gone", 410)) > 0.0);
    let refusals = "thruway_policy_refusals_total{route=\"/closed and below\",policy=\"none\"}";
    assert!(sample(again.text(), refusals) > 0.0);
    let opened = format!("thruway_server_connections_opened_total{{upstream=\"backend\",{one}}}");
    assert!(sample(again.text(), &opened) > 0.0);
    assert!(sample(again.text(), "thruway_unrouted_requests_total") > 0.0);
    drop(servers);
}

/// A request body that broke off during the response once caused a log line at level `error`. A client could
/// fill the log of a gateway in this way.
#[test]
fn client_errors_are_counted_but_not_logged() {
    let mut origin = Thruway::demo(&[]);
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &config(&[origin.authority()], ""));
    for _ in 0..20 {
        let mut client = Client::connect(&gateway.address);
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        assert!(client.head().starts_with("http/1.1 200 "));
        assert_eq!(client.chunk(), b"hello");
        client.send("no length\r\n");
        assert!(client.is_closed());
    }
    let metrics = get_admin(&gateway.admin, "/metrics");
    let faults = sample(metrics.text(), "thruway_client_errors_total");
    assert!((faults - 20.0).abs() < f64::EPSILON, "{faults}");
    let ended = gateway.thruway.terminate();
    assert!(!ended.stderr.contains("ERROR") && !ended.stderr.contains("WARN"), "{}", ended.stderr);
}

#[test]
fn response_time_metrics_survive_a_reload() {
    let (_servers, addresses, _directory) = backends(&["one"]);
    let directory = tempfile::tempdir().unwrap();
    // Requests on routes with policies take another path through the code, which must count them too.
    let guarded = "[[routes]]\npath = \"/guarded\"\npolicies = [\"all\"]\nupstream = \"backend\"\n\
                   [policies.all]\ndeny = [\"192.0.2.1\"]\n";
    let gateway = Gateway::start(directory.path(), &config(&addresses, guarded));
    let mut client = Client::connect(&gateway.address);
    for path in ["/", "/guarded", "/"] {
        assert_eq!(client.get(path).text(), "one");
    }
    let get = "http_request_method=\"GET\",http_response_status_code=\"200\"";
    let of_server = format!("{{upstream=\"backend\",{},{get}", server_labels(&addresses[0]));
    let is_counted = || {
        let metrics = get_admin(&gateway.admin, "/metrics");
        for (name, labels) in [
            ("thruway_upstream_request_duration_seconds", "{upstream=\"backend\""),
            ("http_client_request_duration_seconds", &of_server),
        ] {
            let value = |part: &str| sample(metrics.text(), &format!("{name}_{part}}}"));
            assert!((value(&format!("count{labels}")) - 3.0).abs() < f64::EPSILON);
            assert!((value(&format!("bucket{labels},le=\"+Inf\"")) - 3.0).abs() < f64::EPSILON);
            assert!(value(&format!("sum{labels}")) > 0.0);
        }
    };
    is_counted();
    assert_eq!(gateway.post("/reload").status(), "200");
    is_counted();
}

#[test]
fn open_connections_metric_includes_connections_before_a_limit() {
    let (_servers, addresses, _directory) = backends(&["one"]);
    let directory = tempfile::tempdir().unwrap();
    let text = config(&addresses, "");
    let gateway = Gateway::start(directory.path(), &text);
    let open = || {
        let metrics = get_admin(&gateway.admin, "/metrics");
        sample(metrics.text(), "thruway_upstream_connections{upstream=\"backend\"}")
    };
    assert_eq!(get(&gateway.address, "/").text(), "one");
    assert!((open() - 1.0).abs() < f64::EPSILON);
    let limited = text.replace("\nservers =", "\nconnections_max = 8\nservers =");
    fs::write(directory.path().join("thruway.toml"), limited).unwrap();
    assert_eq!(gateway.post("/reload").status(), "200");
    assert!((open() - 1.0).abs() < f64::EPSILON);
}

#[test]
fn mirror_metrics_survive_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[admin]\naddress = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
                  [[routes]]\npath = \"/\"\nupstream = \"gone\"\nmirror = { upstream = \"gone\", requests_max = 0 }\n\
                  [upstreams.gone]\nservers = [\"127.0.0.1:1\"]\n";
    let gateway = Gateway::start(directory.path(), config);
    let busy = || {
        let metrics = get_admin(&gateway.admin, "/metrics");
        sample(metrics.text(), "thruway_mirror_requests_total{route=\"/ and below\",outcome=\"busy\"}")
    };
    assert_eq!(get(&gateway.address, "/").status(), "502");
    assert!((busy() - 1.0).abs() < f64::EPSILON);
    assert_eq!(gateway.post("/reload").status(), "200");
    assert_eq!(get(&gateway.address, "/").status(), "502");
    assert!((busy() - 2.0).abs() < f64::EPSILON);
}

/// Checks names, types and samples as an OpenMetrics parser does.
#[test]
fn metrics_are_available_in_the_openmetrics_format() {
    let (_servers, addresses, _directory) = backends(&["one"]);
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &config(&addresses, ""));
    assert_eq!(get(&gateway.address, "/").text(), "one");
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let response = request(&gateway.admin, "GET /metrics", "localhost", accept);
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(response.has(kind) && response.has("vary: accept"), "{}", response.head);
    let text = response.text().strip_suffix("# EOF\n").unwrap();
    let (mut families, mut current) = (Vec::new(), ("", ""));
    for line in text.lines() {
        if let Some(of_type) = line.strip_prefix("# TYPE ") {
            current = of_type.split_once(' ').unwrap();
            assert!(!families.contains(&current.0), "{line}");
            families.push(current.0);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffixes: &[&str] = match current.1 {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let suffix = name.strip_prefix(current.0).unwrap_or_else(|| panic!("{line} in {current:?}"));
            assert!(suffixes.contains(&suffix), "{line} in {current:?}");
        }
    }
    assert!(families.len() > 30, "{families:?}");
}
