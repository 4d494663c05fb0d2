//! Tests of reloads on a running server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::{Client, get};
use crate::process::{RELOADED, Signal, Thruway};

/// Returns a config with `rest` and a route `/` that responds with `content`.
fn config(content: &str, rest: &str) -> String {
    format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         [[routes]]\npath = \"/\"\nrespond.body = \"{content}\"\n{rest}\n"
    )
}

#[test]
fn no_request_fails_during_repeated_reloads() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("0", ""));
    let address = thruway.address();
    let mut idle = Client::connect(&address);
    assert_eq!(idle.get("/").text(), "0");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(&address);
                    let mut last = 0;
                    while !is_done.load(Ordering::Relaxed) {
                        let response = client.get("/");
                        assert_eq!(response.status(), "200");
                        let now: u32 = response.text().parse().unwrap();
                        assert!(now >= last, "{now} after {last}: an old config served this request");
                        last = now;
                    }
                    last
                })
            })
            .collect();
        for turn in 1..=30 {
            thruway.reload(directory.path(), &config(&turn.to_string(), ""), RELOADED);
            assert_eq!(idle.get("/").text(), turn.to_string());
        }
        is_done.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() <= 30);
        }
    });
    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("connections_total=5"), "all connections stay open: {}", ended.stderr);
}

/// If a signal arrives while the server reads the config, the server must read the config again.
#[test]
fn last_of_two_quick_reloads_takes_effect() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("thruway.toml");
    let mut thruway = Thruway::serve(directory.path(), &config("0", ""));
    let mut client = Client::connect(&thruway.address());
    for turn in 1..=20 {
        std::fs::write(&path, config("in between", "")).unwrap();
        thruway.signal(Signal::HUP);
        std::fs::write(directory.path().join("next"), config(&turn.to_string(), "")).unwrap();
        std::fs::rename(directory.path().join("next"), &path).unwrap();
        thruway.signal(Signal::HUP);
        let expected = turn.to_string();
        let is_served = (0..100_000).any(|_| client.get("/").text() == expected);
        assert!(is_served, "the config of turn {turn} is not served");
    }
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn failed_reload_keeps_the_previous_config() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("old", ""));
    let address = thruway.address();
    let mut client = Client::connect(&address);
    for (bad, reason) in [
        ("workers = \"two\"".to_owned(), "error: invalid type"),
        (
            config("new", "[[routes]]\npath = \"/a\"\nupstream = \"none\""),
            "error: there is no upstream `none`",
        ),
        (
            config("new", "[[routes]]\npath = \"/a\"\nfiles.root = \"none\""),
            "error: cannot serve the directory `none`",
        ),
        (config("new", "[[routes]]\npath = \"/\"\ndemo = true"), "error: no request reaches this route"),
    ] {
        thruway.reload(directory.path(), &bad, "reload failed, keeping the previous config");
        thruway.wait_for_log(reason);
        thruway.wait_for_log("--> thruway.toml:");
        assert_eq!(client.get("/").text(), "old", "{reason}");
    }
    std::fs::remove_file(directory.path().join("thruway.toml")).unwrap();
    thruway.signal(Signal::HUP);
    thruway.wait_for_log("error: cannot read `thruway.toml`");
    thruway.reload(directory.path(), &config("new", ""), RELOADED);
    assert_eq!(client.get("/").text(), "new");
}

#[test]
fn reload_logs_settings_that_need_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("old", ""));
    let address = thruway.address();
    let changed = config("new", "[admin]\naddress = \"127.0.0.1:0\"")
        .replace("workers = 1", "workers = 2\nbatch_sends = false");
    thruway.reload(directory.path(), &changed, "`workers` has changed: restart the process");
    for key in ["batch_sends", "admin"] {
        thruway.wait_for_log(&format!("`{key}` has changed: restart the process to apply the change"));
    }
    thruway.wait_for_log(RELOADED);
    assert_eq!(get(&address, "/").text(), "new");
    thruway.reload(directory.path(), &config("newer", ""), RELOADED);
    let ended = thruway.terminate();
    assert!(!ended.stderr.contains("restart the process"), "{}", ended.stderr);
}

