//! Opens connections to servers: over TCP or a Unix socket, with a PROXY header and TLS if configured.

use std::time::Duration;

use thruway_client::{
    ConnectError, UpstreamAddr, UpstreamStream, connect_and_write, connect_to_speak_first, secure_for,
};
use thruway_net::tls::TlsFailure;
use thruway_net::{OwnConnection, ProxyHeader, ProxyVersion, Stream};

use super::limits::Permit;
use crate::upstream::address::ServerAddr;
use crate::upstream::config::UpstreamTls;
use crate::upstream::server_slot::ServerSlot;

/// Opens a connection to the server of a slot, with TLS if configured. If `protocols` is set, it replaces the
/// ALPN protocols of the config.
pub(crate) async fn connect_secured(
    slot: &ServerSlot,
    protocols: Option<&[&[u8]]>,
) -> Result<UpstreamStream, ConnectError> {
    let stream = connect_for(slot, Protocol::Http).await?;
    slot.note_connected();
    let config = &slot.upstream.config;
    match &config.tls {
        None => Ok(stream.into()),
        Some(tls) => {
            let configured = &config.servers[slot.server.origin].address;
            secure_as(stream, tls, configured, protocols, config.connect_timeout).await
        }
    }
}

/// Performs the TLS handshake on `stream`. `configured` is the server's address in the config.
pub(crate) async fn secure_as(
    stream: Stream,
    tls: &UpstreamTls,
    configured: &ServerAddr,
    protocols: Option<&[&[u8]]>,
    within: Duration,
) -> Result<UpstreamStream, ConnectError> {
    let Some(name) = tls.name_of(configured) else {
        return Err(ConnectError::Tls(TlsFailure::CertificateForOtherName));
    };
    secure_for(stream, &tls.connector, &name, protocols, within).await
}

/// Opens a connection for a TCP stream to the server of a slot. Sends a PROXY header if configured.
pub(crate) async fn connect(slot: &ServerSlot) -> Result<Stream, ConnectError> {
    connect_for(slot, Protocol::Other).await
}

/// The protocol of a new connection. In HTTP and TLS, the client speaks first. In other protocols, the server
/// may speak first.
enum Protocol {
    Http,
    Other,
}

async fn connect_for(slot: &ServerSlot, protocol: Protocol) -> Result<Stream, ConnectError> {
    let (address, config) = (&slot.server.address, &slot.upstream.config);
    let permit = permit_to_connect(slot).await?;
    let stream = match (slot.proxied.as_deref().zip(config.proxy_protocol), protocol) {
        (None, Protocol::Http) => connect_to_speak_first(address, config.connect_timeout).await?,
        (None, Protocol::Other) => thruway_client::connect(address, config.connect_timeout).await?,
        (Some((header, version)), _) => {
            connect_with_proxy_header(address, *header, version, config.connect_timeout).await?
        }
    };
    let own = OwnConnection::of(&stream);
    slot.server.set_own_listener(own.is_some());
    stream.hold((permit, own));
    Ok(stream)
}

/// Opens a connection and sends a PROXY protocol header.
pub(crate) async fn connect_with_proxy_header(
    address: &UpstreamAddr,
    header: ProxyHeader,
    version: ProxyVersion,
    within: Duration,
) -> Result<Stream, ConnectError> {
    let mut first = Vec::new();
    header.write(version, &mut first);
    connect_and_write(address, &first, within).await
}

/// Returns the permit to open a connection. Waits for the permit if connections are limited.
async fn permit_to_connect(slot: &ServerSlot) -> Result<Permit, ConnectError> {
    if let Some(permit) = slot.permit.take() {
        return Ok(permit);
    }
    let (upstream, worker) = (&slot.upstream, &slot.worker);
    if !upstream.limits_connections() {
        return Ok(upstream.connections.count(worker));
    }
    let attempt = || upstream.permit(worker);
    let permit = upstream.connections.wait_for_connection(worker, upstream.config.queue, None, attempt).await;
    permit.map_err(|_| ConnectError::ConnectionLimit)
}

/// Returns `true` if the server has chosen HTTP/2 with ALPN (RFC 9113 §3.2).
pub(crate) fn uses_http2(stream: &UpstreamStream) -> bool {
    stream.alpn() == Some(b"h2")
}
