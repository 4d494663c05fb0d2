//! OTLP over gRPC: one unary call for each batch, over an HTTP/2 connection.

use std::future::poll_fn;
use std::io::Write as _;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use thruway_client::http2::{Connection, Exchange, Http2Config};
use thruway_client::{
    Config, RequestToSend, ResponseEvent, UpstreamStream, connect_any, resolve, secure_for,
};
use thruway_http1::BodyLength;
use thruway_message::{FieldLines, Method};
use thruway_net::tls::{TlsFailure, TlsServerName};
use thruway_net::{Clock, spawn};
use thruway_telemetry::{ExportOutcome, rejected_items, retry_delay};

use super::collector_error::{CollectorError, CollectorResponse, CollectorStatus};
use super::http::{Signal, USER_AGENT};
use crate::config::CollectorConfig;

/// A collector that accepts OTLP over gRPC.
pub(super) struct GrpcCollector {
    config: CollectorConfig,
    signal: Signal,
    connection: Option<Connection>,
}

/// The received part of a response.
#[derive(Default)]
struct GrpcResponse {
    http_status: u16,
    status: Option<u32>,
    retry_after: Option<Duration>,
    /// `true` if the server forbids a retry: `grpc-retry-pushback-ms` is negative or not a number.
    forbids_retry: bool,
    body: Vec<u8>,
}

impl GrpcCollector {
    pub(super) fn new(config: &CollectorConfig, signal: Signal) -> Self {
        Self { config: config.clone(), signal, connection: None }
    }

    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    pub(super) async fn send(&mut self, frame: Bytes) -> Result<CollectorResponse, CollectorError> {
        let outcome = self.call(frame).await;
        if outcome.is_err() {
            self.disconnect();
        }
        let response = outcome?;
        Ok(CollectorResponse { outcome: response.outcome(), status: response.status() })
    }

    async fn call(&mut self, frame: Bytes) -> Result<GrpcResponse, CollectorError> {
        if self.connection.as_mut().is_none_or(Connection::is_over) {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(open(&self.config).await?),
        };
        let request = RequestToSend::new(Method::Post, BodyLength::Bytes(frame.len() as u64));
        let (config, path) = (&self.config, self.signal.grpc_path());
        let exchange =
            connection.start(request, now(), |head| write_head(head, config, path, frame.len()))?;
        finish_call(exchange, frame).await
    }
}

/// Opens a connection to the collector.
async fn open(config: &CollectorConfig) -> Result<Connection, CollectorError> {
    let url = &config.url;
    let addresses = resolve(url.host(), url.port()).await.map_err(CollectorError::NameNotResolved)?;
    let connected = connect_any(&addresses, CONNECT_TIMEOUT).await;
    let (stream, _) = connected.map_err(CollectorError::NotConnected)?;
    let stream: UpstreamStream = match &config.connector {
        None => stream.into(),
        Some(connector) => {
            let name = TlsServerName::new(url.host()).map_err(|_| TlsFailure::CertificateForOtherName)?;
            let secured = secure_for(stream, connector, &name, Some(&[b"h2"]), CONNECT_TIMEOUT).await;
            secured.map_err(CollectorError::NotSecured)?
        }
    };
    let (clock, http2) = (Clock::system(), Http2Config::default());
    let (connection, driver) = Connection::new(stream, &Config::default(), &http2, &clock, None).await?;
    spawn(driver);
    Ok(connection)
}

/// Writes the request head in HTTP/1.1 format, which the connection converts.
fn write_head(head: &mut Vec<u8>, config: &CollectorConfig, path: &str, length: usize) {
    // Writing to a vector cannot fail.
    let _ = write!(
        head,
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/grpc\r\n\
         User-Agent: {USER_AGENT}\r\nContent-Length: {length}\r\n",
        config.url.authority()
    );
    head.extend_from_slice(config.headers.bytes());
    head.extend_from_slice(b"\r\n");
}

/// Sends the message of a call, and reads the response.
async fn finish_call(mut exchange: Exchange, mut frame: Bytes) -> Result<GrpcResponse, CollectorError> {
    let mut response = GrpcResponse::default();
    poll_fn(|cx| poll_call(&mut exchange, &mut frame, &mut response, cx)).await?;
    Ok(response)
}

