//! Runs the examples as their clients would, in both eras.

#[expect(dead_code, reason = "only a run of the example calls `main`")]
mod programs;

use axum::body::Body;
use axum::http::Request;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::ClientCapabilities;
use thruway_mcp_sdk::{LocalClient, McpServer, Revision};
use thruway_server::{Router, Server};
use thruway_testkit::test_server::TestServer;
use tower_service::Service;

use programs::{
    asking_a_server, booking, bridge, calculator, counter, fastmcp_server, guarded, layers, library,
    mcp_in_axum, notes, recipes, report, signed_in, words,
};

/// Returns a client of each era. Their user accepts every question.
async fn clients(server: &McpServer) -> [LocalClient; 2] {
    let client = || {
        let yes = json!({"action": "accept", "content": {"sure": true}});
        let capabilities = ClientCapabilities::default().with_elicitation();
        server.connect().with_capabilities(&capabilities).with_answers(move |_, _| yes.clone())
    };
    let mut legacy = client();
    legacy.initialize(Revision::R20251125).await.unwrap();
    [client(), legacy]
}

async fn call(client: &mut LocalClient, tool: &str, arguments: Value) -> Value {
    client.request("tools/call", json!({"name": tool, "arguments": arguments})).await.unwrap()
}

#[tokio::test]
async fn client_example_calls_tool_and_answers_elicitation() {
    use thruway_mcp_sdk::schema::{ElicitRequestFormParams, Tool};
    let server = McpServer::new("asking", "1").tool(
        Tool::new("ask"),
        |_: Value, context: thruway_mcp_sdk::Context| async move {
            let form = ElicitRequestFormParams::new("Who are you?");
            let answer = context.elicit_form("name", form).await?;
            Ok::<_, thruway_mcp_sdk::HandlerError>(format!("Hello, {}!", answer.text("name")))
        },
    );
    let client = asking_a_server::client().server(&server);
    let (tools, answer) = asking_a_server::talk(&client).await.unwrap();
    assert_eq!((tools, &*answer), (vec!["ask".to_owned()], "Hello, Ada!"));
}

/// A server that requires tokens, and an authorization server that issues one to a program with the right
/// secret.
fn guarded_with_issuer() -> Router {
    use thruway_mcp_sdk::{Authorization, Identity, InvalidToken, VerifyToken, schema::Tool};
    use thruway_server::{FieldLinesBuf, Request, Response};

    struct Issued;
    impl VerifyToken for Issued {
        fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
            (token == "issued").then(Identity::default).ok_or(InvalidToken)
        }
    }
    let json = |content: Value| {
        let mut fields = FieldLinesBuf::new();
        fields.append("Content-Type", "application/json").unwrap();
        Response::ok(fields, content.to_string())
    };
    let server = McpServer::new("guarded", "1").tool(Tool::new("whoami"), |_: Value| "a program");
    let authorization = Authorization::new("http://localhost/mcp", ["http://localhost"], Issued);
    Router::new()
        .get(&authorization.metadata_path(), authorization.metadata())
        .get("/.well-known/oauth-authorization-server", move || {
            json(json!({"issuer": "http://localhost", "token_endpoint": "http://localhost/token"}))
        })
        .post("/token", move |request: &Request<'_>| {
            // printf program:secret | base64
            let is_right =
                request.field("authorization").is_some_and(|value| value == "Basic cHJvZ3JhbTpzZWNyZXQ=");
            let token = if is_right { "issued" } else { "other" };
            json(json!({"access_token": token, "token_type": "Bearer"}))
        })
        .any("/mcp", server.endpoint().authorize(authorization))
}

#[tokio::test]
async fn signed_in_example_gets_access_only_with_right_secret() {
    use thruway_client::{Client, ClientConfig};
    let server = Server::new(guarded_with_issuer()).workers(1);
    let server = server.listen("127.0.0.1:0").unwrap().start().unwrap();
    let connect_to = Some(server.addresses()[0].to_string().parse().unwrap());
    let here = Client::with_config(ClientConfig { connect_to, ..ClientConfig::default() });
    for (secret, is_right) in [("secret", true), ("guess", false)] {
        let oauth = signed_in::program("program".into(), secret.into(), "http://localhost".into());
        let oauth = oauth.http_client(here.clone());
        let client = thruway_mcp_sdk::McpClient::builder().http_client(here.clone()).oauth(oauth);
        let tools = client.http("http://localhost/mcp").list_tools().await;
        assert_eq!(tools.is_ok(), is_right, "{tools:?}");
    }
    drop(here);
    server.drain();
    server.join();
}

