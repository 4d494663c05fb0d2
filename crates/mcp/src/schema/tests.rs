extern crate std;

use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use std::string::ToString;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

/// Reads `message` as a `T`, and checks that writing it gives the same message.
fn round_trip<T: DeserializeOwned + Serialize + PartialEq + Debug>(message: &Value) -> T {
    let text = message.to_string();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), *message);
    // Inside of internally tagged enums, serde reads from memory.
    assert_eq!(serde_json::from_value::<T>(message.clone()).unwrap(), read);
    read
}

/// Checks that parsing any of `messages` as a `T` fails.
fn assert_rejected<T: DeserializeOwned + Debug>(messages: impl IntoIterator<Item = Value>) {
    for message in messages {
        let read = serde_json::from_str::<T>(&message.to_string());
        assert!(read.is_err(), "{message}: {read:?}");
    }
}

#[test]
fn content_blocks_round_trip() {
    let blocks = json!([
        {"type": "text", "text": "high tide", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": "AAEC", "mimeType": "image/png", "_meta": {"a/b": [1]}},
        {"type": "audio", "data": "", "mimeType": "audio/ogg"},
        {"type": "resource_link", "uri": "x:y", "name": "y", "title": "Y", "size": 3, "mimeType": "text/plain",
            "icons": [{"src": "x:i", "sizes": ["any"], "theme": "light", "mimeType": "image/png"}]},
        {"type": "resource", "resource": {"uri": "x:z", "text": "z"}},
        {"type": "resource", "resource": {"uri": "x:z", "blob": "eg==", "mimeType": "a/b", "_meta": {}}},
    ]);
    let read: Vec<ContentBlock> = round_trip(&blocks);
    assert!(matches!(&read[5], ContentBlock::Resource(EmbeddedResource {
        resource: ResourceContents::Blob(blob), ..
    }) if blob.blob.to_bytes().as_deref() == Ok(b"z")));
}

/// If the type is the first member, the other members are read directly.
#[test]
fn content_type_member_can_be_anywhere_but_only_once() {
    for text in [r#"{"type":"text","text":"a","x":1}"#, r#"{"x":{"y":[]},"te\u0078t":"a","type":"text"}"#] {
        assert_eq!(serde_json::from_str::<ContentBlock>(text).unwrap(), ContentBlock::text("a"), "{text}");
    }
    for text in [
        r#"{"type":"text","text":"a","type":"text"}"#,
        r#"{"type":"text","text":"a","typ\u0065":"image"}"#,
        r#"{"text":"a","type":"text","type":"text"}"#,
        r#"["text",{"text":"a"}]"#,
        "{}",
    ] {
        assert!(serde_json::from_str::<ContentBlock>(text).is_err(), "{text}");
    }
}

#[test]
fn invalid_content_is_rejected() {
    assert_rejected::<ContentBlock>([
        json!({"type": "video", "data": "AAEC", "mimeType": "video/ogg"}),
        json!({"type": "tool_use", "id": "1", "name": "t", "input": {}}),
        json!({"text": "without a type"}),
        json!({"type": "text"}),
        json!({"type": "text", "text": null}),
        json!({"type": "image", "data": "AAEC"}),
        json!({"type": "resource", "resource": {"uri": "x:z"}}),
        json!({"type": "text", "text": "", "annotations": {"audience": ["everybody"]}}),
        json!("text"),
    ]);
    assert_rejected::<PromptMessage>([
        json!({"role": "system", "content": {"type": "text", "text": ""}}),
        json!({"role": "User", "content": {"type": "text", "text": ""}}),
        json!({"content": {"type": "text", "text": ""}}),
    ]);
}

#[test]
fn base64_data_requires_standard_alphabet_and_padding() {
    for bytes in [&b""[..], b"a", b"ab", b"abc", b"\0\xff"] {
        assert_eq!(Base64Data::from_bytes(bytes).to_bytes().as_deref(), Ok(bytes));
    }
    for text in ["a", "ab", "YQ", "YQ=", "Y Q==", "YQ==\n", "_-8=", "YR==", "YQ==YQ==", "é"] {
        assert_eq!(Base64Data(text.into()).to_bytes(), Err(InvalidBase64), "{text:?}");
    }
}

#[test]
fn request_id_is_an_integer_or_a_string() {
    for id in [json!(0), json!(-1), json!(i64::MAX), json!(i64::MIN), json!(""), json!("7")] {
        round_trip::<RequestId>(&id);
    }
    assert_rejected::<RequestId>([
        json!(null),
        json!(1.5),
        json!(1.0),
        json!(i64::MAX.cast_unsigned() + 1),
        json!(u64::MAX),
        json!(true),
        json!([1]),
        json!({}),
    ]);
}

#[test]
fn structured_content_keeps_the_exact_json_text() {
    for text in ["{\"a\": 1.0}", "[1e2]", "\"x\\u0041\"", "12345678901234567890123", "false"] {
        let message = std::format!("{{\"content\":[],\"structuredContent\":{text}}}");
        let result: CallToolResult = serde_json::from_str(&message).unwrap();
        assert_eq!(result.structured_content.as_ref().unwrap().as_str(), text);
        assert_eq!(serde_json::to_string(&result).unwrap(), message);
    }
    let result: CallToolResult = serde_json::from_value(json!({"isError": true})).unwrap();
    assert_eq!(
        result,
        CallToolResult { is_error: Some(true), ..CallToolResult::default() },
        "absent content should be accepted"
    );
    assert_eq!(
        serde_json::to_value(result).unwrap(),
        json!({"content": [], "isError": true}),
        "empty content should be written"
    );
}

// A message is one line. Line breaks in structured content from another source would end it early.
#[test]
fn parsed_structured_content_is_on_one_line() {
    let message = "{\"content\":[],\"structuredContent\":{\r\n\"a\":\t\"\\n\"\n}}";
    let result: CallToolResult = serde_json::from_str(message).unwrap();
    assert_eq!(result.structured_content.unwrap().as_str(), "{  \"a\":\t\"\\n\" }");
}

// serde parses the message to find its type, and loses the text of the value.
#[test]
fn structured_content_in_sampling_message_round_trips() {
    let message = json!({"role": "user", "content": [
        {"type": "tool_use", "id": "1", "name": "t", "input": {"a": {}}},
        {"type": "tool_result", "toolUseId": "1", "content": [], "structuredContent": {"at": [6, 12]}, "isError": false},
    ]});
    let read: SamplingMessage = round_trip(&message);
    let OneOrMany::Many(blocks) = read.content else { panic!("not several content blocks") };
    let SamplingMessageContentBlock::ToolResult(result) = &blocks[1] else { panic!("not a tool result") };
    assert_eq!(result.structured_content.as_ref().unwrap().as_str(), r#"{"at":[6,12]}"#);
}

#[test]
fn single_content_block_is_not_written_as_array() {
    let text = json!({"type": "text", "text": "yes"});
    let one = json!({"role": "assistant", "content": text, "model": "m", "stopReason": "endTurn"});
    let many = json!({"role": "assistant", "content": [text, text], "model": "m"});
    for message in [one, many] {
        assert_eq!(round_trip::<CreateMessageResult>(&message).text(), "yes");
    }
    let none = json!({"role": "assistant", "content": [], "model": "m"});
    assert_eq!(round_trip::<CreateMessageResult>(&none).text(), "");
    assert_rejected::<CreateMessageResult>([
        json!({"role": "assistant", "content": {"type": "resource_link", "uri": "x:y", "name": "y"}, "model": "m"}),
        json!({"role": "assistant", "content": "yes", "model": "m"}),
    ]);
}

#[test]
fn definitions_round_trip_and_invalid_ones_are_rejected() {
    round_trip::<Tool>(&json!({
        "name": "t", "inputSchema": {"type": "object", "$defs": {"a": true}}, "outputSchema": {"type": "array"},
        "annotations": {"readOnlyHint": true, "destructiveHint": false}, "execution": {"taskSupport": "forbidden"},
    }));
    assert_rejected::<Tool>([
        json!({"name": "t"}),
        json!({"name": "t", "inputSchema": true}),
        json!({"name": "t", "inputSchema": {}, "execution": {"taskSupport": "perhaps"}}),
    ]);
    round_trip::<Prompt>(&json!({"name": "p", "arguments": [{"name": "a", "required": false}]}));
    round_trip::<ResourceTemplate>(
        &json!({"uriTemplate": "x:{y}", "name": "y", "annotations": {"lastModified": "now"}}),
    );
    round_trip::<ListToolsResult>(&json!({"tools": [], "nextCursor": ""}));
    assert_rejected::<ListToolsResult>([
        json!({}),
        json!({"tools": {}}),
        json!({"tools": [], "nextCursor": 2}),
    ]);
}

#[test]
fn capabilities_round_trip_with_their_settings() {
    let client: ClientCapabilities = round_trip(
        &json!({"sampling": {"tools": {}}, "elicitation": {"url": {}}, "extensions": {"a/b": {"c": 1}}}),
    );
    assert!(client.has_url_elicitation() && !client.has_form_elicitation());
    let client: ClientCapabilities = round_trip(&json!({"elicitation": {}, "roots": {"listChanged": true}}));
    assert!(
        client.has_form_elicitation() && !client.has_url_elicitation(),
        "without a mode, the capability means forms"
    );
    let client: ClientCapabilities = round_trip(&json!({}));
    assert!(!client.has_form_elicitation() && !client.has_url_elicitation());
    round_trip::<ServerCapabilities>(&json!({"tools": {}, "resources": {"subscribe": false}, "logging": {}}));
    let tasks = json!({"tools": {}, "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}});
    assert!(round_trip::<ServerCapabilities>(&tasks).has_calls_as_tasks());
    for tasks in
        [json!({}), json!({"requests": {"tools": {}}}), json!({"requests": {"tools": {"call": true}}})]
    {
        assert!(
            !round_trip::<ServerCapabilities>(&json!({ "tasks": tasks })).has_calls_as_tasks(),
            "{tasks}"
        );
    }
    assert_rejected::<ClientCapabilities>([json!({"roots": true}), json!({"elicitation": 1}), json!(null)]);
}

#[test]
fn completion_refers_to_a_prompt_or_resource_template() {
    let message = json!({
        "ref": {"type": "ref/resource", "uri": "x:{y}"}, "argument": {"name": "y", "value": ""},
        "context": {"arguments": {"z": "1"}}, "_meta": {"progressToken": 1},
    });
    let read: CompleteRequestParams = round_trip(&message);
    assert!(matches!(read.reference, CompletionReference::Resource(template) if template.uri == "x:{y}"));
    assert_rejected::<CompleteRequestParams>([
        json!({"ref": {"type": "ref/tool", "name": "t"}, "argument": {"name": "y", "value": ""}}),
        json!({"ref": {"type": "ref/prompt", "uri": "x:{y}"}, "argument": {"name": "y", "value": ""}}),
        json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "y"}}),
        json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "y", "value": ""}, "context": {"arguments": {"z": 1}}}),
    ]);
}

