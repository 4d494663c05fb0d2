//! Tests of the section `mcp`, and of the route keys `mcp` and `demo`.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::mcp::settings::{McpNames, McpTarget};
use crate::config::own_listeners::refuse_loops;

const ROUTE: &str = "[[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n";
const ENDPOINT: &str = "[mcp.endpoints.dev]\nservers = [\"a\"]\n";
const SERVER: &str = "[mcp.servers.a]\ncommand = [\"run\"]\n";

/// Resolves `text` with a listener and an upstream.
fn config(text: &str) -> Result<Config, String> {
    let listener =
        "[[listeners]]\naddress = \"127.0.0.1:8080\"\n[upstreams.web]\nservers = [\"127.0.0.1:1\"]\n";
    resolved(&format!("{listener}{text}")).map_err(|failure| failure.to_string())
}

/// Returns the errors of a server with these keys.
fn server_errors(keys: &str) -> String {
    let config = config(&format!("[mcp.servers.a]\n{keys}\n{ENDPOINT}{ROUTE}"));
    config.err().unwrap_or_else(|| panic!("{keys}"))
}

/// Returns the errors of an endpoint with these keys.
fn endpoint_errors(keys: &str) -> String {
    let servers = "[mcp.servers.a]\ncommand = [\"run\"]\n[mcp.servers.github]\ncommand = [\"run\"]\n";
    let config = config(&format!("{servers}[mcp.endpoints.dev]\n{keys}\n{ROUTE}"));
    config.err().unwrap_or_else(|| panic!("{keys}"))
}

#[test]
fn servers_and_endpoints_are_read_with_defaults() {
    let text = "[mcp.servers.files]\ncommand = [\"npx\", \"files\"]\ndirectory = \"data\"\n\
                [mcp.servers.web]\nupstream = \"web\"\nheaders = { Authorization = \"Bearer x\" }\n\
                [mcp.endpoints.dev]\nservers = [\"web\", \"files\"]\n";
    let config = config(&format!("{text}{ROUTE}")).unwrap();
    let McpTarget::Command { words, directory, processes_max, .. } = &config.mcp.servers["files"].target
    else {
        panic!("the target is not a command")
    };
    assert_eq!((&words[..], *processes_max), (&["npx".to_owned(), "files".to_owned()][..], None));
    assert_eq!(directory.as_deref(), Some(Path::new("data")));
    let McpTarget::Upstream { path, headers, .. } = &config.mcp.servers["web"].target else {
        panic!("the target is not an upstream")
    };
    assert_eq!((path.as_str(), headers.len()), ("/mcp", 1));
    let endpoint = &config.mcp.endpoints["dev"];
    assert_eq!((endpoint.names, endpoint.list_wait), (McpNames::Prefixed, None));
    let shown = config.to_string();
    for line in [
        "/dev and below: the MCP endpoint dev",
        "MCP endpoint dev: servers web, files; prefixed names",
        "MCP server files: command `npx`",
        "MCP server web: upstream web, path /mcp",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("Bearer"), "{shown}");
}

#[test]
fn example_config_contains_every_mcp_key() {
    let config = resolved(EXAMPLE).unwrap();
    assert_eq!(config.mcp.endpoints["dev"].list_ttl_max, Some(Duration::from_mins(5)));
    let server = "[mcp.servers.a]\n";
    for section in [server, "[mcp.servers.a]\ntools.", "[mcp.issuers.a]\n", "[mcp.endpoints.a]\n", "[mcp]\n"]
    {
        let failure = resolved(&format!("{section}x = 1")).err().unwrap().to_string();
        let keys = failure.split("possible here: ").nth(1).unwrap_or_else(|| panic!("{failure}"));
        for key in keys.lines().next().unwrap().split(", ").map(|key| key.trim_matches('`')) {
            let forms = [format!("{key} = "), format!("[mcp.{key}."), format!(".{key}]")];
            assert!(forms.iter().any(|form| EXAMPLE.contains(form)), "{key} of {section}");
        }
    }
}

