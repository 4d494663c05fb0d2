//! OTLP over HTTP with Protocol Buffers.

use thruway_client::{Client, ClientConfig};
use thruway_net::Clock;
use thruway_telemetry::{ExportOutcome, rejected_spans};

use super::collector_error::{CollectorError, CollectorResponse, CollectorStatus, retry_after};
use crate::config::CollectorConfig;

/// A collector that accepts OTLP over HTTP.
pub(super) struct HttpCollector {
    client: Client,
    config: CollectorConfig,
}

impl HttpCollector {
    pub(super) fn new(config: &CollectorConfig) -> Self {
        let settings = ClientConfig { tls: config.connector.clone(), ..ClientConfig::default() };
        Self { client: Client::with_config(settings), config: config.clone() }
    }

    pub(super) async fn send(&self, message: Vec<u8>) -> Result<CollectorResponse, CollectorError> {
        let request = self
            .client
            .post(self.config.url.as_str())
            .field("Content-Type", "application/x-protobuf")
            .field("User-Agent", USER_AGENT)
            .field_lines(&self.config.headers)
            .content(message)
            // A second copy of a span has the same id, so the collector can ignore it.
            .idempotent(true);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let after = response.field("retry-after");
        let after = after.and_then(|value| retry_after(value.as_str()?, Clock::system().time_of_day()));
        // An unread body would close the connection.
        let body = response.collect(BODY_BYTES_MAX).await;
        let outcome = match ExportOutcome::of_http(status, after) {
            ExportOutcome::Accepted { .. } => {
                ExportOutcome::Accepted { rejected: body.map_or(0, |body| rejected_spans(&body)) }
            }
            outcome => outcome,
        };
        Ok(CollectorResponse { outcome, status: CollectorStatus::Http(status) })
    }
}

/// The header `User-Agent` of requests to collectors.
pub(super) const USER_AGENT: &str = concat!("thruway/", env!("CARGO_PKG_VERSION"));

/// Maximum size of a response body. Bodies of collectors contain at most an error message.
const BODY_BYTES_MAX: usize = 64 << 10;