#[test]
fn reloaded_limits_timeouts_and_proxies_apply_to_new_connections() {
    let directory = tempfile::tempdir().unwrap();
    let demo = "[[routes]]\npath = \"/demo\"\ndemo = true\n";
    let mut thruway = Thruway::serve(directory.path(), &config("old", demo));
    let address = thruway.address();
    let mut before = Client::connect(&address);
    let lines = "A: 1\r\nB: 2\r\nC: 3\r\n";
    assert_eq!(before.request("GET /", lines).status(), "200");
    let limits = format!("{demo}[limits]\nheaders = 3\n[timeouts]\nidle = \"500ms\"\n");
    let changed = format!("trusted_proxies = [\"127.0.0.1\"]\n{}", config("new", &limits));
    thruway.reload(directory.path(), &changed, RELOADED);
    assert_eq!(before.request("GET /", lines).status(), "200", "open connections keep their limits");
    let mut after = Client::connect(&address);
    assert_eq!(after.request("GET /", lines).status(), "431");
    let mut idle = Client::connect(&address);
    let seen = idle.request("GET /demo/headers", "X-Forwarded-For: 192.0.2.7\r\n");
    assert!(seen.text().contains("\"192.0.2.7"), "{}", seen.text());
    assert!(idle.is_closed(), "after half a second");
    assert_eq!(before.get("/").text(), "new");
}

#[test]
fn reload_adds_keeps_and_removes_listeners() {
    let directory = tempfile::tempdir().unwrap();
    let config = |content: &str| config(content, "").replace("workers = 1", "workers = 2");
    let mut thruway = Thruway::serve(directory.path(), &config("old"));
    let first = thruway.address();
    let mut kept = Client::connect(&first);
    assert_eq!(kept.get("/").text(), "old");
    let unix = "[[listeners]]\naddress = \"unix:socket\"\n[[listeners]]";
    let both = config("both").replacen("[[listeners]]", unix, 1);
    thruway.reload(directory.path(), &both, "listening address=unix:");
    thruway.wait_for_log(RELOADED);
    let second = format!("unix:{}", directory.path().join("socket").display());
    let mut other = Client::connect(&second);
    assert_eq!(other.get("/").text(), "both");
    assert_eq!(kept.get("/").text(), "both", "a listener that stays keeps its port and its connections");
    assert_eq!(get(&first, "/").text(), "both");
    let only = config("only").replace("127.0.0.1:0", "unix:socket");
    thruway.reload(directory.path(), &only, "no longer listening address=127.0.0.1:");
    thruway.wait_for_log(RELOADED);
    assert!(kept.is_closed(), "idle connections are closed");
    assert_eq!(other.get("/").text(), "only");
    assert_eq!(get(&second, "/").text(), "only");
    let port = first.strip_prefix("http://").unwrap();
    assert!(std::net::TcpStream::connect(port).is_err(), "the listener is closed");
    assert_eq!(thruway.terminate().code, Some(0));
    assert!(!directory.path().join("socket").exists());
}

#[test]
fn reload_with_unavailable_listener_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("old", ""));
    let address = thruway.address();
    let free = "[[listeners]]\naddress = \"unix:socket\"\n";
    let bad = format!("[[listeners]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    let changed = config("new", "").replacen("[[listeners]]", &format!("{free}{bad}[[listeners]]"), 1);
    thruway.reload(directory.path(), &changed, "reload failed, keeping the previous config");
    thruway.wait_for_log("cannot listen on");
    assert_eq!(get(&address, "/").text(), "old");
    assert!(!directory.path().join("socket").exists(), "a failed reload closes its new listeners");
}

#[test]
fn reload_changes_disables_and_reenables_access_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = |format: &str, path: &str| format!("[access_log]\nformat = \"{format}\"\npath = \"{path}\"\n");
    let mut thruway = Thruway::serve(directory.path(), &config("a", &log("common", "one")));
    let address = thruway.address();
    let mut kept = Client::connect(&address);
    kept.get("/one");
    thruway.reload(directory.path(), &config("a", &log("json", "two")), RELOADED);
    let lines = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    // The thread that writes the log opens the new file a little later.
    while lines("one").is_empty() {
        thread::yield_now();
    }
    while !lines("two").contains("/two") {
        kept.get("/two");
    }
    thruway.reload(directory.path(), &config("a", ""), RELOADED);
    get(&address, "/none");
    thruway.reload(directory.path(), &config("a", &log("json", "three")), RELOADED);
    while !lines("three").contains("/three") {
        get(&address, "/three");
    }
    assert_eq!(thruway.terminate().code, Some(0));
    let [one, two, three] = ["one", "two", "three"].map(lines);
    assert!(one.contains("GET /one "), "{one}");
    assert!(two.lines().all(|line| line.starts_with('{')), "{two}");
    assert!(!format!("{one}{two}{three}").contains("/none"));
}