#[test]
fn mistakes_in_mcp_servers_are_errors_with_a_hint() {
    for (keys, message) in [
        ("", "an MCP server needs exactly one of `upstream` and `command`"),
        ("", "hint: add `command = [\"PROGRAM\"]`"),
        ("command = [\"a\"]\nupstream = \"web\"", "hint: remove one of the two keys"),
        ("command = []", "`command` has no program"),
        ("command = [\"\", \"a\"]", "`command` has no program"),
        ("upstream = \"wbe\"", "there is no upstream `wbe`"),
        ("upstream = \"web\"\npath = \"mcp\"", "a path begins with `/`"),
        ("upstream = \"web\"\npath = \"/a b\"", "a path cannot contain ` `"),
        ("upstream = \"web\"\nheaders = { Host = \"a\" }", "Host"),
        ("upstream = \"web\"\nheaders = { Mcp-Session-Id = \"a\" }", "the MCP client sets this header"),
        ("upstream = \"web\"\ndirectory = \"a\"", "this key requires `command`"),
        ("upstream = \"web\"\nprocesses_max = 2", "this key requires `command`"),
        ("command = [\"a\"]\npath = \"/a\"", "this key requires `upstream`"),
        ("command = [\"a\"]\nrewrite_uris = \"yes\"", "rewrite_uris"),
        ("command = [\"a\"]\nprocesses_max = 0", "the value must be from 1 to 10000"),
        ("command = [\"a\"]\nenvironment = { \"A=B\" = \"x\" }", "needs a name without `=`"),
        ("command = [\"a\"]\ntools.allow = []", "`allow` hides all tools"),
        ("command = [\"a\"]\ntools.deny = [\"\"]", "a pattern for tools has 1 to 256 bytes"),
        ("command = [\"a\"]\ntools.deny = [\"a?\"]", "a pattern for tools cannot contain `?`"),
        ("command = [\"a\"]\ntools.rename = { a = \"b c\" }", "`b c` cannot be the name of a tool"),
        ("command = [\"a\"]\ntools.rename = { a = \"c\", b = \"c\" }", "two tools get the new name `c`"),
    ] {
        let failure = server_errors(keys);
        assert!(failure.contains(message) && failure.contains("serve.toml:"), "{keys}\n{failure}");
    }
}

const ISSUERS: &str = "[mcp.issuers.corp]\ntoken_url = \"https://login.example/token\"\nclient_id = \"a\"\n\
                       client_secret = \"secret\"\naudience = \"all\"\nscope = \"read\"\n\
                       [mcp.issuers.other]\ntoken_url = \"https://as.example/token\"\nclient_id = \"b\"\n";
const TOKENS: &str = "[policies.tokens.jwt]\nsecret = \"a secret of thirty-two bytes, at least\"\n\
                      [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\npolicies = [\"tokens\"]\n";

/// Resolves a server with the key `auth` and two issuers.
fn with_auth(auth: &str, route: &str) -> Result<Config, String> {
    let server = format!("[mcp.servers.a]\nupstream = \"web\"\nauth = {auth}\n");
    config(&format!("{ISSUERS}{server}{ENDPOINT}{route}"))
}

#[test]
fn identity_toward_a_server_has_four_kinds() {
    for (auth, shown) in [
        ("{ exchange = \"corp\" }", ", token exchange at corp"),
        ("{ enterprise = \"corp\", authorization_server = \"other\" }", ", assertions of corp for other"),
        ("{ client_credentials = \"corp\" }", ", client credentials of corp"),
        ("{ bearer = \"secret\" }", ""),
    ] {
        let config = with_auth(auth, TOKENS).unwrap_or_else(|failure| panic!("{auth}\n{failure}"));
        let text = config.to_string();
        let line = format!("MCP server a: upstream web, path /mcp{shown}");
        assert!(text.lines().any(|shown| shown == line) && !text.contains("secret"), "{line}\n{text}");
    }
    let config = with_auth("{ exchange = \"corp\", scope = \"write\" }", TOKENS).unwrap();
    let access = config.mcp.servers["a"].access().unwrap();
    assert_eq!((access.audience.as_deref(), access.scope.as_deref()), (Some("all"), Some("write")));
    let McpTarget::Upstream { headers, access: None, .. } =
        &with_auth("{ bearer = \"x\" }", ROUTE).unwrap().mcp.servers["a"].target
    else {
        panic!("a fixed token needs no issuer")
    };
    assert_eq!(headers[..], [("Authorization".to_owned(), "Bearer x".to_owned())]);
}

