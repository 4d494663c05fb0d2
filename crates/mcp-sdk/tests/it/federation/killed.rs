//! A member that is a child process, and gets SIGKILL under load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::{SubscriptionFilter, Tool};
use thruway_mcp_sdk::{
    McpClient, McpGateway, McpGatewayOptions, McpServer, Member, MemberState, ServerNotification,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::sites::{ERAS, in_memory, wait_for, with_options};
use crate::client::calls::text;

const LIST_WAIT: Duration = Duration::from_secs(1);

/// The directory of a child process. While it contains the file `down`, each new process exits at once.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("killed-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Kills the current process with SIGKILL, and keeps the member down.
    fn kill(&self) {
        std::fs::write(self.file("down"), "").unwrap();
        let pid = std::fs::read_to_string(self.file("pid")).unwrap();
        assert!(Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap().success());
    }

    /// Returns the number of started processes.
    fn starts(&self) -> usize {
        std::fs::read_to_string(self.file("starts")).unwrap().lines().count()
    }

    fn revive(&self) {
        std::fs::remove_file(self.file("down")).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A legacy server with one tool. It writes its process id to the file `pid`, and appends the process id to the file
/// `starts`.
fn script(directory: &Path) -> String {
    let initialized = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "script", "version": "1"}});
    let tools = json!({"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]});
    let called = json!({"content": [{"type": "text", "text": "Hello!"}]});
    let answer = |result: &serde_json::Value| {
        let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{result}}}");
        format!("echo \"{}\"", message.replace('"', "\\\""))
    };
    format!(
        r#"
cd '{directory}'
echo $$ >> starts
[ ! -e down ] || exit 1
echo $$ > pid
while read -r line; do
    id=${{line#*\"id\":}}
    id=${{id%%[!0-9]*}}
    case "$line" in
        *\"initialize\"*) {initialize} ;;
        *\"tools/list\"*) {list} ;;
        *\"tools/call\"*) {call} ;;
        *\"ping\"*) {ping} ;;
        *\"id\"*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32601,\"message\":\"no\"}}}}" ;;
    esac
done
"#,
        directory = directory.display(),
        initialize = answer(&initialized),
        list = answer(&tools),
        call = answer(&called),
        ping = answer(&json!({})),
    )
}

fn gateway_with_child(directory: &Directory) -> McpGateway {
    let greeter = McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!");
    let script = script(&directory.0);
    let child = Member::new("two", move |builder| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        builder.command(command)
    });
    let options = McpGatewayOptions { list_wait: LIST_WAIT, ..McpGatewayOptions::default() };
    with_options(options, [in_memory("one", &greeter), child, in_memory("three", &greeter)])
}

async fn names(client: &McpClient) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// Calls the tools of all members without a pause, until `is_over`. Counts the calls of the members `one` and
/// `three`, which must not fail.
fn begin_load(gateway: &McpGateway, is_over: &Arc<AtomicBool>, calls: &Arc<AtomicUsize>) -> JoinSet<()> {
    let mut load = JoinSet::new();
    for (era, member) in ERAS.into_iter().flat_map(|era| ["one", "two", "three"].map(|member| (era, member)))
    {
        let client = McpClient::builder().era(era).server(gateway);
        let (is_over, calls) = (is_over.clone(), calls.clone());
        load.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let called = client.call_tool(&format!("{member}__greet"), json!({})).await;
                if member != "two" {
                    assert_eq!(text(&called.unwrap_or_else(|error| panic!("{member}: {error}"))), "Hello!");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                tokio::task::yield_now().await;
            }
        });
    }
    load
}

/// Waits until the load has completed another 100 calls.
async fn wait_for_calls(calls: &AtomicUsize) {
    let before = calls.load(Ordering::Relaxed);
    while calls.load(Ordering::Relaxed) < before + 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn kill_of_one_of_three_members_under_load_does_not_disturb_the_others() {
    let directory = Directory::new();
    let gateway = gateway_with_child(&directory);
    wait_for(&gateway, "two", MemberState::Connected).await;
    let clients = ERAS.map(|era| McpClient::builder().era(era).server(&gateway));
    let all = ["one__greet", "three__greet", "two__greet"];
    for client in &clients {
        assert_eq!(names(client).await, all);
    }
    let (is_over, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let load = begin_load(&gateway, &is_over, &calls);
    wait_for_calls(&calls).await;
    directory.kill();
    wait_for(&gateway, "two", MemberState::Failed).await;
    wait_for_calls(&calls).await;
    for client in &clients {
        let began = Instant::now();
        assert_eq!(names(client).await, all);
        assert!(began.elapsed() <= LIST_WAIT + Duration::from_millis(100), "{:?}", began.elapsed());
        let error = client.call_tool("two__greet", json!({})).await.unwrap_err();
        assert_eq!(error.server_error().unwrap().data.as_ref().unwrap()["server"], "two", "{error}");
    }
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let mut changes = Vec::new();
    for client in &clients {
        changes.push(client.listen(filter.clone()).await.unwrap());
    }
    directory.revive();
    let revived = Instant::now();
    for changes in &mut changes {
        let change = timeout(Duration::from_secs(10), changes.next()).await.unwrap();
        assert_eq!(change, Some(ServerNotification::ToolsListChanged));
        assert!(revived.elapsed() < Duration::from_secs(5), "{:?}", revived.elapsed());
    }
    for client in &clients {
        assert_eq!(text(&client.call_tool("two__greet", json!({})).await.unwrap()), "Hello!");
        assert_eq!(names(client).await, all);
    }
    is_over.store(true, Ordering::Relaxed);
    load.join_all().await;
    gateway.close().await;
}

/// Regression test: after five failed starts in a row, the client waited for a minute before the next start.
#[tokio::test]
async fn child_is_back_soon_after_many_failed_starts() {
    let directory = Directory::new();
    let gateway = gateway_with_child(&directory);
    wait_for(&gateway, "two", MemberState::Connected).await;
    let client = McpClient::builder().server(&gateway);
    assert_eq!(names(&client).await.len(), 3);
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let mut changes = client.listen(filter).await.unwrap();
    let starts = directory.starts();
    directory.kill();
    client.call_tool("two__greet", json!({})).await.unwrap_err();
    let failing = async {
        while directory.starts() < starts + FAILED_STARTS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(30), failing).await.expect("the gateway continues to start the process");
    directory.revive();
    let revived = Instant::now();
    let change = timeout(Duration::from_secs(10), changes.next()).await.unwrap();
    assert_eq!(change, Some(ServerNotification::ToolsListChanged));
    assert!(revived.elapsed() < Duration::from_secs(5), "{:?}", revived.elapsed());
    wait_for(&gateway, "two", MemberState::Connected).await;
    assert_eq!(text(&client.call_tool("two__greet", json!({})).await.unwrap()), "Hello!");
    gateway.close().await;
}

/// Number of failed starts in a row. Larger than the number of starts with short pauses.
const FAILED_STARTS: usize = 7;
