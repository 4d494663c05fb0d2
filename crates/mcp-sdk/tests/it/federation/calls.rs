//! Statistics of the calls of members and tools.

use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{McpClient, McpGateway, McpServer, MemberCalls, MemberState};

use super::sites::{ERAS, of_era, options, wait_for, with_options};
use crate::bridge::sites::clients;
use crate::client::sites::Site;
use crate::fixtures::server;

fn calls_of(gateway: &McpGateway, member: usize) -> MemberCalls {
    gateway.members().swap_remove(member).calls
}

async fn call_everything(client: &McpClient) {
    client.list_tools().await.unwrap();
    client.call_tool("far__echo", json!({"message": "a"})).await.unwrap();
    client.call_tool("far__fail", json!({})).await.unwrap();
    client.read_resource("test://text").await.unwrap();
    for unknown in ["far__unknown", "unknown__tool"] {
        client.call_tool(unknown, json!({})).await.unwrap_err();
    }
}

#[tokio::test]
async fn calls_are_counted_by_member_and_tool() {
    for far in ERAS {
        let other = McpServer::new("other", "1.0").tool(Tool::new("echo"), || "other");
        let gateway =
            with_options(options(far), [of_era("far", &server(), far), of_era("other", &other, far)]);
        let near = Site::new(&gateway);
        wait_for(&gateway, "far", MemberState::Connected).await;
        let clients = clients(&gateway, &near, |builder| builder);
        let count = u64::try_from(clients.len()).unwrap();
        for (_, client) in clients {
            call_everything(&client).await;
            client.close().await;
        }
        let calls = calls_of(&gateway, 0);
        assert_eq!((calls.all.calls, calls.all.errors), (4 * count, 2 * count), "{far:?}");
        assert_eq!(calls.all.buckets.iter().sum::<u64>(), 4 * count, "{far:?}");
        assert!(calls.tools.iter().all(|(_, tool)| tool.buckets.iter().sum::<u64>() == count), "{far:?}");
        assert!(calls.all.duration > Duration::ZERO);
        let tools: Vec<_> =
            calls.tools.iter().map(|(tool, calls)| (&**tool, calls.calls, calls.errors)).collect();
        assert_eq!(tools, [("far__echo", count, 0), ("far__fail", count, count)], "{far:?}");
        assert_eq!((calls.other_tools.calls, calls.other_tools.errors), (count, count), "{far:?}");
        assert_eq!(calls_of(&gateway, 1).all.calls, 0, "{far:?}");
        gateway.close().await;
    }
}
