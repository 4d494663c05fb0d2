//! A demo MCP server, and the paths of its HTTP endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::schema::{
    ElicitAction, ElicitRequestFormParams, Implementation, PrimitiveSchemaDefinition, Prompt, Resource,
    ResourceTemplate, Tool, ToolAnnotations,
};
use thruway_mcp_sdk::{
    CompletionInput, Context, HandlerError, McpEndpoint, McpServer, McpServerOptions, Structured,
    UriParameters,
};
use thruway_server::Router;
use tokio::time::sleep;

/// Adds the endpoints for Streamable HTTP and for HTTP with SSE to `router`.
pub fn mount_endpoint(router: Router, endpoint: McpEndpoint) -> Router {
    let sse = endpoint.sse_endpoints(MESSAGE_PATH);
    router.any(PATH, endpoint).get(SSE_PATH, sse.stream()).post(MESSAGE_PATH, sse.messages())
}

/// Returns the endpoint of the demo server. The `Host` and `Origin` of a request must name this machine or
/// one of `hosts`.
pub fn endpoint(hosts: &[String], options: McpServerOptions) -> McpEndpoint {
    hosts.iter().fold(server(options).endpoint(), McpEndpoint::allow_host)
}

/// Returns the demo server, which offers tools, resources, and a prompt with completion of its argument.
pub fn server(options: McpServerOptions) -> McpServer {
    let info = Implementation::new("thruway-demo", env!("CARGO_PKG_VERSION")).with_title("Thruway demo");
    let options = McpServerOptions {
        instructions: Some(
            "A server for tests of MCP clients. Its tools change nothing outside this server.".to_owned(),
        ),
        ..options
    };
    let server = McpServer::with_options(info, options);
    let server = with_tools(server);
    let server = with_resources(server);
    with_prompts(server)
}

fn with_tools(server: McpServer) -> McpServer {
    let counter = Arc::new(AtomicU64::new(0));
    let own = server.clone();
    let tool = |name: &str, description: &str| {
        let annotations = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
        Tool::new(name).with_description(description).with_annotations(annotations)
    };
    let server = server
        .tool(tool("echo", "Sends a message back, with its length in bytes"), echo)
        .tool(tool("add", "Adds two numbers"), |Add { a, b }: Add| Structured(Sum { sum: a + b }))
        .tool(tool("slow", "Runs for some seconds and reports its progress"), slow)
        .tool(tool("ask", "Asks for your name and greets you"), ask)
        .resource(
            Resource::new(COUNTER, "counter")
                .with_description("Number of calls of the tool `count`")
                .with_mime_type("text/plain"),
            {
                let counter = counter.clone();
                move || counter.load(Ordering::Relaxed).to_string()
            },
        );
    server.tool(Tool::new("count").with_description("Changes the resource `example://counter`"), move || {
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        own.resource_updated(COUNTER);
        format!("counted to {count}")
    })
}

fn with_resources(server: McpServer) -> McpServer {
    server
        .resource(
            Resource::new("example://hello", "hello")
                .with_description("A greeting")
                .with_mime_type("text/plain"),
            || "Hello, World!",
        )
        .resource(
            Resource::new("example://info", "info")
                .with_description("Description of this server")
                .with_mime_type("application/json"),
            || concat!(r#"{"name":"thruway-demo","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#),
        )
        .resource_template(
            ResourceTemplate::new("example://greeting/{name}", "greeting")
                .with_description("A greeting")
                .with_mime_type("text/plain"),
            |parameters: UriParameters| format!("Hello, {}!", parameters.parameter("name")),
        )
}

fn with_prompts(server: McpServer) -> McpServer {
    server
        .prompt(
            Prompt::new("greeting").with_description("Asks for a greeting"),
            |Greeting { name }: Greeting| match name {
                Some(name) => format!("Greet {name} warmly."),
                None => "Greet me warmly.".to_owned(),
            },
        )
        .completion("greeting", "name", |input: CompletionInput| {
            let names = NAMES.iter().copied();
            names
                .filter(|name| name.to_lowercase().starts_with(&input.value.to_lowercase()))
                .collect::<Vec<_>>()
        })
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// Text to send back
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct Echoed {
    echo: String,
    length: usize,
}

fn echo(Echo { message }: Echo) -> Structured<Echoed> {
    Structured(Echoed { length: message.len(), echo: message })
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// Number of steps of 0.1 seconds, at most 600
    #[serde(default = "default_steps")]
    #[schemars(range(min = 1, max = 600))]
    steps: u32,
}

const fn default_steps() -> u32 {
    10
}

async fn slow(Slow { steps }: Slow, context: Context) -> String {
    for step in 1..=steps {
        sleep(Duration::from_millis(100)).await;
        context.progress(f64::from(step), Some(f64::from(steps)), Some("step completed")).await;
    }
    format!("done after {steps} steps")
}

async fn ask(context: Context) -> Result<String, HandlerError> {
    let name = PrimitiveSchemaDefinition::string().with_title("Name");
    let form = ElicitRequestFormParams::new("What is your name?").with_required_field("name", name);
    let answer = context.elicit_form("name", form).await?;
    Ok(match answer.action {
        ElicitAction::Accept => format!("Hello, {}!", answer.text("name")),
        ElicitAction::Decline | ElicitAction::Cancel => "Hello!".to_owned(),
    })
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// Name of the person to greet
    name: Option<String>,
}

/// Path of the Streamable HTTP endpoint.
pub const PATH: &str = "/mcp";

/// Path of the event stream of HTTP with SSE, the HTTP transport of revision 2024-11-05.
pub const SSE_PATH: &str = "/sse";

/// Path for the messages of clients that use HTTP with SSE.
pub const MESSAGE_PATH: &str = "/message";

const COUNTER: &str = "example://counter";

const NAMES: [&str; 5] = ["Ada", "Alan", "Barbara", "Edsger", "Grace"];
