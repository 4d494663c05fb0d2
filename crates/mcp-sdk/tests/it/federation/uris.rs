//! Rewritten URIs of gateways.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{
    CallToolResult, CompleteArgument, CompletionReference, MetaObject, Prompt, Resource, ResourceTemplate,
    ResourceTemplateReference, SubscriptionFilter, Tool,
};
use thruway_mcp_sdk::{
    CompletionInput, EraChoice, McpClient, McpGateway, McpGatewayBuilder, McpGatewayError, McpServer, Member,
    ServerNotification, UriParameters,
};
use tokio::time::{sleep, timeout};

use super::callers::{TestCaller, guarded, rule, texts};
use super::sites::{ERAS, in_memory, of_era, options, over_http, with_options};
use crate::bridge::sites::clients;
use crate::client::sites::Site;

/// A server with the same URIs for every `name`.
fn server(name: &'static str) -> McpServer {
    let content = json!([
        {"type": "text", "text": "doc:a"},
        {"type": "resource_link", "uri": "doc:a", "name": "a"},
        {"type": "resource", "resource": {"uri": "doc:b", "text": "b"}},
    ]);
    let content: CallToolResult = serde_json::from_value(json!({ "content": content })).unwrap();
    let ui: MetaObject = serde_json::from_value(json!({"ui": {"resourceUri": "ui://view"}})).unwrap();
    let links = Tool { meta: Some(ui), ..Tool::new("links") };
    McpServer::new(name, "1.0")
        .tool(links, move || content.clone())
        .resource(Resource::new("doc:a", "a"), move || name)
        .resource(Resource::new("ui://view", "view"), move || format!("{name} view"))
        .resource_template(ResourceTemplate::new("item:{id}", "item"), move |parameters: UriParameters| {
            format!("{name} {}", parameters.uri())
        })
        .completion("item:{id}", "id", move |_: CompletionInput| vec![name.to_owned()])
        .prompt(Prompt::new("show"), || {
            let content = json!({"type": "resource", "resource": {"uri": "doc:a", "text": "a"}});
            serde_json::from_value::<thruway_mcp_sdk::schema::GetPromptResult>(
                json!({"messages": [{"role": "user", "content": content}]}),
            )
            .unwrap()
        })
}

async fn read(client: &McpClient, uri: &str) -> Result<(String, String), i64> {
    match client.read_resource(uri).await {
        Ok(result) => {
            let contents = json!(result.contents)[0].clone();
            let text = |member: &str| contents[member].as_str().unwrap().to_owned();
            Ok((text("uri"), text("text")))
        }
        Err(error) => Err(error.server_error().unwrap().code.0),
    }
}

async fn use_everything(client: &McpClient, way: &str) {
    let listed: Vec<_> = client.list_resources().await.unwrap().into_iter().map(|item| item.uri).collect();
    let expected = ["doc:a", "one+doc:a", "two+doc:a", "ui://one+view", "ui://two+view", "ui://view"];
    assert_eq!(listed, expected, "{way}");
    let templates = client.list_resource_templates().await.unwrap().into_iter();
    let templates: Vec<_> = templates.map(|item| item.uri_template).collect();
    assert_eq!(templates, ["item:{id}", "one+item:{id}", "two+item:{id}"], "{way}");
    for (uri, text) in [
        ("one+doc:a", "one"),
        ("two+doc:a", "two"),
        ("doc:a", "three"),
        ("ui://one+view", "one view"),
        ("ui://view", "three view"),
        ("two+item:7", "two item:7"),
        ("item:7", "three item:7"),
    ] {
        assert_eq!(read(client, uri).await, Ok((uri.to_owned(), text.to_owned())), "{way}");
    }
    for uri in [
        "one+doc:none",
        "four+doc:a",
        "ONE+doc:a",
        "one+one+doc:a",
        "doc:none",
        "one+",
        "one+ui://view",
        "ui://none+view",
    ] {
        assert!(matches!(read(client, uri).await, Err(-32602 | -32002)), "{way} {uri}");
    }
    let template = ResourceTemplateReference { uri: "two+item:{id}".into() };
    let argument = CompleteArgument { name: "id".into(), value: String::new() };
    let completed = client.complete(CompletionReference::Resource(template), argument, None).await.unwrap();
    assert_eq!(completed.values, ["two"], "{way}");
    check_results(client, way).await;
}

async fn check_results(client: &McpClient, way: &str) {
    let tools = json!(client.list_tools().await.unwrap());
    for (index, (member, prefix)) in [("one", "one+"), ("three", ""), ("two", "two+")].into_iter().enumerate()
    {
        assert_eq!(tools[index]["name"], format!("{member}__links"), "{way}");
        assert_eq!(tools[index]["_meta"]["ui"]["resourceUri"], format!("ui://{prefix}view"), "{way}");
        let result = json!(client.call_tool(&format!("{member}__links"), json!({})).await.unwrap());
        assert_eq!(result["content"][0]["text"], "doc:a", "{way}");
        assert_eq!(result["content"][1]["uri"], format!("{prefix}doc:a"), "{way}: {result}");
        assert_eq!(result["content"][2]["resource"]["uri"], format!("{prefix}doc:b"), "{way}: {result}");
        let prompt = client.get_prompt(&format!("{member}__show"), BTreeMap::new()).await.unwrap();
        let uri = &json!(prompt)["messages"][0]["content"]["resource"]["uri"];
        assert_eq!(*uri, format!("{prefix}doc:a"), "{way}");
    }
}

