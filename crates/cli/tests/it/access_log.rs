//! Tests of the access log: formats, rotation, clients behind proxies and authenticated users.

use std::fs;
use std::path::Path;

use crate::client::{Client, get};
use crate::process::{RELOADED, Signal, Thruway};

fn config(log: &str) -> String {
    format!(
        "access_log = {{ {log} }}\nlisteners = [{{ address = \"127.0.0.1:0\" }}]\n\
         routes = [{{ path = \"/\", demo = true }}]\n"
    )
}

/// Returns the access log of two requests in the given format.
fn lines(format: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let log = format!("path = \"access.log\", format = \"{format}\"");
    let mut thruway = Thruway::serve(directory.path(), &config(&log));
    let mut client = Client::connect(&thruway.address());
    client.request("GET /ok?a=b", "User-Agent: test \"1\"\r\nReferer: http://a/\r\n");
    client.request("GET /nothing", "");
    assert_eq!(thruway.terminate().code, Some(0));
    let text = fs::read_to_string(directory.path().join("access.log")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Removes the time from a log line. The time is in square brackets.
fn without_time(line: &str) -> String {
    let (before, rest) = line.split_once('[').unwrap();
    let (time, after) = rest.split_once(']').unwrap();
    assert!(time.len() == "01/Jan/2000:00:00:00 +0000".len() && time.ends_with(" +0000"), "{time}");
    format!("{before}[]{after}")
}

#[test]
fn common_format_matches_the_common_log_format() {
    let lines: Vec<String> = lines("common").iter().map(|line| without_time(line)).collect();
    assert_eq!(
        lines,
        [
            r#"127.0.0.1 - - [] "GET /ok?a=b HTTP/1.1" 200 2"#,
            r#"127.0.0.1 - - [] "GET /nothing HTTP/1.1" 404 10"#
        ]
    );
}

#[test]
fn combined_format_adds_referer_and_user_agent() {
    let lines: Vec<String> = lines("combined").iter().map(|line| without_time(line)).collect();
    assert_eq!(
        lines,
        [
            r#"127.0.0.1 - - [] "GET /ok?a=b HTTP/1.1" 200 2 "http://a/" "test \"1\"""#,
            r#"127.0.0.1 - - [] "GET /nothing HTTP/1.1" 404 10 "-" "-""#
        ]
    );
}

#[test]
fn json_format_has_one_object_per_line() {
    let lines = lines("json");
    let first: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!((&first["url.path"], &first["url.query"]), (&"/ok".into(), &"a=b".into()));
    assert_eq!(
        (&first["http.response.status_code"], &first["http.response.body.size"]),
        (&200.into(), &2.into())
    );
    assert_eq!(
        (&first["user_agent.original"], &first["server.address"]),
        (&"test \"1\"".into(), &"a".into())
    );
    assert!(first["duration_us"].is_u64() && first["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn access_log_without_a_path_goes_to_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config(""));
    get(&thruway.address(), "/ok");
    let ended = thruway.terminate();
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.contains("\"GET /ok HTTP/1.1\" 200 2"), "{}", ended.stdout);
}

#[test]
fn sigusr1_reopens_the_access_log_after_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("path = \"access.log\", format = \"common\""));
    let address = thruway.address();
    let count = |name: &str, target: &str| {
        fs::read_to_string(directory.path().join(name)).unwrap().matches(target).count()
    };
    let rotate = |thruway: &mut Thruway, to: &str| {
        fs::rename(directory.path().join("access.log"), directory.path().join(to)).unwrap();
        thruway.signal(Signal::USR1);
        thruway.wait_for_log("access log reopened");
        // The server creates the new file before the next request.
        assert!(directory.path().join("access.log").exists());
    };
    rotate(&mut thruway, "access.log.1");
    get(&address, "/ok");
    // The entry of this request may be written before or after the rename, but it is not lost.
    rotate(&mut thruway, "access.log.2");
    get(&address, "/healthz");
    assert_eq!(thruway.terminate().code, Some(0));
    assert_eq!(count("access.log.1", "/"), 0);
    assert_eq!(count("access.log.2", "/ok") + count("access.log", "/ok"), 1);
    assert_eq!(count("access.log", "/healthz"), 1);
}

#[test]
fn sigusr1_without_an_access_log_is_ignored() {
    let mut thruway = Thruway::demo(&[]);
    let address = thruway.address();
    thruway.signal(Signal::USR1);
    assert_eq!(get(&address, "/ok").text(), "ok");
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn failed_access_log_write_is_logged_and_does_not_block_requests() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("path = \"/dev/full\""));
    let address = thruway.address();
    assert_eq!(get(&address, "/ok").text(), "ok");
    thruway.wait_for_log("cannot write the access log");
    assert_eq!(get(&address, "/ok").text(), "ok");
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn unread_access_log_pipe_does_not_block_requests() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("path = \"-\""));
    let mut client = Client::connect(&thruway.address());
    // A pipe holds 64 KiB. These log lines need more than twice as much.
    let target = format!("/{}", "a".repeat(4000));
    for _ in 0..40 {
        assert_eq!(client.get(&target).status(), "404");
    }
    thruway.signal(Signal::TERM);
    assert_eq!(thruway.end_unread().code, Some(0));
}