#[test]
fn mistakes_in_identities_toward_servers_are_errors() {
    for (auth, message) in [
        ("{}", "`auth` needs exactly one of"),
        ("{ exchange = \"corp\", bearer = \"secret\" }", "`auth` needs exactly one of"),
        ("{ exchange = \"crop\" }", "there is no MCP issuer `crop`"),
        ("{ exchange = \"crop\" }", "hint: did you mean `corp`?"),
        ("{ enterprise = \"corp\" }", "`enterprise` needs `authorization_server`"),
        ("{ enterprise = \"corp\", authorization_server = \"x\" }", "there is no MCP issuer `x`"),
        (
            "{ enterprise = \"corp\", authorization_server = \"other\", audience = \"a\" }",
            "cannot be set with",
        ),
        ("{ exchange = \"corp\", authorization_server = \"other\" }", "this key requires `enterprise`"),
        ("{ client_credentials = \"corp\", token_type = \"jwt\" }", "requires `exchange` or `enterprise`"),
        ("{ bearer = \"secret\", scope = \"a\" }", "this key requires an issuer"),
        ("{ bearer = \"Bearer secret\" }", "hint: write the token without `Bearer`"),
        (
            "{ bearer = \"secret\" }\nheaders = { authorization = \"secret\" }",
            "both set the header `Authorization`",
        ),
    ] {
        let failure = with_auth(auth, TOKENS).err().unwrap_or_else(|| panic!("{auth}"));
        assert!(failure.contains(message) && !failure.contains("secret\""), "{auth}\n{failure}");
    }
    let failure = with_auth("{ exchange = \"corp\" }", ROUTE).err().unwrap();
    assert!(failure.contains("the MCP server `a` needs the tokens of the callers"), "{failure}");
    let on_command = config(&format!(
        "{ISSUERS}[mcp.servers.a]\ncommand = [\"run\"]\nauth = {{ exchange = \"corp\" }}\n{ENDPOINT}{TOKENS}"
    ));
    let failure = on_command.err().unwrap();
    assert!(failure.contains("this key requires `upstream`"), "{failure}");
    let plain = config(&format!(
        "[mcp.issuers.a]\ntoken_url = \"http://login.example/\"\nclient_id = \"a\"\n{SERVER}{ENDPOINT}{ROUTE}"
    ));
    let failure = plain.err().unwrap();
    assert!(failure.contains("`http` is allowed only for hosts on this machine"), "{failure}");
}

#[test]
fn unused_issuer_causes_a_warning() {
    let config = with_auth("{ exchange = \"corp\" }", TOKENS).unwrap();
    let warnings: Vec<_> = usage::unused(&config).iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("no MCP server uses the issuer `other`")),
        "{warnings:?}"
    );
    assert!(!warnings.iter().any(|warning| warning.contains("issuer `corp`")), "{warnings:?}");
}

#[test]
fn invalid_or_repeated_server_name_is_an_error() {
    for name in ["\"\"", "A", "a_b", "\"a b\"", "a-name-with-twenty-five-b"] {
        let failure = config(&format!("[mcp.servers.{name}]\ncommand = [\"a\"]\n{SERVER}{ENDPOINT}{ROUTE}"));
        let failure = failure.err().unwrap_or_else(|| panic!("{name}"));
        assert!(failure.contains("cannot be the name of an MCP server"), "{failure}");
        assert!(failure.contains("hint: use 1 to 24 lowercase letters, digits and `-`"), "{failure}");
    }
    let failure = config(&format!("{SERVER}{SERVER}{ENDPOINT}{ROUTE}")).err().unwrap();
    assert!(failure.contains("duplicate key"), "{failure}");
}

#[test]
fn upstream_of_mcp_server_cannot_have_http2_or_proxy_protocol() {
    for key in ["http2 = true", "proxy_protocol = \"v2\""] {
        let upstream = format!("[upstreams.b]\nservers = [\"127.0.0.1:2\"]\n{key}\n");
        let failure = config(&format!("{upstream}[mcp.servers.a]\nupstream = \"b\"\n{ENDPOINT}{ROUTE}"));
        let failure = failure.err().unwrap_or_else(|| panic!("{key}"));
        assert!(failure.contains("an MCP server cannot use an upstream with"), "{failure}");
    }
}

