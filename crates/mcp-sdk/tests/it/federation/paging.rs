//! Members whose lists are endless, or change while the endpoint fetches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{SubscriptionFilter, Tool};
use thruway_mcp_sdk::{
    McpClient, McpGateway, McpGatewayOptions, McpServer, Member, MemberState, ServerNotification,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::sites::{ERAS, in_memory, wait_for, with_options};
use crate::client::calls::text;

const LIST_WAIT: Duration = Duration::from_secs(1);

/// The answer to a request for a page.
struct Page {
    /// The list changes before the member sends the answer.
    has_changed: bool,
    /// Time until the answer.
    delay: Duration,
    answer: Result<Value, i32>,
}

impl Page {
    fn of(names: &[String], next: Option<&str>) -> Self {
        let tools: Vec<_> =
            names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
        let mut page = json!({"tools": tools});
        if let Some(next) = next {
            page["nextCursor"] = json!(next);
        }
        Self { has_changed: false, delay: Duration::ZERO, answer: Ok(page) }
    }
}

/// A legacy member with the tools that `page` returns for the number of the request, counted from 1, and for the
/// cursor. Its calls return the name of the tool.
fn paged(
    name: &str,
    requests: &Arc<AtomicUsize>,
    page: impl Fn(usize, Option<&str>) -> Page + Clone + Send + Sync + 'static,
) -> Member {
    let requests = requests.clone();
    Member::new(name, move |builder| {
        let (near, far) = UnixStream::pair().unwrap();
        tokio::spawn(serve(far, requests.clone(), page.clone()));
        Ok(builder.unix_stream(near))
    })
}

async fn serve(stream: UnixStream, requests: Arc<AtomicUsize>, page: impl Fn(usize, Option<&str>) -> Page) {
    let (input, mut output) = stream.into_split();
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let mut changes = "";
        let answer = match message["method"].as_str() {
            Some("initialize") => Ok(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "paged", "version": "1"},
            })),
            Some("tools/list") => {
                let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
                let page = page(number, message["params"]["cursor"].as_str());
                sleep(page.delay).await;
                if page.has_changed {
                    changes = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
                }
                page.answer
            }
            Some("tools/call") => {
                Ok(json!({"content": [{"type": "text", "text": message["params"]["name"]}]}))
            }
            Some("ping") => Ok(json!({})),
            _ => Err(-32601),
        };
        let Some(id) = message.get("id") else { continue };
        let answer = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(code) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "refused"}})
            }
        };
        if output.write_all(format!("{changes}{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A running endpoint with the member `one`, which works, and another member.
async fn endpoint(member: Member) -> McpGateway {
    let greeter = McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!");
    let options = McpGatewayOptions { list_wait: LIST_WAIT, ..McpGatewayOptions::default() };
    let gateway = with_options(options, [in_memory("one", &greeter), member]);
    for member in ["one", "two"] {
        wait_for(&gateway, member, MemberState::Connected).await;
    }
    gateway
}

async fn names(client: &McpClient) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

async fn assert_works(client: &McpClient, tool: &str, expected: &str) {
    assert_eq!(text(&client.call_tool(tool, json!({})).await.unwrap()), expected);
}

fn numbered(page: usize) -> Vec<String> {
    (0..50).map(|number| format!("tool-{page:04}-{number:02}")).collect()
}

/// The page with this cursor of a list that never ends.
fn endless(cursor: Option<&str>) -> Page {
    let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
    Page::of(&numbered(page), Some(&(page + 1).to_string()))
}

#[tokio::test]
async fn endless_list_ends_after_64_pages() {
    let requests = Arc::<AtomicUsize>::default();
    let gateway = endpoint(paged("two", &requests, |_, cursor| endless(cursor))).await;
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        let names = names(&client).await;
        assert_eq!(names.len(), 1 + 64 * 50);
        assert_eq!((&*names[0], &*names[3200]), ("one__greet", "two__tool-0063-49"));
        assert_eq!(requests.load(Ordering::Relaxed), 64, "the second client gets the cached list");
        assert_works(&client, "two__tool-0063-49", "tool-0063-49").await;
        assert_works(&client, "one__greet", "Hello!").await;
    }
    let withheld = &gateway.members()[1].withheld;
    assert!(withheld.iter().any(|item| item.reason.contains("too long")), "{withheld:?}");
    gateway.close().await;
}

#[tokio::test]
async fn list_ends_when_a_cursor_repeats() {
    let requests = Arc::<AtomicUsize>::default();
    let member = paged("two", &requests, |_, cursor| match cursor {
        None => Page::of(&["first".to_owned()], Some("again")),
        Some(_) => Page::of(&["second".to_owned()], Some("again")),
    });
    let gateway = endpoint(member).await;
    let client = McpClient::builder().server(&gateway);
    assert_eq!(names(&client).await, ["one__greet", "two__first", "two__second"]);
    assert_eq!(requests.load(Ordering::Relaxed), 2);
    gateway.close().await;
}

/// Each page arrives soon, but all pages together take longer than `list_wait`.
#[tokio::test(start_paused = true)]
async fn slow_endless_list_is_late_and_does_not_delay_others() {
    let requests = Arc::<AtomicUsize>::default();
    let member = paged("two", &requests, |_, cursor| Page { delay: LIST_WAIT, ..endless(cursor) });
    let gateway = endpoint(member).await;
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        let began = Instant::now();
        assert_eq!(names(&client).await, ["one__greet"]);
        assert_works(&client, "one__greet", "Hello!").await;
        assert!(began.elapsed() <= LIST_WAIT + Duration::from_millis(100), "{:?}", began.elapsed());
    }
    let client = McpClient::builder().server(&gateway);
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let mut changes = client.listen(filter).await.unwrap();
    let change = timeout(Duration::from_secs(70), changes.next()).await.unwrap();
    assert_eq!(change, Some(ServerNotification::ToolsListChanged));
    assert_eq!(names(&client).await.len(), 1 + 64 * 50);
    gateway.close().await;
}

