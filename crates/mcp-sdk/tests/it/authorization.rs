//! Endpoints that require tokens.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{ElicitRequestFormParams, Tool};
use thruway_mcp_sdk::{
    Authorization, Call, Context, HandlerError, Identity, InvalidToken, McpServer, VerifyToken,
};

use crate::http::{Message, Session, Site, request};

/// Verifies tokens that contain their identity: `name/scope,scope`.
pub(crate) struct Plain;

impl VerifyToken for Plain {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        let (subject, scopes) = token.split_once('/').ok_or(InvalidToken)?;
        Ok(Identity {
            subject: subject.to_owned(),
            scopes: scopes.split(',').map(str::to_owned).collect(),
            ..Identity::default()
        })
    }
}

async fn greet((): (), context: Context) -> Result<String, HandlerError> {
    context.elicit_form("name", ElicitRequestFormParams::new("Who?")).await?;
    Ok(format!("hello, {}", context.identity().map_or("nobody", |identity| &identity.subject)))
}

fn server() -> McpServer {
    McpServer::new("guarded", "1")
        .tool(Tool::new("whoami"), |_: Value, call: &Call<'_>| {
            call.identity().map_or_else(|| "nobody".to_owned(), |identity| identity.subject.clone())
        })
        .tool(Tool::new("erase"), |_: Value| "erased")
        .require_scopes("erase", ["admin"])
        .tool(Tool::new("greet"), |_: Value, context: Context| greet((), context))
}

fn site() -> Site {
    let authorization =
        Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain).with_scopes(["use"]);
    Site::of(server().endpoint().authorize(authorization))
}

fn call(tool: &str) -> Message {
    Message::modern("tools/call", json!({"name": tool, "arguments": {}}))
}

fn bearing(message: Message, token: &str) -> Message {
    message.with_field("Authorization", &format!("Bearer {token}"))
}

/// Regression test: the server waited for the body, and stored up to 4 MiB of it, before it checked the
/// token.
#[tokio::test(start_paused = true)]
async fn request_without_token_gets_401_before_body_arrives() {
    let mut bytes = call("whoami").to_bytes();
    bytes.truncate(bytes.len() - 1);
    assert_eq!(site().open_with(&bytes).response().await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn handler_sees_caller_identity() {
    let response = site().send(&bearing(call("whoami"), "ada/use")).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.message()["result"]["content"][0]["text"], "ada");
}

#[tokio::test(start_paused = true)]
async fn invalid_token_gets_401_and_missing_scope_gets_403() {
    let site = site();
    let metadata = "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\"";
    for (message, error) in [
        (call("whoami"), ""),
        (bearing(call("whoami"), "nonsense"), ", error=\"invalid_token\""),
        (Message::without_content("GET"), ""),
        (Message::without_content("DELETE"), ""),
    ] {
        let response = site.send(&message).await;
        let expected = format!("Bearer {metadata}{error}, scope=\"use\"");
        assert_eq!((response.status, response.field("WWW-Authenticate")), (401, Some(&*expected)));
        assert!(response.content.is_empty());
    }
    let response = site.send(&bearing(call("whoami"), "ada/other")).await;
    assert_eq!(response.status, 403);
    assert!(response.field("WWW-Authenticate").unwrap().contains("error=\"insufficient_scope\""));
}

#[tokio::test(start_paused = true)]
async fn tool_can_require_more_scopes_than_endpoint() {
    let site = site();
    let response = site.send(&bearing(call("erase"), "ada/use")).await;
    assert_eq!(response.status, 403, "{}", response.text());
    let challenge = response.field("WWW-Authenticate").unwrap();
    assert!(challenge.ends_with("error=\"insufficient_scope\", scope=\"admin\""), "{challenge}");
    assert_eq!(site.send(&bearing(call("erase"), "ada/use,admin")).await.status, 200);
    let open = Site::new(&server());
    assert_eq!(open.send(&call("erase")).await.status, 403, "without authorization, no caller has scopes");
    assert_eq!(open.send(&call("whoami")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn only_session_owner_can_use_and_delete_session() {
    let site = site();
    let response = site.send(&bearing(Session::initialize("2025-06-18", &json!({})), "ada/use")).await;
    let id = response.field("Mcp-Session-Id").unwrap().to_owned();
    let ping = |token: &str| {
        bearing(Message::post(&request(1, "ping", &json!({}))).with_field("Mcp-Session-Id", &id), token)
    };
    let delete =
        |token: &str| bearing(Message::without_content("DELETE").with_field("Mcp-Session-Id", &id), token);
    assert_eq!(site.send(&ping("bob/use")).await.status, 404);
    assert_eq!(site.send(&delete("bob/use")).await.status, 404);
    assert_eq!(site.send(&ping("ada/use")).await.status, 200);
    assert_eq!(site.send(&delete("ada/use")).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn request_state_of_another_caller_is_rejected() {
    let site = site();
    let greet = |params: Value| Message::modern_with("tools/call", params, &json!({"elicitation": {}}));
    let params = json!({"name": "greet", "arguments": {}});
    let first = site.send(&bearing(greet(params.clone()), "ada/use")).await.message();
    let mut retry = params;
    retry["requestState"] = first["result"]["requestState"].clone();
    retry["inputResponses"] = json!({"name": {"action": "accept", "content": {}}});
    let rejected = site.send(&bearing(greet(retry.clone()), "bob/use")).await;
    assert_eq!(rejected.error_code(), -32602, "{}", rejected.text());
    let accepted = site.send(&bearing(greet(retry), "ada/use")).await.message();
    assert_eq!(accepted["result"]["content"][0]["text"], "hello, ada");
}
