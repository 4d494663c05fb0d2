//! Tests of upstream settings.

use std::time::Duration;

use thruway_gateway::{Balance, CheckKind, HashBy, ProxyVersion, ResolverConfig, UpstreamConfig};

use super::*;

/// Returns the upstream `a` with `keys`, or the error.
fn upstream(keys: &str) -> Result<UpstreamConfig, String> {
    let rest = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    let config = resolved(&format!("{rest}[upstreams.a]\n{keys}\n"));
    config.map(|mut config| config.upstreams.remove("a").unwrap()).map_err(|failure| failure.to_string())
}

fn with_servers(keys: &str) -> Result<UpstreamConfig, String> {
    upstream(&format!("servers = [\"127.0.0.1:9001\"]\n{keys}"))
}

#[test]
fn servers_are_addresses_or_tables() {
    let config = upstream(
        "server_requests_max = 9\nservers = [\"127.0.0.1:1\", \"unix:a.sock\", \
         { address = \"backend.example:80\", weight = 3, backup = true, requests_max = 2 }]",
    );
    let servers: Vec<_> = config.unwrap().servers.into_iter().collect();
    let settings: Vec<_> = servers
        .iter()
        .map(|server| (server.address.to_string(), server.weight, server.is_backup, server.requests_max))
        .collect();
    let expected = [
        ("127.0.0.1:1".to_owned(), 1, false, 9),
        ("unix:a.sock".to_owned(), 1, false, 9),
        ("backend.example:80".to_owned(), 3, true, 2),
    ];
    assert_eq!(settings, expected);
}

