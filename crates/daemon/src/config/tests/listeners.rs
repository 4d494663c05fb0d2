//! Tests of listener settings.

use super::*;

/// Returns the line that `check` prints for a listener with `keys`, or the error.
fn listener(keys: &str) -> Result<String, String> {
    let config = resolved(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n{keys}\n[[routes]]\npath = \"/\"\ndemo = true\n\
         [upstreams]\ndb.servers = [\"127.0.0.1:2\"]\n\
         [upstreams.by_path]\nservers = [\"127.0.0.1:2\"]\nbalance.hash = \"path\"\n\
         [upstreams.by_address]\nservers = [\"127.0.0.1:2\"]\nbalance.hash = \"client_address\"\n\
         [upstreams.by_cookie]\nservers = [\"127.0.0.1:2\"]\nsticky.cookie = \"a\"\n"
    ));
    config.map(|config| config.listeners[0].to_string()).map_err(|failure| failure.to_string())
}

#[test]
fn proxy_protocol_can_be_limited_to_networks() {
    for (keys, expected) in [
        ("", "127.0.0.1:1"),
        ("proxy_protocol = false", "127.0.0.1:1"),
        ("proxy_protocol = true", "127.0.0.1:1, behind PROXY headers"),
        ("proxy_protocol = {}", "127.0.0.1:1, behind PROXY headers"),
        (
            "proxy_protocol = { from = [\"10.0.0.0/8\", \"::1\"] }",
            "127.0.0.1:1, behind PROXY headers from 10.0.0.0/8, ::1",
        ),
    ] {
        assert_eq!(listener(keys).as_deref(), Ok(expected));
    }
}

#[test]
fn listener_serves_http2_as_configured() {
    for (keys, expected) in [
        ("http2 = true", "127.0.0.1:1, HTTP/2 too"),
        ("http2 = \"only\"", "127.0.0.1:1, HTTP/2 only"),
        ("http2 = false", "127.0.0.1:1"),
        ("http2 = true\nproxy_protocol = true", "127.0.0.1:1, HTTP/2 too, behind PROXY headers"),
    ] {
        assert_eq!(listener(keys).as_deref(), Ok(expected));
    }
}

#[test]
fn listener_compression_is_shown_and_rejected_for_tcp() {
    for (keys, expected) in [
        ("compression = false", "127.0.0.1:1, nothing compressed"),
        (
            "compression = { codings = [\"gzip\"] }",
            "127.0.0.1:1, compressed by gzip at level 5, from 512 bytes on",
        ),
    ] {
        assert_eq!(listener(keys).as_deref(), Ok(expected));
    }
    let failure = listener("tcp = \"db\"\ncompression = true").unwrap_err();
    assert!(failure.contains("a listener with `tcp` sends no HTTP responses"), "{failure}");
}

#[test]
fn tcp_listener_forwards_to_an_upstream_and_needs_no_routes() {
    for (keys, expected) in [
        ("tcp = \"db\"", "127.0.0.1:1, TCP forwarded to db"),
        ("tcp = { upstream = \"by_address\" }", "127.0.0.1:1, TCP forwarded to by_address"),
        (
            "tcp = { upstream = \"db\", idle_timeout = \"1h\" }\nproxy_protocol = true",
            "127.0.0.1:1, TCP forwarded to db, behind PROXY headers",
        ),
    ] {
        assert_eq!(listener(keys).as_deref(), Ok(expected));
    }
    // A config without HTTP listeners needs no routes.
    let rest = "[upstreams.db]\nservers = [\"127.0.0.1:2\"]\n";
    let config =
        resolved(&format!("[[listeners]]\naddress = \"127.0.0.1:1\"\ntcp = \"db\"\n{rest}")).unwrap();
    assert!(config.routes.is_empty());
}

/// Regression test: such settings were accepted without effect.
#[test]
fn http_settings_on_tcp_only_upstream_are_errors() {
    let config = |keys: &str, route: &str| {
        resolved(&format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\ntcp = \"db\"\n[upstreams.db]\nservers = [\"127.0.0.1:2\"]\n{keys}\n{route}"
        ))
        .map_err(|failure| failure.to_string())
    };
    for (keys, expected) in [
        ("host = \"server\"", "`host` applies to HTTP requests"),
        ("forwarded = \"none\"\nvia = false", "`forwarded`, `via` applies to HTTP requests"),
        ("ejection.statuses = [\"503\"]", "`ejection.statuses` applies to HTTP requests"),
    ] {
        let failure = config(keys, "").err().unwrap();
        assert!(failure.contains(expected) && failure.contains("serve.toml:4"), "{failure}");
        assert!(config(keys, "[[routes]]\npath = \"/\"\nupstream = \"db\"").is_ok(), "{keys}");
    }
    assert!(config("check = { path = \"/\" }\nretries_max = 1", "").is_ok());
}

