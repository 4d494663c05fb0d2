//! Access rules of gateways.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{
    CacheHint, CacheScope, Implementation, Prompt, Resource, ResourceTemplate, Tool,
};
use thruway_mcp_sdk::{
    CompletionInput, EraChoice, InvalidRule, McpGateway, McpGatewayBuilder, McpGatewayError,
    McpGatewayOptions, McpServer, McpServerOptions, Member, MemberState, NameStyle, Rule, UriParameters,
};

use super::callers::{TestCaller, guarded, rule, texts};
use super::sites::{in_memory, of_era, wait_for};
use crate::http::Site;

pub(super) const NAMES: [&str; 8] =
    ["list", "read", "write", "delete", "read_all", "list_all", "admin", "search"];

/// A server whose tools return the name of the server and of the tool.
pub(super) fn tools(member: &'static str, names: &[&'static str]) -> McpServer {
    names.iter().fold(McpServer::new(member, "1.0"), |server, name| {
        let name = *name;
        server.tool(Tool::new(name), move || format!("{member}__{name}"))
    })
}

fn documents() -> McpServer {
    let document = |parameters: UriParameters| format!("document {}", parameters.uri());
    tools("docs", &["read", "delete"])
        .resource(Resource::new("docs://public/a", "a"), || "a")
        .resource(Resource::new("docs://secret/b", "b"), || "b")
        .resource_template(ResourceTemplate::new("docs://public/{+path}", "public"), document)
        .resource_template(ResourceTemplate::new("docs://secret/{+path}", "secret"), document)
        .prompt(Prompt::new("explain"), || "explain")
        .prompt(Prompt::new("reveal"), || "reveal")
        .completion("reveal", "text", |_: CompletionInput| vec!["revealed".to_owned()])
        .completion("explain", "text", |_: CompletionInput| vec!["explained".to_owned()])
        .completion("docs://secret/{+path}", "path", |_: CompletionInput| vec!["b".to_owned()])
        .completion("docs://public/{+path}", "path", |_: CompletionInput| vec!["a".to_owned()])
}

pub(super) async fn gateway(
    options: McpGatewayOptions,
    rules: Vec<Rule>,
    members: Vec<Member>,
) -> McpGateway {
    let builder = McpGateway::builder("gateway", "1.0").options(options).rules(rules);
    let gateway = members.into_iter().fold(builder, McpGatewayBuilder::member).build().unwrap();
    for status in gateway.members() {
        wait_for(&gateway, &status.name, MemberState::Connected).await;
    }
    gateway
}

fn rules() -> Vec<Rule> {
    let public = Rule {
        tools: texts(&["docs__read"]),
        resources: texts(&["docs://public/*"]),
        prompts: texts(&["docs__explain"]),
        ..Rule::default()
    };
    let all = Rule { resources: texts(&["*"]), prompts: texts(&["*"]), ..rule(&["eng"], &["docs__*"]) };
    vec![public, all]
}

pub(super) fn error_of(answer: &Value) -> (i64, String) {
    let error = &answer["error"];
    (
        error["code"].as_i64().unwrap_or_else(|| panic!("{answer}")),
        error["message"].as_str().unwrap().to_owned(),
    )
}