#[test]
fn mistakes_in_mcp_endpoints_are_errors_with_a_hint() {
    for (keys, message) in [
        ("", "missing field `servers`"),
        ("servers = []", "an MCP endpoint needs at least one server"),
        ("servers = [\"githab\"]", "there is no MCP server `githab`"),
        ("servers = [\"githab\"]", "hint: did you mean `github`?"),
        ("servers = [\"zzz\"]", "hint: possible here: `a`, `github`"),
        ("servers = [\"a\", \"a\"]", "the list names this MCP server twice"),
        ("servers = [\"a\"]\nnames = \"short\"", "unknown value `short`"),
        ("servers = [\"a\"]\nprefer = [\"a\"]", "`prefer` requires plain names"),
        (
            "servers = [\"a\"]\nnames = \"plain\"\nprefer = [\"github\"]",
            "the endpoint has no MCP server `github`",
        ),
        ("servers = [\"a\"]\nlist_wait = \"0s\"", "the value must be from 1ms to 24h"),
        ("servers = [\"a\"]\nresource = \"/dev\"", "a resource needs an absolute HTTP URL"),
        ("servers = [\"a\"]\nresource = \"https://a b/dev\"", "a resource needs an absolute HTTP URL"),
        ("servers = [\"a\"]\nlimits = [{ tools = [\"a\"] }]", "the limit limits nothing"),
        ("servers = [\"a\"]\nlimits = [{ tools = [], concurrent = 1 }]", "the limit applies to no tool"),
        ("servers = [\"a\"]\nlimits = [{ concurrent = 0 }]", "the value must be from 1 to 1000000"),
        ("servers = [\"a\"]\nlimits = [{ rate = { requests = 0 } }]", "the value must be from 1 to"),
        ("servers = [\"a\"]\nlimits = [{ rate = { requests = 1 }, by = \"tool\" }]", "unknown value `tool`"),
        ("servers = [\"a\"]\nrules = [{}]", "the rule permits nothing"),
        ("servers = [\"a\"]\nrules = [{ tools = [\"\"] }]", "a pattern for tools has 1 to 256 bytes"),
        ("servers = [\"a\"]\nrules = [{ prompts = [\"a?\"] }]", "a pattern for prompts cannot contain `?`"),
        (
            "servers = [\"a\"]\nrules = [{ claims = { sub = [] }, tools = [\"*\"] }]",
            "the list is empty, so the rule matches",
        ),
        ("servers = [\"a\"]\nrules = [{ claims = { sub = 1 } }]", "expected a string or a list of strings"),
        ("servers = [\"a\"]\nrules = [{ tool = [\"*\"] }]", "unknown key `tool`"),
        ("servers = [\"a\"]\nsearch = { pins = [] }", "unknown key `pins`"),
        ("servers = [\"a\"]\nsearch = 5", "`true`, `false` or a table"),
        ("servers = [\"a\"]\nsearch = { results_max = 0 }", "the value must be from 1 to 100"),
    ] {
        let failure = endpoint_errors(keys);
        assert!(failure.contains(message) && failure.contains("serve.toml:"), "{keys}\n{failure}");
    }
}

#[test]
fn route_needs_a_policy_that_verifies_the_claims_of_the_rules() {
    let digest = "0".repeat(64);
    let policies = format!(
        "[policies.keys.api_keys]\nbearer = true\nkeys.ada = \"sha256:{digest}\"\n\
         [policies.tokens.jwt]\nsecret = \"a secret of at least thirty-two bytes\"\n"
    );
    for (claims, policy, is_valid) in [
        ("{}", "", true),
        ("{ sub = \"ada\" }", "", false),
        ("{ sub = \"ada\" }", "keys", true),
        ("{ sub = \"ada\", groups = \"eng\" }", "keys", false),
        ("{ sub = \"ada\", groups = [\"eng\"] }", "tokens", true),
    ] {
        let rule = format!("[[mcp.endpoints.dev.rules]]\nclaims = {claims}\ntools = [\"*\"]\n");
        let names = if policy.is_empty() { String::new() } else { format!("policies = [\"{policy}\"]\n") };
        let config = config(&format!("{SERVER}{ENDPOINT}{rule}{policies}{ROUTE}{names}"));
        match config {
            Ok(config) => {
                assert!(is_valid, "{claims} {policy}");
                assert!(config.to_string().contains("access rules: 1"), "{config}");
            }
            Err(failure) => {
                assert!(
                    !is_valid && failure.contains("but no policy of this route verifies it"),
                    "{failure}"
                );
            }
        }
    }
}