/// Regression test: only the default upstream of a listener was checked, not those for server names.
#[test]
fn http_settings_on_upstream_for_tls_server_name_are_errors() {
    let config = |keys: &str| {
        resolved(&format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\n\
             tcp = {{ upstream = \"db\", server_names = {{ \"a.example\" = \"named\" }} }}\n\
             [upstreams]\ndb.servers = [\"127.0.0.1:2\"]\n\
             [upstreams.named]\nservers = [\"127.0.0.1:3\"]\n{keys}\n"
        ))
        .map_err(|failure| failure.to_string())
    };
    assert!(config("").is_ok());
    let failure = config("total_timeout = \"1s\"").err().unwrap();
    assert!(
        failure.contains("`total_timeout` applies to HTTP requests") && failure.contains("serve.toml:6"),
        "{failure}"
    );
}

#[test]
fn invalid_listener_error_names_its_line() {
    for (keys, message) in [
        ("proxy_protocol = \"v1\"", "expected `true` or a table with `from`"),
        ("proxy_protocol = { to = [] }", "unknown key `to`"),
        ("proxy_protocol = { from = [] }", "`from` needs at least one network"),
        (
            "proxy_protocol = { from = [\"10.0.0.0/33\"] }",
            "the prefix length must be at most 32, or at most 128 for IPv6",
        ),
        ("http2 = true\ntcp = \"db\"", "a listener with `tcp` does not serve HTTP"),
        ("http2 = \"yes\"", "expected `true`, `false` or `\"only\"`"),
        ("http2 = 2", "expected `true`, `false` or `\"only\"`"),
        ("tcp = true", "expected the name of an upstream or a table with an `upstream`"),
        ("tcp = \"bd\"", "there is no upstream `bd`"),
        ("tcp = \"by_path\"", "needs HTTP requests for its hash, but this listener forwards TCP connections"),
        ("tcp = \"by_cookie\"", "uses sticky cookies, but TCP connections have no cookies"),
        ("tcp = { upstream = \"db\", idle_timeout = \"0s\" }", "the value must be from 1ms to 24h"),
    ] {
        let failure = listener(keys).unwrap_err();
        assert!(failure.contains(message) && failure.contains("serve.toml:3"), "{failure}");
    }
}

/// Regression test: such configs were valid, although no request could reach their routes.
#[test]
fn https_redirect_without_a_listener_for_the_routes_is_an_error() {
    let redirect = "[[listeners]]\naddress = \"127.0.0.1:1\"\nredirect_to_https = 443\n";
    let route = "[[routes]]\npath = \"/\"\ndemo = true\n";
    let streams = "[[listeners]]\naddress = \"127.0.0.1:2\"\ntcp = \"db\"\n\
                   [upstreams.db]\nservers = [\"127.0.0.1:3\"]\n";
    let plain = "[[listeners]]\naddress = \"127.0.0.1:4\"\n";
    let error_of = |text: String| resolved(&text).err().map(|failure| failure.to_string());
    for (text, message) in [
        (
            format!("{redirect}{route}"),
            "no request reaches a route, because every HTTP listener redirects to https",
        ),
        (format!("{redirect}{streams}{route}"), "no request reaches a route"),
        (redirect.to_owned(), "no listener serves https, because every listener redirects to https"),
    ] {
        let failure = error_of(text).unwrap();
        assert!(failure.contains(message) && failure.contains("serve.toml:3"), "{failure}");
    }
    // A TCP stream may carry HTTPS.
    assert_eq!(error_of(format!("{redirect}{streams}")), None);
    assert_eq!(error_of(format!("{redirect}{plain}{route}")), None);
}

/// Regression test: `check` did not warn of a redirect to a port without a TLS listener.
#[test]
fn redirect_to_a_port_without_tls_gets_a_warning() {
    let config = |listener: &str| {
        resolved(&format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\nredirect_to_https = 443\n\
             [[listeners]]\naddress = {listener}\n\
             [upstreams.db]\nservers = [\"127.0.0.1:3\"]\n[[routes]]\npath = \"/\"\nupstream = \"db\"\n\
             [[listeners]]\naddress = \"127.0.0.1:4\"\n"
        ))
        .unwrap()
    };
    for (listener, is_warned) in [
        ("\"127.0.0.1:443\"", true),
        ("\"127.0.0.1:8443\"\ntcp = \"db\"", true),
        ("\"127.0.0.1:443\"\ntcp = \"db\"", false),
        ("\"127.0.0.1:0\"\ntcp = \"db\"", false),
    ] {
        let warnings: Vec<_> = usage::unused(&config(listener)).iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), usize::from(is_warned), "{listener}: {warnings:?}");
        for warning in warnings {
            assert!(warning.contains("no listener of this config serves https at port 443"), "{warning}");
            assert!(warning.contains("serve.toml:3"), "{warning}");
        }
    }
}
