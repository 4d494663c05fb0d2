//! Tests of upstream servers that get the client's address by the PROXY protocol.

use std::io::Read;

use thruway_gateway::{CheckConfig, CheckKind, ProxyVersion, UpstreamConfig};
use thruway_net::ProxyHeader;

use super::script::Accepted;
use super::{Client, Script};
use crate::gateway::{Gateway, only};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn with_proxy_protocol(script: &Script, version: ProxyVersion) -> UpstreamConfig {
    UpstreamConfig { proxy_protocol: Some(version), ..only(script.address) }
}

/// Reads the header at the start of a connection and nothing after it.
fn header(accepted: &mut Accepted) -> ProxyHeader {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        accepted.0.read_exact(&mut byte).unwrap();
        bytes.extend(byte);
        if let Some((header, length)) = ProxyHeader::parse(&bytes).unwrap() {
            assert_eq!(length, bytes.len());
            return header;
        }
    }
}

fn expected(client: &Client, gateway: &Gateway) -> ProxyHeader {
    ProxyHeader::Tcp { source: client.socket().local_addr().unwrap(), destination: gateway.address }
}

#[test]
fn connection_with_proxy_header_serves_only_its_client() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let script = Script::start();
        let gateway = Gateway::start(with_proxy_protocol(&script, version));
        let mut one = Client::new(gateway.address);
        one.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut upstream_of_one = script.accept();
        assert_eq!(header(&mut upstream_of_one), expected(&one, &gateway));
        upstream_of_one.head();
        upstream_of_one.send(OK);
        assert_eq!(one.answer(false).status, 200);

        let mut two = Client::new(gateway.address);
        two.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut upstream_of_two = script.accept();
        assert_eq!(header(&mut upstream_of_two), expected(&two, &gateway));
        upstream_of_two.head();
        upstream_of_two.send(OK);
        assert_eq!(two.answer(false).status, 200);

        // Another request of the same client reuses the connection, without a second header.
        one.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(upstream_of_one.head().starts_with("GET /again "));
        upstream_of_one.send(OK);
        assert_eq!(one.answer(false).status, 200);
        assert!(script.has_no_connection());
    }
}

#[test]
fn health_checks_send_local_proxy_header() {
    for (version, kind) in
        [(ProxyVersion::V1, CheckKind::http("/health")), (ProxyVersion::V2, CheckKind::Tcp)]
    {
        let script = Script::start();
        let check = Some(CheckConfig::new(kind));
        let _gateway = Gateway::start(UpstreamConfig { check, ..with_proxy_protocol(&script, version) });
        assert_eq!(header(&mut script.accept()), ProxyHeader::Local);
    }
}