#[test]
fn json_format_shows_upstream_server_retries_and_timings() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Thruway::demo(&[]);
    let address = server.authority();
    let missing = format!("unix:{}", directory.path().join("nobody.sock").display());
    let config = format!(
        "workers = 1\naccess_log = {{ path = \"access.log\", format = \"json\" }}\nlisteners = [{{ address = \"127.0.0.1:0\" }}]\n\
         [[routes]]\npath = \"/\"\nupstream = \"good\"\n[[routes]]\npath = \"/bad\"\nupstream = \"bad\"\n\
         [[routes]]\npath = \"/own\"\nrespond.status = 204\n\
         [upstreams.good]\nservers = [\"{address}\"]\n[upstreams.bad]\nservers = [\"{missing}\"]\nretries_max = 1\n"
    );
    let mut thruway = Thruway::serve(directory.path(), &config);
    let mut client = Client::connect(&thruway.address());
    for target in ["/plaintext", "/plaintext", "/download?bytes=1000000", "/bad", "/own"] {
        client.get(target);
    }
    assert_eq!(thruway.terminate().code, Some(0));
    let text = fs::read_to_string(directory.path().join("access.log")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second, streamed, bad, own] = &lines[..] else { panic!("{text}") };
    for line in [first, second, streamed] {
        assert_eq!(
            (&line["upstream"], &line["upstream_server"]),
            (&"good".into(), &address.as_str().into()),
            "{line}"
        );
        assert_eq!((&line["retries"], &line["error.type"]), (&0.into(), &serde_json::Value::Null), "{line}");
        assert!(
            line["response_header_us"].as_u64() <= line["duration_us"].as_u64() && line["queue_us"].is_u64(),
            "{line}"
        );
    }
    assert!(
        first["connect_us"].is_u64() && second["connect_us"].is_null(),
        "the second request reuses the connection"
    );
    assert_eq!(bad["upstream_server"], missing);
    assert_eq!((&bad["retries"], &bad["error.type"]), (&1.into(), &"connection_refused".into()));
    assert!(bad["response_header_us"].is_null() && bad["http.response.status_code"] == 502, "{bad}");
    assert!(own.get("upstream").is_none(), "{own}");
}

/// The time in the queue was once missing if the request got no server.
#[test]
fn json_format_shows_the_queue_time_of_a_request_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Thruway::demo(&[]);
    let address = server.authority();
    let config = format!(
        "workers = 1\naccess_log = {{ path = \"access.log\", format = \"json\" }}\nlisteners = [{{ address = \"127.0.0.1:0\" }}]\n\
         [[routes]]\npath = \"/\"\nupstream = \"narrow\"\n\
         [upstreams.narrow]\nservers = [\"{address}\"]\nrequests_max = 1\nqueue = {{ timeout = \"50ms\" }}\n"
    );
    let mut thruway = Thruway::serve(directory.path(), &config);
    let address = thruway.address();
    let mut occupying = Client::connect(&address);
    occupying.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    occupying.head();
    assert!(Client::connect(&address).get("/plaintext").head.starts_with("http/1.1 503 "));
    let log = directory.path().join("access.log");
    let text = loop {
        let text = fs::read_to_string(&log).unwrap();
        if text.ends_with('\n') {
            break text;
        }
    };
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(line["http.response.status_code"] == 503 && line["queue_us"].as_u64() >= Some(50_000), "{line}");
}

