//! Tests of calls that a server can answer with a task.

use serde_json::{Value, json};
use thruway_mcp_sdk::TaskSupport;
use thruway_mcp_sdk::schema::Tool;

use super::member::server;
use super::scene::{Scene, fast};

/// Returns the parameters of a call by a client that supports tasks.
fn with_tasks(name: &str) -> Value {
    let mut params = fast(name);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({"io.modelcontextprotocol/tasks": {}});
    params
}

#[test]
fn call_that_can_create_a_task_gets_a_translated_task_id() {
    let work = |_: thruway_mcp_sdk::Context| async { "done" };
    let mcp = server().task_tool(Tool::new("work"), TaskSupport::OPTIONAL, work);
    let scene = Scene::start_with_server(&mcp, "");
    let (_, task) = scene.call("web__work", &with_tasks("web__work"));
    assert_eq!(task["result"]["resultType"], "task", "{task}");
    let id = task["result"]["taskId"].as_str().unwrap();
    assert!(id.starts_with("web."), "{id}");
    assert_eq!(scene.relayed(), [""; 0]);
    // The server must not create a task for a client without support for tasks.
    let (_, done) = scene.call("web__work", &fast("web__work"));
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    assert_eq!(scene.relayed().len(), 1);
    scene.end();
}

#[test]
fn client_with_support_for_tasks_uses_the_fast_path_of_a_server_without() {
    let scene = Scene::start("");
    let (_, hello) = scene.call("web__hello", &with_tasks("web__hello"));
    assert_eq!(hello["result"]["content"][0]["text"], "hello", "{hello}");
    assert_eq!(scene.relayed().len(), 1);
    scene.end();
}
