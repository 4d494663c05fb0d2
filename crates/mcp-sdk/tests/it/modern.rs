//! The methods of 2026-07-28 over HTTP.

use serde_json::{Value, json};

use crate::fixtures::{server, text, tool};
use crate::http::{Message, Site};

#[tokio::test(start_paused = true)]
async fn discover_returns_server_info_and_capabilities() {
    let site = Site::new(&server());
    let result = site.call("server/discover", json!({})).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["supportedVersions"].as_array().unwrap().len(), 5);
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!(result["capabilities"]["resources"], json!({"subscribe": true, "listChanged": true}));
    assert_eq!(result["capabilities"]["completions"], json!({}));
    let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!((&info["name"], &info["version"]), (&json!("fixtures"), &json!("1.2.3")));
}

#[tokio::test(start_paused = true)]
async fn list_results_have_cache_hints_and_no_next_cursor() {
    let site = Site::new(&server());
    for (method, member, first) in [
        ("tools/list", "tools", json!("ask")),
        ("resources/list", "resources", json!("test://asks")),
        ("resources/templates/list", "resourceTemplates", json!("test://item/{id}")),
        ("prompts/list", "prompts", json!("asks")),
    ] {
        let result = site.call(method, json!({})).await;
        let entry = &result[member][0];
        let name = [&entry["name"], &entry["uri"], &entry["uriTemplate"]];
        assert!(name.contains(&&first), "{method}: {entry}");
        assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &json!(0)), "{method}");
        assert!(result["cacheScope"] == "private" && result["nextCursor"].is_null(), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn tool_calls_return_results_and_tool_errors() {
    let site = Site::new(&server());
    let result = site.call("tools/call", json!({"name": "echo", "arguments": {"message": "grün"}})).await;
    assert_eq!(result["structuredContent"], json!({"message": "grün"}));
    assert_eq!(text(&result), r#"{"message":"grün"}"#);
    assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &Value::Null));
    let result = site.call("tools/call", tool("fail")).await;
    assert_eq!((&result["isError"], text(&result)), (&json!(true), "it does not work"));
    let result = site.call("tools/call", tool("echo")).await;
    assert!(result["isError"] == true && text(&result).contains("message"), "{result}");
    let result = site.call("tools/call", tool("media")).await;
    let kinds = [0, 1, 2].map(|place| result["content"][place]["type"].as_str().unwrap());
    assert_eq!(kinds, ["text", "audio", "resource_link"]);
}

#[tokio::test(start_paused = true)]
async fn resource_reads_return_text_blob_and_template_contents() {
    let site = Site::new(&server());
    let result = site.call("resources/read", json!({"uri": "test://text"})).await;
    let expected = json!({"uri": "test://text", "mimeType": "text/plain", "text": "some text"});
    assert_eq!((&result["contents"], &result["cacheScope"]), (&json!([expected]), &json!("private")));
    let result = site.call("resources/read", json!({"uri": "test://blob"})).await;
    assert_eq!(result["contents"], json!([{"uri": "test://blob", "blob": "AAEC"}]));
    let result = site.call("resources/read", json!({"uri": "test://item/a%20b"})).await;
    assert_eq!(result["contents"], json!([{"uri": "test://item/a%20b", "text": "item a b"}]));
}

#[tokio::test(start_paused = true)]
async fn server_returns_prompts_and_argument_completions() {
    let site = Site::new(&server());
    let result =
        site.call("prompts/get", json!({"name": "greeting", "arguments": {"message": "hello"}})).await;
    let message = json!({"role": "user", "content": {"type": "text", "text": "Say hello."}});
    assert_eq!(result["messages"], json!([message]));
    let complete = |name: &str, argument: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": argument, "value": "x"}});
    let result = site.call("completion/complete", complete("greeting", "message")).await;
    let completion = &result["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["values"][0], &completion["total"]), (&json!("x0"), &json!(150)));
    assert_eq!(completion["hasMore"], true);
    let result = site.call("completion/complete", complete("greeting", "other")).await;
    assert_eq!(result["completion"]["values"], json!([]));
    let unknown = Message::modern("completion/complete", complete("nothing", "message"));
    assert_eq!(site.refused(&unknown).await, (200, -32602));
    let template = json!({"ref": {"type": "ref/resource", "uri": "test://item/{id}"}, "argument": {"name": "id", "value": ""}});
    let result = site.call("completion/complete", template).await;
    assert_eq!(result["completion"], json!({"values": [], "total": 0, "hasMore": false}));
}

#[tokio::test(start_paused = true)]
async fn unknown_and_missing_names_are_invalid_params() {
    let site = Site::new(&server());
    for (method, params) in [
        ("tools/call", json!({"name": "nothing"})),
        ("tools/call", json!({})),
        ("prompts/get", json!({"name": "nothing"})),
        ("resources/read", json!({"uri": "test://nothing"})),
        ("resources/read", json!({})),
        ("prompts/get", json!({"name": "greeting", "arguments": {}})),
    ] {
        assert_eq!(site.refused(&Message::modern(method, params)).await, (200, -32602), "{method}");
    }
    let response = site.send(&Message::modern("resources/read", json!({"uri": "test://nothing"}))).await;
    assert_eq!(response.message()["error"]["data"], json!({"uri": "test://nothing"}));
}

#[tokio::test(start_paused = true)]
async fn response_id_equals_request_id() {
    let site = Site::new(&server());
    let params = crate::http::with_meta(json!({}), &json!({}));
    for id in [json!(0), json!(-7), json!(i64::MAX), json!(""), json!("a\"b\u{1f600}")] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": params});
        let message =
            Message { content: message.to_string().into(), ..Message::modern("server/discover", json!({})) };
        assert_eq!(site.send(&message).await.message()["id"], id);
    }
}

#[tokio::test(start_paused = true)]
async fn response_is_event_stream_only_if_handler_sends_progress() {
    let site = Site::new(&server());
    let quiet = site.send(&Message::modern("tools/call", tool("progress"))).await;
    assert_eq!(text(&quiet.message()["result"]), "done");
    let mut params = tool("progress");
    params["_meta"] = json!({"progressToken": "p"});
    let messages = site.send(&Message::modern("tools/call", params)).await.messages();
    let progress = |progress: f64, message: Value| {
        let mut params = json!({"progressToken": "p", "progress": progress, "total": 3.0});
        if !message.is_null() {
            params["message"] = message;
        }
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    // Progress that decreases is skipped.
    assert_eq!(messages[0], progress(1.0, json!("one")));
    assert_eq!(messages[1], progress(2.0, Value::Null));
    assert_eq!(messages[2], progress(3.0, json!("three")));
    assert_eq!((text(&messages[3]["result"]), messages.len()), ("done", 4));
}

#[tokio::test(start_paused = true)]
async fn log_messages_are_sent_only_if_request_sets_log_level() {
    let site = Site::new(&server());
    let silent = site.send(&Message::modern("tools/call", tool("log"))).await;
    assert_eq!(text(&silent.message()["result"]), "logged");
    for (level, count) in [("debug", 8), ("warning", 5), ("emergency", 1)] {
        let mut params = tool("log");
        params["_meta"] = json!({"io.modelcontextprotocol/logLevel": level});
        let messages = site.send(&Message::modern("tools/call", params)).await.messages();
        assert_eq!(messages.len(), count + 1, "{level}");
        assert_eq!(messages[0]["params"]["level"], level);
        assert_eq!(messages[0]["params"]["logger"], "test");
    }
}
