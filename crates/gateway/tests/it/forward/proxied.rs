//! Tests of upstream servers that get the client's address by the PROXY protocol.

use std::io::Read;

use thruway_gateway::{CheckConfig, CheckKind, ProxyVersion, UpstreamConfig};
use thruway_net::ProxyHeader;

use super::script::Accepted;
use super::{Client, Script};
use crate::gateway::{Gateway, only};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn told(script: &Script, version: ProxyVersion) -> UpstreamConfig {
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
fn each_connection_tells_of_its_client_and_serves_no_other() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let script = Script::start();
        let gateway = Gateway::start(told(&script, version));
        let mut one = Client::new(gateway.address);
        one.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut of_one = script.accept();
        assert_eq!(header(&mut of_one), expected(&one, &gateway));
        of_one.head();
        of_one.send(OK);
        assert_eq!(one.answer(false).status, 200);

        let mut two = Client::new(gateway.address);
        two.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut of_two = script.accept();
        assert_eq!(header(&mut of_two), expected(&two, &gateway));
        of_two.head();
        of_two.send(OK);
        assert_eq!(two.answer(false).status, 200);

        // Another request of the same client reuses the connection, without a second header.
        one.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(of_one.head().starts_with("GET /again "));
        of_one.send(OK);
        assert_eq!(one.answer(false).status, 200);
        assert!(script.is_left_alone());
    }
}

#[test]
fn checks_say_that_they_are_nobodys() {
    for (version, kind) in
        [(ProxyVersion::V1, CheckKind::http("/health")), (ProxyVersion::V2, CheckKind::Tcp)]
    {
        let script = Script::start();
        let check = Some(CheckConfig::new(kind));
        let _gateway = Gateway::start(UpstreamConfig { check, ..told(&script, version) });
        assert_eq!(header(&mut script.accept()), ProxyHeader::Local);
    }
}