fn poll_call(
    exchange: &mut Exchange,
    frame: &mut Bytes,
    response: &mut GrpcResponse,
    cx: &mut Context<'_>,
) -> Poll<Result<(), CollectorError>> {
    while !frame.is_empty()
        && let Poll::Ready(sent) = exchange.poll_send(cx, now(), frame)
    {
        sent?;
    }
    loop {
        match std::task::ready!(exchange.poll_event(cx, now()))? {
            ResponseEvent::Final(head, _) => {
                response.http_status = head.status.as_u16();
                response.read_fields(head.field_lines);
            }
            ResponseEvent::Content(bytes) if response.body.len() + bytes.len() <= BODY_BYTES_MAX => {
                response.body.extend_from_slice(bytes);
            }
            ResponseEvent::End(trailers) => {
                response.read_fields(trailers);
                return Poll::Ready(Ok(()));
            }
            ResponseEvent::Content(_) | ResponseEvent::Interim(_) | ResponseEvent::Tunnel(_) => {}
        }
        if exchange.is_complete() {
            return Poll::Ready(Ok(()));
        }
    }
}

impl GrpcResponse {
    /// Reads the status of the call. It is in the trailers, or in the head if there is no body.
    fn read_fields(&mut self, fields: FieldLines<'_>) {
        let number = |name: &str| fields.field(name)?.as_str()?.trim().parse::<u64>().ok();
        self.status = number("grpc-status").and_then(|status| status.try_into().ok()).or(self.status);
        let pushback = number(PUSHBACK).map(Duration::from_millis);
        self.forbids_retry |= fields.field(PUSHBACK).is_some() && pushback.is_none();
        let details = fields.field("grpc-status-details-bin").and_then(|details| details.as_str());
        let retry_info = details.and_then(|details| retry_delay(&BINARY.decode(details).ok()?));
        self.retry_after = retry_info.or(pushback).or(self.retry_after);
    }

    fn status(&self) -> CollectorStatus {
        self.status.map_or(CollectorStatus::NotGrpc(self.http_status), CollectorStatus::Grpc)
    }

    fn outcome(&self) -> ExportOutcome {
        match self.status {
            // A proxy has responded in place of the gRPC server.
            None => match ExportOutcome::of_http(self.http_status, self.retry_after) {
                ExportOutcome::Accepted { .. } => ExportOutcome::Refused,
                outcome => outcome,
            },
            Some(0) => {
                let message = self.body.get(GRPC_PREFIX_BYTES..).unwrap_or_default();
                ExportOutcome::Accepted { rejected: rejected_items(message) }
            }
            Some(_) if self.forbids_retry => ExportOutcome::Refused,
            Some(status) => ExportOutcome::of_grpc(status, self.retry_after),
        }
    }
}

fn now() -> Duration {
    Clock::system().now()
}

/// Field with the delay of a retry in milliseconds.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Base64 of binary fields. Senders may omit the padding.
const BINARY: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum time to connect, and maximum time of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Length of the prefix of a gRPC message.
const GRPC_PREFIX_BYTES: usize = 5;

/// Maximum size of a response body that is kept.
const BODY_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use thruway_message::{FieldLinesBuf, FieldSection};

    use super::*;

    fn outcome(http_status: u16, status: Option<u32>, body: &[u8]) -> ExportOutcome {
        GrpcResponse { http_status, status, body: body.to_vec(), ..GrpcResponse::default() }.outcome()
    }

    #[test]
    fn server_delays_or_forbids_a_retry() {
        let outcome = |pushback: &str| {
            let mut fields = FieldLinesBuf::new();
            fields.append("grpc-status", "14").unwrap();
            fields.append(PUSHBACK, pushback).unwrap();
            let mut section = FieldSection::with_capacity(64, 2);
            fields.iter().for_each(|line| section.append(line));
            let mut response = GrpcResponse { http_status: 200, ..GrpcResponse::default() };
            response.read_fields(section.lines());
            response.outcome()
        };
        let delayed = ExportOutcome::Unavailable { retry_after: Some(Duration::from_millis(250)) };
        assert_eq!(outcome("250"), delayed);
        assert_eq!(["-1", "soon", ""].map(outcome), [ExportOutcome::Refused; 3]);
    }

    #[test]
    fn outcome_follows_the_grpc_status() {
        assert_eq!(outcome(200, Some(0), b""), ExportOutcome::Accepted { rejected: 0 });
        let partial = [0, 0, 0, 0, 4, 0x0a, 2, 0x08, 7];
        assert_eq!(outcome(200, Some(0), &partial), ExportOutcome::Accepted { rejected: 7 });
        assert_eq!(outcome(200, Some(14), b""), ExportOutcome::Unavailable { retry_after: None });
        assert_eq!(outcome(200, Some(3), b""), ExportOutcome::Refused);
    }

    #[test]
    fn response_without_a_grpc_status_is_a_failure() {
        assert_eq!(outcome(200, None, b"hello"), ExportOutcome::Refused);
        assert_eq!(outcome(503, None, b""), ExportOutcome::Unavailable { retry_after: None });
        assert_eq!(outcome(404, None, b""), ExportOutcome::Refused);
    }
}