#[test]
fn resource_needs_a_route_that_serves_it_and_requires_tokens() {
    let tokens = "[policies.tokens.jwt]\nsecret = \"a secret of at least thirty-two bytes\"\n";
    let issuer = "issuer = \"https://login.example\"\n";
    let metadata = "/.well-known/oauth-protected-resource/dev: the metadata of https://mcp.example/dev";
    for (issuer, route, is_valid) in [
        (issuer, "path = \"/dev\"\npolicies = [\"tokens\"]\n", true),
        (issuer, "path = \"/\"\nhost = \"mcp.example\"\npolicies = [\"tokens\"]\n", true),
        (issuer, "path_exact = \"/dev\"\nhost = \"*.example\"\npolicies = [\"tokens\"]\n", true),
        ("", "path = \"/dev\"\npolicies = [\"tokens\"]\n", false),
        (issuer, "path = \"/dev\"\n", false),
        (issuer, "path = \"/de\"\npolicies = [\"tokens\"]\n", false),
        (issuer, "path = \"/dev\"\nhost = \"other.example\"\npolicies = [\"tokens\"]\n", false),
    ] {
        let endpoint = format!("{ENDPOINT}resource = \"https://mcp.example/dev\"\n");
        let text = format!("{SERVER}{endpoint}{tokens}{issuer}[[routes]]\nmcp = \"dev\"\n{route}");
        match config(&text) {
            Ok(config) => assert!(is_valid && config.to_string().contains(metadata), "{route}\n{config}"),
            Err(failure) => {
                assert!(
                    !is_valid && failure.contains("no route of this endpoint serves the URL"),
                    "{failure}"
                );
            }
        }
    }
}

#[test]
fn route_with_unknown_endpoint_or_old_form_is_an_error() {
    for (value, message) in [
        ("\"devs\"", "there is no MCP endpoint `devs`"),
        ("\"devs\"", "hint: did you mean `dev`?"),
        ("true", "`mcp` is the name of an endpoint"),
        ("true", "hint: for the MCP endpoint of the demo, write `demo = \"mcp\"`"),
        ("false", "`mcp` is the name of an endpoint"),
        ("1", "expected the name of an MCP endpoint"),
    ] {
        let failure = config(&format!("{SERVER}{ENDPOINT}[[routes]]\npath = \"/\"\nmcp = {value}\n"));
        let failure = failure.err().unwrap_or_else(|| panic!("{value}"));
        assert!(failure.contains(message), "{value}\n{failure}");
    }
    let failure = config("[[routes]]\npath = \"/\"\ndemo = \"http\"\n").err().unwrap();
    assert!(failure.contains("expected `true`, `false` or `\"mcp\"`"), "{failure}");
}

#[test]
fn secrets_of_mcp_servers_are_hidden_in_messages() {
    for keys in [
        "upstream = \"web\"\nheaders = { Authorization = \"Bearer sesame\", Host = \"sesame\" }",
        "command = [\"a\"]\nheaders = { Authorization = \"Bearer sesame\" }",
        "upstream = \"web\"\nenvironment = { TOKEN = \"sesame\" }",
        "upstream = \"web\"\nheaders = \"Authorization: Bearer sesame\"",
        "upstream = \"web\"\nheaders = { A = \"sesame\\n\" }",
    ] {
        let failure = server_errors(keys);
        assert!(!failure.contains("sesame"), "{failure}");
    }
}

#[test]
fn unused_mcp_servers_and_endpoints_cause_a_warning() {
    let route = "[[routes]]\npath = \"/\"\ndemo = true\n";
    let server = "[mcp.servers.b]\nupstream = \"web\"\n";
    let config = config(&format!("{SERVER}{server}{ENDPOINT}{route}")).unwrap();
    let warnings: String = usage::unused(&config).iter().map(ToString::to_string).collect();
    assert!(warnings.contains("no route serves the MCP endpoint `dev`"), "{warnings}");
    assert!(warnings.contains("no endpoint uses the MCP server `b`"), "{warnings}");
    assert!(!warnings.contains("nothing uses the upstream `web`"), "{warnings}");
}

