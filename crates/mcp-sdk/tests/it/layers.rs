//! Layers around handlers.

use std::sync::{Arc, Mutex};

use serde_json::json;
use thruway_mcp_sdk::schema::{CallToolResult, ClientCapabilities, Tool};
use thruway_mcp_sdk::{
    Call, Context, HandlerError, Layer, McpServer, Next, Outcome, ServerResult, TaskSupport, json_rpc,
};

use crate::fixtures::{Nothing, server, text, tool};

/// The events that layers have seen, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Returns a layer that records events before and after a call.
    fn layer(&self, name: &'static str) -> impl Layer {
        let diary = self.clone();
        move |call: &Call<'_>, next: Next<'_>| {
            diary.write(format!("{name} {} {}", call.method(), call.name().unwrap_or("-")));
            let diary = diary.clone();
            next.run().map(move |outcome| {
                let kind = match &outcome {
                    Ok(ServerResult::CallTool(result)) if result.is_error == Some(true) => "failed",
                    Ok(ServerResult::CallTool(_)) => "tool",
                    Ok(ServerResult::GetPrompt(_)) => "prompt",
                    Ok(ServerResult::ReadResource(_)) => "resource",
                    Ok(_) => "completion",
                    Err(_) => "error",
                };
                diary.write(format!("{name} {kind}"));
                outcome
            })
        }
    }
}

#[tokio::test]
async fn last_added_layer_sees_call_first_and_result_last() {
    let diary = Diary::default();
    let server = server().layer(diary.layer("inner")).layer(diary.layer("outer"));
    let mut client = server.connect();
    for name in ["echo", "progress"] {
        client.request("tools/call", json!({"name": name, "arguments": {"message": "a"}})).await.unwrap();
        let called = |layer: &str| format!("{layer} tools/call {name}");
        assert_eq!(
            diary.take(),
            [called("outer"), called("inner"), "inner tool".into(), "outer tool".into()]
        );
    }
}

#[tokio::test]
async fn layers_wrap_handlers_of_every_kind() {
    let diary = Diary::default();
    let mut client = server().layer(diary.layer("a")).connect();
    let reference = json!({"type": "ref/prompt", "name": "greeting"});
    let argument = json!({"name": "message", "value": "x"});
    for (method, params, seen) in [
        ("tools/call", tool("fail"), ["a tools/call fail", "a failed"]),
        (
            "resources/read",
            json!({"uri": "test://text", "name": "other"}),
            ["a resources/read test://text", "a resource"],
        ),
        ("resources/read", json!({"uri": "test://item/7"}), ["a resources/read test://item/7", "a resource"]),
        (
            "prompts/get",
            json!({"name": "greeting", "arguments": {"message": "m"}}),
            ["a prompts/get greeting", "a prompt"],
        ),
        (
            "completion/complete",
            json!({"ref": reference, "argument": argument}),
            ["a completion/complete -", "a completion"],
        ),
    ] {
        client.request(method, params).await.unwrap();
        assert_eq!(diary.take(), seen);
    }
    client.request("tools/list", json!({})).await.unwrap();
    assert!(diary.take().is_empty(), "a list has no handler");
}

#[tokio::test]
async fn layer_can_answer_instead_of_handler() {
    let refuse = |_: &Call<'_>, _: Next<'_>| Outcome::Now(Err(HandlerError::failed("not today")));
    let mut client = server().layer(refuse).connect();
    let refused = client.request("tools/call", tool("panic")).await.unwrap();
    assert_eq!(
        (&refused["isError"], text(&refused)),
        (&json!(true), "not today"),
        "the model may see the error"
    );
    let refused = client.request("resources/read", json!({"uri": "test://text"})).await.unwrap_err();
    assert_eq!(refused.code, json_rpc::ErrorCode::INTERNAL_ERROR);
}

#[tokio::test]
async fn layer_can_change_result_but_not_its_kind() {
    let shout = |_: &Call<'_>, next: Next<'_>| {
        next.run().map(|outcome| {
            outcome.map(|result| match result {
                ServerResult::CallTool(_) => ServerResult::CallTool(CallToolResult::text("CHANGED")),
                _ => ServerResult::CallTool(CallToolResult::text("of another kind")),
            })
        })
    };
    let mut client = server().layer(shout).connect();
    assert_eq!(text(&client.request("tools/call", tool("progress")).await.unwrap()), "CHANGED");
    let refused = client.request("resources/read", json!({"uri": "test://text"})).await.unwrap_err();
    assert_eq!(refused.code, json_rpc::ErrorCode::INTERNAL_ERROR);
}

#[tokio::test]
async fn layer_can_await_before_async_handler_runs() {
    let diary = Diary::default();
    let (of_layer, of_handler) = (diary.clone(), diary.clone());
    let server = McpServer::new("test", "1")
        .tool(Tool::new("later"), move |_: Nothing, _: Context| {
            let diary = of_handler.clone();
            async move { diary.write("handler") }
        })
        .layer(move |_: &Call<'_>, next: Next<'_>| {
            let (diary, inner) = (of_layer.clone(), next.run());
            Outcome::Later(Box::pin(async move {
                tokio::task::yield_now().await;
                diary.write("layer");
                match inner {
                    Outcome::Now(outcome) => outcome,
                    Outcome::Later(later) => later.await,
                }
            }))
        });
    server.connect().request("tools/call", tool("later")).await.unwrap();
    assert_eq!(diary.take(), ["layer", "handler"]);
}

#[tokio::test]
async fn layers_wrap_task_calls_and_layer_panic_returns_internal_error() {
    let diary = Diary::default();
    let server = server()
        .task_tool(Tool::new("long"), TaskSupport::OPTIONAL, |_: Nothing, _: Context| async { "done" })
        .layer(diary.layer("a"));
    let mut client = server.connect().with_capabilities(&ClientCapabilities::default().with_tasks());
    let task = client.request("tools/call", tool("long")).await.unwrap();
    let mut status = task.clone();
    while status["status"] != "completed" {
        tokio::task::yield_now().await;
        status = client.request("tasks/get", json!({"taskId": task["taskId"]})).await.unwrap();
    }
    assert_eq!(diary.take(), ["a tools/call long", "a tool"]);
    let mut client = server.layer(|_: &Call<'_>, _: Next<'_>| panic!("intended panic")).connect();
    let refused = client.request("tools/call", tool("echo")).await.unwrap_err();
    assert_eq!(refused.code, json_rpc::ErrorCode::INTERNAL_ERROR);
}
