//! Tools that share state: methods of a type with `#[offer]`. All clients change the same counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use thruway_mcp_sdk::{McpServer, offer, tool};
use thruway_server::{Router, Server, ServerError};

#[derive(Default)]
pub(crate) struct Counter {
    value: AtomicI64,
}

#[offer]
impl Counter {
    /// Adds to the counter, and returns its new value.
    #[tool(destructive = false)]
    fn add(
        &self,
        /// The amount. A negative amount reduces the counter.
        amount: i32,
    ) -> String {
        let amount = i64::from(amount);
        (self.value.fetch_add(amount, Ordering::Relaxed) + amount).to_string()
    }

    /// Returns the value of the counter.
    #[tool(read_only)]
    pub(crate) fn value(&self) -> String {
        self.value.load(Ordering::Relaxed).to_string()
    }
}

pub(crate) fn server(counter: Arc<Counter>) -> McpServer {
    McpServer::new("counter", "1.0.0").with(counter)
}

fn main() -> Result<(), ServerError> {
    let counter = Arc::<Counter>::default();
    let router =
        Router::new().any("/mcp", server(counter.clone()).endpoint()).get("/value", move || counter.value());
    Server::new(router).listen("127.0.0.1:8080")?.run()
}
