//! Multi round-trip requests: the way of the modern era to request input from the client.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Context, McpServer, McpServerOptions};

use crate::fixtures::{Nothing, Running, answer, ask, capabilities, server, server_with, text, tool};
use crate::http::{Message, Site};

/// Calls a tool from a client that can answer all input requests.
async fn call(site: &Site, params: Value) -> Value {
    request(site, "tools/call", params).await
}

async fn request(site: &Site, method: &str, params: Value) -> Value {
    let response = site.send(&Message::modern_with(method, params, &capabilities())).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.message()
}

/// Returns the parameters of the next round, with answers to the input requests in `response`.
fn next_round(mut params: Value, response: &Value) -> Value {
    let requests = response["result"]["inputRequests"].as_object().unwrap();
    let answers = requests
        .iter()
        .map(|(key, input)| (key.clone(), answer(input["method"].as_str().unwrap(), &input["params"])));
    params["inputResponses"] = Value::Object(answers.collect());
    params["requestState"] = response["result"]["requestState"].clone();
    params
}

#[tokio::test(start_paused = true)]
async fn elicitation_ends_call_and_retry_carries_the_answer() {
    let site = Site::new(&server());
    let first_response = call(&site, tool("ask")).await;
    let result = &first_response["result"];
    assert_eq!(result["resultType"], "input_required");
    assert!(result["ttlMs"].is_null() && result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    let question = &result["inputRequests"]["name"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who are you?");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["name"]));
    let answered = call(&site, next_round(tool("ask"), &first_response)).await;
    assert_eq!((text(&answered["result"]), &answered["result"]["resultType"]), ("Ada", &json!("complete")));
}

#[tokio::test(start_paused = true)]
async fn resource_and_prompt_handlers_can_elicit() {
    let site = Site::new(&server());
    for (method, params, pointer) in [
        ("resources/read", json!({"uri": "test://asks"}), "/result/contents/0/text"),
        ("prompts/get", json!({"name": "asks"}), "/result/messages/0/content/text"),
    ] {
        let first_response = request(&site, method, params.clone()).await;
        assert_eq!(first_response["result"]["resultType"], "input_required", "{first_response}");
        let answered = request(&site, method, next_round(params, &first_response)).await;
        assert_eq!(answered.pointer(pointer), Some(&json!("Ada")), "{answered}");
        // A result that depends on the client's answers must not be shared.
        let result = &answered["result"];
        assert!(result["ttlMs"].is_null() || (result["ttlMs"] == 0 && result["cacheScope"] == "private"));
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_input_requests_share_one_round() {
    let site = Site::new(&server());
    let first_response = call(&site, tool("ask_all")).await;
    let requests = first_response["result"]["inputRequests"].as_object().unwrap();
    let methods: Vec<_> =
        requests.iter().map(|(key, input)| (key.as_str(), input["method"].as_str().unwrap())).collect();
    let expected =
        [("model", "sampling/createMessage"), ("name", "elicitation/create"), ("roots", "roots/list")];
    assert_eq!(methods, expected);
    let answered = call(&site, next_round(tool("ask_all"), &first_response)).await;
    assert_eq!(text(&answered["result"]), "Ada 42 file:///home");
}

#[tokio::test(start_paused = true)]
async fn only_missing_and_malformed_answers_are_requested_again() {
    let site = Site::new(&server());
    let first_response = call(&site, tool("ask_all")).await;
    let mut params = next_round(tool("ask_all"), &first_response);
    params["inputResponses"].as_object_mut().unwrap().remove("model");
    params["inputResponses"]["roots"] = json!({"roots": "none"});
    params["inputResponses"]["unknown"] = json!(5);
    let again = call(&site, params).await;
    let keys: Vec<_> = again["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "roots"]);
    let answered = call(&site, next_round(tool("ask_all"), &again)).await;
    assert_eq!(text(&answered["result"]), "Ada 42 file:///home");
}

#[tokio::test(start_paused = true)]
async fn sequential_elicitations_take_one_round_each() {
    let site = Site::new(&server());
    let params = json!({"name": "ask_twice", "arguments": {"message": "m"}});
    let first = call(&site, params.clone()).await;
    assert!(first["result"]["inputRequests"].get("first").is_some());
    let second = call(&site, next_round(params.clone(), &first)).await;
    let keys: Vec<_> = second["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["second"]);
    let answered = call(&site, next_round(params, &second)).await;
    assert_eq!(text(&answered["result"]), "Ada and Ada");
}

#[tokio::test(start_paused = true)]
async fn task_spawned_by_handler_can_elicit() {
    let running = Running::default();
    let ours = running.clone();
    let server = McpServer::new("tasks", "1").tool(Tool::new("ask"), move |_: Nothing, context: Context| {
        let guard = ours.begin();
        let task = tokio::spawn(async move {
            let _guard = guard;
            ask(&context, "name").await
        });
        async move { task.await.unwrap() }
    });
    let site = Site::new(&server);
    let first_response = call(&site, tool("ask")).await;
    assert_eq!(first_response["result"]["resultType"], "input_required", "{first_response}");
    Site::settle().await;
    assert_eq!(running.count(), 0, "the spawned task should end with its round");
    let params = next_round(tool("ask"), &first_response);
    assert_eq!(text(&call(&site, params).await["result"]), "Ada");
}

#[tokio::test(start_paused = true)]
async fn endless_elicitation_ends_with_internal_error() {
    let server =
        McpServer::new("curious", "1").tool(Tool::new("ask"), |_: Nothing, context: Context| async move {
            let mut n = 0;
            loop {
                n += 1;
                ask(&context, &format!("question {n}")).await?;
            }
            #[expect(unreachable_code, reason = "gives the block its type")]
            Ok::<_, thruway_mcp_sdk::HandlerError>("")
        });
    let site = Site::new(&server);
    let mut params = tool("ask");
    for _ in 0..50 {
        let first_response = call(&site, params).await;
        if first_response["error"]["code"] == -32603 {
            return;
        }
        params = next_round(tool("ask"), &first_response);
    }
    panic!("the handler was never stopped");
}

#[tokio::test(start_paused = true)]
async fn request_state_is_valid_only_for_its_request() {
    let site = Site::new(&server());
    let params = json!({"name": "ask_twice", "arguments": {"message": "m"}});
    let first_response = call(&site, params.clone()).await;
    let state = first_response["result"]["requestState"].as_str().unwrap().to_owned();
    let with_state = |mut params: Value, state: &str| {
        params["requestState"] = state.into();
        params
    };
    let read = |uri: &str| json!({"uri": uri, "name": "same"});
    let first_read = request(&site, "resources/read", read("test://asks")).await;
    let read_state = first_read["result"]["requestState"].as_str().unwrap();
    for (method, params, why) in [
        (
            "tools/call",
            with_state(json!({"name": "ask_twice", "arguments": {"message": "x"}}), &state),
            "other arguments",
        ),
        ("tools/call", with_state(tool("ask"), &state), "another tool"),
        ("tools/call", with_state(params.clone(), &state[1..]), "cut off"),
        ("tools/call", with_state(params.clone(), ""), "empty"),
        ("tools/call", with_state(params.clone(), "e30.e30"), "made up"),
        ("prompts/get", with_state(json!({"name": "asks"}), &state), "another method"),
        (
            "resources/read",
            with_state(read("test://asks-too"), read_state),
            "another resource of the same name",
        ),
    ] {
        assert_eq!(request(&site, method, params).await["error"]["code"], -32602, "{why}");
    }
    let again = call(&site, with_state(params, &state)).await;
    assert_eq!(again["result"]["resultType"], "input_required");
}

#[tokio::test(start_paused = true)]
async fn request_state_is_valid_on_servers_with_same_key() {
    let with_key =
        |key| server_with(McpServerOptions { state_key: Some(key), ..McpServerOptions::default() });
    let first_response = call(&Site::new(&with_key([1; 32])), tool("ask")).await;
    let params = next_round(tool("ask"), &first_response);
    let stand_in = Site::new(&with_key([1; 32]));
    assert_eq!(text(&call(&stand_in, params.clone()).await["result"]), "Ada");
    for foreign in [with_key([2; 32]), server()] {
        assert_eq!(call(&Site::new(&foreign), params.clone()).await["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn missing_capability_error_lists_required_capabilities() {
    let site = Site::new(&server());
    for (capabilities, name, needed) in [
        (json!({}), "ask", "elicitation"),
        (json!({"elicitation": {"url": {}}}), "ask", "elicitation"),
        (json!({"elicitation": {}, "roots": {}}), "ask_all", "sampling"),
    ] {
        let response = site.send(&Message::modern_with("tools/call", tool(name), &capabilities)).await;
        assert_eq!((response.status, response.error_code()), (400, -32021), "{capabilities}");
        let required = &response.message()["error"]["data"]["requiredCapabilities"];
        assert!(required.get(needed).is_some(), "{required}");
    }
    let plain =
        site.send(&Message::modern_with("tools/call", tool("ask"), &json!({"elicitation": {}}))).await;
    assert_eq!(plain.message()["result"]["resultType"], "input_required");
}

#[tokio::test(start_paused = true)]
async fn malformed_input_responses_and_capabilities_are_rejected() {
    let site = Site::new(&server());
    for (member, value) in
        [("inputResponses", json!([])), ("inputResponses", json!("x")), ("requestState", json!(5))]
    {
        let mut params = tool("ask");
        params[member] = value;
        let response = site.send(&Message::modern_with("tools/call", params, &capabilities())).await;
        assert_eq!(response.error_code(), -32602, "{member}");
    }
    let malformed = Message::modern_with("tools/call", tool("ask"), &json!({"elicitation": 5}));
    assert_eq!(site.send(&malformed).await.error_code(), -32602);
    let many: serde_json::Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!({}))).collect();
    let mut params = tool("ask");
    params["inputResponses"] = many.into();
    let many = Message::modern_with("tools/call", params, &capabilities());
    assert_eq!(site.send(&many).await.error_code(), -32602);
}
