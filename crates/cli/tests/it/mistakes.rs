//! Tests of invalid configs and their error messages.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use crate::process::{Ended, Thruway};

fn run(command: &str, config: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), config).unwrap();
    Thruway::start_in(directory.path(), &[command, "a.toml"]).end()
}

/// Returns the error of `check` for an invalid config. `serve` must print the same error.
fn error_of(config: &str) -> String {
    let [checked, served] = ["check", "serve"].map(|command| run(command, config));
    assert_eq!((checked.code, served.code), (Some(2), Some(2)), "{}", checked.stderr);
    assert_eq!((&*checked.stdout, &*served.stdout), ("", ""));
    assert_eq!(checked.stderr, served.stderr);
    checked.stderr
}

/// Returns a minimal valid config that also contains `rest`.
fn with(rest: &str) -> String {
    format!("{rest}\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/demo\"\ndemo = true\n")
}

#[test]
fn check_lists_listeners_routes_upstreams_and_policies() {
    let directory = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/examples/serve.toml");
    fs::copy(example, directory.path().join("serve.toml")).unwrap();
    fs::create_dir(directory.path().join("public")).unwrap();
    let ended = Thruway::start_in(directory.path(), &["check", "serve.toml", "--offline"]).end();
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert_eq!(
        ended.stdout,
        "\
`serve.toml` is valid
listens on 127.0.0.1:8080, HTTP/2 too
listens on [::1]:8080 (local)
listens on unix:thruway.sock
/ and below: files of public, tries {path}, types .md = text/markdown; charset=utf-8; compressed by zstd at level 3, br at level 4, gzip at level 5, from 512 bytes on; response removes X-Powered-By, sets X-Frame-Options, adds Vary
/healthz: answers 200
/gone and below: answers 410
/old and below: redirects to /new{rest}{query} with 308
/demo and below: the demo
/mcp: the MCP endpoint of the demo
mcp.example.com/dev: the MCP endpoint dev; policies: tokens
/ and below (CONNECT): tunnels to example.org, *.example.org, port 443
/api and below: forwarded to backend; policies: tokens, few, small, monthly
/app and below: forwarded to backend, path /v2{rest}, request removes X-Debug, sets X-Client, adds X-Tag, response removes X-Powered-By, sets Cache-Control, adds Vary, 100% mirrored to shadow without Authorization, Cookie
/reports and below: forwarded to backend; policies: keys, login
/shop and below: forwarded: 95 of 100 to backend, 5 of 100 to canary, by cookie:user
users: (www.example.com, *.example.net)/users/{id} (GET, DELETE, with header Authorization, with header X-Canary=yes, with query preview, with query version=2) on listener local: forwarded to backend; policies: office, users, steady
/ and below (path matching ^/archive/(?<id>[0-9]+)\\., extension php or html, path not matching /private/, not extension bak, without header User-Agent matching (?i)bot, without query preview): redirects to /documents/{id} with 308
upstream backend: 127.0.0.1:9001, 127.0.0.1:9002
upstream canary: 127.0.0.1:9003
upstream shadow: 127.0.0.1:9004
policy few: 10 requests at a time, by header X-User
policy keys: one of 1 keys in header X-Api-Key
policy login: admitted by backend at /, which sets X-Auth-User
policy monthly: 100000 requests in each month, by user
policy office: clients from 10.0.0.0/8, 2001:db8::/32, 127.0.0.1, unix, but not from 10.13.0.0/16
policy small: body of at most 1048576 bytes
policy steady: 100 requests in 1s, 20 at once, by address
policy tokens: a JSON Web Token
policy users: name and password of one of 1 users
MCP endpoint dev: servers search, files; plain names; access rules: 1; tool search, pinned read_issue; limits: 1; audit log mcp-audit.log
MCP server files: command `npx`
MCP server search: upstream canary, path /mcp, client credentials of corp
admin listener on 127.0.0.1:9900, 2 users
telemetry: 10% of the traces and metrics every 10s of thruway, by OTLP over HTTP to https://collector.example:4318
access log: combined, to the standard output
"
    );
}