#[test]
fn mcp_server_that_leads_back_to_its_endpoint_is_an_error() {
    let loops = |path: &str, routes: &str| {
        let upstream = "[upstreams.own]\nservers = [\"localhost:8080\"]\n";
        let server = format!("[mcp.servers.a]\nupstream = \"own\"\npath = \"{path}\"\n");
        let config = config(&format!("{upstream}{server}{ENDPOINT}{routes}")).unwrap();
        refuse_loops(&config).err().map(|failure| failure.to_string()).unwrap_or_default()
    };
    for path in ["/dev", "/dev/below", "/dev?a=b"] {
        let failure = loops(path, ROUTE);
        assert!(
            failure.contains("the MCP server `a` sends requests back to the route `/dev and below`"),
            "{failure}"
        );
    }
    let demo = "[[routes]]\npath_exact = \"/dev/demo\"\ndemo = \"mcp\"\n";
    assert_eq!(loops("/dev/demo", &format!("{ROUTE}{demo}")), "");
    assert_eq!(loops("/other", ROUTE), "");
}

#[test]
fn tool_search_is_read_with_defaults() {
    let search = |keys: &str| {
        let text = format!("{SERVER}[mcp.endpoints.dev]\nservers = [\"a\"]\n{keys}\n{ROUTE}");
        config(&text).unwrap_or_else(|failure| panic!("{failure}")).mcp.endpoints["dev"].search.clone()
    };
    assert!(search("").is_none() && search("search = false").is_none());
    for keys in ["search = true", "search = {}"] {
        let search = search(keys).unwrap();
        assert_eq!((search.pinned.len(), search.results_max), (0, 5));
    }
    let search = search("search = { pinned = [\"a__b\"], results_max = 10 }").unwrap();
    assert_eq!((&search.pinned[..], search.results_max), (&["a__b".to_owned()][..], 10));
}

#[test]
fn pinned_name_that_no_tool_can_have_is_an_error() {
    let rules =
        "[mcp.servers.a]\ncommand = [\"run\"]\ntools = { deny = [\"secret\"], rename = { x = \"y\" } }\n";
    let failure = |names: &str, pinned: &str| {
        let endpoint = format!("[mcp.endpoints.dev]\nservers = [\"a\"]\nnames = \"{names}\"\n");
        config(&format!("{rules}{endpoint}search = {{ pinned = [\"{pinned}\"] }}\n{ROUTE}")).err()
    };
    for (names, pinned, hint) in [
        ("prefixed", "b", "SERVER__TOOL"),
        ("prefixed", "b__b", "SERVER__TOOL"),
        ("prefixed", "a__secret", "SERVER__TOOL"),
        ("prefixed", "a__x", "SERVER__TOOL"),
        ("plain", "find_tool", "the new name of a tool"),
        ("plain", "secret", "the new name of a tool"),
    ] {
        let failure = failure(names, pinned).unwrap_or_else(|| panic!("{pinned}"));
        let message = format!("no tool of the endpoint can have the name `{pinned}`");
        assert!(failure.contains(&message) && failure.contains(hint), "{failure}");
    }
    for (names, pinned) in [("prefixed", "a__y"), ("prefixed", "a__find_tool"), ("plain", "y")] {
        assert_eq!(failure(names, pinned), None);
    }
}

#[test]
fn server_with_rewritten_uris_needs_a_name_that_begins_with_a_letter() {
    let config_of = |name: &str, value: bool| {
        let server = format!("[mcp.servers.{name}]\ncommand = [\"run\"]\nrewrite_uris = {value}\n");
        config(&format!("{server}[mcp.endpoints.dev]\nservers = [\"{name}\"]\n{ROUTE}"))
    };
    for (name, value, is_valid) in
        [("a1", true, true), ("1a", false, true), ("1a", true, false), ("-a", true, false)]
    {
        match config_of(name, value) {
            Ok(config) => {
                assert!(is_valid, "{name}");
                assert_eq!(config.mcp.servers[name].rewrites_uris, value);
            }
            Err(failure) => {
                assert!(!is_valid && failure.contains("hint: rename the server"), "{failure}");
            }
        }
    }
}
