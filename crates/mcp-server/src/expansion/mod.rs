//! Functions, traits and crates for the code that `#[tool]`, `#[prompt]`, `#[resource]` and `#[offer]`
//! generate. The crates `schemars` and `serde` are included, so that applications need no further
//! dependencies. Applications must not use this module directly, because it may change in any version.

mod returned;

use std::sync::Arc;

use thruway_mcp::schema::{CallToolResult, GetPromptResult};

// The trait without the derive macro, because the SDK exports another derive macro.
pub use crate::handlers::ElicitForm;
use crate::handlers::IntoAnswer;
use crate::registry::{RegistrationError, ResourceAnswer};
pub use crate::registry::{TextArguments, UriVariables};
use crate::server::{McpServer, Offer};

pub use returned::{
    AnswerOfAny, AnswerOfText, AnswerOfTyped, AnswerReady, ErrorOfAny, ErrorOfDisplay, ErrorOfInto, NoError,
    ResourceOfJson, ResourceReady, Returned,
};
pub use {schemars, serde};

/// Returns `answer` unchanged. Code that calls this function compiles only if a tool can return the type of
/// `answer`.
pub fn answer<T: IntoAnswer<CallToolResult>>(answer: T) -> T {
    answer
}

/// Returns `answer` unchanged, if a prompt can return its type.
pub fn prompt<T: PromptAnswer>(answer: T) -> T {
    answer
}

/// Returns `answer` unchanged, if a resource can return its type.
pub fn resource<T: ResourceContent>(answer: T) -> T {
    answer
}

/// A type that a prompt can return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a prompt",
    label = "not a prompt",
    note = "return a `String`, a `PromptMessage`, a `Vec<PromptMessage>` or a `GetPromptResult`"
)]
pub trait PromptAnswer: IntoAnswer<GetPromptResult> {}

impl<T: IntoAnswer<GetPromptResult>> PromptAnswer for T {}

/// A type that a resource can return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the content of a resource",
    label = "not the content of a resource",
    note = "return a `String`, a `Vec<u8>`, a type that implements `serde::Serialize`, or a `ReadResourceResult`"
)]
pub trait ResourceContent: IntoAnswer<ResourceAnswer> {}

impl<T: IntoAnswer<ResourceAnswer>> ResourceContent for T {}

/// A type with `#[offer]` on its `impl` block. All handlers share one value of the type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be offered",
    label = "not a type with tools, prompts or resources",
    note = "write `#[offer]` above the `impl` block of the type, and `#[tool]`, `#[prompt]` or `#[resource]` above \
            its methods"
)]
pub trait SharedOffer: Send + Sync + Sized + 'static {
    /// Adds the methods to `server`.
    ///
    /// # Errors
    /// Returns an error if an item is invalid.
    fn offer_shared(self: Arc<Self>, server: &McpServer) -> Result<(), RegistrationError>;
}

impl<T: SharedOffer> Offer for Arc<T> {
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError> {
        self.offer_shared(server)
    }
}

