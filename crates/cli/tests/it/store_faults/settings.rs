//! `thruway check`, and the start of a gateway, with stores that cannot be used.

use super::fleet::{KEY, OTHER_KEY, config};
use super::servers::{Proxy, RedisServer, cluster_nodes, create_cluster, free_port};
use super::until;
use crate::client::get;
use crate::process::{Signal, Thruway};
use crate::tls::get_from;
use thruway_testkit::CertificateAuthority;

/// Returns the exit code and the output of `thruway check` with this store.
fn checked(shared: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.toml"), config(shared, "127.0.0.1:1")).unwrap();
    let ended = Thruway::start_in(directory.path(), &[&["check", "a.toml"], arguments].concat()).end();
    (ended.code, format!("{}{}", ended.stdout, ended.stderr))
}

/// Returns the keys of the section `shared`.
fn shared(url: &str, rest: &str) -> String {
    format!("store = \"{url}\"\nkey = \"{KEY}\"\n{rest}")
}

/// Asserts that `thruway check` reports an error with these texts, and that `--offline` reports none.
fn refuses(shared: &str, texts: &[&str]) {
    let (code, output) = checked(shared, &[]);
    assert_eq!(code, Some(2), "{output}");
    for text in texts {
        assert!(output.contains(text), "`{text}` is missing in: {output}");
    }
    assert!(!output.contains("sesame"), "{output}");
    let (code, output) = checked(shared, &["--offline"]);
    assert_eq!(code, Some(0), "{output}");
}

/// Asserts that `thruway check` accepts the store with a warning.
fn warns(shared: &str, text: &str) {
    let (code, output) = checked(shared, &[]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("warning") && output.contains(text), "{output}");
}

#[test]
#[ignore = "needs redis-server"]
fn store_that_works_has_no_warning() {
    let server = RedisServer::start(&[]);
    let (code, output) = checked(&shared(&server.url(), ""), &[]);
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("warning"), "{output}");
}

#[test]
#[ignore = "needs redis-server"]
fn wrong_addresses_are_explained() {
    let closed = format!("redis://127.0.0.1:{}", free_port());
    refuses(&shared(&closed, ""), &["Connection refused", "check the host and the port", "--offline"]);
    refuses(&shared("redis://store.invalid:6379", ""), &["store.invalid:6379", "check the name of the host"]);
    let (code, output) = checked(&shared("redis:/127.0.0.1", ""), &["--offline"]);
    assert!(code == Some(2) && output.contains("the URL must begin with `redis://`"), "{output}");
}

#[test]
#[ignore = "needs redis-server"]
fn wrong_passwords_and_missing_permissions_are_explained() {
    let server = RedisServer::start(&["--requirepass", "open-sesame"]);
    let with_password = |password: &str| shared(&server.url(), &format!("password = \"{password}\""));
    refuses(
        &shared(&server.url(), ""),
        &["NOAUTH the server requires a password: check `user` and `password`"],
    );
    refuses(&with_password("close-sesame"), &["WRONGPASS", "check `user` and `password`"]);
    let (code, output) = checked(&with_password("open-sesame"), &[]);
    assert_eq!(code, Some(0), "{output}");
    let server = RedisServer::start(&[]);
    for (number, (rule, command)) in [
        ("-evalsha", "EVALSHA"),
        ("-eval", "EVAL"),
        ("-publish", "PUBLISH"),
        ("-subscribe", "SUBSCRIBE"),
        // Only scripts use the other commands.
        ("-time", "TIME"),
        ("-incrby", "INCRBY"),
        ("-hgetall", "HGETALL"),
        ("-pexpireat", "PEXPIREAT"),
        ("-ltrim", "LTRIM"),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("user{number}");
        let rules = [">sesame", "~thruway:*", "&thruway:*", "+@all", "-@dangerous", "+info", "+role", rule];
        server.cli(&[&["acl", "setuser", &user, "on"], &rules[..]].concat());
        let shared = shared(&server.url(), &format!("user = \"{user}\"\npassword = \"sesame\""));
        refuses(
            &shared,
            &[&format!("`{command}` failed"), "give the user the permissions that the guide lists"],
        );
    }
    server.cli(&["acl", "setuser", "other", "on", ">sesame", "~other:*", "&thruway:*", "+@all"]);
    let shared = shared(&server.url(), "user = \"other\"\npassword = \"sesame\"");
    refuses(&shared, &["NOPERM", "give the user the permissions that the guide lists"]);
}

#[test]
#[ignore = "needs redis-server"]
fn old_servers_are_explained() {
    let server = RedisServer::start(&[]);
    let old = Proxy::rewriting(server.port, |mut bytes| {
        let name = b"redis_version:";
        if let Some(place) = bytes.windows(name.len()).position(|part| part == name) {
            bytes[place + name.len()] = b'5';
        }
        bytes
    });
    let url = format!("redis://127.0.0.1:{}", old.port);
    refuses(&shared(&url, ""), &["is too old: use Redis 6.2 or Valkey 7.2, or a newer version"]);
    // Redis 5 does not know `HELLO`.
    let older = RedisServer::start(&["--rename-command", "HELLO", ""]);
    refuses(&shared(&older.url(), ""), &["the store must be Redis 6.2 or Valkey 7.2, or a newer version"]);
}

