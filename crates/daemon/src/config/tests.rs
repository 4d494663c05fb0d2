//! Tests of the example configs: serve.toml has every key, its defaults are those of the server, and the
//! schema accepts the examples.

mod access_log;
mod admin;
mod checks;
mod compression;
mod connect;
mod fleet;
mod guide;
mod key_errors;
mod listeners;
mod mcp;
mod messages;
mod policies;
mod proxies;
mod reference;
mod response_rules;
mod route_keys;
mod rewriting;
mod telemetry;
mod timeouts;
mod upstreams;

use super::failure::Source;
use super::*;

use std::path::PathBuf;

use thruway_gateway::{ServerConfig, UpstreamConfig};

const EXAMPLE: &str = include_str!("../../examples/serve.toml");
const CANARY: &str = include_str!("../../examples/canary.toml");
const REWRITING: &str = include_str!("../../examples/rewriting.toml");
const GATEWAY: &str = include_str!("../../examples/gateway.toml");
const COMPRESSION: &str = include_str!("../../examples/compression.toml");
const TCP: &str = include_str!("../../examples/tcp.toml");
const TUNNELS: &str = include_str!("../../examples/tunnels.toml");
const TLS: &str = include_str!("../../examples/tls.toml");
const ACME: &str = include_str!("../../examples/acme.toml");
const POLICIES: &str = include_str!("../../examples/policies.toml");

fn resolved(text: &str) -> Result<Config, Failure> {
    let source = Source::new(PathBuf::from("serve.toml"), text.to_owned(), secrets::hidden);
    let parse::Parsed { raw, unknown } = parse::parse(&source)?;
    whole_file::resolve(raw, unknown, source)
}

#[test]
fn example_config_shows_server_defaults() {
    let config = resolved(EXAMPLE).unwrap();
    assert_eq!(format!("{:?}", config.server), format!("{:?}", thruway_server::Config::default()));
}

#[test]
fn example_config_shows_upstream_defaults() {
    let config = resolved(EXAMPLE).unwrap();
    let shown = &config.upstreams["backend"];
    let servers = shown.servers.iter().map(|server| ServerConfig::new(server.address.clone())).collect();
    let expected = UpstreamConfig { servers, ..UpstreamConfig::new("backend", []) };
    assert_eq!(format!("{shown:?}"), format!("{expected:?}"));
}

#[test]
fn commented_settings_of_example_config_are_valid() {
    let text: Vec<&str> = EXAMPLE
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line))
        // Without settings that the example also sets to another value, settings that exclude other settings
        // of the example, and names of missing files.
        .filter(|line| {
            let excluded =
                ["bandwidth", "bearer", "delay", "error_pages", "query = \"", "keys_", "users_file"];
            let of_store =
                ["password", "sentinel_password", "key = \"${FLEET", "key_file", "other_keys", "peer_"];
            let of_log = ["template", "members", "socket = ", "syslog = "];
            !["balance = \"round_robin\"", "host = \"preserve\"", "resolver = \"system\""].contains(line)
                && !excluded.iter().chain(&of_log).chain(&of_store).any(|key| line.starts_with(key))
                && !line.contains(".pem")
        })
        .collect();
    let config = resolved(&text.join("\n")).unwrap();
    assert_eq!((config.workers, config.connections_max), (Some(4), Some(100_000)));
}