/// Programs that the compiler must reject. Each program differs in one place from this program, which
/// compiles:
///
/// ```
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// A tool cannot return the type `Instant`:
/// ```compile_fail,E0277
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> std::time::Instant { std::time::Instant::now() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The type `Instant` cannot be an error of a tool, because it has no text:
/// ```compile_fail,E0277
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> Result<f64, std::time::Instant> { Ok(a + b) }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// serde cannot read a parameter of the type `Instant`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: std::time::Instant, b: f64) -> String { b.to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The attribute has the unknown argument `readonly`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(readonly)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The program registers the function `add` instead of the tool `add {}`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add).unwrap();
/// ```
/// The next programs differ in one place from this program, which compiles:
/// ```
/// #[thruway_mcp_server::prompt]
/// fn review(pages: u32) -> String { format!("Review {pages} pages") }
/// #[thruway_mcp_server::resource("book://{title}/{page}", mime_type = "text/plain")]
/// fn page(title: &str, page: u32) -> String { format!("{title}, {page}") }
/// let server = thruway_mcp_server::McpServer::new("books", "1.0.0");
/// server.add(review {}).and_then(|()| server.add(page {})).unwrap();
/// ```
/// A prompt cannot return a number:
/// ```compile_fail,E0277
/// #[thruway_mcp_server::prompt]
/// fn review(pages: u32) -> u32 { pages }
/// thruway_mcp_server::McpServer::new("books", "1.0.0").add(review {}).unwrap();
/// ```
/// The attribute of the prompt has an argument for tools:
/// ```compile_fail
/// #[thruway_mcp_server::prompt(read_only)]
/// fn review(pages: u32) -> String { format!("Review {pages} pages") }
/// thruway_mcp_server::McpServer::new("books", "1.0.0").add(review {}).unwrap();
/// ```
/// The parameter `page` is missing:
/// ```compile_fail
/// #[thruway_mcp_server::resource("book://{title}/{page}", mime_type = "text/plain")]
/// fn page(title: &str) -> String { title.to_owned() }
/// thruway_mcp_server::McpServer::new("books", "1.0.0").add(page {}).unwrap();
/// ```
/// A resource cannot return a value that serde cannot write:
/// ```compile_fail,E0277
/// #[thruway_mcp_server::resource("book://{title}/{page}", mime_type = "text/plain")]
/// fn page(title: &str, page: u32) -> std::time::Instant { std::time::Instant::now() }
/// thruway_mcp_server::McpServer::new("books", "1.0.0").add(page {}).unwrap();
/// ```
///
/// The next programs differ in one place from this program, which compiles:
/// ```
/// use thruway_mcp_server::{McpServer, offer, tool};
/// struct Counter(std::sync::Mutex<u64>);
/// #[offer]
/// impl Counter {
///     #[tool(read_only)]
///     fn value(&self) -> String { self.0.lock().unwrap().to_string() }
/// }
/// McpServer::new("counter", "1.0.0").add(Counter(Default::default())).unwrap();
/// ```
/// Threads cannot share a `RefCell`:
/// ```compile_fail,E0277
/// use thruway_mcp_server::{McpServer, offer, tool};
/// struct Counter(std::cell::RefCell<u64>);
/// #[offer]
/// impl Counter {
///     #[tool(read_only)]
///     fn value(&self) -> String { self.0.borrow().to_string() }
/// }
/// McpServer::new("counter", "1.0.0").add(Counter(Default::default())).unwrap();
/// ```
/// The `impl` block has no `#[offer]`:
/// ```compile_fail
/// use thruway_mcp_server::{McpServer, offer, tool};
/// struct Counter(std::sync::Mutex<u64>);
/// impl Counter {
///     #[tool(read_only)]
///     fn value(&self) -> String { self.0.lock().unwrap().to_string() }
/// }
/// McpServer::new("counter", "1.0.0").add(Counter(Default::default())).unwrap();
/// ```
/// The method takes `&mut self`:
/// ```compile_fail
/// use thruway_mcp_server::{McpServer, offer, tool};
/// struct Counter(std::sync::Mutex<u64>);
/// #[offer]
/// impl Counter {
///     #[tool(read_only)]
///     fn value(&mut self) -> String { self.0.lock().unwrap().to_string() }
/// }
/// McpServer::new("counter", "1.0.0").add(Counter(Default::default())).unwrap();
/// ```
///
/// The next programs differ in one place from this program, which compiles:
/// ```
/// use thruway_mcp_server::{ElicitForm, expansion::{schemars::JsonSchema, serde::Deserialize}};
/// #[derive(Deserialize, JsonSchema, ElicitForm)]
/// #[serde(crate = "thruway_mcp_server::expansion::serde")]
/// #[schemars(crate = "thruway_mcp_server::expansion::schemars")]
/// struct Booking { nights: Option<u8> }
/// ```
/// A form cannot have a list of texts:
/// ```compile_fail,E0277
/// use thruway_mcp_server::{ElicitForm, expansion::{schemars::JsonSchema, serde::Deserialize}};
/// #[derive(Deserialize, JsonSchema, ElicitForm)]
/// #[serde(crate = "thruway_mcp_server::expansion::serde")]
/// #[schemars(crate = "thruway_mcp_server::expansion::schemars")]
/// struct Booking { nights: Vec<String> }
/// ```
/// A form needs the schema of its type:
/// ```compile_fail,E0277
/// use thruway_mcp_server::{ElicitForm, expansion::{schemars::JsonSchema, serde::Deserialize}};
/// #[derive(Deserialize, ElicitForm)]
/// #[serde(crate = "thruway_mcp_server::expansion::serde")]
/// struct Booking { nights: Option<u8> }
/// ```
#[cfg(doctest)]
struct Refused;