#[tokio::test]
async fn rewritten_uris_lead_to_their_member() {
    let servers = ["one", "two", "three"].map(server);
    let site = Site::new(&servers[1]);
    for far in ERAS {
        let gateway = with_options(
            options(far),
            [
                of_era("one", &servers[0], far).rewrite_uris(true),
                over_http("two", &site.url).rewrite_uris(true),
                of_era("three", &servers[2], far),
            ],
        );
        let near = Site::new(&gateway);
        for (way, client) in clients(&gateway, &near, |builder| builder) {
            use_everything(&client, &format!("{way} to {far:?}")).await;
            client.close().await;
        }
        gateway.close().await;
    }
}

#[tokio::test]
async fn updates_name_the_rewritten_uri() {
    for far in ERAS {
        let servers = ["one", "two"].map(server);
        let members =
            [0, 1].map(|index| of_era(["one", "two"][index], &servers[index], far).rewrite_uris(index == 0));
        let gateway = with_options(options(far), members);
        let near = Site::new(&gateway);
        for (way, client) in clients(&gateway, &near, |builder| builder) {
            let way = format!("{way} to {far:?}");
            let wanted = ["one+doc:a", "doc:a"];
            let filter = SubscriptionFilter {
                resource_subscriptions: wanted.map(str::to_owned).to_vec(),
                ..SubscriptionFilter::default()
            };
            let mut subscription = client.listen(filter).await.unwrap();
            for (server, uri) in servers.iter().zip(wanted) {
                let receiving = async {
                    while let Some(notification) = subscription.next().await {
                        match notification {
                            ServerNotification::ResourceUpdated(updated) if updated.uri == uri => break,
                            ServerNotification::ResourceUpdated(updated) => {
                                assert!(wanted.contains(&&*updated.uri), "{way}: {updated:?}");
                            }
                            other => panic!("{way}: {other:?}"),
                        }
                    }
                };
                // Legacy streams may open after `listen` has returned.
                let changing = async {
                    loop {
                        server.resource_updated("doc:a");
                        sleep(Duration::from_millis(5)).await;
                    }
                };
                let both = async {
                    tokio::select! { () = receiving => {}, () = changing => {} }
                };
                timeout(Duration::from_mins(1), both).await.unwrap_or_else(|_| panic!("{way}: {uri}"));
            }
            client.close().await;
        }
        gateway.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn error_for_an_unknown_resource_names_the_rewritten_uri() {
    let gateway =
        with_options(options(EraChoice::Auto), [in_memory("one", &server("one")).rewrite_uris(true)]);
    let site = guarded(&gateway);
    for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
        let answer = caller.request("resources/read", json!({"uri": "one+doc:none"})).await;
        assert_eq!(answer["error"]["data"]["uri"], "one+doc:none", "{answer}");
        let updated = caller.request("resources/read", json!({"uri": "doc:a"})).await;
        assert_ne!(updated["error"], Value::Null, "{updated}");
    }
}

#[tokio::test(start_paused = true)]
async fn access_rules_apply_to_rewritten_uris() {
    let rules = vec![thruway_mcp_sdk::Rule { resources: texts(&["one+doc:*"]), ..rule(&[], &["none"]) }];
    let members = ["one", "two"].map(|name| in_memory(name, &server(name)).rewrite_uris(true));
    let builder = McpGateway::builder("gateway", "1.0").rules(rules);
    let gateway = members.into_iter().fold(builder, McpGatewayBuilder::member).build().unwrap();
    let site = guarded(&gateway);
    for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
        assert_eq!(caller.list("resources/list", "resources", "uri").await, ["one+doc:a"]);
        for (uri, is_visible) in [("one+doc:a", true), ("two+doc:a", false), ("doc:a", false)] {
            let answer = caller.request("resources/read", json!({ "uri": uri })).await;
            assert_eq!(answer["error"].is_null(), is_visible, "{uri}: {answer}");
        }
    }
}

/// Another member could otherwise offer a resource with the URI of this member.
#[tokio::test]
async fn uri_with_the_prefix_of_another_member_is_withheld() {
    let thief = McpServer::new("thief", "1.0").resource(Resource::new("one+doc:a", "a"), || "thief");
    let members = [in_memory("thief", &thief), in_memory("one", &server("one")).rewrite_uris(true)];
    let gateway = with_options(options(EraChoice::Auto), members);
    let client = McpClient::builder().server(&gateway);
    assert_eq!(read(&client, "one+doc:a").await, Ok(("one+doc:a".to_owned(), "one".to_owned())));
    assert_eq!(client.list_resources().await.unwrap().len(), 2);
    let withheld = gateway.members().remove(0).withheld;
    assert_eq!((withheld.len(), &*withheld[0].reason), (1, "the server `one` comes first"));
}

#[tokio::test]
async fn name_of_a_member_with_rewritten_uris_begins_with_a_letter() {
    let member = |name: &str| Member::new(name, |_| Err(thruway_mcp_sdk::McpClientError::Closed));
    for name in ["1a", "-a"] {
        let builder = McpGateway::builder("gateway", "1.0").member(member(name).rewrite_uris(true));
        assert_eq!(builder.check(), Err(McpGatewayError::InvalidUriPrefix(name.to_owned())));
        assert_eq!(McpGateway::builder("gateway", "1.0").member(member(name)).check(), Ok(()));
    }
}
