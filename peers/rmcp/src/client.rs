//! The client of the official SDK, which calls a tool repeatedly in the modern era. Its settings differ from
//! the SDK's defaults. It sets the SDK's limit of concurrent requests (default: 16) to the number of
//! concurrent calls. It reuses connections (default: one connection for each request).

use std::error::Error;
use std::sync::Arc;

use calls::{Load, MESSAGE};
use rmcp::model::{CallToolRequestParams, JsonObject, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::Value;

/// Calls the tool on a current-thread runtime.
pub(crate) fn run(load: &Load) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let config = StreamableHttpClientTransportConfig::with_uri(load.url.as_str())
            .max_concurrent_requests(load.in_flight);
        let http = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build()?;
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let lifecycle = ClientLifecycleMode::Discover { preferred_versions };
        let client = Arc::new(().serve_with_lifecycle(transport, lifecycle).await?);
        load.run(move || {
            let client = client.clone();
            async move { call(&client).await }
        })
        .await
    })
}

async fn call(client: &RunningService<RoleClient, ()>) -> Result<(), String> {
    let arguments = JsonObject::from_iter([("message".to_owned(), Value::from(MESSAGE))]);
    let called = client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await;
    let result = called.map_err(|error| error.to_string())?;
    match &result.structured_content {
        Some(content) if content["echo"] == MESSAGE => Ok(()),
        _ => Err(format!("unexpected result: {result:?}")),
    }
}
