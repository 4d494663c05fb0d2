//! Gateways with servers in the same process, or over HTTP.

use std::time::Duration;

use thruway_mcp_sdk::{
    BridgeOptions, EraChoice, McpClientOptions, McpGateway, McpGatewayBuilder, McpGatewayOptions, McpServer,
    Member, MemberState,
};

/// Eras that the gateway uses toward a member, and that clients use toward the gateway.
pub(super) const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

pub(super) fn in_memory(name: &str, server: &McpServer) -> Member {
    let server = server.clone();
    Member::new(name, move |builder| Ok(builder.server(&server)))
}

/// A member in the same process that uses only one era.
pub(super) fn of_era(name: &str, server: &McpServer, era: EraChoice) -> Member {
    let server = server.clone();
    Member::new(name, move |builder| Ok(builder.era(era).server(&server)))
}

pub(super) fn over_http(name: &str, url: &str) -> Member {
    let url = url.to_owned();
    Member::new(name, move |builder| Ok(builder.http(&url)))
}

pub(super) fn gateway(members: impl IntoIterator<Item = Member>) -> McpGateway {
    with_options(McpGatewayOptions::default(), members)
}

pub(super) fn with_options(
    options: McpGatewayOptions,
    members: impl IntoIterator<Item = Member>,
) -> McpGateway {
    let builder = McpGateway::builder("gateway", "1.0").options(options);
    members.into_iter().fold(builder, McpGatewayBuilder::member).build().unwrap()
}

/// Options of a gateway that uses `era` toward all members.
pub(super) fn options(era: EraChoice) -> McpGatewayOptions {
    let client = McpClientOptions { era, ..McpClientOptions::default() };
    let bridge = BridgeOptions { client, ..BridgeOptions::default() };
    McpGatewayOptions { bridge, ..McpGatewayOptions::default() }
}

/// Waits until the member has `state`.
pub(super) async fn wait_for(gateway: &McpGateway, member: &str, state: MemberState) {
    let reached = async {
        while !gateway.members().iter().any(|status| status.name == member && status.state == state) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // The first attempt to connect can take two minutes.
    let waited = tokio::time::timeout(Duration::from_mins(3), reached).await;
    waited.unwrap_or_else(|_| panic!("{member}: {:?}", gateway.members()));
}
