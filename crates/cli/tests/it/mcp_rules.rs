//! Tests of access rules and audit logs of MCP endpoints in config files.

use serde_json::Value;

use crate::admin::get_admin;
use crate::client::Client;
use crate::mcp_federate::{THRUWAY, config, names, printed, run, serve};
use crate::process::{Signal, Thruway};

/// The rules of an endpoint with two groups, and policies that verify tokens and API keys.
const RULES: &str = "audit = \"audit.log\"\n\
    [[mcp.endpoints.dev.rules]]\nclaims = { groups = \"eng\" }\ntools = [\"one__*\"]\nprompts = [\"*\"]\n\
    [[mcp.endpoints.dev.rules]]\nclaims = { groups = [\"ops\", \"eng\"] }\ntools = [\"two__echo\"]\n\
    [policies.tokens.jwt]\nsecret = \"a secret of at least thirty-two bytes\"\n";

/// Token with the claims `{"sub":"eve","groups":["eng"],"exp":4102444800}`.
const TOKEN_OF_EVE: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJldmUiLCJncm91cHMiOlsiZW5nIl0sImV4cCI6NDEwMjQ0NDgwMH0.uNLVBqrWR4sadOudsbOLYc1i12FVXA7ahEtlFTiCLg0";

/// Token with the claims `{"sub":"bob","groups":["ops"],"exp":4102444800}`.
const TOKEN_OF_BOB: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IiLCJncm91cHMiOlsib3BzIl0sImV4cCI6NDEwMjQ0NDgwMH0.stJCA1sY0hepAQCsuiNAcjo-HhCW0OafdhAxCDKh7JA";

#[test]
fn rules_of_an_endpoint_use_the_claims_that_the_policy_of_the_route_has_verified() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&format!("servers = [\"one\", \"two\"]\n{RULES}"));
    let config = config.replace("mcp = \"dev\"\n", "mcp = \"dev\"\npolicies = [\"tokens\"]\n");
    let mut thruway = serve(directory.path(), &config);
    let url = format!("{}/dev", thruway.address());
    for era in ["modern", "legacy"] {
        let tools = |token: &str| printed(&["tools", &url, "--era", era, "--bearer", token]);
        let (of_eve, of_bob) = (tools(TOKEN_OF_EVE), tools(TOKEN_OF_BOB));
        assert!(names(&of_eve).contains(&"one__add") && names(&of_eve).contains(&"two__echo"), "{of_eve}");
        assert!(!names(&of_eve).contains(&"two__count"), "{of_eve}");
        assert_eq!(names(&of_bob), ["two__echo"], "{of_bob}");
        let add = |token: &str| {
            run(&["call", &url, "one__add", "a=1", "b=987654.5", "--era", era, "--bearer", token])
        };
        assert!(add(TOKEN_OF_EVE).status.success());
        let refused = String::from_utf8(add(TOKEN_OF_BOB).stderr).unwrap();
        assert!(refused.contains("(-32602)") && refused.contains("Unknown tool: one__add"), "{refused}");
    }
    assert_ne!(run(&["tools", &url]).status.code(), Some(0));
    assert_eq!(thruway.terminate().code, Some(0));
    let audit = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<_> = lines
        .iter()
        .map(|line| [&line["caller"], &line["name"], &line["outcome"]].map(Value::as_str))
        .collect();
    let call = |caller, outcome| [Some(caller), Some("one__add"), Some(outcome)];
    let (eve, bob) = (call("policy tokens eve", "ok"), call("policy tokens bob", "error"));
    assert_eq!(calls, [eve, bob, eve, bob], "{audit}");
    assert!(!audit.contains("987654") && !audit.contains("eyJ"), "{audit}");
}

#[test]
fn audit_log_in_a_missing_directory_is_an_error_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let config = config("servers = [\"one\"]\naudit = \"missing/audit.log\"\n");
    std::fs::write(directory.path().join("thruway.toml"), config).unwrap();
    let ended =
        Thruway::start_with(directory.path(), &["serve", "thruway.toml"], &[("THRUWAY", THRUWAY)]).end();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot open the audit log: No such file"), "{}", ended.stderr);
    assert!(ended.stderr.contains("thruway.toml:"), "{}", ended.stderr);
}