#[test]
fn check_warns_of_unused_settings_and_unresolvable_names() {
    // No process uses this port anymore.
    let nameserver = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = with(&format!(
        "[upstreams.spare]\nservers = [\"127.0.0.1:1\",\n  \"a.example:80\"]\nresolver = {{ nameservers = [\"{nameserver}\"] }}\n\
         [policies.office]\nallow = [\"::1\"]\n"
    ));
    let unused = "\
warning: nothing uses the upstream `spare`
 --> a.toml:1:1
  |
1 | [upstreams.spare]
  | ^^^^^^^^^^^^^^^^^

hint: use this upstream in a route or a listener, or remove this upstream

warning: no route uses the policy `office`
 --> a.toml:5:1
  |
5 | [policies.office]
  | ^^^^^^^^^^^^^^^^^

hint: add this policy to `policies` of a route, or remove this policy
";
    let unknown = "\
warning: cannot look up `a.example:80`: Connection refused (os error 111)
 --> a.toml:3:3
  |
3 |   \"a.example:80\"]
  |   ^^^^^^^^^^^^^^

hint: check the name; if this machine has no DNS, skip this check with `--offline`
";
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), config).unwrap();
    for (args, expected) in
        [(&[][..], format!("{unused}\n{unknown}\n")), (&["--offline"], format!("{unused}\n"))]
    {
        let ended = Thruway::start_in(directory.path(), &[&["check", "a.toml"], args].concat()).end();
        assert_eq!((ended.code, &ended.stderr), (Some(0), &expected));
        assert!(ended.stdout.starts_with("`a.toml` is valid\n"), "{}", ended.stdout);
    }
}

#[test]
fn invalid_toml_is_an_error() {
    assert_eq!(
        error_of("workers 2\n"),
        "\
error: key with no value, expected `=`
 --> a.toml:1:9
  |
1 | workers 2
  |         ^
"
    );
}

#[test]
fn unknown_key_is_an_error_with_a_suggestion() {
    assert_eq!(
        error_of(&with("wrokers = 2")),
        "\
error: unknown key `wrokers`
 --> a.toml:1:1
  |
1 | wrokers = 2
  | ^^^^^^^

hint: did you mean `workers`?
"
    );
    assert_eq!(
        error_of(&with("[access_log]\ncolour = 2")),
        "\
error: unknown key `colour`
 --> a.toml:2:1
  |
2 | colour = 2
  | ^^^^^^

hint: possible here: `format`, `template`, `members`, `sample`, `path`, `socket`, `syslog`
"
    );
}

#[test]
fn values_of_the_wrong_type_are_errors() {
    assert_eq!(
        error_of(&with("workers = \"two\"")),
        "\
error: invalid type: string, expected a whole number of at least 0
 --> a.toml:1:11
  |
1 | workers = \"two\"
  |           ^^^^^

hint: write numbers without quotes and without a unit
"
    );
    assert_eq!(
        error_of(&with("access_log.format = \"jsn\"")),
        "\
error: unknown value `jsn`
 --> a.toml:1:21
  |
1 | access_log.format = \"jsn\"
  |                     ^^^^^

hint: did you mean `json`?
"
    );
    assert_eq!(
        error_of(&with("timeouts.idle = \"5\"")),
        "\
error: `5` is not a duration: write `10s`, `1m 30s` or `500ms`
 --> a.toml:1:17
  |
1 | timeouts.idle = \"5\"
  |                 ^^^
"
    );
}

#[test]
fn config_without_listeners_and_routes_is_an_error() {
    assert_eq!(
        error_of(""),
        "\
error: `a.toml` has no listener

hint: add one: `[[listeners]]` and below it `address = \"127.0.0.1:8080\"`

error: `a.toml` has no route

hint: add one: `[[routes]]` and below it `path = \"/\"` and `demo = true`
"
    );
}

#[test]
fn all_mistakes_are_reported_together() {
    let config = r#"
workers = 0
limits.headers = 100000
timeouts.idle = "0s"

[[listeners]]
address = "localhost:80"
[[listeners]]
address = "127.0.0.1:80"
[[listeners]]
address = "127.0.0.1:80"

[[routes]]
path = "/"
"#;
    assert_eq!(
        error_of(config),
        "\
error: the value must be from 1 to 1024
 --> a.toml:2:11
  |
2 | workers = 0
  |           ^

error: `localhost:80` is not a listener address
 --> a.toml:7:11
  |
7 | address = \"localhost:80\"
  |           ^^^^^^^^^^^^^^

hint: write an address as `IP:PORT`, such as `127.0.0.1:8080` or `[::1]:8080`, or as `unix:PATH`

error: another listener has the address `127.0.0.1:80`
  --> a.toml:11:11
   |
11 | address = \"127.0.0.1:80\"
   |           ^^^^^^^^^^^^^^

hint: remove the second listener, or give it another address

error: a route needs exactly one of `connect`, `demo`, `files`, `mcp`, `redirect`, `respond`, `split` and `upstream`
  --> a.toml:13:1
   |
13 | [[routes]]
   | ^^^^^^^^^^

error: the value must be from 1 to 10000
 --> a.toml:3:18
  |
3 | limits.headers = 100000
  |                  ^^^^^^

error: the value must be from 1ms to 24h
 --> a.toml:4:17
  |
4 | timeouts.idle = \"0s\"
  |                 ^^^^
"
    );
}