#[test]
fn example_config_contains_every_key() {
    for section in [
        "",
        "[[listeners]]\n",
        "[[listeners]]\naddress = \"127.0.0.1:1\"\nproxy_protocol.",
        "[[listeners]]\naddress = \"127.0.0.1:1\"\ntcp.",
        "[[listeners]]\naddress = \"127.0.0.1:1\"\ntls.",
        "[[listeners]]\naddress = \"127.0.0.1:1\"\ntls.certificates = []\ntls.client_certificates.",
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[listeners.tls.certificates]]\n",
        "[acme]\n",
        "[acme.external_account]\n",
        "[upstreams.a]\nservers = []\ntls.",
        "[upstreams.a]\nservers = []\ntls.certificate.",
        "[[routes]]\n",
        "[[routes]]\nrespond.",
        "[[routes]]\ncompression.",
        "[[routes]]\ncompression.levels.",
        "[[routes]]\nconnect.",
        "[[routes]]\nfiles.",
        "[[routes]]\nredirect.",
        "[[routes]]\nrewrite.",
        "[[routes]]\nrewrite.request.",
        "[[routes]]\nsplit.",
        "[[routes]]\nmirror.",
        "[upstreams.a]\nhost.",
        "[upstreams.a]\n",
        "[upstreams.a]\nbalance.",
        "[upstreams.a]\nresolver.",
        "[upstreams.a]\nsticky.",
        "[upstreams.a]\ncheck.",
        "[upstreams.a]\nejection.",
        "[upstreams.a]\nqueue.",
        "[upstreams.a]\npool.",
        "[upstreams.a]\nretry_budget.",
        "[policies.a]\n",
        "[policies.a]\nbasic_auth.",
        "[policies.a]\napi_keys.",
        "[policies.a]\njwt.",
        "[policies.a]\nrate_limit.",
        "[policies.a]\nconcurrency.",
        "[policies.a]\nquota.",
    ]
    .into_iter()
    .chain(["[upstreams.a]\nservers = [{ x = 1 }]\n"])
    .chain([
        "[[routes]]\nrespond.headers = [{ x = 1 }]\n",
        "[admin]\n",
        "[admin]\naddress = \"unix:a\"\nauthentication.",
        "[admin]\naddress = \"unix:a\"\nauthentication.users.a.",
        "[access_log]\n",
        "[access_log]\nsample.",
        "[access_log]\nsyslog.",
        "[shared]\n",
        "[shared]\ncertificate.",
        "[limits]\n",
        "[timeouts]\n",
    ]) {
        let failure = resolved(&format!("{section}x = 1")).err().unwrap().to_string();
        let keys = failure.split("possible here: ").nth(1).and_then(|rest| rest.lines().next());
        let keys = keys.unwrap_or_else(|| panic!("{failure}"));
        for key in keys.trim().split(", ").map(|key| key.trim_matches('`')) {
            let mut names =
                ["{} =", "[{}]", "[{}.", "[routes.{}]", "[upstreams.backend.{}]", "{ {} ="].into_iter();
            let is_kind = || EXAMPLE.lines().any(|line| line.ends_with(&format!(".{key}]")));
            let is_named = is_kind() || names.any(|name| EXAMPLE.contains(&name.replace("{}", key)));
            assert!(is_named, "{key} of {section}");
        }
    }
}

/// Returns the violations of the schema in `text`.
fn violations(text: &str) -> Vec<String> {
    let schema = jsonschema::validator_for(schema().as_value()).unwrap();
    let value = serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap();
    schema.iter_errors(&value).map(|error| error.to_string()).collect()
}

#[test]
fn schema_accepts_example_configs() {
    for example in [EXAMPLE, GATEWAY, REWRITING, CANARY, COMPRESSION, TCP, POLICIES, TUNNELS, ACME] {
        assert_eq!(violations(example), [""; 0]);
        assert!(resolved(example).is_ok());
    }
}

/// The schema accepts the settings of TLS, although their files do not exist here.
#[test]
fn schema_accepts_tls_settings_of_examples() {
    assert_eq!(violations(TLS), [""; 0]);
    let commented: Vec<_> =
        EXAMPLE.lines().filter_map(|line| line.strip_prefix("# tls = ")).map(str::to_owned).collect();
    let [of_listener, of_upstream, of_admin] = &commented[..] else { panic!("{commented:?}") };
    let of_acme: Vec<_> = EXAMPLE.lines().filter_map(|line| line.strip_prefix("# acme = ")).collect();
    assert_eq!(violations(&format!("acme = {}", of_acme[0])), [""; 0]);
    let listener = format!("[[listeners]]\naddress = \"127.0.0.1:1\"\ntls = {of_listener}\n");
    let upstream = format!("[upstreams.a]\nservers = [\"a:1\"]\ntls = {of_upstream}\n");
    let admin = format!("[admin]\naddress = \"127.0.0.1:2\"\ntls = {of_admin}\n");
    for text in [&listener, &upstream, &admin] {
        assert_eq!(violations(text), [""; 0]);
        let wrong = resolved(text).err().unwrap().to_string();
        assert!(!wrong.contains("unknown key") && wrong.contains("cannot read `"), "{wrong}");
    }
    assert!(!violations(&listener.replace("1.2", "1.1")).is_empty());
}

