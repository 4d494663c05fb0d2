//! The header fields that inform the upstream server about the client and the gateway: `X-Forwarded-*`,
//! `Forwarded` (RFC 7239) and `Via`.
//!
//! The gateway removes these headers from the requests of clients. If a trusted proxy sent the request, the
//! gateway keeps the existing entries and appends the address of this proxy.

use std::io::Write as _;

use thruway_message::{Authority, Version};
use thruway_net::{ClientAddr, IpText};
use thruway_server::{ProxyFields, Request};

use super::config::{ForwardConfig, ForwardedFields};

/// Writes the header fields about the client, its request and the gateway. `host` is the host in the request.
pub(super) fn write(lines: &mut Vec<u8>, request: &Request<'_>, host: &[u8], config: &ForwardConfig) {
    let fields = config.forwarded;
    if matches!(fields, ForwardedFields::XForwarded | ForwardedFields::Both) {
        write_x_forwarded(lines, request, host);
        if config.forwarded_port {
            // Writing to a vector cannot fail.
            let _ = write!(lines, "X-Forwarded-Port: {}\r\n", requested_port(request, host));
        }
    }
    if matches!(fields, ForwardedFields::Forwarded | ForwardedFields::Both) {
        write_forwarded(lines, request, host);
    }
    if config.via {
        write_via(lines, request.version());
    }
}

/// Writes the header `Via` with the HTTP version of the client's request (RFC 9110 §7.6.3).
fn write_via(lines: &mut Vec<u8>, received: Version) {
    lines.extend_from_slice(match received {
        Version::Http10 => b"Via: 1.0 thruway\r\n",
        Version::Http2 => b"Via: 2.0 thruway\r\n",
        _ => b"Via: 1.1 thruway\r\n",
    });
}

fn write_x_forwarded(lines: &mut Vec<u8>, request: &Request<'_>, host: &[u8]) {
    lines.extend_from_slice(b"X-Forwarded-For: ");
    match request.proxy_fields() {
        None => {}
        Some(ProxyFields::XForwarded) => write_chain(lines, request),
        Some(ProxyFields::Forwarded) => {
            if let Some(client) = client_behind(request) {
                write_client(lines, client);
                lines.extend_from_slice(b", ");
            }
        }
    }
    write_client(lines, request.connection().client);
    // The two schemes are constants, so that one copy writes the whole line.
    match request.scheme() {
        "http" => lines.extend_from_slice(b"\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: "),
        "https" => lines.extend_from_slice(b"\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: "),
        scheme => {
            lines.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
            lines.extend_from_slice(scheme.as_bytes());
            lines.extend_from_slice(b"\r\nX-Forwarded-Host: ");
        }
    }
    lines.extend_from_slice(requested_host(request, host));
    lines.extend_from_slice(b"\r\n");
}

fn write_forwarded(lines: &mut Vec<u8>, request: &Request<'_>, host: &[u8]) {
    lines.extend_from_slice(b"Forwarded: ");
    match request.proxy_fields() {
        None => {}
        Some(ProxyFields::Forwarded) => write_chain(lines, request),
        Some(ProxyFields::XForwarded) => {
            if let Some(client) = client_behind(request) {
                write_element(lines, client, request.scheme(), requested_host(request, host));
                lines.extend_from_slice(b", ");
            }
        }
    }
    let connection = request.connection();
    write_element(lines, connection.client, connection.scheme(), host);
    lines.extend_from_slice(b"\r\n");
}

/// Writes the entries from trusted proxies, with a comma after each entry.
fn write_chain(lines: &mut Vec<u8>, request: &Request<'_>) {
    for member in request.proxy_chain() {
        lines.extend_from_slice(member);
        lines.extend_from_slice(b", ");
    }
}

/// Returns the client address in the headers of a trusted proxy. Returns `None` if no trusted proxy sent a
/// client address.
fn client_behind(request: &Request<'_>) -> Option<ClientAddr> {
    let client = request.client();
    (client != request.connection().client).then_some(client)
}

/// Returns the host that the client requested. If a trusted proxy sent this host in its headers, returns the
/// host from the proxy. Otherwise, returns `host`.
fn requested_host<'a>(request: &Request<'a>, host: &'a [u8]) -> &'a [u8] {
    match request.proxy_fields() {
        None => host,
        Some(_) => request.host().as_bytes(),
    }
}

/// Returns the port that the client used. For a request from a trusted proxy, returns the port in the headers
/// of the proxy. For any other request, returns the port of the client's connection. If this port is unknown,
/// returns the port in the requested host, or the default port of the scheme.
fn requested_port(request: &Request<'_>, host: &[u8]) -> u16 {
    let known = match request.proxy_fields() {
        None => request.connection().destination.map(|destination| destination.port()),
        Some(ProxyFields::Forwarded) => None,
        Some(ProxyFields::XForwarded) => {
            request.field("x-forwarded-port").and_then(|said| said.as_str()?.trim().parse().ok())
        }
    };
    let of_host = || Authority::parse(requested_host(request, host)).ok()?.port();
    known.or_else(of_host).unwrap_or(if request.scheme() == "https" { 443 } else { 80 })
}

fn write_client(lines: &mut Vec<u8>, client: ClientAddr) {
    match client {
        ClientAddr::Tcp(address) => lines.extend_from_slice(IpText::from(address.ip()).as_bytes()),
        ClientAddr::Unix => lines.extend_from_slice(b"unix:"),
    }
}

fn write_element(lines: &mut Vec<u8>, client: ClientAddr, scheme: &str, host: &[u8]) {
    lines.extend_from_slice(b"for=");
    write_node(lines, client);
    for part in [b";proto=", scheme.as_bytes(), b";host=\"", host] {
        lines.extend_from_slice(part);
    }
    lines.push(b'"');
}

/// Writes the address of a client. Puts an IPv6 address in brackets and quotes (RFC 7239 §6).
fn write_node(lines: &mut Vec<u8>, client: ClientAddr) {
    match client {
        // Writing to a vector cannot fail.
        ClientAddr::Tcp(address) if address.is_ipv6() => drop(write!(lines, "\"[{}]\"", address.ip())),
        ClientAddr::Tcp(address) => lines.extend_from_slice(IpText::from(address.ip()).as_bytes()),
        ClientAddr::Unix => lines.extend_from_slice(b"unknown"),
    }
}
