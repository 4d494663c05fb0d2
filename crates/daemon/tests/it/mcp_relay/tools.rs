//! Tests of tools whose calls the endpoint must check: destructive tools, and tools that request headers.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{Tool, ToolAnnotations};

use super::member::server;
use super::scene::{Post, Scene, fast, slow};

#[test]
fn only_calls_that_need_a_confirmation_are_parsed() {
    let destructive = ToolAnnotations { destructive_hint: Some(true), ..ToolAnnotations::default() };
    let delete = Tool { annotations: Some(destructive), ..Tool::new("delete") };
    let mcp = server().tool(delete, || "deleted");
    let scene = Scene::start_with_server(&mcp, "confirm_destructive = true\n");
    let (_, hello) = scene.call("web__hello", &fast("web__hello"));
    assert_eq!(hello["result"]["content"][0]["text"], "hello", "{hello}");
    assert_eq!(scene.relayed().len(), 1);
    let (_, asked) = scene.call("web__delete", &fast("web__delete"));
    assert!(asked["result"]["inputRequests"]["thruway/confirm"].is_object(), "{asked}");
    let mut confirmed = fast("web__delete");
    confirmed["requestState"] = asked["result"]["requestState"].clone();
    confirmed["inputResponses"] =
        json!({"thruway/confirm": {"action": "accept", "content": {"allow": true}}});
    let mut other = confirmed.clone();
    other["arguments"] = json!({"path": "/"});
    let (_, refused) = scene.call("web__delete", &other);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let (_, deleted) = scene.call("web__delete", &confirmed);
    assert_eq!(deleted["result"]["content"][0]["text"], "deleted", "{deleted}");
    let (_, again) = scene.call("web__delete", &confirmed);
    assert_eq!(again["error"]["code"], -32602, "{again}");
    // The member asks its own questions on the fast path.
    let (_, asked) = scene.call("web__ask", &fast("web__ask"));
    assert!(asked["result"]["inputRequests"]["first"].is_object(), "{asked}");
    assert_eq!(scene.relayed().len(), 2);
    scene.end();
}

#[test]
fn headers_of_arguments_are_checked() {
    let schema =
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let query = Tool { input_schema: schema.as_object().unwrap().clone(), ..Tool::new("query") };
    let scene = Scene::start_with_server(&server().tool(query, || "found"), "");
    let call = |parameters: fn(&str) -> Value, lines: &str| {
        let mut params = parameters("web__query");
        params["arguments"] = json!({"region": "eu"});
        scene.post(&Post { name: "web__query", lines, ..Post::new(params) })
    };
    for (lines, status) in
        [("", "400"), ("Mcp-Param-Region: us\r\n", "400"), ("Mcp-Param-Region: eu\r\n", "200")]
    {
        let (of_fast, of_slow) = (call(fast, lines), call(slow, lines));
        assert_eq!(of_fast, of_slow);
        assert_eq!(of_fast.0, status, "{of_fast:?}");
        let expected = if status == "400" { json!(-32020) } else { Value::Null };
        assert_eq!(of_fast.1["error"]["code"], expected, "{of_fast:?}");
    }
    assert_eq!(scene.relayed(), [""; 0]);
    scene.end();
}
