//! Headers that mirror the body, and headers that do not.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::Tool;
use thruway_testkit::Random;

use crate::fixtures::{server, text, tool};
use crate::http::{Message, Session, Site};

#[derive(Deserialize, JsonSchema)]
struct Query {
    #[serde(default)]
    #[schemars(with = "String", extend("x-mcp-header" = "Region"))]
    region: Option<String>,
    #[serde(default)]
    #[schemars(with = "i64", extend("x-mcp-header" = "Limit"))]
    limit: Option<i64>,
}

pub(crate) fn mirroring() -> McpServer {
    server().tool(Tool::new("query"), |Query { region, limit }: Query| format!("{region:?} {limit:?}"))
}

pub(crate) fn query(arguments: &Value) -> Message {
    Message::modern("tools/call", json!({"name": "query", "arguments": arguments}))
}

#[tokio::test(start_paused = true)]
async fn annotated_arguments_must_match_param_headers() {
    let site = Site::new(&mirroring());
    let message = query(&json!({"region": "eu", "limit": 5}));
    let both = message.clone().with_field("Mcp-Param-Region", "eu").with_field("Mcp-Param-Limit", "5");
    let result = site.send(&both).await.message();
    assert_eq!(text(&result["result"]), r#"Some("eu") Some(5)"#);
    for (message, why) in [
        (message, "both are missing"),
        (both.clone().without_field("mcp-param-limit"), "one is missing"),
        (both.clone().with_field("Mcp-Param-Region", "EU"), "values are case-sensitive"),
        (both.clone().with_field("Mcp-Param-Limit", "6"), "another number"),
        (both.clone().with_field("Mcp-Param-Limit", "5x"), "not a number"),
        (both.clone().with_field("Mcp-Param-Region", "=?base64?!?="), "malformed"),
        (
            query(&json!({"limit": 5}))
                .with_field("Mcp-Param-Limit", "5")
                .with_field("Mcp-Param-Region", "eu"),
            "no such argument",
        ),
    ] {
        assert_eq!(site.refused(&message).await, (400, -32020), "{why}");
    }
    for message in [
        both.clone().with_field("Mcp-Param-Region", "=?base64?ZXU=?="),
        both.clone().with_field("Mcp-Param-Limit", "05"),
        both.with_field("Mcp-Param-Other", "whatever"),
        query(&json!({"region": null})),
        query(&json!({"region": "grün"})).with_field("Mcp-Param-Region", "=?base64?Z3LDvG4=?="),
    ] {
        assert_eq!(site.send(&message).await.status, 200, "{message:?}");
    }
}

/// Regression test: arguments that do not fit into a JSON value were treated as absent, so no headers were
/// required. But the handler ignored unknown members and read the mirrored argument.
#[tokio::test(start_paused = true)]
async fn arguments_that_cannot_be_compared_with_headers_are_rejected() {
    let site = Site::new(&mirroring());
    let deep = "[".repeat(200) + &"]".repeat(200);
    for other in [deep.as_str(), "1e999", r#""\ud800""#] {
        let mut message = query(&json!({"region": "eu", "other": 0}));
        let body = String::from_utf8(message.content).unwrap();
        message.content = body.replace(r#""other":0"#, &format!(r#""other":{other}"#)).into();
        assert_eq!(site.refused(&message).await, (200, -32602), "{other}");
    }
}

/// Regression test: legacy requests were not compared with their headers. A client could bypass a gateway
/// that filters by headers with an older revision.
#[tokio::test(start_paused = true)]
async fn legacy_request_must_match_the_mcp_headers_it_has() {
    let site = Site::new(&mirroring());
    let arguments = json!({"name": "query", "arguments": {"region": "eu"}});
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.initialize(revision).await;
        let call = session.request(9, "tools/call", &arguments);
        let batch = session.post(&json!([crate::http::request(9, "tools/call", &arguments)]));
        let notification =
            session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}));
        let answer = session.respond(&json!(1), &json!({}));
        let begin = Session::initialize(revision, &json!({}));
        let of_batch = if revision == "2025-03-26" { -32020 } else { -32600 };
        for (message, name, value, code) in [
            (&call, "Mcp-Method", "tools/list", -32020),
            (&call, "mcp-method", "Tools/call", -32020),
            (&call, "Mcp-Name", "other", -32020),
            (&call, "Mcp-Name", "=?base64?!?=", -32020),
            (&call, "Mcp-Param-Region", "us", -32020),
            (&call, "Mcp-Param-Limit", "5", -32020),
            (&batch, "Mcp-Method", "tools/list", of_batch),
            (&batch, "Mcp-Param-Region", "us", of_batch),
            (&notification, "Mcp-Method", "ping", -32020),
            (&answer, "Mcp-Method", "ping", -32020),
            (&begin, "Mcp-Method", "ping", -32020),
        ] {
            let refused = site.refused(&message.clone().with_field(name, value)).await;
            assert_eq!(refused, (400, code), "{revision} {name}: {value} {message:?}");
        }
        let mut twice = call.clone().with_field("Mcp-Method", "tools/call");
        twice.fields.push(("mcp-method".to_owned(), "tools/call".to_owned()));
        assert_eq!(site.refused(&twice).await, (400, -32020));
        let refused = site.send(&call.clone().with_field("Mcp-Name", "other")).await.message();
        assert_eq!(refused["id"], 9);
        let matching = call.with_field("Mcp-Method", "tools/call").with_field("Mcp-Name", "query");
        for message in [matching.clone(), matching.with_field("Mcp-Param-Region", "eu")] {
            assert_eq!(text(&site.send(&message).await.message()["result"]), r#"Some("eu") None"#);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn header_names_are_case_insensitive_and_values_case_sensitive() {
    let site = Site::new(&server());
    let message = Message::modern("tools/call", tool("progress"));
    let lower = message.clone().without_field("Mcp-Name").with_field("mcp-name", "progress");
    assert_eq!(site.send(&lower).await.status, 200);
    assert_eq!(site.refused(&message.with_field("Mcp-Name", "Progress")).await, (400, -32020));
}

#[tokio::test(start_paused = true)]
async fn encoded_name_header_is_decoded_but_encoded_method_is_rejected() {
    // An intermediary reads `Mcp-Method` without decoding. If the server decoded it, any method could pass
    // the intermediary.
    let site = Site::new(&server());
    let message = Message::modern("tools/call", tool("progress"));
    let encoded = message.clone().with_field("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?=");
    assert_eq!(site.refused(&encoded).await, (400, -32020));
    let encoded = message.clone().with_field("MCP-Protocol-Version", "=?base64?MjAyNi0wNy0yOA==?=");
    assert_eq!(site.refused(&encoded).await, (400, -32020));
    let encoded = message.with_field("Mcp-Name", "=?base64?cHJvZ3Jlc3M=?=");
    assert_eq!(site.send(&encoded).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn duplicate_mcp_header_is_rejected() {
    let site = Site::new(&server());
    for name in ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version"] {
        let mut message = Message::modern("tools/call", tool("progress"));
        let value = message.fields.iter().find(|(other, _)| other == name).unwrap().1.clone();
        message.fields.push((name.to_lowercase(), value));
        assert_eq!(site.refused(&message).await, (400, -32020), "{name}");
    }
}

/// Returns requests that mirror everything possible.
fn mirrored() -> Vec<Message> {
    vec![
        Message::modern("server/discover", json!({})),
        Message::modern("tools/list", json!({})),
        Message::modern("resources/read", json!({"uri": "test://text"})),
        Message::modern("prompts/get", json!({"name": "greeting", "arguments": {"message": "a"}})),
        query(&json!({"region": "eu", "limit": 12}))
            .with_field("Mcp-Param-Region", "eu")
            .with_field("Mcp-Param-Limit", "12"),
    ]
}

/// Returns a text with one byte changed, removed or added.
fn changed(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let place = random.below(bytes.len());
    match random.below(3) {
        0 => bytes[place] = if bytes[place] == b'~' { b'!' } else { b'~' },
        1 if bytes.len() > 1 => drop(bytes.remove(place)),
        _ => bytes.insert(place, b'~'),
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test(start_paused = true)]
async fn request_with_changed_mcp_header_is_rejected() {
    let site = Site::new(&mirroring());
    let mut random = Random::new(3);
    for round in 0..400 {
        let messages = mirrored();
        let mut message = messages[round % messages.len()].clone();
        let places: Vec<_> = (0..message.fields.len())
            .filter(|place| message.fields[*place].0.to_lowercase().starts_with("mcp-"))
            .collect();
        let place = places[random.below(places.len())];
        let (name, value) = message.fields[place].clone();
        if random.below(8) == 0 {
            message.fields.remove(place);
        } else {
            message.fields[place].1 = changed(&value, &mut random);
        }
        let response = site.send(&message).await;
        // A changed revision in the header alone is also a mismatch.
        assert_eq!((response.status, response.error_code()), (400, -32020), "{name} {message:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_with_body_that_differs_from_headers_is_rejected() {
    let site = Site::new(&mirroring());
    let mut random = Random::new(4);
    for round in 0..400 {
        let messages = mirrored();
        let mut message = messages[round % messages.len()].clone();
        let mut body: Value = serde_json::from_slice(&message.content).unwrap();
        let pointers =
            ["/method", "/params/name", "/params/uri", "/params/arguments/region", "/params/arguments/limit"];
        let pointers: Vec<_> =
            pointers.into_iter().filter(|pointer| body.pointer(pointer).is_some()).collect();
        let pointer = pointers[random.below(pointers.len())];
        // Arguments are mirrored only for the tool with the declaration.
        let value = body.pointer_mut(pointer).unwrap();
        *value = match &*value {
            Value::String(text) => changed(text, &mut random).into(),
            other => json!(other.as_i64().unwrap() + 1 + i64::try_from(random.below(100)).unwrap()),
        };
        message.content = body.to_string().into();
        assert_eq!(site.refused(&message).await, (400, -32020), "{pointer} {message:?}");
    }
}
