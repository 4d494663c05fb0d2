//! Multi round-trip requests: the modern way to ask the client.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Context, McpServer, McpServerOptions};

use crate::fixtures::{Nothing, Running, answer, ask, capabilities, server, server_with, text, tool};
use crate::http::{Message, Site};

/// Calls a tool from a client that can answer all questions.
async fn call(site: &Site, params: Value) -> Value {
    request(site, "tools/call", params).await
}

async fn request(site: &Site, method: &str, params: Value) -> Value {
    let response = site.send(&Message::modern_with(method, params, &capabilities())).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.message()
}

/// Returns the parameters of the next round, with the answers to `questions`.
fn next_round(mut params: Value, questions: &Value) -> Value {
    let requests = questions["result"]["inputRequests"].as_object().unwrap();
    let answers = requests
        .iter()
        .map(|(key, asked)| (key.clone(), answer(asked["method"].as_str().unwrap(), &asked["params"])));
    params["inputResponses"] = Value::Object(answers.collect());
    params["requestState"] = questions["result"]["requestState"].clone();
    params
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_the_call_and_its_answer_comes_with_the_next() {
    let site = Site::new(&server());
    let asked = call(&site, tool("ask")).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required");
    assert!(result["ttlMs"].is_null() && result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    let question = &result["inputRequests"]["name"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who are you?");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["name"]));
    let answered = call(&site, next_round(tool("ask"), &asked)).await;
    assert_eq!((text(&answered["result"]), &answered["result"]["resultType"]), ("Ada", &json!("complete")));
}

#[tokio::test(start_paused = true)]
async fn resources_and_prompts_may_ask_too() {
    let site = Site::new(&server());
    for (method, params, pointer) in [
        ("resources/read", json!({"uri": "test://asks"}), "/result/contents/0/text"),
        ("prompts/get", json!({"name": "asks"}), "/result/messages/0/content/text"),
    ] {
        let asked = request(&site, method, params.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let answered = request(&site, method, next_round(params, &asked)).await;
        assert_eq!(answered.pointer(pointer), Some(&json!("Ada")), "{answered}");
        // A result that depends on the client's answers must not be shared.
        let result = &answered["result"];
        assert!(result["ttlMs"].is_null() || (result["ttlMs"] == 0 && result["cacheScope"] == "private"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_at_once_is_one_round() {
    let site = Site::new(&server());
    let asked = call(&site, tool("ask_all")).await;
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    let methods: Vec<_> =
        requests.iter().map(|(key, asked)| (key.as_str(), asked["method"].as_str().unwrap())).collect();
    let expected =
        [("model", "sampling/createMessage"), ("name", "elicitation/create"), ("roots", "roots/list")];
    assert_eq!(methods, expected);
    let answered = call(&site, next_round(tool("ask_all"), &asked)).await;
    assert_eq!(text(&answered["result"]), "Ada 42 file:///home");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_or_malformed_is_asked_again_and_the_rest_is_kept() {
    let site = Site::new(&server());
    let asked = call(&site, tool("ask_all")).await;
    let mut params = next_round(tool("ask_all"), &asked);
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
async fn one_question_after_the_other_takes_a_round_each() {
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
async fn a_task_of_the_handler_may_ask() {
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
    let asked = call(&site, tool("ask")).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    Site::settle().await;
    assert_eq!(running.count(), 0, "the task of this round has nothing to wait for");
    let params = next_round(tool("ask"), &asked);
    assert_eq!(text(&call(&site, params).await["result"]), "Ada");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_for_ever_is_stopped() {
    let server =
        McpServer::new("curious", "1").tool(Tool::new("ask"), |_: Nothing, context: Context| async move {
            let mut n = 0;
            loop {
                n += 1;
                ask(&context, &format!("question {n}")).await?;
            }
            #[expect(unreachable_code, reason = "what the tool would answer")]
            Ok::<_, thruway_mcp_sdk::HandlerError>("")
        });
    let site = Site::new(&server);
    let mut params = tool("ask");
    for _ in 0..50 {
        let asked = call(&site, params).await;
        if asked["error"]["code"] == -32603 {
            return;
        }
        params = next_round(tool("ask"), &asked);
    }
    panic!("it asks for ever");
}

#[tokio::test(start_paused = true)]
async fn a_state_is_believed_for_its_request_only() {
    let site = Site::new(&server());
    let params = json!({"name": "ask_twice", "arguments": {"message": "m"}});
    let asked = call(&site, params.clone()).await;
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let with_state = |mut params: Value, state: &str| {
        params["requestState"] = state.into();
        params
    };
    let read = |uri: &str| json!({"uri": uri, "name": "same"});
    let read_asked = request(&site, "resources/read", read("test://asks")).await;
    let read_state = read_asked["result"]["requestState"].as_str().unwrap();
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
async fn a_state_is_believed_by_servers_with_the_same_key() {
    let with_key =
        |key| server_with(McpServerOptions { state_key: Some(key), ..McpServerOptions::default() });
    let asked = call(&Site::new(&with_key([1; 32])), tool("ask")).await;
    let params = next_round(tool("ask"), &asked);
    let stand_in = Site::new(&with_key([1; 32]));
    assert_eq!(text(&call(&stand_in, params.clone()).await["result"]), "Ada");
    for foreign in [with_key([2; 32]), server()] {
        assert_eq!(call(&Site::new(&foreign), params.clone()).await["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_asked_is_told_what_is_needed() {
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
async fn malformed_answers_and_capabilities_are_refused() {
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
