//! All transports between a client and a Thruway server through a bridge.

use thruway_mcp_sdk::{
    Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder, McpClientOptions, McpServer,
};

use crate::client::sites::Site;

/// Eras that the bridge uses toward the server.
pub(super) const FAR_ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

/// Eras that clients use toward the bridge.
pub(super) const NEAR_ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

pub(super) fn options(era: EraChoice) -> BridgeOptions {
    let client = McpClientOptions { era, ..McpClientOptions::default() };
    BridgeOptions { client, ..BridgeOptions::default() }
}

/// A bridge to `server` in the same process. All messages use one stream.
pub(super) async fn in_memory(server: &McpServer, options: BridgeOptions) -> Bridge {
    let server = server.clone();
    Bridge::connect(options, move |builder| Ok(builder.server(&server))).await.unwrap()
}

/// A bridge to the server at `url`.
pub(super) async fn over_http(url: &str, options: BridgeOptions) -> Bridge {
    let url = url.to_owned();
    Bridge::connect(options, move |builder| Ok(builder.http(&url))).await.unwrap()
}

/// Returns bridges of all kinds to `server`, which `site` serves, each with a description.
pub(super) async fn bridges(server: &McpServer, site: &Site) -> Vec<(String, Bridge)> {
    let mut bridges = Vec::new();
    for far in FAR_ERAS {
        bridges.push((format!("to {far:?} in memory"), in_memory(server, options(far)).await));
        bridges.push((format!("to {far:?} over HTTP"), over_http(&site.url, options(far)).await));
    }
    bridges
}

/// Returns clients of a bridge, over HTTP and in memory.
pub(crate) fn clients(
    bridge: &McpServer,
    site: &Site,
    prepare: impl Fn(McpClientBuilder) -> McpClientBuilder,
) -> Vec<(String, McpClient)> {
    let mut clients = Vec::new();
    for near in NEAR_ERAS {
        let builder = || prepare(McpClient::builder().era(near));
        clients.push((format!("{near:?} in memory"), builder().server(bridge)));
        clients.push((format!("{near:?} over HTTP"), builder().http(&site.url)));
    }
    clients
}