#[test]
#[ignore = "needs redis-server"]
fn clusters_with_missing_slots_or_commands_are_explained() {
    let nodes = cluster_nodes(&[]);
    let url = format!("redis+cluster://127.0.0.1:{}", nodes[0].port);
    refuses(&shared(&url, ""), &["the cluster serves only 0 of 16384 slots", "redis-cli --cluster create"]);
    nodes[0].cli(&["cluster", "addslotsrange", "0", "8000"]);
    refuses(&shared(&url, ""), &["the cluster serves only 8001 of 16384 slots"]);
    let nodes = cluster_nodes(&["--rename-command", "EVALSHA", ""]);
    create_cluster(&nodes);
    let url = format!("redis+cluster://127.0.0.1:{}", nodes[1].port);
    refuses(&shared(&url, ""), &["`EVALSHA` failed", "the store must provide this command"]);
    refuses(&shared(&nodes[1].url(), ""), &["use `redis+cluster://`"]);
}

#[test]
#[ignore = "needs redis-server"]
fn difference_of_clocks_gets_a_warning() {
    let server = RedisServer::start(&[]);
    // The response to `TIME` contains the seconds as a text of ten digits. The proxy moves it by 10^8 seconds.
    let skewed = Proxy::rewriting(server.port, |mut bytes| {
        if bytes.starts_with(b"*2\r\n$10\r\n") {
            bytes[10] = if bytes[10] == b'9' { b'8' } else { bytes[10] + 1 };
        }
        bytes
    });
    warns(&shared(&format!("redis://127.0.0.1:{}", skewed.port), ""), "synchronize them");
}

#[test]
#[ignore = "needs redis-server"]
fn fleets_with_the_same_prefix_are_explained() {
    let (server, directory) = (RedisServer::start(&[]), tempfile::tempdir().unwrap());
    let mut first = Thruway::serve(directory.path(), &config(&shared(&server.url(), ""), "127.0.0.1:1"));
    first.wait_for_log("connected to the shared store");
    let other = shared(&server.url(), "").replace(KEY, OTHER_KEY);
    refuses(
        &other,
        &["another fleet with a different key uses the prefix `thruway`", "set another `prefix`"],
    );
    let (code, output) = checked(&format!("{other}\nprefix = \"other\""), &[]);
    assert_eq!(code, Some(0), "{output}");
    // A gateway of the other fleet serves requests without the store.
    let directory = tempfile::tempdir().unwrap();
    let mut second = Thruway::serve(directory.path(), &config(&other, "127.0.0.1:1"));
    let address = second.address();
    second.wait_for_log("another fleet with a different key uses the prefix `thruway`");
    assert_eq!(get(&address, "/free").status(), "200");
    // The gateway notices the failure with the first request of the limit.
    until(|| get(&address, "/rate/deny").status() == "503");
}

#[test]
#[ignore = "needs redis-server"]
fn gateway_starts_without_the_store_and_logs_the_reason() {
    let port = free_port();
    let directory = tempfile::tempdir().unwrap();
    let url = format!("redis://127.0.0.1:{port}");
    let peers = "peer_listen = \"127.0.0.1:0\"";
    let mut gateway = Thruway::serve(directory.path(), &config(&shared(&url, peers), "127.0.0.1:1"));
    let address = gateway.address();
    gateway.wait_for_log("check the host and the port");
    assert_eq!(get(&address, "/free").status(), "200");
    assert_eq!(get(&address, "/rate/allow").status(), "200");
    until(|| get(&address, "/rate/deny").status() == "503");
}

/// Certificates and keys of session tickets are shared by default. Without the store, a gateway uses its own.
#[test]
#[ignore = "needs redis-server"]
fn gateway_starts_with_tls_while_the_store_is_stopped() {
    let (server, authority) = (RedisServer::start(&[]), CertificateAuthority::new());
    let files = authority.issue("server", &["www.example"]);
    server.signal(Signal::STOP);
    let directory = tempfile::tempdir().unwrap();
    let config = format!(
        "workers = 1\n[shared]\n{}\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         tls.certificates = [{{ chain = \"{}\", key = \"{}\" }}]\n\
         [[routes]]\npath = \"/\"\nrespond.body = \"served\"\n",
        shared(&server.url(), "prefix = \"tls\""),
        files.chain.display(),
        files.key.display(),
    );
    let mut gateway = Thruway::serve(directory.path(), &config);
    let address = gateway.address();
    for _ in 0..3 {
        assert!(get_from(&authority.root(), &address, "www.example").ends_with("served"));
    }
    server.signal(Signal::CONT);
    gateway.wait_for_log("connected to the shared store");
    assert!(get_from(&authority.root(), &address, "www.example").ends_with("served"));
}

#[test]
fn peer_listener_without_a_shared_store_gets_a_warning() {
    let peers = format!("key = \"{KEY}\"\npeer_listen = \"127.0.0.1:0\"");
    warns(&peers, "no other gateway finds this `peer_listen`");
}
