//! Tests of a gateway with the smallest config.

use crate::client::get;
use crate::process::Thruway;

/// The smallest gateway config, as shown in its example.
const EXAMPLE: &str = include_str!("../../../daemon/examples/gateway.toml");

#[test]
fn gateway_example_forwards_to_each_server() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = EXAMPLE.replace("127.0.0.1:8080", "127.0.0.1:0");
    let mut servers = Vec::new();
    for address in ["127.0.0.1:9001", "127.0.0.1:9002"] {
        let mut server = Thruway::demo(&[]);
        config = config.replace(address, &server.authority());
        servers.push(server);
    }
    let mut gateway = Thruway::serve(directory.path(), &config);
    let address = gateway.address();
    for _ in 0..4 {
        assert_eq!(get(&address, "/plaintext").text(), "Hello, World!");
    }
    for server in servers {
        let ended = server.terminate();
        assert!(ended.stderr.contains("connections_total=1"), "each server gets requests: {}", ended.stderr);
    }
}
