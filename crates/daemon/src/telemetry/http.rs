//! OTLP over HTTP with Protocol Buffers, and the kinds of telemetry.

use std::time::Duration;

use bytes::Bytes;
use thruway_client::{Client, ClientConfig, Url};
use thruway_net::Clock;
use thruway_telemetry::{ExportOutcome, rejected_items};
use tokio::time::timeout;

use super::collector_error::{CollectorError, CollectorResponse, CollectorStatus, retry_after};
use crate::config::CollectorConfig;

/// A kind of telemetry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// Returns the name of the exported items in log lines.
    pub(super) const fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "values of metrics",
        }
    }

    /// Returns the URL for OTLP over HTTP.
    pub(super) const fn url(self, config: &CollectorConfig) -> &Url {
        match self {
            Self::Traces => &config.url,
            Self::Metrics => &config.metrics_url,
        }
    }

    /// Returns the path of the gRPC method.
    pub(super) const fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }
}

/// A collector that accepts OTLP over HTTP.
pub(super) struct HttpCollector {
    client: Client,
    config: CollectorConfig,
    signal: Signal,
}

impl HttpCollector {
    pub(super) fn new(config: &CollectorConfig, signal: Signal) -> Self {
        let settings = ClientConfig { tls: config.connector.clone(), ..ClientConfig::default() };
        Self { client: Client::with_config(settings), config: config.clone(), signal }
    }

    pub(super) async fn send(&self, message: Bytes) -> Result<CollectorResponse, CollectorError> {
        let request = self
            .client
            .post(self.signal.url(&self.config).as_str())
            .field("Content-Type", "application/x-protobuf")
            .field("User-Agent", USER_AGENT)
            .field_lines(&self.config.headers)
            .content(message)
            // A second copy of a span has the same id, and a second copy of a value has the same time. The
            // collector can ignore both.
            .idempotent(true);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let after = response.field("retry-after");
        let after = after.and_then(|value| retry_after(value.as_str()?, Clock::system().time_of_day()));
        // An unread body would close the connection. The status is final, so a body that never ends must not cause
        // another attempt.
        let body = timeout(BODY_TIME, response.collect(BODY_BYTES_MAX)).await;
        let outcome = match (ExportOutcome::of_http(status, after), body) {
            (ExportOutcome::Accepted { .. }, Ok(Ok(body))) => {
                ExportOutcome::Accepted { rejected: rejected_items(&body) }
            }
            (outcome, _) => outcome,
        };
        Ok(CollectorResponse { outcome, status: CollectorStatus::Http(status) })
    }
}

/// The header `User-Agent` of requests to collectors.
pub(super) const USER_AGENT: &str = concat!("thruway/", env!("CARGO_PKG_VERSION"));

/// Maximum size of a response body. Bodies of collectors contain at most an error message.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Maximum time between a response head and the end of its body.
const BODY_TIME: Duration = Duration::from_secs(1);
