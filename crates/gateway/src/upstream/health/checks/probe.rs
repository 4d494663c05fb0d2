//! One health check of one server.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_client::http2::Http2Config;
use thruway_client::{
    Config, ConnectError, Connection, Error, ReadBuffers, RequestToSend, ResponseEvent, UpstreamAddr,
    UpstreamStream, connect, http2,
};
use thruway_http1::BodyLength;
use thruway_message::Method;
use thruway_net::{Clock, ProxyHeader, ProxyVersion};
use thruway_server::StatusCode;
use tokio::time::timeout;

use super::config::{CheckConfig, CheckKind};
use crate::upstream::address::ServerAddr;
use crate::upstream::config::UpstreamTls;
use crate::upstream::connections::connect::{connect_with_proxy_header, secure_as, uses_http2};
use crate::upstream::connections::exchange::Exchange;
use crate::upstream::health::status_range::StatusRange;

/// Reason why a health check failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProbeFailure {
    /// The gateway could not connect to the server.
    Connect(ConnectError),
    /// The response body does not contain the expected text.
    Content,
    /// The server sent no response, or an invalid response.
    Exchange(Error),
    /// The response has a status that the config does not accept.
    Status(StatusCode, Vec<StatusRange>),
    /// The health check timed out.
    TimedOut,
}

/// Target and settings of a health check.
pub(crate) struct ToProbe {
    pub(crate) check: CheckConfig,
    pub(crate) address: UpstreamAddr,
    /// Address or host name of the server in the config.
    pub(crate) configured: ServerAddr,
    /// Version of the PROXY protocol header that the server expects. `None` without PROXY protocol.
    pub(crate) proxy_protocol: Option<ProxyVersion>,
    /// HTTP/2 settings. `None` if health checks use HTTP/1.1.
    pub(crate) http2: Option<Http2Config>,
    /// `true` if the server chooses the HTTP version with ALPN.
    pub(crate) negotiates_http2: bool,
    /// TLS settings of the upstream, if any.
    pub(crate) tls: Option<UpstreamTls>,
}

/// Runs one health check of a server.
pub(crate) async fn probe(what: &ToProbe, clock: &Clock) -> Result<(), ProbeFailure> {
    timeout(what.check.timeout, ask(what, clock)).await.unwrap_or(Err(ProbeFailure::TimedOut))
}

async fn ask(what: &ToProbe, clock: &Clock) -> Result<(), ProbeFailure> {
    let stream = what.connect().await.map_err(ProbeFailure::Connect)?;
    let CheckKind::Http { path, host, statuses, content } = &what.check.kind else { return Ok(()) };
    let host = host.clone().unwrap_or_else(|| what.configured.host());
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: thruway-check\r\nConnection: close\r\n\r\n"
    );
    let mut exchange = what.start(stream, request.as_bytes(), clock).await.map_err(ProbeFailure::Exchange)?;
    let expected = Expected { statuses, content: content.as_deref() };
    let (buffers, mut read) = (ReadBuffers::default(), Vec::new());
    poll_fn(|cx| expected.poll(cx, clock.now(), &mut exchange, &buffers, &mut read)).await
}

impl ToProbe {
    async fn connect(&self) -> Result<UpstreamStream, ConnectError> {
        let (address, within) = (&self.address, self.check.timeout);
        let stream = match self.proxy_protocol {
            None => connect(address, within).await?,
            // The PROXY header of a health check names no client, because a health check has no client.
            Some(version) => connect_with_proxy_header(address, ProxyHeader::Local, version, within).await?,
        };
        match &self.tls {
            None => Ok(stream.into()),
            Some(tls) => secure_as(stream, tls, &self.configured, None, within).await,
        }
    }

    async fn start(&self, stream: UpstreamStream, request: &[u8], clock: &Clock) -> Result<Exchange, Error> {
        let (config, now) = (Config::default(), clock.now());
        let to_send = RequestToSend::new(Method::Get, BodyLength::NONE);
        let write = |output: &mut Vec<u8>| output.extend_from_slice(request);
        let is_http2 = !self.negotiates_http2 || uses_http2(&stream);
        let Some(http2) = self.http2.as_ref().filter(|_| is_http2) else {
            return Ok(Exchange::Http1(Connection::new(stream, &config).start(to_send, now, write)));
        };
        let (mut connection, driver) = http2::Connection::new(stream, &config, http2, clock, None).await?;
        // The driver task moves the bytes of the HTTP/2 connection. It ends after the exchange.
        drop(tokio::task::spawn_local(driver));
        connection.start(to_send, now, write).map(Box::new).map(Exchange::Http2)
    }
}

/// Conditions that the response of a healthy server meets.
struct Expected<'c> {
    statuses: &'c [StatusRange],
    content: Option<&'c str>,
}

impl Expected<'_> {
    /// Reads the response until the result of the check is known. `read` contains the body bytes that have
    /// arrived so far.
    fn poll(
        &self,
        cx: &mut Context<'_>,
        now: Duration,
        exchange: &mut Exchange,
        buffers: &ReadBuffers,
        read: &mut Vec<u8>,
    ) -> Poll<Result<(), ProbeFailure>> {
        let mut poll = exchange.begin_poll(buffers, usize::MAX);
        loop {
            match ready!(poll.poll_event(cx, now)).map_err(ProbeFailure::Exchange)? {
                ResponseEvent::Final(head, _) => {
                    if !self.statuses.iter().any(|range| range.contains(head.status)) {
                        return Poll::Ready(Err(ProbeFailure::Status(head.status, self.statuses.to_vec())));
                    }
                    if self.content.is_none() {
                        return Poll::Ready(Ok(()));
                    }
                }
                ResponseEvent::Content(bytes) => {
                    read.extend_from_slice(bytes);
                    if self.is_found(read) {
                        return Poll::Ready(Ok(()));
                    }
                    if read.len() > CONTENT_BYTES_MAX {
                        return Poll::Ready(Err(ProbeFailure::Content));
                    }
                }
                ResponseEvent::End(_) => return Poll::Ready(Err(ProbeFailure::Content)),
                ResponseEvent::Interim(_) | ResponseEvent::Tunnel(_) => {}
            }
        }
    }

    fn is_found(&self, read: &[u8]) -> bool {
        let text = self.content.unwrap_or_default().as_bytes();
        text.is_empty() || read.windows(text.len()).any(|window| window == text)
    }
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "connect failed: {error}"),
            Self::Content => f.write_str("the body does not contain the expected text"),
            Self::Exchange(error) => error.fmt(f),
            Self::Status(status, expected) => {
                let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
                write!(f, "status {status}, expected {}", expected.join(" or "))
            }
            Self::TimedOut => f.write_str("the server did not respond in time"),
        }
    }
}

const CONTENT_BYTES_MAX: usize = 64 << 10;