#[test]
fn invalid_route_paths_are_errors() {
    let config = r#"
[[routes]]
path = "/a"
path_exact = "/a"
demo = true
[[routes]]
path = "c"
demo = true
[[routes]]
path = "/d e"
demo = true
[[routes]]
path_exact = "/f//%67"
demo = true
[[routes]]
path_pattern = "/h/./{i}"
demo = true
[[routes]]
path = "/.."
demo = true
"#;
    assert_eq!(
        error_of(&with(config)),
        "\
error: a route needs exactly one of `path`, `path_exact` and `path_pattern`
 --> a.toml:2:1
  |
2 | [[routes]]
  | ^^^^^^^^^^

error: a path begins with `/`
 --> a.toml:7:8
  |
7 | path = \"c\"
  |        ^^^

error: a path cannot contain ` `
  --> a.toml:10:8
   |
10 | path = \"/d e\"
   |        ^^^^^^

hint: write the path as clients send it: percent-encoded, without a query

error: no request can match this path, because Thruway normalizes the paths of requests
  --> a.toml:13:14
   |
13 | path_exact = \"/f//%67\"
   |              ^^^^^^^^^

hint: write `/f/g`

error: no request can match this path, because Thruway normalizes the paths of requests
  --> a.toml:16:16
   |
16 | path_pattern = \"/h/./{i}\"
   |                ^^^^^^^^^^

hint: write the path without `.` and `..` segments, double slashes and unnecessary percent-encoding

error: the path goes above the root with `..`
  --> a.toml:19:8
   |
19 | path = \"/..\"
   |        ^^^^^
"
    );
}

