//! Tests of scenarios: virtual users with variables, cookies, data and think time.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thruway_bench::{
    ConnectionOptions, Limit, Load, LoadOptions, Outcome, Pace, Report, Scenario, ScenarioRequests, Stages,
    StopFlag, Threshold,
};
use thruway_message::StatusCode;
use thruway_server::{ListenAddr, Request, Response, Router, RunningServer, Server, with_whole_content};
use thruway_testkit::upstream;

use crate::report_reference::assert_report_documented;

/// The requests that a server has received: method and target, body, `Authorization` and `Cookie`.
type Seen = Arc<Mutex<Vec<[String; 4]>>>;

/// A shop that requires a login: `/login` sets a cookie and returns a token, and the other pages require both.
fn shop() -> (RunningServer, SocketAddr, Seen) {
    let seen = Seen::default();
    let log = seen.clone();
    let answer = move |request: &Request<'_>| {
        let field = |name: &str| request.field(name).map_or(String::new(), |value| text_of(value.as_bytes()));
        let line = format!("{} {}", request.method().as_str(), request.path());
        let query = request.query_string().map_or(String::new(), |query| format!("?{query}"));
        let entry =
            [format!("{line}{query}"), text_of(request.content()), field("authorization"), field("cookie")];
        log.lock().unwrap().push(entry);
        let user = text_of(request.content());
        let is_known =
            field("authorization").starts_with("Bearer t-") && field("cookie").starts_with("session=");
        match request.path() {
            "/login" => Response::text(format!(r#"{{"token": "t-{user}", "items": [{{"id": 7}}]}}"#))
                .with_field("Set-Cookie", format!("session={user}; Path=/; HttpOnly"))
                .with_field("X-Next", "/page?a=b"),
            "/close" => Response::text("bye").with_field("Connection", "close"),
            "/hop" => redirect(StatusCode::FOUND, "./login?hop=1"),
            "/kept" => redirect(StatusCode::TEMPORARY_REDIRECT, "/login"),
            "/other" => redirect(StatusCode::SEE_OTHER, "/kept"),
            "/cookie" => redirect(StatusCode::TEMPORARY_REDIRECT, "/cookies/2")
                .with_field("Set-Cookie", "session=1; Path=/")
                .with_field("Set-Cookie", "old=1; Path=/cookie"),
            "/cookies/2" => redirect(StatusCode::PERMANENT_REDIRECT, "/login")
                .with_field("Set-Cookie", "session=2; Path=/"),
            "/circle" => redirect(StatusCode::FOUND, "/circle"),
            "/away" => redirect(StatusCode::FOUND, "http://other.example/"),
            "/large" => Response::text("x".repeat(3000)),
            _ if is_known => Response::text("<input name=\"csrf\" value=\"c1\">"),
            _ => Response::text("unknown").with_status(StatusCode::UNAUTHORIZED),
        }
    };
    let router = Router::new().fallback(with_whole_content(1 << 16, answer));
    let server = Server::new(router).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = server.addresses()[0].clone() else { panic!("no TCP address") };
    (server, address, seen)
}

fn redirect(status: StatusCode, location: &'static str) -> Response {
    Response::text("elsewhere").with_status(status).with_field("Location", location)
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scenario(address: SocketAddr, text: &str) -> Scenario {
    let url = format!("http://{address}");
    Scenario::parse(text, Path::new("a.toml"), Some(&url), &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// Two users that run `iterations` iterations together.
fn load(address: SocketAddr, text: &str, iterations: u64) -> Load {
    Load {
        requests: Arc::new(ScenarioRequests::from(scenario(address, text))),
        addresses: vec![address.into()],
        tls: None,
        connections: 2,
        workers: 1,
        pace: Pace::Closed,
        limit: Limit::Requests(iterations),
        warm_up: Duration::ZERO,
        connection_options: ConnectionOptions {
            is_http2: false,
            pipeline: 1,
            is_persistent: true,
            timeout: Duration::from_secs(20),
            drain: Duration::from_secs(20),
        },
        stop: StopFlag::default(),
        server: None,
    }
}

fn run(load: &Load) -> (Report, Outcome) {
    let outcome = load.run(&mut |_| {}).unwrap();
    (Report::new("shop", load, &outcome), outcome)
}

const SHOP: &str = r#"
headers = { Accept = "*/*" }

[variables]
scheme = "Bearer"

[[steps]]
name = "login"
url = "/login"
body = "{{ user }}"
extract = { token = { json = "/token" }, item = { json = "/items/0/id" }, next = { header = "X-Next" } }

[[steps]]
name = "item"
url = "/items/{{ item }}"
headers = { Authorization = "{{ scheme }} {{ token }}" }
extract = { csrf = { regex = 'name="csrf" value="([^"]+)"' }, none = { regex = "none", default = "a b" } }

[[steps]]
name = "buy"
method = "PUT"
url = "/buy?csrf={{ csrf }}&none={{ none | urlencode }}&n={{ iteration }}"
headers = { Authorization = "Bearer {{ token }}" }
status = [200, 201]
think_time = ["1ms", "2ms"]

[[steps]]
name = "next"
url = "{{ next }}"
headers = { Authorization = "Bearer {{ token }}" }
"#;

#[test]
fn values_and_cookies_flow_from_step_to_step() {
    let (_server, address, seen) = shop();
    let load = load(address, SHOP, 6);
    let (report, outcome) = run(&load);
    assert!(report.is_clean(), "{}", report.to_text());
    assert_report_documented(&report);
    let record = outcome.record.scenario.as_ref().unwrap();
    assert_eq!((record.iterations.answered, record.iterations.failed, record.iterations_cut_off), (6, 0, 0));
    assert!(record.steps.iter().all(|step| (step.answered, step.failed) == (6, 0)));
    assert_eq!((report.requests.answered, report.connections.opened), (24, 2));
    let seen = seen.lock().unwrap();
    for user in ["0", "1"] {
        let of_user = |entry: &&[String; 4]| entry[1] == user || entry[2] == format!("Bearer t-{user}");
        let entries: Vec<_> = seen.iter().filter(of_user).collect();
        assert!(entries.len() >= 4, "{seen:?}");
        let targets: Vec<_> =
            entries.iter().map(|entry| entry[0].split("&n=").next().unwrap()).take(4).collect();
        assert_eq!(targets, ["POST /login", "GET /items/7", "PUT /buy?csrf=c1&none=a%20b", "GET /page?a=b"]);
        // Each iteration is a new visitor, so the login has no cookie.
        assert_eq!((entries[0][3].as_str(), entries[1][3].as_str()), ("", &*format!("session={user}")));
    }
    let mut numbers: Vec<_> =
        seen.iter().filter_map(|entry| entry[0].split_once("&n=")).map(|(_, n)| n).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5"]);
}

#[test]
fn failed_step_ends_its_iteration_and_is_reported() {
    let (_server, address, seen) = shop();
    let text = "
        [[steps]]
        name = 'page'
        url = '/page'
        [[steps]]
        name = 'never'
        url = '/never'
    ";
    let (report, _) = run(&load(address, text, 5));
    assert_eq!(seen.lock().unwrap().len(), 5);
    let iterations = report.iterations.as_ref().unwrap();
    assert_eq!((iterations.completed, iterations.failed), (0, 5));
    assert_eq!((report.steps[0].failed, report.steps[1].failed + report.steps[1].answered), (5, 0));
    assert_eq!(report.steps[0].example.as_deref(), Some("status 401"));
    assert_eq!(report.statuses[0].status, 401);
    for form in [report.to_text(), report.to_markdown()] {
        assert!(form.contains("5 failed (first: status 401)"), "{form}");
    }
    let check = |condition: &str| condition.parse::<Threshold>().unwrap().evaluate(&report);
    assert_eq!(check("step page: failed > 4").to_string(), "failed is 5");
    assert!(!check("step page: errors < 100%").is_violated);
    let unmeasured = check("step never: p99 > 0.3ms");
    assert_eq!(unmeasured.to_string(), "p99 was not measured");
    assert!(unmeasured.is_violated && unmeasured.value.is_none());
}

#[test]
fn missing_and_invalid_values_fail_the_step() {
    let (_server, address, seen) = shop();
    for (extract, url, failed, example) in [
        (
            "{ json = '/none' }",
            "/page",
            "login",
            "no value for `a`: the JSON pointer `/none` matches nothing",
        ),
        ("{ header = 'X-None' }", "/page", "login", "no value for `a`: the header `X-None` matches nothing"),
        (
            "{ regex = 'no+ne' }",
            "/page",
            "login",
            "no value for `a`: the regular expression `no+ne` matches nothing",
        ),
        (
            "{ json = '/none', default = 'b c' }",
            "/{{ a }}",
            "next",
            "the URL is invalid: `/b c` (encode values with `| urlencode`)",
        ),
        (
            "{ json = '/none', default = 'http://other.example/b' }",
            "{{ a }}",
            "next",
            "the URL belongs to another server: `other.example`",
        ),
    ] {
        let text = format!(
            "
            [[steps]]
            name = 'login'
            url = '/login'
            body = 'x'
            extract = {{ a = {extract} }}
            [[steps]]
            name = 'next'
            url = '{url}'
        "
        );
        let (report, _) = run(&load(address, &text, 2));
        let step = report.steps.iter().find(|step| step.failed > 0).unwrap();
        assert_eq!((&*step.name, step.failed, step.example.as_deref()), (failed, 2, Some(example)));
        assert_eq!(report.requests.failed, 2);
    }
    // No request reached the server after the first step.
    assert!(seen.lock().unwrap().iter().all(|entry| entry[0] == "POST /login"));
}

#[test]
fn large_bodies_are_kept_only_up_to_the_limit() {
    let (_server, address, _) = shop();
    let text = |extract: &str| {
        format!(
            "
            response_bytes_max = 2999
            [[steps]]
            name = 'large'
            url = '/large'
            {extract}
        "
        )
    };
    let (plain, _) = run(&load(address, &text(""), 2));
    assert_eq!((plain.requests.answered, plain.bytes.body_bytes), (2, 6000));
    let (extracting, _) = run(&load(address, &text("extract = { a = { regex = 'x' } }"), 2));
    let example = extracting.steps[0].example.as_deref();
    assert_eq!(example, Some("no value for `a`: the body has more than 2999 bytes"));
}

#[test]
fn connection_that_the_server_closes_is_replaced_without_failure() {
    let (_server, address, _) = shop();
    let text = "
        [[steps]]
        name = 'close'
        url = '/close'
    ";
    let (report, _) = run(&load(address, text, 6));
    assert!(report.is_clean(), "{}", report.to_text());
    assert_eq!((report.requests.answered, report.requests.failed), (6, 0));
    assert!((6..=8).contains(&report.connections.opened), "{}", report.connections.opened);

    let base = load(address, SHOP, 2);
    let connection_options = ConnectionOptions { is_persistent: false, ..base.connection_options };
    let (report, _) = run(&Load { connection_options, ..base });
    assert!(report.is_clean() && report.connections.opened == 8, "{}", report.to_text());
}

#[test]
fn scenarios_are_chosen_by_weight_and_rows_in_order() {
    let (_server, address, seen) = shop();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("users.csv"), "name,age\nEve E,41\nBob,32\n").unwrap();
    fs::write(directory.path().join("more.jsonl"), "{\"id\": 5}\n").unwrap();
    let text = r#"
        [data.users]
        file = "users.csv"
        [data.more]
        file = "more.jsonl"
        order = "random"
        [[scenarios]]
        name = "often"
        weight = 3
        [[scenarios.steps]]
        name = "login"
        url = "/login?{{ users.name | urlencode }}&{{ more.id }}"
        body = "{{ users.age }}"
        [[scenarios]]
        name = "seldom"
        [[scenarios.steps]]
        name = "other"
        url = "/login"
    "#;
    let url = format!("http://{address}");
    let scenario = Scenario::parse(text, &directory.path().join("a.toml"), Some(&url), &[]).unwrap();
    let requests = Arc::new(ScenarioRequests::from(scenario));
    let (report, _) = run(&Load { requests, ..load(address, SHOP, 400) });
    let counts: BTreeMap<_, _> =
        report.steps.iter().map(|step| (step.name.as_str(), step.answered)).collect();
    assert!((260..340).contains(&counts["login"]) && counts["login"] + counts["other"] == 400, "{counts:?}");
    assert_eq!((report.steps[0].scenario.as_str(), report.steps[1].scenario.as_str()), ("often", "seldom"));
    assert!(report.to_text().contains("often: login"), "{}", report.to_text());
    for entry in &*seen.lock().unwrap() {
        let row = (entry[0].as_str(), entry[1].as_str());
        let rows = [("POST /login?Eve%20E&5", "41"), ("POST /login?Bob&5", "32"), ("GET /login", "")];
        assert!(rows.contains(&row), "{row:?}");
    }
}

#[test]
fn open_loop_schedules_iterations_and_stop_cuts_them_off() {
    let (_server, address, _) = shop();
    let base = load(address, SHOP, 1);
    let limit = Limit::Duration(Duration::from_millis(200));
    let (report, outcome) = run(&Load { pace: Pace::Constant { rate: 100.0 }, limit, ..base.clone() });
    let iterations = report.iterations.as_ref().unwrap();
    assert_eq!(iterations.offered_iterations_per_second, Some(100.0));
    assert_eq!(report.offered_requests_per_second, None);
    let unsent = outcome.record.failed_as(thruway_bench::FailureKind::Unsent);
    assert_eq!(
        iterations.completed + iterations.failed + iterations.cut_off + unsent,
        20,
        "{}",
        report.to_text()
    );
    assert!(report.to_text().contains("of 100 offered"), "{}", report.to_text());

    // The think time of an hour ends with the load.
    let text = SHOP.replace(r#"["1ms", "2ms"]"#, r#""1h""#);
    let requests = Arc::new(ScenarioRequests::from(scenario(address, &text)));
    let limit = Limit::Duration(Duration::from_millis(100));
    let (report, _) = run(&Load { requests, limit, ..base });
    let iterations = report.iterations.as_ref().unwrap();
    assert_eq!((iterations.completed, iterations.failed, iterations.cut_off), (0, 0, 2));
    assert_eq!(report.steps.iter().map(|step| step.answered).collect::<Vec<_>>(), [2, 2, 2, 0]);
}

#[test]
fn faulty_servers_are_failures_of_steps() {
    let text = "
        [[steps]]
        name = 'a'
        url = '/'
    ";
    for (server, kind) in [
        (upstream::closes_without_response(), "closed"),
        (upstream::closes_mid_body(), "incomplete"),
        (upstream::sends_other_protocol(), "malformed"),
    ] {
        let server = server.listen();
        let (report, _) = run(&load(server.address, text, 4));
        assert_eq!((report.requests.answered, report.steps[0].failed), (0, 4), "{kind}");
        let found = serde_json::to_value(report.errors[0].kind).unwrap();
        assert!(found.as_str().unwrap().contains(kind), "{found}");
    }
    let refused = Scenario::load(
        scenario(upstream::unused_address(), text),
        &LoadOptions::default(),
        &StopFlag::default(),
    );
    assert!(refused.err().unwrap().to_string().contains("cannot connect"));
    let options = LoadOptions { pipeline: 2, ..LoadOptions::default() };
    let server = upstream::responds_ok().listen();
    let refused = scenario(server.address, text).load(&options, &StopFlag::default());
    assert!(refused.err().unwrap().to_string().contains("one request at a time"));
}

#[test]
fn cookies_last_as_long_as_the_file_says() {
    let (_server, address, seen) = shop();
    for (cookies, of_second_login) in [("user", "session="), ("off", "")] {
        seen.lock().unwrap().clear();
        let text = format!(
            "
            cookies = '{cookies}'
            [[steps]]
            name = 'login'
            url = '/login'
            body = '{{{{ user }}}}'
        "
        );
        run(&Load { connections: 1, ..load(address, &text, 2) });
        let sent: Vec<_> = seen.lock().unwrap().iter().map(|entry| entry[3].clone()).collect();
        assert!(sent.len() == 2 && sent[0].is_empty(), "{sent:?}");
        assert_eq!(sent[1].starts_with("session="), of_second_login == "session=", "{sent:?}");
    }
}

#[test]
fn redirects_that_keep_the_method_send_the_current_cookies() {
    let (_server, address, seen) = shop();
    let of_cookies = |start: &str, rest: &str| {
        seen.lock().unwrap().clear();
        let text =
            format!("{start}\n[[steps]]\nname = 'a'\nurl = '/cookie'\nbody = 'b'\nredirects = 3\n{rest}\n");
        let (report, _) = run(&Load { connections: 1, ..load(address, &text, 1) });
        assert!(report.is_clean(), "{}", report.to_text());
        seen.lock().unwrap().iter().map(|[line, body, _, cookie]| format!("{line} {body} {cookie}")).collect()
    };
    let cases: [(&str, &str, [&str; 3]); 3] = [
        ("", "", ["", "session=1", "session=2"]),
        ("cookies = 'off'", "", [""; 3]),
        ("", "headers = { Cookie = 'own=1' }", ["own=1"; 3]),
    ];
    for (start, rest, cookies) in cases {
        let lines: Vec<String> = of_cookies(start, rest);
        let urls = ["/cookie", "/cookies/2", "/login"];
        let expected: Vec<_> =
            urls.iter().zip(cookies).map(|(url, cookie)| format!("POST {url} b {cookie}")).collect();
        assert_eq!(lines, expected, "{start} {rest}");
    }
}

#[test]
fn redirects_are_followed_up_to_the_limit() {
    let (_server, address, seen) = shop();
    let step = |url: &str, rest: &str| format!("[[steps]]\nname = 'a'\nurl = '{url}'\n{rest}\n");
    let run = |text: &str| {
        seen.lock().unwrap().clear();
        let (report, _) = run(&Load { connections: 1, ..load(address, text, 1) });
        let lines: Vec<_> =
            seen.lock().unwrap().iter().map(|entry| format!("{} {}", entry[0], entry[1])).collect();
        (report, lines)
    };
    let extract = "body = 'b'\nredirects = 3\nextract = { token = { json = '/token' } }";
    let (report, lines) = run(&step("/hop", extract));
    // After 302, the user sends GET without a body.
    assert_eq!(lines, ["POST /hop b", "GET /login?hop=1 "]);
    assert!(report.is_clean(), "{}", report.to_text());
    assert_report_documented(&report);
    assert_eq!((report.steps[0].answered, report.steps[0].redirects, report.requests.answered), (1, 1, 2));
    assert_eq!(report.iterations.as_ref().unwrap().completed, 1);

    // 307 keeps method and body. The limit of the file applies to all its steps.
    let (report, lines) = run(&format!("redirects = 1\n{}", step("/kept", "body = 'b'")));
    assert_eq!(lines, ["POST /kept b", "POST /login b"]);
    assert!(report.is_clean(), "{}", report.to_text());

    // 307 after 303 keeps the GET of the request before.
    let (report, lines) = run(&step("/other", "body = 'b'\nredirects = 3"));
    assert_eq!(lines, ["POST /other b", "GET /kept ", "GET /login "]);
    assert!(report.is_clean(), "{}", report.to_text());
    let (report, lines) = run(&step("/other", "method = 'HEAD'\nredirects = 3"));
    assert_eq!(lines, ["HEAD /other ", "HEAD /kept ", "HEAD /login "]);
    assert!(report.is_clean(), "{}", report.to_text());

    let (report, lines) = run(&step("/hop", ""));
    assert!(report.is_clean() && lines.len() == 1, "redirects are followed without the key: {lines:?}");
    let (report, lines) = run(&step("/hop", "redirects = 3\nstatus = 302"));
    assert!(report.is_clean() && lines.len() == 1, "an expected redirect is followed: {lines:?}");

    let (report, lines) = run(&step("/circle", "redirects = 2"));
    assert_eq!((lines.len(), report.steps[0].redirects), (3, 2));
    assert_eq!(
        report.steps[0].example.as_deref(),
        Some("status 302: no `Location`, or more than 2 redirects")
    );
    let (report, lines) = run(&step("/away", "redirects = 2"));
    assert_eq!(lines.len(), 1);
    let example = report.steps[0].example.as_deref();
    assert_eq!(example, Some("the redirect leads to another server: `http://other.example/`"));
}

#[test]
fn steps_repeat_alone_and_in_sequences() {
    let (_server, address, seen) = shop();
    let text = "
        [[steps]]
        name = 'begin'
        url = '/login?0'
        [[steps]]
        name = 'outer'
        url = '/login?1'
        [[steps]]
        name = 'inner'
        url = '/login?2'
        repeat = 2
        [[steps]]
        name = 'end'
        url = '/login?1'
        repeat = { times = 3, from = 'outer' }
        [[steps]]
        name = 'last'
        url = '/login?3'
        repeat = [1, 2]
    ";
    let (report, _) = run(&Load { connections: 1, ..load(address, text, 2) });
    assert!(report.is_clean(), "{}", report.to_text());
    let targets: String =
        seen.lock().unwrap().iter().map(|entry| entry[0].split('?').nth(1).unwrap().to_owned()).collect();
    let once = "0122112211221";
    let shortened = targets.replace("33", "3");
    assert_eq!(shortened, format!("{once}3{once}3"));
    let runs: Vec<_> = report.steps.iter().map(|step| step.answered).collect();
    assert_eq!(runs[..4], [2, 6, 12, 6]);
    assert!((2..=4).contains(&runs[4]));

    // The steps `outer` and `end` have the same URL.
    let urls: Vec<_> = report.urls.iter().map(|url| (url.url.as_str(), url.answered)).collect();
    let last = runs[4];
    let expected = [("GET /login?0", 2), ("GET /login?1", 12), ("GET /login?2", 12), ("GET /login?3", last)];
    assert_eq!(urls, expected);
    assert_eq!(report.urls[1].response_time.count, 12);
    assert_report_documented(&report);
    for form in
        [report.to_text(), report.to_markdown(), report.to_csv(), report.to_html().replace("&#x2f;", "/")]
    {
        assert!(form.contains("GET /login?1"), "{form}");
    }
}

#[test]
fn stages_of_a_scenario_count_iterations_and_requests() {
    let (_server, address, _) = shop();
    let stages: Stages = "200ms:50,0s:100,200ms:100".parse().unwrap();
    let limit = Limit::Duration(stages.duration());
    let pace = Pace::Stages { stages: stages.into(), seed: None };
    let (report, _) = run(&Load { pace, limit, connections: 8, ..load(address, SHOP, 1) });
    assert_report_documented(&report);
    let [first, third] = &report.stages[..] else { panic!("{report:?}") };
    let (of_first, of_third) = (first.iterations.as_ref().unwrap(), third.iterations.as_ref().unwrap());
    assert_eq!(
        (of_first.completed + of_first.failed, of_third.offered_iterations_per_second),
        (5, Some(100.0))
    );
    assert_eq!(
        (of_first.from_iterations_per_second, of_first.to_iterations_per_second),
        (Some(0.0), Some(50.0))
    );
    assert_eq!((first.from_requests_per_second, first.offered_requests_per_second), (None, None));
    assert!(first.answered + first.failed > 5, "{first:?}");
    assert_eq!(report.settings.schedule_unit.as_deref(), Some("iterations"));
    let text = report.to_text();
    for part in [
        "8 users, 1 worker, open loop with stages",
        "(iterations/s)",
        "0 → 50 iterations/s",
        "100 iterations/s",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let csv = report.to_csv();
    let column =
        csv.lines().next().unwrap().split(',').position(|name| name == "iterations_completed").unwrap();
    let of_stage = csv.lines().find(|line| line.contains(",stage,1,")).unwrap();
    assert_eq!(of_stage.split(',').nth(column).unwrap(), of_first.completed.to_string(), "{csv}");
}