#[test]
fn json_format_shows_rejecting_policy_and_forwarded_request_id() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Thruway::demo(&[]);
    let address = server.authority();
    let config = format!(
        "access_log = {{ path = \"access.log\", format = \"json\" }}\nlisteners = [{{ address = \"127.0.0.1:0\" }}]\n\
         [[routes]]\npath = \"/\"\nupstream = \"good\"\nrewrite.request.set = {{ X-Called = \"{{request_id}}\" }}\n\
         [[routes]]\npath = \"/closed\"\npolicies = [\"nobody\"]\nrespond.status = 204\n\
         [upstreams.good]\nservers = [\"{address}\"]\n[policies.nobody]\ndeny = [\"127.0.0.0/8\"]\n"
    );
    let mut thruway = Thruway::serve(directory.path(), &config);
    let mut client = Client::connect(&thruway.address());
    let echoed = client.get("/headers").text().to_owned();
    client.get("/closed");
    assert_eq!(thruway.terminate().code, Some(0));
    let text = fs::read_to_string(directory.path().join("access.log")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let id = lines[0]["request_id"].as_str().unwrap();
    assert!(echoed.contains(&format!("[\"X-Called\",\"{id}\"]")), "{echoed}");
    assert!(lines[0].get("policy").is_none() && lines[1].get("request_id").is_none(), "{text}");
    assert_eq!((&lines[1]["policy"], &lines[1]["reason"]), (&"nobody".into(), &"address".into()));
    assert_eq!(lines[1]["http.response.status_code"], 403);
}

#[test]
fn client_address_comes_from_trusted_proxy_header() {
    let log = |keys: &str| {
        let directory = tempfile::tempdir().unwrap();
        let rest = config("path = \"access.log\", format = \"common\"");
        let mut thruway = Thruway::serve(directory.path(), &format!("{keys}\n{rest}"));
        let mut client = Client::connect(&thruway.address());
        client.request("GET /ok", "X-Forwarded-For: 6.6.6.6, 198.51.100.7\r\n");
        assert_eq!(thruway.terminate().code, Some(0));
        fs::read_to_string(directory.path().join("access.log")).unwrap()
    };
    assert!(log("trusted_proxies = [\"127.0.0.0/8\"]").starts_with("198.51.100.7 - - ["));
    assert!(log("trusted_proxies = [\"10.0.0.0/8\"]").starts_with("127.0.0.1 - - ["));
}

#[test]
fn unix_socket_peer_can_be_a_trusted_proxy() {
    let directory = tempfile::tempdir().unwrap();
    let config = "trusted_proxies = [\"unix\"]\ntrusted_proxies_write = \"forwarded\"\n\
                  access_log = { path = \"access.log\", format = \"json\" }\n\
                  listeners = [{ address = \"unix:socket\" }]\nroutes = [{ path = \"/\", demo = true }]\n";
    let mut thruway = Thruway::serve(directory.path(), config);
    thruway.address();
    let mut client = Client::connect(&format!("unix:{}", directory.path().join("socket").display()));
    client.request("GET /ok", "Forwarded: for=\"[2001:db8::1]\"\r\nX-Forwarded-For: 6.6.6.6\r\n");
    client.request("GET /ok", "Forwarded: for=unknown\r\n");
    assert_eq!(thruway.terminate().code, Some(0));
    let text = fs::read_to_string(directory.path().join("access.log")).unwrap();
    let client =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["client.address"].clone();
    assert_eq!(text.lines().map(client).collect::<Vec<_>>(), ["2001:db8::1", "unix:"]);
}