#[tokio::test]
async fn calculator_example_adds_and_rejects_invalid_arguments() {
    for mut client in clients(&calculator::server()).await {
        let result = call(&mut client, "add", json!({"a": 1, "b": 2.5})).await;
        assert_eq!(result["structuredContent"], json!({"sum": 3.5}));
        let refused = call(&mut client, "add", json!({"a": "one", "b": 2})).await;
        assert_eq!(refused["isError"], true);
    }
}

#[tokio::test]
async fn bridge_example_forwards_calls_to_calculator() {
    let router = Router::new().any("/mcp", calculator::server().endpoint());
    let far = Server::new(router).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let server = bridge::connect(format!("http://{}/mcp", far.addresses()[0])).await.unwrap();
    for mut client in clients(&server).await {
        let result = call(&mut client, "add", json!({"a": 1, "b": 2.5})).await;
        assert_eq!(result["structuredContent"], json!({"sum": 3.5}));
    }
    server.close().await;
    far.drain();
    far.join();
}

#[tokio::test]
async fn booking_example_books_hotel_only_if_user_accepts() {
    for mut client in clients(&booking::server()).await {
        let result = call(&mut client, "book", json!({"destination": "Oslo", "nights": 2})).await;
        assert_eq!(result["content"][0]["text"], "booked 2 nights in Oslo");
    }
    let refusal = json!({"action": "decline"});
    let capabilities = ClientCapabilities::default().with_elicitation();
    let mut client = booking::server()
        .connect()
        .with_capabilities(&capabilities)
        .with_answers(move |_, _| refusal.clone());
    let result = call(&mut client, "book", json!({"destination": "Oslo", "nights": 2})).await;
    assert_eq!(
        (&result["isError"], &result["content"][0]["text"]),
        (&json!(true), &json!("nothing was booked"))
    );
}

#[tokio::test]
async fn notes_example_publishes_notes_as_resources() {
    let server = notes::server();
    for mut client in clients(&server).await {
        call(&mut client, "write", json!({"name": "milk", "text": "two bottles"})).await;
        call(&mut client, "write", json!({"name": "milk", "text": "three bottles"})).await;
        let list = client.request("resources/list", json!({})).await.unwrap();
        assert_eq!(list["resources"].as_array().map(Vec::len), Some(1));
        let note = client.request("resources/read", json!({"uri": "note://milk"})).await.unwrap();
        assert_eq!(note["contents"][0]["text"], "three bottles");
        let refused = call(&mut client, "write", json!({"name": "../etc", "text": ""})).await;
        assert_eq!(refused["isError"], true);
    }
}

#[tokio::test]
async fn layers_example_rejects_calls_beyond_quota() {
    let server = layers::server(3);
    for mut client in clients(&server).await {
        call(&mut client, "shout", json!({"text": "hey"})).await;
    }
    let [mut client, _] = clients(&server).await;
    let last = call(&mut client, "shout", json!({"text": "hey"})).await;
    assert_eq!(last["content"][0]["text"], "HEY");
    let refused = call(&mut client, "shout", json!({"text": "hey"})).await;
    assert_eq!(
        (&refused["isError"], &refused["content"][0]["text"]),
        (&json!(true), &json!("the quota is used up"))
    );
}