/// Starts a server. Returns it with config text that forwards requests to it.
fn upstream(workers: &str) -> (Thruway, String) {
    let mut server = Thruway::demo(&["--workers", workers]);
    let address = server.authority();
    let upstream = format!(
        "[[routes]]\npath = \"/headers\"\nupstream = \"demo\"\n[[routes]]\npath = \"/events\"\nupstream = \"demo\"\n\
         [upstreams.demo]\nservers = [\"{address}\"]\n"
    );
    (server, upstream)
}

/// Returns the client address of the gateway's upstream connection, as seen by the upstream server.
fn upstream_client(client: &mut Client) -> String {
    let seen: serde_json::Value = serde_json::from_slice(&client.get("/headers").content).unwrap();
    seen["client"].as_str().unwrap().to_owned()
}

#[test]
fn reload_keeps_connections_of_unchanged_upstream() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, upstream) = upstream("1");
    let mut gateway = Thruway::serve(directory.path(), &config("1", &upstream));
    let mut client = Client::connect(&gateway.address());
    let before = upstream_client(&mut client);
    assert_eq!(upstream_client(&mut client), before);
    gateway.reload(directory.path(), &config("2", &upstream), RELOADED);
    assert_eq!(client.get("/").text(), "2");
    assert_eq!(upstream_client(&mut client), before);
    let changed = config("3", &upstream.replace("servers", "balance = \"least_connections\"\nservers"));
    gateway.reload(directory.path(), &changed, RELOADED);
    assert_ne!(upstream_client(&mut client), before);
}

/// Each reload replaces the upstream and closes its connections.
#[test]
fn no_request_fails_while_its_upstream_is_replaced_repeatedly() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Thruway::demo(&["--workers", "1"]);
    let address = server.authority();
    let upstream = |turn: usize| {
        let balance = ["least_connections", "random_of_two"][turn % 2];
        let connections = 8 + turn % 3;
        format!(
            "[[routes]]\npath = \"/echo\"\nupstream = \"demo\"\n[upstreams.demo]\nservers = [\"{address}\"]\n\
             balance = \"{balance}\"\nconnections_max = {connections}\n"
        )
    };
    let mut gateway = Thruway::serve(directory.path(), &config("0", &upstream(0)));
    let address = gateway.address();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(&address);
                while !is_done.load(Ordering::Relaxed) {
                    // A POST request, because the gateway does not retry it on another connection.
                    client.send("POST /echo HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello");
                    let response = client.response(false);
                    assert_eq!((response.status(), response.text()), ("200", "hello"));
                }
            });
        }
        for turn in 1..=30 {
            gateway.reload(directory.path(), &config("0", &upstream(turn)), RELOADED);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let ended = gateway.terminate();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("connections_total=4"), "all connections stay open: {}", ended.stderr);
}

#[test]
fn open_streams_survive_removal_of_their_routes() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, upstream) = upstream("1");
    let own = "[[routes]]\npath = \"/demo\"\ndemo = true\n";
    let mut gateway = Thruway::serve(directory.path(), &config("1", &format!("{own}{upstream}")));
    let address = gateway.address();
    let mut streams = ["/demo/events?every=1", "/events?every=1"].map(|path| {
        let mut client = Client::connect(&address);
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.head().starts_with("http/1.1 200 "));
        client
    });
    for next in [format!("{own}{upstream}"), String::new()] {
        gateway.reload(directory.path(), &config("2", &next), RELOADED);
        for stream in &mut streams {
            for _ in 0..5 {
                assert!(!stream.chunk().is_empty());
            }
        }
    }
    assert_eq!(get(&address, "/events").text(), "2");
}

#[test]
fn mcp_sessions_survive_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let rest = "[[routes]]\npath = \"/mcp\"\ndemo = \"mcp\"\n";
    let mut thruway = Thruway::serve(directory.path(), &config("1", rest));
    let mut client = Client::connect(&thruway.address());
    let mut post = |session: &str, content: &str| {
        client.send(&format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{content}",
            content.len()
        ));
        client.response(false)
    };
    let initialized = post(
        "",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},
            "clientInfo":{"name":"test","version":"1"}}}"#,
    );
    let session = initialized.head.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    let session = format!("{session}\r\n");
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    assert_eq!(post(&session, ping).status(), "200");
    thruway.reload(directory.path(), &config("2", rest), RELOADED);
    assert_eq!(post(&session, ping).status(), "200");
    assert_eq!(post("Mcp-Session-Id: none\r\n", ping).status(), "404");
}