/// Returns the access log of requests by authenticated users, in the given format.
fn authenticated(format: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    // The password is `open sesame`, and the API key is `k1`.
    let config = format!(
        r#"
access_log = {{ path = "access.log", format = "{format}" }}
listeners = [{{ address = "127.0.0.1:0" }}]
[[routes]]
path = "/"
policies = ["users", "few"]
demo = true
[[routes]]
path = "/keys"
policies = ["keys"]
respond.body = "in"
[[routes]]
path = "/tokens"
policies = ["tokens"]
respond.body = "in"
[policies.tokens.jwt]
secret = "a secret of at least thirty-two bytes"
[policies.users.basic_auth]
users = {{ ali = "$$2y$$10$$dGGXUJOVnuL1Np/cZJw9oebHuWep.Mm6TgDleeEAoOIaeqzUw/d7u" }}
[policies.few.rate_limit]
requests = 2
per = "1h"
[policies.keys.api_keys]
query = "key"
keys = {{ "ada l" = "sha256:6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0" }}
"#
    );
    let mut thruway = Thruway::serve(directory.path(), &config);
    let mut client = Client::connect(&thruway.address());
    let login = "Authorization: Basic YWxpOm9wZW4gc2VzYW1l\r\n";
    let wrong = "Authorization: Basic YWxpOndyb25n\r\n";
    let statuses: Vec<_> = [
        ("GET /ok", login),
        ("GET /ok", login),
        ("GET /ok", login),
        ("GET /ok", wrong),
        ("GET /keys?key=k1&a=b", "Referer: http://a/?a=b&key=k1\r\n"),
        ("GET /keys?KEY=k1", ""),
        ("GET /tokens", TOKEN),
    ]
    .map(|(line, fields)| client.request(line, fields).status().to_owned())
    .into();
    assert_eq!(statuses, ["200", "200", "429", "401", "200", "401", "200"]);
    assert_eq!(thruway.terminate().code, Some(0));
    fs::read_to_string(directory.path().join("access.log")).unwrap()
}

/// Token with the claims `{"sub":"eve","exp":4102444800}`.
const TOKEN: &str = "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.\
                     eyJzdWIiOiJldmUiLCJleHAiOjQxMDI0NDQ4MDB9.RNq3AMYdVIoix1ILjNKDfa3CGgXiNmbPhQymX5SZOZs\r\n";

/// The user column was once always `-`, and the log contained API keys in clear text.
#[test]
fn every_format_shows_authenticated_user_and_masks_api_keys() {
    for format in ["common", "combined"] {
        let text = authenticated(format);
        let users: Vec<_> = text.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
        assert_eq!(users, ["ali", "ali", "ali", "-", "ada\\x20l", "-", "eve"], "{text}");
        assert!(!text.contains("k1") && text.contains("\"GET /keys?key=***&a=b HTTP/1.1\""), "{text}");
    }
    assert!(authenticated("combined").contains("\"http://a/?a=b&key=***\""));
    let text = authenticated("json");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let users: Vec<_> = lines.iter().map(|line| line["user.name"].as_str()).collect();
    let expected = [Some("ali"), Some("ali"), Some("ali"), None, Some("ada l"), None, Some("eve")];
    assert_eq!(users, expected, "{text}");
    assert_eq!((&lines[2]["policy"], &lines[2]["reason"]), (&"few".into(), &"rate".into()));
    assert_eq!(lines[4]["url.query"], "key=***&a=b");
    assert_eq!(lines[4]["http.request.header.referer"][0], "http://a/?a=b&key=***");
    assert_eq!(lines[5]["url.query"], "KEY=***");
}

/// After a reload, the log once contained the keys of a new policy if it read them from another query
/// parameter.
#[test]
fn reload_masks_api_keys_of_new_policies() {
    let directory = tempfile::tempdir().unwrap();
    let policy = "[policies.keys.api_keys]\nquery = \"key\"\n\
                  keys.a = \"sha256:6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0\"\n";
    let before = config("path = \"access.log\"");
    let mut thruway = Thruway::serve(directory.path(), &before);
    let mut client = Client::connect(&thruway.address());
    client.get("/ok?key=a");
    thruway.reload(directory.path(), &format!("{before}{policy}"), RELOADED);
    client.get("/ok?key=k1");
    assert_eq!(thruway.terminate().code, Some(0));
    let text = fs::read_to_string(directory.path().join("access.log")).unwrap();
    assert!(text.contains("key=a ") && text.contains("key=*** ") && !text.contains("k1"), "{text}");
}