#[test]
fn upstream_can_be_required_for_readiness() {
    let required = |keys: &str| {
        let rest = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n";
        let text = format!("{rest}[upstreams.a]\nservers = [\"127.0.0.1:9001\"]\n{keys}\n");
        resolved(&text).map(|config| config.required_for_ready.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(required("required_for_ready = true").unwrap(), ["a"]);
    assert!(required("required_for_ready = false").unwrap().is_empty() && required("").unwrap().is_empty());
    let failure = required("required_for_ready = \"yes\"").unwrap_err().to_string();
    assert!(failure.contains("invalid type: string") && failure.contains("serve.toml:8"), "{failure}");
}

#[test]
fn retry_statuses_are_error_statuses() {
    let statuses = |keys: &str| {
        with_servers(keys).map(|config| config.retry_statuses.iter().map(ToString::to_string).collect())
    };
    assert_eq!(statuses(""), Ok(vec![]));
    let expected = vec!["429".to_owned(), "502-504".to_owned()];
    assert_eq!(statuses("retry_statuses = [\"429\", \"502-504\"]"), Ok(expected));
    let failure = statuses("retry_statuses = [\"200-503\"]").unwrap_err();
    assert!(failure.contains("only error statuses from 400 to 599 can cause a retry"), "{failure}");
    assert!(failure.contains("serve.toml:8"), "{failure}");
    assert!(statuses("retry_statuses = [\"5xx\"]").unwrap_err().contains("write statuses as"));
}

#[test]
fn balance_is_a_name_or_a_table() {
    let balance = |keys: &str| with_servers(keys).unwrap().balance;
    for (name, expected) in [
        ("round_robin", Balance::RoundRobin),
        ("least_connections", Balance::LeastConnections),
        ("random_of_two", Balance::RandomOfTwo),
        ("peak_ewma", Balance::PeakEwma),
    ] {
        assert_eq!(balance(&format!("balance = \"{name}\"")), expected);
    }
    for (name, by) in [
        ("client_address", HashBy::ClientAddress),
        ("path", HashBy::Path),
        ("header:X-User", HashBy::Field("X-User".to_owned())),
        ("cookie:user", HashBy::Cookie("user".to_owned())),
    ] {
        assert_eq!(balance(&format!("balance = {{ hash = \"{name}\" }}")), Balance::hash(by));
    }
    let bounded = balance("balance = { hash = \"path\", load_max_percent = 200 }");
    assert_eq!(bounded, Balance::Hash { by: HashBy::Path, load_max_percent: 200 });
}

#[test]
fn upstream_proxy_protocol_is_v1_or_v2() {
    let version = |keys: &str| with_servers(keys).unwrap().proxy_protocol;
    assert_eq!(version(""), None);
    assert_eq!(version("proxy_protocol = \"v1\""), Some(ProxyVersion::V1));
    assert_eq!(version("proxy_protocol = \"v2\""), Some(ProxyVersion::V2));
    assert!(with_servers("proxy_protocol = true").unwrap_err().contains("serve.toml:8"));
}

#[test]
fn upstream_http2_excludes_proxy_protocol() {
    let uses_http2 = |keys: &str| with_servers(keys).unwrap().http2.is_some();
    assert!(
        uses_http2("http2 = true")
            && !uses_http2("http2 = false\nproxy_protocol = \"v1\"")
            && !uses_http2("")
    );
    let failure = with_servers("http2 = true\nproxy_protocol = \"v1\"").unwrap_err();
    assert!(
        failure.contains("`proxy_protocol` names one client for each connection, so it requires HTTP/1.1")
            && failure.contains("serve.toml:8"),
        "{failure}"
    );
}

#[test]
fn upstream_http2_auto_negotiates_by_alpn_and_needs_tls() {
    let offered = |keys: &str| {
        let config = with_servers(keys).unwrap();
        let connector = config.tls.unwrap().connector;
        let offered = connector.config().alpn.iter().map(|name| String::from_utf8_lossy(name).into_owned());
        (offered.collect::<Vec<_>>().join(" "), config.http2.is_some(), config.negotiates_http2)
    };
    assert_eq!(offered("tls = true\nhttp2 = \"auto\""), ("h2 http/1.1".to_owned(), true, true));
    assert_eq!(offered("tls = true\nhttp2 = true"), ("h2".to_owned(), true, false));
    assert_eq!(offered("tls = true"), ("http/1.1".to_owned(), false, false));
    for (keys, message) in [
        ("http2 = \"auto\"", "servers can negotiate HTTP/2 only with `tls`"),
        ("http2 = \"auto\"\ntls = false", "servers can negotiate HTTP/2 only with `tls`"),
        (
            "http2 = \"auto\"\ntls = true\nproxy_protocol = \"v1\"",
            "`proxy_protocol` names one client for each connection, so it requires HTTP/1.1",
        ),
        ("http2 = \"only\"", "expected `true`, `false` or `\"auto\"`"),
    ] {
        let failure = with_servers(keys).unwrap_err();
        assert!(failure.contains(message) && failure.contains("serve.toml:8"), "{failure}");
    }
}

#[test]
fn connections_max_applies_with_and_without_http2() {
    let maximum = |keys: &str| with_servers(keys).unwrap().connections_max;
    assert_eq!((maximum(""), maximum("connections_max = 100")), (0, 100));
    assert_eq!(maximum("connections_max = 100\nhttp2 = true"), 100);
}

#[test]
fn resolver_is_system_dns_or_a_list_of_nameservers() {
    let resolver = |keys: &str| with_servers(keys).unwrap().resolver;
    assert_eq!(resolver("resolver = \"system\""), ResolverConfig::System);
    assert_eq!(resolver("resolver = \"dns\""), ResolverConfig::Dns(Vec::new()));
    let nameservers = vec!["127.0.0.1:5353".parse().unwrap()];
    assert_eq!(
        resolver("resolver = { nameservers = [\"127.0.0.1:5353\"] }"),
        ResolverConfig::Dns(nameservers)
    );
    let failure = with_servers("resolver = { nameservers = [\"localhost\"] }").unwrap_err();
    assert!(failure.contains("is not the address of a DNS server") && failure.contains("serve.toml:8"));
    let failure = with_servers("resolver = { nameservers = [] }").unwrap_err();
    assert!(failure.contains("`nameservers` is empty"), "{failure}");
    let failure = with_servers("check = { path = \"/\", statuses = [] }").unwrap_err();
    assert!(failure.contains("`statuses` is empty"), "{failure}");
}

#[test]
fn health_check_without_a_path_uses_tcp() {
    let check = |keys: &str| with_servers(keys).unwrap().check.unwrap();
    assert_eq!(check("check = {}").kind, CheckKind::Tcp);
    let http = check("check = { path = \"/health?full\", interval = \"1s\", fall = 1 }");
    assert_eq!(http.kind, CheckKind::http("/health?full"));
    assert_eq!((http.interval, http.fall, http.rise), (Duration::from_secs(1), 1, 2));
}

#[test]
fn one_server_may_have_weight_zero_but_not_all() {
    let weights = |first: u32, second: u32| {
        upstream(&format!(
            "servers = [{{ address = \"a:1\", weight = {first} }}, {{ address = \"b:1\", weight = {second} }}]"
        ))
    };
    assert!(weights(0, 1).is_ok());
    assert!(weights(0, 0).is_err());
    assert!(with_servers("ejection = { time = \"2m\", time_max = \"2m\" }").is_ok());
}

#[test]
fn upstream_and_policy_need_a_name() {
    let rest = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    let error_of = |section: &str| resolved(&format!("{rest}{section}")).err().unwrap().to_string();
    let failure = error_of("[upstreams.\"\"]\nservers = [\"127.0.0.1:9001\"]\n");
    assert!(failure.contains("an upstream needs a name") && failure.contains("serve.toml:6"), "{failure}");
    let failure = error_of("[policies.\" \"]\nallow = [\"::1\"]\n");
    assert!(failure.contains("a policy needs a name") && failure.contains("serve.toml:6"), "{failure}");
}

#[test]
fn invalid_upstream_error_names_its_line() {
    for (keys, message) in [
        ("servers = []", "`servers` is empty"),
        ("servers = [\"[::1]:1\", \"[0::1]:1\"]", "the upstream lists the server `[::1]:1` twice"),
        ("servers = [\"a\"]", "`a` is not the address of a server"),
        ("servers = [1]", "invalid type: integer `1`, expected an address or a table with an `address`"),
        ("servers = [{ weight = 1 }]", "missing field `address`"),
        ("servers = [{ address = \"a:1\", weight = 257 }]", "the value must be from 0 to 256"),
        ("servers = [{ address = \"a:1\", wait = 1 }]", "unknown key `wait`"),
        ("servers = [\"127.0.0.1:0\"]", "port 0 is not a valid server port"),
        ("servers = [\"a.example:0\"]", "`a.example:0` is not the address of a server"),
        ("servers = [{ address = \"a:1\", weight = 0 }]", "all servers have the weight 0"),
    ] {
        let failure = upstream(keys).unwrap_err();
        let names_line = [6, 7].iter().any(|line| failure.contains(&format!("serve.toml:{line}")));
        assert!(failure.contains(message) && names_line, "{failure}");
    }
    for (keys, message) in [
        ("balance = \"peak\"", "unknown value `peak`"),
        ("balance = 1", "invalid type: integer `1`, expected a name or a table with `hash`"),
        ("balance = { hash = \"user\" }", "`user` is an unknown hash key"),
        ("balance = { hash = \"header:a b\" }", "`header:a b` is an unknown hash key"),
        ("balance = { hash = \"path\", load_max_percent = 99 }", "the value must be from 100 to 100000"),
        ("sticky = { cookie = \"a b\" }", "`a b` is not a valid cookie name"),
        ("check = { body = \"ok\" }", "`host`, `statuses` and `body` require `path`"),
        ("check = { path = \"health\" }", "invalid path"),
        ("check = { path = \"/\", host = \"a\\r\\nb\" }", "invalid host"),
        ("check = { path = \"/\", statuses = [\"2xx\"] }", "write statuses as `204` or `200-399`"),
        ("check = { path = \"/\", rise = 0 }", "the value must be from 1 to 1000"),
        ("ejection.percent_max = 101", "the value must be from 0 to 100"),
        ("ejection.failures = 4294967296", "expected a whole number from 0 to 4294967295"),
        ("ejection.time = \"0s\"", "the value must be from 1ms to 24h"),
        ("queue.timeout = \"25h\"", "the value must be from 1ms to 24h"),
        ("ejection.time = \"2m\"", "`time` (2m) is longer than `time_max` (1m)"),
        ("ejection = { time = \"2s\", time_max = \"1s\" }", "`time` (2s) is longer than `time_max` (1s)"),
        ("ejection.time_max = \"5s\"", "`time` (10s) is longer than `time_max` (5s)"),
        ("sticky = { cookie = \"a\", secret = \"\" }", "the secret is empty, so clients can forge cookies"),
        (
            "check = { path = \"/\", body = \"\" }",
            "`body` is empty, so the check would accept any response body",
        ),
    ] {
        let failure = with_servers(keys).unwrap_err();
        assert!(failure.contains(message) && failure.contains("serve.toml:8"), "{failure}");
    }
}

#[test]
fn forwarded_port_requires_x_forwarded_headers() {
    for keys in ["", "forwarded = \"both\"", "forwarded = \"x-forwarded\""] {
        assert!(with_servers(&format!("{keys}\nforwarded_port = true")).is_ok(), "{keys}");
    }
    for keys in ["forwarded = \"forwarded\"", "forwarded = \"none\""] {
        let failure = with_servers(&format!("{keys}\nforwarded_port = true")).unwrap_err();
        assert!(failure.contains("`X-Forwarded-Port` requires the other `X-Forwarded` headers"), "{failure}");
    }
}

#[test]
fn sticky_cookies_that_replace_each_other_get_a_warning() {
    let config = |hosts: [&str; 2], cookies: [&str; 2]| {
        let part = |name: &str, host: &str, cookie: &str| {
            format!(
                "[[routes]]\npath = \"/{name}\"\nupstream = \"{name}\"\n{host}\n\
                 [upstreams.{name}]\nservers = [\"127.0.0.1:2\"]\nsticky = {{ cookie = \"{cookie}\" }}\n"
            )
        };
        let parts = part("a", hosts[0], cookies[0]) + &part("b", hosts[1], cookies[1]);
        resolved(&format!("[[listeners]]\naddress = \"127.0.0.1:1\"\n{parts}")).unwrap()
    };
    let (www, all, deep) =
        ("host = \"www.example.com\"", "host = \"*.example.com\"", "host = \"*.a.example.com\"");
    for (hosts, cookies, is_warned) in [
        (["", ""], ["x", "x"], true),
        (["", ""], ["x", "y"], false),
        ([www, ""], ["x", "x"], true),
        ([www, www], ["x", "x"], true),
        ([www, all], ["x", "x"], true),
        ([all, deep], ["x", "x"], true),
        ([www, deep], ["x", "x"], false),
        ([all, "host = \"example.com\""], ["x", "x"], false),
        ([all, "host = \"www.otherexample.com\""], ["x", "x"], false),
    ] {
        let warnings: Vec<_> =
            usage::unused(&config(hosts, cookies)).iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), usize::from(is_warned), "{hosts:?} {cookies:?}: {warnings:?}");
        for warning in warnings {
            let message = "the upstreams `a` and `b` have the same sticky cookie `x`";
            assert!(warning.contains(message) && warning.contains("[upstreams.b]"), "{warning}");
        }
    }
}