#[tokio::test]
async fn words_example_counts_words_and_finds_longest_word() {
    for mut client in clients(&words::server()).await {
        let arguments = json!({"text": "a fine word", "letters_min": 2});
        let result = call(&mut client, "count_words", arguments).await;
        assert_eq!(result["structuredContent"], json!({"words": 2}));
        let result = call(&mut client, "longest_word", json!({"texts": ["a fine", "longer word", ""]})).await;
        assert_eq!(result["content"][0]["text"], "longer");
        let refused = call(&mut client, "longest_word", json!({"texts": [" "]})).await;
        assert_eq!(
            (&refused["isError"], &refused["content"][0]["text"]),
            (&json!(true), &json!("there is no word"))
        );
        let refused = call(&mut client, "longest_word", json!({"texts": []})).await;
        assert_eq!(refused["isError"], true);
    }
    assert_eq!(words::count_words("without a server", 0).0.words, 3);
}

#[tokio::test]
async fn counter_example_shares_one_counter_between_clients() {
    let shared = std::sync::Arc::<counter::Counter>::default();
    let server = counter::server(shared.clone());
    for (mut client, expected) in clients(&server).await.into_iter().zip(["3", "6"]) {
        let result = call(&mut client, "add", json!({"amount": 3})).await;
        assert_eq!(result["content"][0]["text"], expected);
        let result = call(&mut client, "value", json!({})).await;
        assert_eq!(result["content"][0]["text"], expected);
    }
    assert_eq!(shared.value(), "6");
}

