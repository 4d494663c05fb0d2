//! Lists and their pages.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{CacheHint, CacheScope, Implementation, Tool};
use thruway_mcp_sdk::{McpServer, McpServerOptions};

use crate::fixtures::Nothing;
use crate::http::{Message, Site};

fn numbered(page_entries: usize, count: usize) -> McpServer {
    let options = McpServerOptions { page_entries, ..McpServerOptions::default() };
    let server = McpServer::with_options(Implementation::new("lists", "1"), options);
    (0..count).fold(server, |server, n| server.tool(Tool::new(format!("tool-{n}")), |_: Nothing| ""))
}

/// Returns the names on each page.
async fn pages(server: &McpServer) -> Vec<Vec<String>> {
    let site = Site::new(server);
    let mut params = json!({});
    let mut pages = Vec::new();
    loop {
        let result = site.call("tools/list", params).await;
        let tools = result["tools"].as_array().unwrap();
        pages.push(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect());
        match &result["nextCursor"] {
            Value::Null => return pages,
            cursor => params = json!({"cursor": cursor}),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn concatenated_pages_are_the_whole_list() {
    for (page_entries, count, sizes) in
        [(3, 7, &[3, 3, 1][..]), (3, 6, &[3, 3]), (1000, 7, &[7]), (1, 2, &[1, 1]), (3, 0, &[0])]
    {
        let pages = pages(&numbered(page_entries, count)).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        let names: Vec<_> = (0..count).map(|n| format!("tool-{n}")).collect();
        assert_eq!(pages.concat(), names);
    }
}

#[tokio::test(start_paused = true)]
async fn page_size_zero_is_treated_as_one() {
    // Regression test: a page size of zero caused a division by zero.
    assert_eq!(pages(&numbered(0, 2)).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_cursors_are_rejected() {
    let site = Site::new(&numbered(3, 7));
    for cursor in ["", "0", "3", "01", "+1", "-1", "1 ", "x", "18446744073709551616", "1e0"] {
        let refused = site.refused(&Message::modern("tools/list", json!({"cursor": cursor}))).await;
        assert_eq!(refused, (200, -32602), "{cursor:?}");
    }
    assert_eq!(site.refused(&Message::modern("tools/list", json!({"cursor": 1}))).await, (400, -32602));
}

#[tokio::test(start_paused = true)]
async fn list_reflects_added_and_removed_tools() {
    let server = numbered(2, 3);
    assert_eq!(pages(&server).await, [vec!["tool-0", "tool-1"], vec!["tool-2"]]);
    assert!(server.remove_tool("tool-0"));
    server.add_tool(Tool::new("tool-2").with_title("again"), |_: Nothing| "").unwrap();
    server.add_tool(Tool::new("tool-3"), |_: Nothing| "").unwrap();
    assert_eq!(pages(&server).await, [vec!["tool-1", "tool-2"], vec!["tool-3"]]);
}

#[tokio::test(start_paused = true)]
async fn results_contain_configured_cache_ttl_and_scope() {
    let cache = CacheHint { ttl_ms: 60_000, cache_scope: CacheScope::Public };
    let options = McpServerOptions { cache, ..McpServerOptions::default() };
    let site = Site::new(&crate::fixtures::server_with(options));
    for (method, params) in [
        ("tools/list", json!({})),
        ("server/discover", json!({})),
        ("resources/read", json!({"uri": "test://text"})),
    ] {
        let result = site.call(method, params).await;
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(60_000), &json!("public")), "{method}");
    }
}