fn pair(version: usize) -> [Vec<String>; 2] {
    [1, 2].map(|page| vec![format!("page-{page}-of-version-{version}")])
}

/// The list changes between its two pages, so the first attempt gets pages of different versions.
#[tokio::test]
async fn list_that_changes_between_two_pages_contains_only_the_new_version() {
    for is_cursor_refused in [false, true] {
        let requests = Arc::<AtomicUsize>::default();
        let member = paged("two", &requests, move |number, cursor| match (number, cursor) {
            (1, _) => Page::of(&pair(1)[0], Some("next")),
            (2, _) if is_cursor_refused => Page { answer: Err(-32602), ..Page::of(&[], None) },
            (2, _) => Page { has_changed: true, ..Page::of(&pair(2)[1], None) },
            (_, None) => Page::of(&pair(2)[0], Some("next")),
            (_, Some(_)) => Page::of(&pair(2)[1], None),
        });
        let gateway = endpoint(member).await;
        let client = McpClient::builder().server(&gateway);
        let expected = ["one__greet", "two__page-1-of-version-2", "two__page-2-of-version-2"];
        assert_eq!(names(&client).await, expected, "{is_cursor_refused}");
        assert_works(&client, "two__page-1-of-version-2", "page-1-of-version-2").await;
        gateway.close().await;
    }
}

/// Each request for a page changes the list.
#[tokio::test]
async fn list_that_changes_all_the_time_still_arrives() {
    let requests = Arc::<AtomicUsize>::default();
    let member = paged("two", &requests, |_, cursor| {
        let page = match cursor {
            None => Page::of(&["first".to_owned()], Some("next")),
            Some(_) => Page::of(&["second".to_owned()], None),
        };
        Page { has_changed: true, ..page }
    });
    let gateway = endpoint(member).await;
    for era in ERAS {
        let client = McpClient::builder().era(era).server(&gateway);
        let before = requests.load(Ordering::Relaxed);
        assert_eq!(names(&client).await, ["one__greet", "two__first", "two__second"]);
        // Three attempts with two pages each.
        assert!(requests.load(Ordering::Relaxed) <= before + 6, "{requests:?}");
        assert_works(&client, "one__greet", "Hello!").await;
        assert_works(&client, "two__second", "second").await;
    }
    gateway.close().await;
}