/// Each method with parameters for a visible item and for a hidden item, and the unknown name that gets the
/// same error.
fn requests() -> Vec<(&'static str, [Value; 3])> {
    let name = |name: &str| json!({"name": name});
    let uri = |uri: &str| json!({"uri": uri});
    let complete = |kind: &str, member: &str, value: &str, argument: &str| json!({"ref": {"type": kind, member: value}, "argument": {"name": argument, "value": ""}});
    let prompt = |name: &str| complete("ref/prompt", "name", name, "text");
    let template = |uri: &str| complete("ref/resource", "uri", uri, "path");
    vec![
        ("tools/call", ["docs__read", "docs__delete", "docs__nothing"].map(name)),
        ("prompts/get", ["docs__explain", "docs__reveal", "docs__nothing"].map(name)),
        ("resources/read", ["docs://public/a", "docs://secret/b", "docs://nothing"].map(uri)),
        ("resources/read", ["docs://public/x", "docs://secret/x", "docs://nothing"].map(uri)),
        ("resources/read", ["docs://public/x", "docs://public/%2e%2e/secret/b", "docs://nothing"].map(uri)),
        ("resources/subscribe", ["docs://public/a", "docs://secret/b", "docs://nothing"].map(uri)),
        ("completion/complete", ["docs__explain", "docs__reveal", "docs__nothing"].map(prompt)),
        (
            "completion/complete",
            ["docs://public/{+path}", "docs://secret/{+path}", "docs://x/{+path}"].map(template),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn hidden_items_look_like_unknown_items() {
    let gateway = gateway(McpGatewayOptions::default(), rules(), vec![in_memory("docs", &documents())]).await;
    let site = guarded(&gateway);
    for (visitor, engineer) in TestCaller::in_both_eras(&site, Some("bob:sales"))
        .await
        .into_iter()
        .zip(TestCaller::in_both_eras(&site, Some("ada:ops+eng")).await)
    {
        for (method, [visible, hidden, unknown]) in requests() {
            if method == "resources/subscribe" && !visitor.is_legacy() {
                continue;
            }
            let context = format!("{method} {hidden} {}", visitor.is_legacy());
            for (caller, params) in [(&visitor, &visible), (&engineer, &visible), (&engineer, &hidden)] {
                let answer = caller.request(method, params.clone()).await;
                assert!(answer["error"].is_null(), "{context}: {answer}");
            }
            let refusal = |params: &Value| {
                let params = params.clone();
                async { error_of(&visitor.request(method, params).await) }
            };
            let (code, message) = refusal(&hidden).await;
            let (unknown_code, unknown_message) = refusal(&unknown).await;
            let is_resource = hidden["uri"].is_string() || hidden["ref"]["uri"].is_string();
            let expected = if is_resource && visitor.is_legacy() { -32002 } else { -32602 };
            assert_eq!((code, unknown_code), (expected, expected), "{context}");
            assert_eq!(
                message.replace("delete", "nothing").replace("reveal", "nothing"),
                unknown_message,
                "{context}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_contain_only_visible_items() {
    let gateway = gateway(McpGatewayOptions::default(), rules(), vec![in_memory("docs", &documents())]).await;
    let site = guarded(&gateway);
    for (token, is_engineer) in
        [("bob:sales", false), ("ada:eng", true), ("eve:ops+eng+x", true), ("sam:", false)]
    {
        for caller in TestCaller::in_both_eras(&site, Some(token)).await {
            for (method, list, key, visible, hidden) in [
                ("tools/list", "tools", "name", "docs__read", "docs__delete"),
                ("prompts/list", "prompts", "name", "docs__explain", "docs__reveal"),
                ("resources/list", "resources", "uri", "docs://public/a", "docs://secret/b"),
                (
                    "resources/templates/list",
                    "resourceTemplates",
                    "uriTemplate",
                    "docs://public/{+path}",
                    "docs://secret/{+path}",
                ),
            ] {
                let mut expected = vec![visible];
                expected.extend(is_engineer.then_some(hidden));
                expected.sort_unstable();
                assert_eq!(caller.list(method, list, key).await, expected, "{token} {method}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn list_is_private_only_if_a_rule_depends_on_claims() {
    for (rules, scope) in [
        (Vec::new(), "public"),
        (vec![rule(&[], &["docs__*"])], "public"),
        (vec![rule(&[], &["docs__*"]), rule(&["eng"], &["*"])], "private"),
    ] {
        let public = CacheHint { ttl_ms: 1000, cache_scope: CacheScope::Public };
        let options = McpServerOptions { cache: public, ..McpServerOptions::default() };
        let server = McpServer::with_options(Implementation::new("docs", "1.0"), options);
        let server = server.tool(Tool::new("read"), || "text");
        let member = of_era("docs", &server, EraChoice::Modern);
        let gateway = gateway(McpGatewayOptions::default(), rules, vec![member]).await;
        let site = Site::new(&gateway);
        let [_, modern] = TestCaller::in_both_eras(&site, None).await;
        let answer = modern.request("tools/list", json!({})).await;
        assert_eq!(answer["result"]["cacheScope"], scope, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn subscription_omits_hidden_resources() {
    let server = documents();
    let gateway = gateway(McpGatewayOptions::default(), rules(), vec![in_memory("docs", &server)]).await;
    let site = guarded(&gateway);
    let uris = ["docs://public/a", "docs://secret/b"];
    for (token, count) in [("bob:sales", 1), ("ada:eng", 2)] {
        let [_, modern] = TestCaller::in_both_eras(&site, Some(token)).await;
        let params = json!({"notifications": {"resourceSubscriptions": uris}});
        let mut stream = site.open(&modern.message("subscriptions/listen", params));
        let accepted = stream.next_message().await;
        assert_eq!(
            accepted["params"]["notifications"]["resourceSubscriptions"],
            json!(uris[..count]),
            "{accepted}"
        );
        for uri in uris {
            server.resource_updated(uri);
        }
        let mut updated = Vec::new();
        for _ in 0..count {
            updated.push(stream.next_message().await["params"]["uri"].as_str().unwrap().to_owned());
        }
        updated.sort_unstable();
        assert_eq!(updated, uris[..count]);
        Site::settle().await;
        stream.advance();
        assert_eq!(stream.take_event(), None);
    }
}

/// Some servers ignore the case of member names. They would use another name than the gateway.
#[tokio::test(start_paused = true)]
async fn other_spelling_of_a_member_name_is_refused() {
    let options = McpGatewayOptions { names: NameStyle::Plain, ..McpGatewayOptions::default() };
    let rules = vec![rule(&[], &["read"])];
    let gateway = gateway(options, rules, vec![in_memory("docs", &documents())]).await;
    let site = Site::new(&gateway);
    for caller in TestCaller::in_both_eras(&site, None).await {
        let answer = caller.call_with_text(r#"{"name":"read"}"#).await;
        assert_eq!(answer["result"]["content"][0]["text"], "docs__read", "{answer}");
        for params in [r#"{"name":"read","Name":"delete"}"#, r#"{"NAME":"delete","name":"read"}"#] {
            let answer = caller.call_with_text(params).await;
            assert_eq!(error_of(&answer).0, -32602, "{answer}");
        }
    }
}

#[tokio::test]
async fn builder_rejects_invalid_rules() {
    let check = |rules| {
        McpGateway::builder("gateway", "1.0").member(in_memory("docs", &documents())).rules(rules).check()
    };
    assert_eq!(check(rules()), Ok(()));
    let error = check(vec![rule(&[], &["a"]), Rule::default()]).unwrap_err();
    assert_eq!(error, McpGatewayError::InvalidRule { number: 2, error: InvalidRule::Empty });
    let error = check(vec![rule(&[], &[""])]).unwrap_err();
    assert_eq!(error.to_string(), "invalid access rule 1: invalid glob ``: expected 1 to 256 bytes");
}