#[test]
fn schema_and_parser_reject_the_same_configs() {
    let route = |rest: &str| format!("[[routes]]\npath = \"/\"\n{rest}");
    assert_eq!(violations(&route("demo = true")), [""; 0]);
    assert_eq!(violations("workers = \"${WORKERS}\"\nbatch_sends = \"${BATCH:-true}\""), [""; 0]);
    for text in [
        "wrokers = 2".to_owned(),
        "workers = \"two\"".to_owned(),
        "batch_sends = \"yes\"".to_owned(),
        "timeouts.idle = 5".to_owned(),
        "access_log.format = \"xml\"".to_owned(),
        "[[listeners]]".to_owned(),
        "[[routes]]\ndemo = true".to_owned(),
        route(""),
        route("demo = true\nupstream = \"a\""),
        route("demo = true\npath_exact = \"/\""),
        route("demo = true\nheaders = { a = false }"),
        route("respond.status = \"200\""),
    ] {
        assert!(!violations(&text).is_empty(), "{text}");
        assert!(resolved(&text).is_err(), "{text}");
    }
}

#[test]
fn schema_describes_keys() {
    let schema = schema();
    let described =
        |pointer: &str| schema.pointer(pointer).and_then(|text| text.as_str()).unwrap_or_default();
    assert!(described("/properties/workers/description").starts_with("Number of worker threads, 1 to 1024."));
    assert!(described("/$defs/RawRoute/properties/host/description").contains("*.example.com"));
    assert_eq!(described("/$defs/RawRoute/properties/path/type"), "string");
    assert_eq!(described("/$defs/RawRoute/properties/host/anyOf/1/items/type"), "string");
    assert_eq!(described("/properties/access_log/$ref"), "#/$defs/RawAccessLog");
}

#[test]
fn error_for_renamed_key_shows_its_new_name() {
    let route = |key: &str| format!("[[routes]]\npath = \"/\"\n{key}\n");
    let upstream = |key: &str| format!("[upstreams.a]\nservers = [\"127.0.0.1:1\"]\n{key}\n");
    let policy = |key: &str| format!("[policies.a]\n{key}\n");
    for (text, old, new) in [
        ("[limits]\ncontent_bytes = 1".to_owned(), "content_bytes", "body_bytes"),
        ("[limits]\ncontent_window_bytes = 1".to_owned(), "content_window_bytes", "body_buffer_bytes"),
        ("[limits]\nfield_lines = 1".to_owned(), "field_lines", "headers"),
        ("[limits]\nheader_section_bytes = 1".to_owned(), "header_section_bytes", "header_bytes"),
        ("[limits]\ntrailer_section_bytes = 1".to_owned(), "trailer_section_bytes", "trailer_bytes"),
        ("[timeouts]\ncontent = \"1s\"".to_owned(), "content", "body"),
        ("[timeouts]\ncontent_rate_min = 1".to_owned(), "content_rate_min", "body_bytes_per_second_min"),
        ("[timeouts]\nheader_section = \"1s\"".to_owned(), "header_section", "header"),
        (route("answer = {}"), "answer", "respond"),
        (route("respond.content = \"a\""), "content", "body"),
        (route("respond.fields = []"), "fields", "headers"),
        (route("content_idle_timeout = \"1s\""), "content_idle_timeout", "body_idle_timeout"),
        (route("compression.minimum_bytes = 1"), "minimum_bytes", "bytes_min"),
        (upstream("head_timeout = \"1s\""), "head_timeout", "response_header_timeout"),
        (upstream("response_field_lines = 1"), "response_field_lines", "response_headers"),
        (
            upstream("response_header_section_bytes = 1"),
            "response_header_section_bytes",
            "response_header_bytes",
        ),
        (upstream("queue.length_max = 1"), "length_max", "requests_max"),
        (upstream("check.content = \"a\""), "content", "body"),
        (policy("content_bytes_max = 1"), "content_bytes_max", "body_bytes_max"),
        (policy("jwt.keys_kept_for = \"1s\""), "keys_kept_for", "keys_refresh_interval"),
        (policy("jwt.fields = {}"), "fields", "headers"),
        (policy("basic_auth.user_field = \"A\""), "user_field", "user_header"),
    ] {
        let error = resolved(&text).err().unwrap().to_string();
        let hint = format!("hint: `{old}` was renamed to `{new}`");
        assert!(error.contains(&format!("unknown key `{old}`")) && error.contains(&hint), "{error}");
    }
}