#[test]
fn sigusr1_reopens_the_audit_log_after_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(directory.path(), &config("servers = [\"one\"]\naudit = \"audit.log\"\n"));
    let url = format!("{}/dev", thruway.address());
    let path = |name: &str| directory.path().join(name);
    std::fs::rename(path("audit.log"), path("audit.log.1")).unwrap();
    thruway.signal(Signal::USR1);
    thruway.wait_for_log("audit log reopened");
    assert!(path("audit.log").exists());
    printed(&["call", &url, "one__add", "a=1", "b=2"]);
    assert_eq!(thruway.terminate().code, Some(0));
    let count = |name: &str| std::fs::read_to_string(path(name)).unwrap().lines().count();
    assert_eq!((count("audit.log.1"), count("audit.log")), (0, 1));
}

#[test]
fn audit_lines_for_a_full_disk_are_counted() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(directory.path(), &config("servers = [\"one\"]\naudit = \"/dev/full\"\n"));
    let (url, admin) = (format!("{}/dev", thruway.address()), thruway.admin_address());
    printed(&["call", &url, "one__add", "a=1", "b=2"]);
    let name = "thruway_mcp_audit_log_dropped_lines_total";
    while !get_admin(&admin, "/metrics").text().contains(&format!("{name}{{reason=\"target_failed\"}} 1\n")) {
    }
    assert!(get_admin(&admin, "/metrics").text().contains(&format!("{name}{{reason=\"buffer_full\"}} 0\n")));
}

#[test]
fn check_warns_about_patterns_that_match_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let rule = "[[mcp.endpoints.dev.rules]]\ntools = [\"one__*\", \"one__ad\"]\nprompts = [\"*\", \"two__*\"]\n\
                resources = [\"example://greeting/x*\", \"file://*\"]\n";
    let config = config(&format!("servers = [\"one\"]\naudit = \"audit.log\"\n{rule}"));
    std::fs::write(directory.path().join("thruway.toml"), config).unwrap();
    let checked =
        Thruway::start_with(directory.path(), &["check", "thruway.toml"], &[("THRUWAY", THRUWAY)]).end();
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let warned =
        |pattern: &str| checked.stderr.contains(&format!("the pattern `{pattern}` matches none of the"));
    for (pattern, is_unmatched) in [
        ("one__ad", true),
        ("two__*", true),
        ("file://*", true),
        ("one__*", false),
        ("*", false),
        ("example://greeting/x*", false),
    ] {
        assert_eq!(warned(pattern), is_unmatched, "{pattern}: {}", checked.stderr);
    }
    assert!(checked.stderr.contains("thruway.toml:"), "{}", checked.stderr);
    assert!(!directory.path().join("audit.log").exists(), "`check` creates no files");
}

#[test]
fn endpoint_with_a_resource_publishes_its_metadata() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = "servers = [\"one\"]\nresource = \"https://mcp.example/dev\"\n\
                    [policies.tokens.jwt]\nsecret = \"a secret of at least thirty-two bytes\"\n\
                    issuer = \"https://login.example\"\n";
    let config = config(endpoint).replace("mcp = \"dev\"\n", "mcp = \"dev\"\npolicies = [\"tokens\"]\n");
    let mut thruway = serve(directory.path(), &config);
    let mut client = Client::connect(&thruway.address());
    let mut get = |path: &str| {
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: mcp.example\r\n\r\n"));
        client.response(false)
    };
    let metadata = get("/.well-known/oauth-protected-resource/dev");
    assert_eq!(metadata.status(), "200");
    let document: Value = serde_json::from_str(metadata.text()).unwrap();
    assert_eq!(document["resource"], "https://mcp.example/dev");
    assert_eq!(document["authorization_servers"], serde_json::json!(["https://login.example"]));
    let refused = get("/dev");
    assert_eq!(refused.status(), "401");
    let url = "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/dev\"";
    assert!(refused.head.contains(url), "{}", refused.head);
    assert_eq!(get("/.well-known/oauth-protected-resource").status(), "404");
    assert_eq!(thruway.terminate().code, Some(0));
}
