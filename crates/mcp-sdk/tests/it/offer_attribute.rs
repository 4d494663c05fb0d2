//! Methods as tools, with `#[offer]` and `#[tool]`, from the view of clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_mcp_sdk::{
    Authorization, BoxError, Call, Context, McpServer, Structured, TaskSupport, offer, tool,
};

use crate::authorization::Plain;
use crate::fixtures::text;
use crate::http::{Message, Site};

#[derive(Default)]
struct Counter {
    value: AtomicU64,
    names: Mutex<Vec<String>>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy)]
struct Range {
    from: u64,
    to: u64,
}

const LIMIT: u64 = 100;

#[offer]
impl Counter {
    pub(crate) const START: u64 = 0;

    /// Adds to the counter.
    #[tool(title = "Addition", destructive = false)]
    fn add(
        &self,
        /// The amount.
        #[schemars(range(max = 10))]
        amount: u64,
    ) -> Result<String, String> {
        let value = self.value.fetch_add(amount, Ordering::Relaxed) + amount;
        if value > LIMIT { Err(format!("{value} is above the limit")) } else { Ok(self.text(value)) }
    }

    /// Adds one several times.
    #[thruway_mcp_sdk::tool(name = "count.slowly")]
    pub(crate) async fn count(&self, times: u64, context: Context) -> Result<String, BoxError> {
        for _ in 0..times {
            context.progress(1.0, None, None).await;
            self.value.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.text(self.value.load(Ordering::Relaxed)))
    }

    #[tool]
    async fn remember(&self, name: &str) -> String {
        tokio::task::yield_now().await;
        let mut names = self.names.lock().unwrap();
        names.push(name.to_owned());
        names.join(", ")
    }

    #[tool]
    fn set(&self, #[tool(input)] range: &Range, call: &Call<'_>) -> Structured<Range> {
        assert_eq!(call.revision().as_str(), "2026-07-28");
        self.value.store(range.to - range.from, Ordering::Relaxed);
        Structured(*range)
    }

    #[tool(read_only, scopes("read"))]
    fn secret(&self) -> String {
        self.text(self.value.load(Ordering::Relaxed))
    }

    /// A function of the type, without a value.
    #[tool]
    fn start() -> String {
        Self::START.to_string()
    }

    #[tool(task_support = TaskSupport::REQUIRED)]
    async fn report(&self) -> String {
        tokio::task::yield_now().await;
        self.text(self.value.load(Ordering::Relaxed))
    }

    #[cfg(any())]
    #[tool]
    fn absent(&self) -> Absent {}

    /// Is not a tool.
    fn text(&self, value: u64) -> String {
        format!("{value} of {}", self.names.lock().unwrap().len())
    }
}

fn server() -> McpServer {
    McpServer::new("counter", "1").with(Counter::default())
}

async fn call(server: &McpServer, name: &str, arguments: Value) -> Value {
    server.connect().request("tools/call", json!({"name": name, "arguments": arguments})).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_methods_with_the_attribute_are_tools() {
    let list = server().connect().request("tools/list", json!({})).await.unwrap();
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["add", "count.slowly", "remember", "set", "secret", "start", "report"]);
    let add = &list["tools"][0];
    assert_eq!((&add["title"], &add["description"]), (&json!("Addition"), &json!("Adds to the counter.")));
    let amount = json!({"description": "The amount.", "type": "integer", "minimum": 0, "maximum": 10});
    assert_eq!(add["inputSchema"]["properties"], json!({ "amount": amount }));
    assert_eq!(add["annotations"], json!({"destructiveHint": false}));
}

