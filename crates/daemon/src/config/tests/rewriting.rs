//! Tests of rewriting, traffic splitting and mirroring.

use thruway_gateway::{ForwardedFields, HostRewrite};

use super::*;

/// Resolves a config with a route and the upstreams `a` and `b`. `path` and `keys` are lines of the route,
/// `upstream` are lines of `b`.
fn config(path: &str, keys: &str, upstream: &str) -> Result<Config, String> {
    let listener = "[[listeners]]\naddress = \"127.0.0.1:1\"\n";
    let upstreams = format!(
        "[upstreams.a]\nservers = [\"127.0.0.1:1\"]\n[upstreams.b]\nservers = [\"127.0.0.1:2\"]\n{upstream}\n"
    );
    let text = format!("{listener}[[routes]]\n{path}\n{keys}\n{upstreams}");
    resolved(&text).map_err(|failure| failure.to_string())
}

/// Returns the action of a route for the prefix `/api`, or the error.
fn action(keys: &str) -> Result<String, String> {
    config("path = \"/api\"", keys, "").map(|config| config.routes[0].action.to_string())
}

#[test]
fn check_shows_rewrites_splits_and_mirrors() {
    let keys = "upstream = \"a\"\nrewrite.path = \"/v2{rest}\"\nrewrite.request = { remove = [\"A\"], set = { B = \"{client}\" } }\n\
                rewrite.response.add = { C = \"{{}}\" }\nmirror = { upstream = \"b\", share = 0.25 }";
    assert_eq!(
        action(keys).unwrap(),
        "forwarded to a, path /v2{rest}, request removes A, sets B, response adds C, 25% mirrored to b"
    );
    assert_eq!(
        action("split = { upstreams = { a = 95, b = 5 }, by = \"cookie:user\" }").unwrap(),
        "forwarded: 95 of 100 to a, 5 of 100 to b, by cookie:user"
    );
    assert_eq!(action("split.upstreams = { a = 1 }").unwrap(), "forwarded: 1 of 1 to a");
}

#[test]
fn upstream_sets_host_forwarded_and_via_headers() {
    let forward =
        |keys: &str| config("path = \"/\"", "upstream = \"a\"", keys).unwrap().forwards["b"].clone();
    let default = forward("");
    assert_eq!(
        (default.host, default.forwarded, default.via),
        (HostRewrite::Preserve, ForwardedFields::XForwarded, true)
    );
    assert_eq!(forward("host = \"server\"").host, HostRewrite::Server);
    assert_eq!(forward("host = { fixed = \"a:1\" }").host, HostRewrite::Fixed("a:1".to_owned()));
    for (name, fields) in [
        ("forwarded", ForwardedFields::Forwarded),
        ("both", ForwardedFields::Both),
        ("none", ForwardedFields::None),
    ] {
        assert_eq!(forward(&format!("forwarded = \"{name}\"\nvia = false")).forwarded, fields);
    }
    for (keys, message) in [
        ("host = \"client\"", "unknown value `client`"),
        ("host = 1", "expected a name or a table with `fixed`"),
        ("host = { fixed = \"a b\" }", "invalid host"),
        ("host = { fixed = \"\" }", "invalid host"),
        ("forwarded = \"all\"", "unknown value `all`"),
        ("via = 1", "invalid type"),
    ] {
        let failure = config("path = \"/\"", "upstream = \"a\"", keys).err().unwrap();
        assert!(failure.contains(message) && failure.contains("serve.toml:10"), "{failure}");
    }
}

#[test]
fn invalid_rewrite_split_and_mirror_settings_are_errors() {
    for (keys, message) in [
        ("rewrite.path = \"v2{rest}\"", "a path must start with `/`, `{path}` or `{rest}`"),
        ("rewrite.path = \"/a?b\"", "a path must be percent-encoded"),
        ("rewrite.path = \"/../a\"", "have no `.` and no `..`"),
        ("rewrite.path = \"/v2/{rest}\"", "hint: write `/v2{rest}`"),
        ("rewrite.path = \"/{id}\"", "unknown placeholder"),
        ("rewrite.path = \"/{rest\"", "braces are not balanced"),
        ("rewrite.request.set = { Host = \"a\" }", "hint: use the keys of the upstream for these headers"),
        ("rewrite.request.add = { Content-Length = \"1\" }", "this field belongs to the connection"),
        ("rewrite.request.add = { Transfer_Encoding = \"1\" }", "this field belongs to the connection"),
        ("rewrite.response.remove = [\"Connection\"]", "this field belongs to the connection"),
        ("rewrite.response.set = { \"A b\" = \"1\" }", "the field name is invalid"),
        ("rewrite.response.set = { A = \"b\\r\\nC: d\" }", "the field value is invalid"),
        ("rewrite.response.set = { A = \"{user}\" }", "hint: possible: `{client}`, `{host}`"),
        ("rewrite.header = 1", "unknown key `header`"),
        ("mirror.upstream = \"c\"", "there is no upstream `c`"),
        ("mirror = { upstream = \"b\", share = 1.5 }", "the value must be from 0 to 1"),
        ("mirror = { upstream = \"b\", share = nan }", "the value must be from 0 to 1"),
        ("mirror = { upstream = \"b\", remove = [\"Host\"] }", "this field belongs to the connection"),
        ("mirror = { upstream = \"b\", remove = [\"A b\"] }", "the field name is invalid"),
    ] {
        let failure = action(&format!("upstream = \"a\"\n{keys}")).unwrap_err();
        assert!(failure.contains(message) && failure.contains("serve.toml:6"), "{failure}");
    }
    for (keys, message) in [
        ("demo = true\nrewrite.path = \"/\"", "this key requires `split` or `upstream`"),
        ("demo = true\nmirror.upstream = \"a\"", "this key requires `split` or `upstream`"),
        ("split.upstreams = { a = 1, c = 1 }", "there is no upstream `c`"),
        ("split.upstreams = { a = 0, b = 0 }", "`split` needs an upstream with a weight above 0"),
        ("split.upstreams = {}", "`split` needs an upstream with a weight above 0"),
        ("split.upstreams = { a = 1000001 }", "the value must be from 0 to 1000000"),
        ("split = { upstreams = { a = 1 }, by = \"user\" }", "`user` is an unknown hash key"),
        ("upstream = \"a\"\nsplit.upstreams = { a = 1 }", "a route needs exactly one of"),
    ] {
        let failure = action(keys).unwrap_err();
        assert!(failure.contains(message), "{failure}");
    }
}

#[test]
fn path_rewrite_allows_only_placeholders_of_its_path_match() {
    let rewritten = |path: &str, template: &str| {
        config(path, &format!("upstream = \"a\"\nrewrite.path = \"{template}\""), "").is_ok()
    };
    assert!(rewritten("path_pattern = \"/users/{id}\"", "/u/{id}"));
    assert!(!rewritten("path_pattern = \"/users/{id}\"", "/u/{rest}"));
    assert!(
        !rewritten("path_exact = \"/users\"", "/u{rest}") && rewritten("path_exact = \"/users\"", "{path}")
    );
}
