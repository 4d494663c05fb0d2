//! Log lines about members.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{McpServer, MemberState};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::faults::garbage;
use super::sites::{gateway, in_memory, wait_for};

/// Records the warnings of this thread: the field `server`, and the message.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<Warning>>>);

#[derive(Clone, Default, Debug)]
struct Warning {
    server: Option<String>,
    message: String,
}

impl Visit for Warning {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "server" => self.server = Some(format!("{value:?}")),
            "message" => self.message = format!("{value:?}"),
            _ => {}
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut warning = Warning::default();
        event.record(&mut warning);
        self.0.lock().unwrap().push(warning);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Regression test: the log did not show which of several servers had sent an invalid line.
#[tokio::test(start_paused = true)]
async fn log_lines_about_a_faulty_member_name_the_member() {
    let warnings = Warnings::default();
    // With only one subscriber, a thread without this subscriber could disable log lines for all threads.
    let _second = Dispatch::new(Warnings::default());
    let _recording = tracing::subscriber::set_default(warnings.clone());
    let greeter = McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!");
    let gateway = gateway([in_memory("one", &greeter), garbage("two")]);
    wait_for(&gateway, "two", MemberState::Failed).await;
    let warnings = warnings.0.lock().unwrap().clone();
    for text in ["ignored a line of", "cannot connect to the MCP server"] {
        let found = warnings.iter().find(|warning| warning.message.contains(text));
        let found = found.unwrap_or_else(|| panic!("no line contains `{text}`: {warnings:?}"));
        assert_eq!(found.server.as_deref(), Some("two"), "{found:?}");
    }
}