#[test]
fn invalid_hosts_patterns_and_methods_are_errors() {
    let config = r#"
[[routes]]
host = "example.com:80"
path_pattern = "/a"
methods = ["get", "A B"]
headers = { "a b" = true, c = false }
demo = true
"#;
    assert_eq!(
        error_of(&with(config)),
        "\
error: a condition cannot be `false`: write it in `[routes.not]`
 --> a.toml:6:31
  |
6 | headers = { \"a b\" = true, c = false }
  |                               ^^^^^
"
    );
    assert_eq!(
        error_of(&with(&config.replace("false", "true"))),
        "\
error: a host must not have a port
 --> a.toml:3:8
  |
3 | host = \"example.com:80\"
  |        ^^^^^^^^^^^^^^^^

hint: write `example.com`, or `*.example.com` for all subdomains

error: a pattern needs a parameter: `{name}`
 --> a.toml:4:16
  |
4 | path_pattern = \"/a\"
  |                ^^^^

hint: write `path_exact`, or `path` to match all paths below it as well

error: unknown method `get`
 --> a.toml:5:12
  |
5 | methods = [\"get\", \"A B\"]
  |            ^^^^^

hint: did you mean `GET`?

error: a method must be a token
 --> a.toml:5:19
  |
5 | methods = [\"get\", \"A B\"]
  |                   ^^^^^

error: a field name must be a token
 --> a.toml:6:13
  |
6 | headers = { \"a b\" = true, c = true }
  |             ^^^^^
"
    );
}

#[test]
fn invalid_redirects_are_errors() {
    let config = "[[routes]]\npath = \"/a\"\nredirect = { to = \"/{query}{path}\" }\n\
                  [[routes]]\npath = \"/b\"\nredirect = { to = \"/c\", status = 200 }";
    assert_eq!(
        error_of(&with(config)),
        "\
error: a redirect target is `https://HOST…`, `http://HOST…` or `/PATH…`; HOST is fixed text or `{host}`
 --> a.toml:3:19
  |
3 | redirect = { to = \"/{query}{path}\" }
  |                   ^^^^^^^^^^^^^^^^

error: the status of a redirect is 301, 302, 303, 307 or 308
 --> a.toml:6:34
  |
6 | redirect = { to = \"/c\", status = 200 }
  |                                  ^^^
"
    );
}

#[test]
fn unreachable_routes_are_errors() {
    let config = r#"
[[routes]]
host = "A.example"
path = "/a/"
methods = ["POST", "GET"]
demo = true

[[routes]]
path_exact = "/a"
demo = true

[[routes]]
host = "a.example"
path = "/a"
methods = ["HEAD"]
demo = true

[[routes]]
path_exact = "/a"
demo = true
"#;
    assert_eq!(
        error_of(&with(config)),
        "\
error: no request reaches this route
  --> a.toml:12:1
   |
 2 | [[routes]]
   | ---------- this route matches all requests of the other route
...
12 | [[routes]]
   | ^^^^^^^^^^

hint: move this route before the other route, which has fewer conditions

error: no request reaches this route
  --> a.toml:18:1
   |
 8 | [[routes]]
   | ---------- this route matches all requests of the other route
...
18 | [[routes]]
   | ^^^^^^^^^^

hint: remove this route, or add a condition: `host`, `methods`, `headers` or `query`
"
    );
}

#[test]
fn invalid_fixed_responses_are_errors() {
    let config = r#"
[[routes]]
path = "/a"
[routes.respond]
status = 204
body = "a"
content_type = "a\nb"
headers = [
    { name = "content-length", value = "1" },
    { name = "Content-Type", value = "1" },
    { name = "a b", value = "1" },
    { name = "a", value = " 1" },
]
[[routes]]
path = "/c"
respond.status = 101
"#;
    assert_eq!(
        error_of(&with(config)),
        "\
error: a response with status 204 has no body
 --> a.toml:6:8
  |
6 | body = \"a\"
  |        ^^^

error: a field value must not contain control characters or outer whitespace
 --> a.toml:7:16
  |
7 | content_type = \"a\\nb\"
  |                ^^^^^^

error: the server sets `content-length` itself
 --> a.toml:9:14
  |
9 |     { name = \"content-length\", value = \"1\" },
  |              ^^^^^^^^^^^^^^^^

hint: remove this header

error: `headers` cannot set `Content-Type`
  --> a.toml:10:14
   |
10 |     { name = \"Content-Type\", value = \"1\" },
   |              ^^^^^^^^^^^^^^

hint: write `content_type = \"…\"`

error: a field name must be a token
  --> a.toml:11:14
   |
11 |     { name = \"a b\", value = \"1\" },
   |              ^^^^^

error: a field value must not contain control characters or outer whitespace
  --> a.toml:12:27
   |
12 |     { name = \"a\", value = \" 1\" },
   |                           ^^^^

error: the status must be from 200 to 599
  --> a.toml:16:18
   |
16 | respond.status = 101
   |                  ^^^
"
    );
}

#[test]
fn headers_that_the_server_sets_are_errors_in_any_case() {
    for name in
        ["connection", "DATE", "Keep-Alive", "Server", "TE", "Trailer", "Transfer-Encoding", "Upgrade"]
    {
        let route =
            format!("[[routes]]\npath = \"/\"\nrespond.headers = [{{ name = \"{name}\", value = \"a\" }}]");
        let expected = format!("error: the server sets `{name}` itself\n");
        assert!(error_of(&with(&route)).starts_with(&expected), "{name}");
    }
}

#[test]
fn invalid_files_settings_are_errors() {
    assert_eq!(
        error_of(&with("[[routes]]\npath = \"/f\"\nfiles.root = \"none\"")),
        "\
error: cannot serve the directory `none`: No such file or directory (os error 2)
 --> a.toml:3:14
  |
3 | files.root = \"none\"
  |              ^^^^^^
"
    );
    let config =
        "[[routes]]\npath = \"/f\"\nfiles = { root = \".\", index = \"a/b\", cache_control = \"a\\u0000\" }";
    let message = error_of(&with(config));
    assert!(message.contains("error: `index` is a file name, without a path\n"), "{message}");
    assert!(message.contains("error: a field value must not contain control characters"), "{message}");
}

#[test]
fn unwritable_access_log_is_an_error() {
    assert_eq!(
        error_of(&with("access_log.path = \"none/access.log\"")),
        "\
error: cannot write the access log: No such file or directory (os error 2)
 --> a.toml:1:19
  |
1 | access_log.path = \"none/access.log\"
  |                   ^^^^^^^^^^^^^^^^^

hint: the directory must exist, and the user of this process needs permission to write the file
"
    );
}

#[test]
fn missing_config_file_is_an_error() {
    for command in ["check", "serve"] {
        let directory = tempfile::tempdir().unwrap();
        let ended = Thruway::start_in(directory.path(), &[command, "none.toml"]).end();
        let expected = "error: cannot read `none.toml`: No such file or directory (os error 2)\n\n\
                        hint: the argument of `serve` and `check` is the path of a config in TOML\n";
        assert_eq!((ended.code, &*ended.stderr), (Some(2), expected));
    }
}

#[test]
fn invalid_arguments_are_errors() {
    for args in [&["serve", "--workers", "0"][..], &["serve", "--wrokers", "1"], &["sevre"], &[]] {
        let ended = Thruway::start_in(Path::new("."), args).end();
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
    }
}

/// `check` once accepted an upstream that was its own listener. A single request then used up all
/// connections.
#[test]
fn upstream_that_leads_back_to_its_listener_is_an_error() {
    let http = |rest: &str| {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:8080\"\n[[routes]]\npath = \"/\"\nupstream = \"own\"\n\
             [upstreams.own]\nservers = [\"127.0.0.1:8080\"]\n{rest}"
        )
    };
    assert_eq!(
        error_of(&http("via = false\n")),
        "\
error: the upstream `own` sends requests back to the listener `127.0.0.1:8080`
 --> a.toml:7:12
  |
7 | servers = [\"127.0.0.1:8080\"]
  |            ^^^^^^^^^^^^^^^^

hint: each request would return to this gateway: use the address of another server
"
    );
    let addresses = |listener: &str, server: &str| {
        http("").replacen("127.0.0.1:8080", listener, 1).replacen(
            "\"127.0.0.1:8080\"]",
            &format!("\"{server}\"]"),
            1,
        )
    };
    for (listener, server) in [
        ("0.0.0.0:8080", "127.0.0.1:8080"),
        ("127.0.0.1:8080", "0.0.0.0:8080"),
        ("[::]:8080", "[::1]:8080"),
        ("127.0.0.1:8080", "localhost:8080"),
        ("unix:socket", "unix:socket"),
    ] {
        let stderr = error_of(&addresses(listener, server));
        assert!(stderr.contains("sends requests back to the listener"), "{listener} {server}: {stderr}");
    }
    let streams = "[[listeners]]\naddress = \"127.0.0.1:8080\"\ntcp = \"own\"\n\
                   [upstreams.own]\nservers = [\"127.0.0.1:8080\"]\n";
    assert!(error_of(streams).contains("sends requests back to the listener `127.0.0.1:8080`"));
}

/// A gateway may send requests to itself on purpose, with another host or path. So this is only a warning.
#[test]
fn upstream_that_may_lead_back_to_a_listener_gets_a_warning() {
    let route = "[[listeners]]\naddress = \"127.0.0.1:8080\"\n[[routes]]\npath = \"/\"\nupstream = \"own\"\n";
    for (text, listener) in [
        (
            format!(
                "{route}host = \"a.example\"\n[upstreams.own]\nservers = [\"127.0.0.1:8080\"]\nhost = \"server\"\n"
            ),
            "127.0.0.1:8080",
        ),
        (
            format!(
                "{route}rewrite.path = \"/a{{path}}\"\n[upstreams.own]\nservers = [\"localhost:8080\"]\n"
            ),
            "127.0.0.1:8080",
        ),
        (
            "[[listeners]]\naddress = \"127.0.0.1:8443\"\ntcp = \"own\"\n\
             [[listeners]]\naddress = \"0.0.0.0:8080\"\n[[routes]]\npath = \"/\"\ndemo = true\n\
             [upstreams.own]\nservers = [\"127.0.0.1:8080\"]\n"
                .to_owned(),
            "0.0.0.0:8080",
        ),
    ] {
        let ended = run("check", &text);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let message = format!("is the listener `{listener}` of this config");
        assert!(
            ended.stderr.starts_with("warning: the server ") && ended.stderr.contains(&message),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("hint: requests may return to this gateway"), "{}", ended.stderr);
    }
}