#[test]
fn elicitation_form_keeps_field_order() {
    let form = ElicitRequestFormParams::new("Who?")
        .with_required_field("name", PrimitiveSchemaDefinition::string().with_title("Name"))
        .with_field("age", PrimitiveSchemaDefinition::integer().with_default(7))
        .with_field("boat", PrimitiveSchemaDefinition::one_of(["ada", "eva"]))
        .with_field("agrees", PrimitiveSchemaDefinition::boolean());
    let expected = json!({"message": "Who?", "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "age": {"type": "integer", "default": 7},
            "boat": {"type": "string", "enum": ["ada", "eva"]},
            "agrees": {"type": "boolean"},
        },
        "required": ["name"],
    }});
    assert_eq!(serde_json::to_string(&form).unwrap(), expected.to_string());
    assert_eq!(round_trip::<ElicitRequestFormParams>(&expected), form);
}

#[test]
fn elicitation_params_are_a_form_or_a_url() {
    let form = json!({"mode": "form", "message": "m", "requestedSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {},
    }});
    assert!(matches!(round_trip(&form), ElicitRequestParams::Form(_)));
    let page = json!({"mode": "url", "message": "m", "url": "https://x.example/", "elicitationId": "e"});
    assert!(matches!(round_trip(&page), ElicitRequestParams::Url(_)));
    assert_rejected::<ElicitRequestParams>([
        json!({"mode": "url", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
        json!({"mode": "voice", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
        json!({"message": "m"}),
    ]);
    round_trip::<ElicitResult>(&json!({"action": "accept", "content": {"a": ["b"], "n": 1.5}}));
    assert_rejected::<ElicitResult>([
        json!({"action": "ignore"}),
        json!({}),
        json!({"action": "accept", "content": []}),
    ]);
}

#[test]
fn input_requests_and_responses_parse_to_the_right_variant() {
    let questions: InputRequests = round_trip(&json!({
        "a": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "x:y"}},
        "b": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        "c": {"method": "roots/list"},
        "d": {"method": "roots/list", "params": {"_meta": {"a/b": 1}}},
    }));
    assert!(matches!(questions["b"], InputRequest::CreateMessage(_)));
    assert!(matches!(&questions["c"], InputRequest::ListRoots(request) if request.params.is_none()));
    assert_rejected::<InputRequest>([
        json!({"method": "tools/call", "params": {}}),
        json!({"method": "elicitation/create"}),
        json!({"params": {"messages": [], "maxTokens": 1}}),
    ]);
    let answers: InputResponses = round_trip(&json!({
        "a": {"action": "cancel"},
        "b": {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
        "c": {"roots": [{"uri": "file:///x"}]},
    }));
    assert!(matches!(answers["a"], InputResponse::Elicit(_)));
    assert!(matches!(answers["b"], InputResponse::CreateMessage(_)));
    assert!(matches!(answers["c"], InputResponse::ListRoots(_)));
    assert_rejected::<InputResponse>([json!({}), json!({"action": "x"}), json!({"roots": {}})]);
    round_trip::<InputRequiredResult>(&json!({"requestState": "s"}));
    round_trip::<InputRequiredResult>(&json!({"inputRequests": {}, "requestState": ""}));
}

#[test]
fn task_has_one_of_five_states() {
    let task = |status: &str| json!({"status": status, "taskId": "t", "createdAt": "then", "lastUpdatedAt": "now", "ttlMs": null});
    for status in ["working", "input_required", "completed", "failed", "cancelled"] {
        let read: Task = round_trip(&task(status));
        assert_eq!((&*read.state.task_id, read.state.ttl_ms), ("t", None));
    }
    assert_rejected::<Task>([
        task("Working"),
        task("submitted"),
        json!({"status": "working", "taskId": "t"}),
    ]);
    assert!(matches!(round_trip(&task("cancelled")), DetailedTask::Cancelled(_)));
    let with = |status, member: &str, value: Value| {
        let mut detailed = task(status);
        detailed[member] = value;
        detailed["ttlMs"] = json!(5);
        detailed
    };
    let failed = with("failed", "error", json!({"code": -32603, "message": "no"}));
    assert!(matches!(round_trip(&failed), DetailedTask::Failed(task) if task.error.message == "no"));
    round_trip::<DetailedTask>(&with("completed", "result", json!({"content": []})));
    round_trip::<GetTaskResult>(&with(
        "input_required",
        "inputRequests",
        json!({"r": {"method": "roots/list"}}),
    ));
    round_trip::<CreateTaskResult>(&with("working", "_meta", json!({"a/b": 1})));
    assert_rejected::<DetailedTask>([task("completed"), task("failed"), task("input_required")]);
}

#[test]
fn notifications_round_trip_and_invalid_ones_are_rejected() {
    round_trip::<ProgressNotificationParams>(
        &json!({"progressToken": "p", "progress": 0.5, "total": 2.5, "message": "m"}),
    );
    assert_rejected::<ProgressNotificationParams>([
        json!({"progress": 1}),
        json!({"progressToken": null, "progress": 1}),
        json!({"progressToken": 1, "progress": "1"}),
    ]);
    round_trip::<CancelledNotificationParams>(&json!({"requestId": -1, "reason": ""}));
    assert_rejected::<CancelledNotificationParams>([json!({}), json!({"requestId": 1.5})]);
    round_trip::<SubscriptionsListenRequestParams>(&json!({"notifications": {"toolsListChanged": false}}));
    round_trip::<LoggingMessageNotificationParams>(&json!({"level": "notice", "data": [null]}));
    assert_rejected::<LoggingMessageNotificationParams>([
        json!({"level": "trace", "data": 1}),
        json!({"level": 1, "data": 1}),
    ]);
}

#[test]
fn logging_levels_are_sorted_and_parse_from_their_names() {
    assert!(LoggingLevel::ALL.is_sorted());
    for level in LoggingLevel::ALL {
        assert_eq!(json!(level), level.as_str());
        assert_eq!(level.as_str().parse(), Ok(level));
    }
    for name in ["", "Debug", "warn", "info "] {
        assert_eq!(name.parse::<LoggingLevel>(), Err(UnknownLoggingLevel));
    }
}

#[test]
fn initialize_and_discover_messages_round_trip() {
    round_trip::<InitializeRequestParams>(&json!({
        "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "n", "version": ""},
    }));
    assert_rejected::<InitializeRequestParams>([
        json!({"protocolVersion": "1999-01-01", "capabilities": {}}),
        json!({"protocolVersion": 1999, "capabilities": {}, "clientInfo": {"name": "n", "version": ""}}),
        json!({"protocolVersion": "", "capabilities": {}, "clientInfo": {"name": "n"}}),
    ]);
    round_trip::<DiscoverResult>(
        &json!({"supportedVersions": ["2026-07-28"], "capabilities": {"prompts": {}}}),
    );
}

#[test]
fn default_results_serialize_to_valid_messages() {
    assert_eq!(
        serde_json::to_value(CallToolResult::text("x")).unwrap(),
        json!({"content": [{"type": "text", "text": "x"}]})
    );
    let read = ReadResourceResult::blob("x:y".into(), None, Base64Data::from_bytes(b"z"));
    assert_eq!(serde_json::to_value(read).unwrap(), json!({"contents": [{"uri": "x:y", "blob": "eg=="}]}));
    assert_eq!(
        serde_json::to_value(CacheHint::default()).unwrap(),
        json!({"ttlMs": 0, "cacheScope": "private"})
    );
    let messages = vec![PromptMessage::user(ContentBlock::text("x"))];
    round_trip::<GetPromptResult>(
        &serde_json::to_value(GetPromptResult { messages, ..GetPromptResult::default() }).unwrap(),
    );
}

#[test]
fn result_meta_keeps_the_exact_json_text() {
    let text = r#"{"content":[],"_meta":{"a":1.0e1,"b":{"c":null}}}"#;
    let result: CallToolResult = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&result).unwrap(), text);
    let meta = result.meta.unwrap();
    assert_eq!((meta.get("b"), meta.get("c")), (Some(json!({"c": null})), None));
    assert_eq!(ToolResultMeta::try_from(&meta.to_object()).unwrap().get("a"), Some(json!(10.0)));
    let meta: ToolResultMeta = serde_json::from_str("{\"a\":\r\n1}").unwrap();
    assert_eq!(serde_json::to_string(&meta).unwrap(), "{\"a\":  1}", "stdio ends a message at a line break");
    assert_rejected::<CallToolResult>([json!({"_meta": []}), json!({"_meta": "a"}), json!({"_meta": 1})]);
    let beyond: ToolResultMeta = serde_json::from_str(r#"{"a":1e999}"#).unwrap();
    assert!(beyond.get("a").is_none() && beyond.to_object().is_empty());
}

/// Regression test: over stdio, a message with this content took several lines instead of one.
#[test]
fn structured_content_from_raw_json_is_on_one_line() {
    let lines: &RawValue = serde_json::from_str("{\n\"a\":\r[1,\r\n2]}").unwrap();
    assert_eq!(StructuredContent::from_value(&lines).unwrap().as_str(), "{ \"a\": [1,  2]}");
    let read: StructuredContent = serde_json::from_str(lines.get()).unwrap();
    assert_eq!(read.as_str(), "{ \"a\": [1,  2]}");
    let within = StructuredContent::from_value(&[lines, lines]).unwrap();
    assert!(!within.as_str().contains(['\n', '\r']), "{within:?}");
}
