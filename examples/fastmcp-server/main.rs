//! The task list of `server.py` with Thruway.
//!
//! ```sh
//! cargo run --release -p thruway-mcp-sdk --example fastmcp_server
//! thruway mcp call http://127.0.0.1:8080/mcp add_task title=milk
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use thruway_mcp_sdk::schema::{Implementation, LoggingLevel};
use thruway_mcp_sdk::{Context, HandlerError, McpServer, McpServerOptions, offer, tool};
use thruway_server::{Router, Server, ServerError};

struct Task {
    title: String,
    is_done: bool,
}

#[derive(Default)]
struct Tasks(Mutex<Vec<Task>>);

#[offer]
impl Tasks {
    /// Adds a task, and returns its number.
    #[tool(destructive = false)]
    fn add_task(
        &self,
        /// The title of the task.
        title: String,
    ) -> String {
        let mut tasks = self.lock();
        tasks.push(Task { title, is_done: false });
        (tasks.len() - 1).to_string()
    }

    /// Returns the number of open tasks.
    #[tool(read_only)]
    fn count_tasks(&self) -> String {
        self.lock().iter().filter(|task| !task.is_done).count().to_string()
    }

    /// Marks a task as done.
    #[tool(destructive, idempotent)]
    async fn finish_task(
        &self,
        /// The number of the task.
        number: usize,
        context: Context,
    ) -> Result<&'static str, HandlerError> {
        let title = match self.lock().get_mut(number) {
            Some(task) => {
                task.is_done = true;
                task.title.clone()
            }
            None => return Err(HandlerError::failed(format!("there is no task {number}"))),
        };
        context.log(LoggingLevel::Info, None, format!("finished {title}")).await;
        Ok("done")
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn server() -> McpServer {
    let options =
        McpServerOptions { instructions: Some("A task list.".to_owned()), ..McpServerOptions::default() };
    McpServer::with_options(Implementation::new("tasks", "1.0.0"), options).with(Tasks::default())
}

fn main() -> Result<(), ServerError> {
    Server::new(Router::new().any("/mcp", server().endpoint())).listen("127.0.0.1:8080")?.run()
}
