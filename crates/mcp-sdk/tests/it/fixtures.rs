//! A server with an offer of each kind.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{
    ContentBlock, CreateMessageRequestParams, ElicitRequestFormParams, ElicitResult, LoggingLevel,
    PrimitiveSchemaDefinition, Prompt, Resource, ResourceTemplate, Tool,
};
use thruway_mcp_sdk::{
    CompletionInput, Context, HandlerError, McpServer, McpServerOptions, Structured, UriParameters, schema,
};
use tokio::sync::Notify;

/// Number of running handlers. A handler that was dropped early does not count.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<AtomicUsize>);

pub(crate) struct RunningGuard(Running);

impl Running {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) -> RunningGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        RunningGuard(self.clone())
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Echo {
    pub(crate) message: String,
}

/// Returns a server with an offer of each kind.
pub(crate) fn server() -> McpServer {
    server_with(McpServerOptions::default())
}

pub(crate) fn server_with(options: McpServerOptions) -> McpServer {
    let server = McpServer::with_options(schema::Implementation::new("fixtures", "1.2.3"), options);
    asking(server)
        .tool(Tool::new("echo"), |echo: Echo| Structured(echo))
        .tool(Tool::new("progress"), progress)
        .tool(Tool::new("log"), log)
        .tool(Tool::new("panic"), |_: Nothing| -> String { panic!("intended panic") })
        .tool(Tool::new("panic_later"), panic_later)
        .tool(Tool::new("fail"), |_: Nothing| Err::<(), _>(HandlerError::failed("it does not work")))
        .tool(Tool::new("media"), |_: Nothing| media())
        .resource(Resource::new("test://text", "text").with_mime_type("text/plain"), || "some text")
        .resource(Resource::new("test://blob", "blob"), || vec![0_u8, 1, 2])
        .resource_template(ResourceTemplate::new("test://item/{id}", "item"), |item: UriParameters| {
            format!("item {}", item.parameter("id"))
        })
        .prompt(Prompt::new("greeting"), |echo: Echo| format!("Say {}.", echo.message))
        .completion("greeting", "message", |input: CompletionInput| {
            (0..150).map(|n| format!("{}{n}", input.value)).collect::<Vec<_>>()
        })
}

fn asking(server: McpServer) -> McpServer {
    server
        .tool(Tool::new("ask"), |_: Nothing, context: Context| async move { ask(&context, "name").await })
        .tool(Tool::new("ask_twice"), |_: Echo, context: Context| async move {
            let first = ask(&context, "first").await?;
            let second = ask(&context, "second").await?;
            Ok::<_, HandlerError>(format!("{first} and {second}"))
        })
        .tool(Tool::new("ask_all"), |_: Nothing, context: Context| async move { ask_all(&context).await })
        .resource(Resource::new("test://asks", "asks"), |_: UriParameters, context: Context| async move {
            ask(&context, "name").await
        })
        .resource(
            Resource::new("test://asks-too", "asks-too"),
            |_: UriParameters, context: Context| async move { ask(&context, "name").await },
        )
        .prompt(
            Prompt::new("asks"),
            |_: Nothing, context: Context| async move { ask(&context, "name").await },
        )
}

/// Asks for a name.
pub(crate) async fn ask(context: &Context, key: &str) -> Result<String, HandlerError> {
    let form = ElicitRequestFormParams::new("Who are you?")
        .with_required_field("name", PrimitiveSchemaDefinition::string());
    Ok(name_in(&context.elicit_form(key, form).await?))
}

async fn ask_all(context: &Context) -> Result<String, HandlerError> {
    let sampled = context.sample("model", CreateMessageRequestParams::new("What is the answer?", 10));
    let (name, sampled, roots) =
        tokio::try_join!(ask(context, "name"), sampled, context.list_roots("roots"))?;
    let roots: Vec<_> = roots.roots.into_iter().map(|root| root.uri).collect();
    Ok(format!("{} {} {}", name, sampled.text(), roots.join(",")))
}

fn name_in(result: &ElicitResult) -> String {
    let name = result.content.as_ref().and_then(|content| content["name"].as_str());
    name.unwrap_or("nobody").to_owned()
}

/// Returns the answer of a client to any request from the server.
pub(crate) fn answer(method: &str, _: &Value) -> Value {
    match method {
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "42"}})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///home"}]}),
        other => panic!("`{other}` is not a request to clients"),
    }
}

/// All capabilities of a client.
pub(crate) fn capabilities() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}})
}

async fn progress(_: Nothing, context: Context) -> &'static str {
    for (step, message) in [(1.0, Some("one")), (2.0, None), (1.5, Some("back")), (3.0, Some("three"))] {
        context.progress(step, Some(3.0), message).await;
        tokio::task::yield_now().await;
    }
    "done"
}

async fn log(_: Nothing, context: Context) -> &'static str {
    for level in LoggingLevel::ALL {
        context.log(level, Some("test"), json!({"level": level.as_str()})).await;
    }
    "logged"
}

async fn panic_later(_: Nothing, _: Context) -> String {
    tokio::task::yield_now().await;
    panic!("intended panic")
}

fn media() -> Vec<ContentBlock> {
    vec![
        ContentBlock::text("text"),
        ContentBlock::audio(b"sound", "audio/wav"),
        ContentBlock::ResourceLink(Resource::new("test://text", "text")),
    ]
}

/// Adds a tool `hang` that never returns. Also returns the counter of running handlers.
pub(crate) fn with_hanging(server: McpServer) -> (McpServer, Running) {
    let running = Running::default();
    let ours = running.clone();
    let server = server.tool(Tool::new("hang"), move |_: Nothing, _: Context| {
        let running = ours.begin();
        async move {
            let _running = running;
            pending::<()>().await;
        }
    });
    (server, running)
}

/// Adds a tool `wait`. Each notification of the gate lets one call return.
pub(crate) fn with_waiting(server: McpServer) -> (McpServer, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let ours = gate.clone();
    let server = server.tool(Tool::new("wait"), move |_: Nothing, context: Context| {
        let gate = ours.clone();
        async move {
            context.progress(1.0, None, None).await;
            gate.notified().await;
            "waited"
        }
    });
    (server, gate)
}

/// Returns the parameters of a tool call without arguments.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// Returns the text of the first content block of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