#[tokio::test(start_paused = true)]
async fn calls_of_all_clients_share_one_value() {
    let server = server();
    for (name, arguments, expected) in [
        ("add", json!({"amount": 2}), "2 of 0"),
        ("remember", json!({"name": "Ada"}), "Ada"),
        ("remember", json!({"name": "Grace"}), "Ada, Grace"),
        ("count.slowly", json!({"times": 3}), "5 of 2"),
        ("set", json!({"from": 1, "to": 8}), "{\"from\":1,\"to\":8}"),
        ("secret", json!({}), "7 of 2"),
        ("start", json!({}), "0"),
    ] {
        // Each call is from another client.
        let result = call(&server, name, arguments).await;
        assert_eq!((text(&result), result.get("isError")), (expected, None), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_and_method_errors_are_error_results() {
    let server = server();
    drop(call(&server, "set", json!({"from": 0, "to": 100})).await);
    for (arguments, expected) in [
        (json!({"amount": 11}), "invalid arguments"),
        (json!({}), "invalid arguments"),
        (json!({"amount": 1}), "101 is above the limit"),
    ] {
        let result = call(&server, "add", arguments).await;
        assert!(result["isError"] == true && text(&result).starts_with(expected), "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn application_can_keep_a_clone_of_the_value() {
    let counter = Arc::new(Counter::default());
    let server = McpServer::new("counter", "1").with(counter.clone());
    counter.value.store(4, Ordering::Relaxed);
    assert_eq!(text(&call(&server, "add", json!({"amount": 1})).await), "5 of 0");
    assert_eq!(counter.add(1), Ok("6 of 0".to_owned()), "the method can still be called");
}

#[test]
fn server_drops_the_value() {
    let counter = Arc::new(Counter::default());
    let server = McpServer::new("counter", "1").with(counter.clone());
    assert!(Arc::strong_count(&counter) > 1);
    drop(server);
    assert_eq!(Arc::strong_count(&counter), 1);
}

#[tokio::test(start_paused = true)]
async fn scopes_and_tasks_apply_to_methods() {
    let server = server();
    let refused = server.connect().request("tools/call", json!({"name": "report"})).await.unwrap_err();
    assert_eq!(refused.code.0, -32021, "clients without task support should get an error");
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain);
    let site = Site::of(server.endpoint().authorize(authorization));
    for (token, status) in [("ada/use", 403), ("ada/read", 200)] {
        let message = Message::modern("tools/call", json!({"name": "secret", "arguments": {}}));
        let message = message.with_field("Authorization", &format!("Bearer {token}"));
        assert_eq!(site.send(&message).await.status, status, "{token}");
    }
}

/// A store that tests can replace.
trait Store: Send + Sync + 'static {
    fn find(&self, key: &str) -> Option<String>;
}

struct Fixed(&'static str);

impl Store for Fixed {
    fn find(&self, key: &str) -> Option<String> {
        (key == "name").then(|| self.0.to_owned())
    }
}

struct Library<S, const N: usize>
where
    S: Store,
{
    store: S,
}

#[offer]
impl<S, const N: usize> Library<S, N>
where
    S: Store,
{
    #[tool]
    async fn find(&self, keys: Vec<String>) -> String {
        tokio::task::yield_now().await;
        keys.iter().filter_map(|key| self.store.find(key)).take(N).collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn type_with_tools_can_be_generic() {
    let server = McpServer::new("library", "1").with(Library::<_, 2> { store: Fixed("Emma") });
    let keys = json!({"keys": ["name", "other", "name", "name"]});
    assert_eq!(text(&call(&server, "find", keys).await), "Emma Emma");
}

/// The parameters can name the type of the block as `Self`, and the macro can be used in a function and on
/// generated code.
#[tokio::test(start_paused = true)]
async fn parameters_can_name_self_in_generated_local_block() {
    macro_rules! point {
        ($name:ident, $kind:ty) => {
            #[derive(Serialize, Deserialize, JsonSchema, Default)]
            struct $name {
                x: $kind,
            }

            #[offer]
            impl $name {
                #[tool]
                fn sum(&self, others: &[Self], first: Option<Self>) -> String {
                    let sum: $kind = others.iter().chain(&first).map(|other| other.x).sum();
                    (self.x + sum).to_string()
                }

                #[tool]
                async fn double(&self, #[tool(input)] other: Self, _context: Context) -> Structured<Self> {
                    Structured(Self { x: self.x + 2 * other.x })
                }
            }
        };
    }
    point!(Point, u8);
    let server = McpServer::new("points", "1").with(Point { x: 1 });
    let others = json!({"others": [{"x": 2}, {"x": 3}], "first": {"x": 4}});
    assert_eq!(text(&call(&server, "sum", others).await), "10");
    assert_eq!(call(&server, "double", json!({"x": 4})).await["structuredContent"], json!({"x": 9}));
}