#[tokio::test]
async fn recipes_example_shares_recipes_between_tools_prompts_and_resources() {
    let server = recipes::server();
    for (mut client, number) in clients(&server).await.into_iter().zip(1..) {
        let recipe = json!({"title": format!("soup {number}"), "ingredients": ["water"]});
        let result = call(&mut client, "write", recipe.clone()).await;
        assert_eq!(result["structuredContent"], json!({"result": number}));
        let uri = format!("recipe://{number}");
        let result = client.request("resources/read", json!({ "uri": uri })).await.unwrap();
        let read: Value = serde_json::from_str(result["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((read, &result["contents"][0]["mimeType"]), (recipe, &json!("application/json")));
        let arguments = json!({"guests": "4", "main_dish": number.to_string()});
        let prompt = client.request("prompts/get", json!({"name": "dinner", "arguments": arguments})).await;
        let expected = format!("Plan a dinner for 4 guests. The main dish is soup {number}.");
        assert_eq!(prompt.unwrap()["messages"][0]["content"]["text"], expected);
    }
    let mut client = server.connect();
    let result = client.request("resources/read", json!({"uri": "recipes://all"})).await.unwrap();
    assert_eq!(result["contents"][0]["text"], r#"{"1":"soup 1","2":"soup 2"}"#);
    assert!(client.request("resources/read", json!({"uri": "recipe://3"})).await.is_err());
}

#[tokio::test]
async fn axum_example_serves_mcp() {
    for mut client in clients(&mcp_in_axum::server()).await {
        let result = call(&mut client, "greet", json!({"name": "Ada"})).await;
        assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    }
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let request =
        Request::post("/mcp").header("Host", "localhost").header("Content-Type", "application/json");
    let request = request.body(Body::from(message.to_string())).unwrap();
    let response = mcp_in_axum::app().call(request).await.unwrap();
    assert!(response.status() == 200 && response.headers().contains_key("mcp-session-id"));
    let content = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let answer: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "greeter");
}

#[test]
fn guarded_example_requires_token_with_audience_and_scope() {
    // An Ed25519 key in PKCS #8: a fixed header and 32 bytes.
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend([7; 32]);
    let key = EncodingKey::from_ed_der(&der);
    let keys = json!({"keys": [Jwk::from_encoding_key(&key, Algorithm::EdDSA).unwrap()]}).to_string();
    let token = |audience: &str, scope: &str| {
        let claims = json!({
            "iss": "https://login.example", "aud": audience, "sub": "ada", "scope": scope,
            "exp": get_current_timestamp() + 600,
        });
        encode(&Header::new(Algorithm::EdDSA), &claims, &key).unwrap()
    };
    let scene = TestServer::new(guarded::app(guarded::verifier(&keys).unwrap()));
    let call = |tool: &str, token: Option<String>| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": {}, "_meta": meta});
        let content =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let mut client = scene.connect();
        client.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: mcp.example\r\nContent-Type: application/json\r\nMcp-Method: tools/call\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Name: {tool}\r\n{bearer}Content-Length: {}\r\n\r\n{content}",
            content.len()
        ));
        client.received()
    };
    let resource = "https://mcp.example/mcp";
    assert!(call("whoami", None).starts_with("HTTP/1.1 401 "));
    assert!(call("whoami", Some(token("https://other.example", "use"))).starts_with("HTTP/1.1 401 "));
    assert!(call("whoami", Some(token(resource, "use"))).contains(r#""text":"ada""#));
    assert!(call("erase", Some(token(resource, "use"))).starts_with("HTTP/1.1 403 "));
    assert!(call("erase", Some(token(resource, "use admin"))).contains("everything is gone"));
    let mut client = scene.connect();
    client.send("GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nHost: mcp.example\r\n\r\n");
    assert!(client.received().contains(r#""authorization_servers":["https://login.example"]"#));
}

#[tokio::test(start_paused = true)]
async fn report_example_runs_as_plain_call_or_as_task() {
    let server = report::server();
    let written = json!({"chapters": ["chapter 1", "chapter 2"]});
    for mut client in clients(&server).await {
        let result = call(&mut client, "report", json!({"chapters": 2})).await;
        assert_eq!(result["structuredContent"], written);
    }
    let mut client = server.connect().with_capabilities(&ClientCapabilities::default().with_tasks());
    let task = call(&mut client, "report", json!({"chapters": 2})).await;
    assert_eq!(task["resultType"], "task");
    let task = loop {
        let task = client.request("tasks/get", json!({"taskId": task["taskId"]})).await.unwrap();
        match task["status"].as_str() {
            Some("working") => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            _ => break task,
        }
    };
    assert_eq!(task["result"]["structuredContent"], written);
}

#[tokio::test]
async fn library_example_serves_resources_prompts_and_completions() {
    for mut client in clients(&library::server()).await {
        let book = client.request("resources/read", json!({"uri": "book://emma"})).await.unwrap();
        assert!(book["contents"][0]["text"].as_str().unwrap().starts_with("Emma Woodhouse"));
        let arguments = json!({"title": "moby-dick", "reader": "sailors"});
        let prompt =
            client.request("prompts/get", json!({"name": "review", "arguments": arguments})).await.unwrap();
        assert_eq!(prompt["messages"][1]["content"]["text"], "Call me Ishmael.");
        let argument = json!({"name": "title", "value": "mo"});
        for reference in [
            json!({"type": "ref/prompt", "name": "review"}),
            json!({"type": "ref/resource", "uri": "book://{title}"}),
        ] {
            let completed = client
                .request("completion/complete", json!({"ref": reference, "argument": argument}))
                .await
                .unwrap();
            assert_eq!(completed["completion"]["values"], json!(["moby-dick"]));
        }
    }
}

#[tokio::test]
async fn fastmcp_server_has_the_tools_of_its_original() {
    for era in 0..2 {
        let mut client = clients(&fastmcp_server::server()).await.into_iter().nth(era).unwrap();
        let listed = client.request("tools/list", json!({})).await.unwrap();
        let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["add_task", "count_tasks", "finish_task"]);
        let text = async |client: &mut LocalClient, tool: &str, arguments: Value| {
            let result = call(client, tool, arguments).await;
            (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
        };
        let done = |text: &str| (text.to_owned(), false);
        assert_eq!(text(&mut client, "add_task", json!({"title": "milk"})).await, done("0"));
        assert_eq!(text(&mut client, "add_task", json!({"title": "bread"})).await, done("1"));
        assert_eq!(text(&mut client, "finish_task", json!({"number": 1})).await, done("done"));
        assert_eq!(text(&mut client, "count_tasks", json!({})).await, done("1"));
        let failed = ("there is no task 2".to_owned(), true);
        assert_eq!(text(&mut client, "finish_task", json!({"number": 2})).await, failed);
    }
}

#[test]
fn each_example_has_a_test() {
    let programs = include_str!("programs.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if entry.path().is_dir() { format!("{name}/main.rs") } else { name };
        assert!(programs.contains(&format!("\"../../examples/{path}\"")), "{path} is not in `programs.rs`");
    }
}
