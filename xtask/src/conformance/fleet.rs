//! A fleet: three gateways with one Redis, behind a gateway that sends each request to another one.

use std::path::Path;

use crate::server::{Server, free_addresses, without_scheme};
use crate::stop::Stop;

/// Starts a fleet in front of the MCP server at `url`. Returns its programs and its URL, without the path.
pub(super) fn start(
    program: &Path,
    url: &str,
    directory: &Path,
    stop: &Stop,
) -> anyhow::Result<(Vec<Server>, String)> {
    let [store, peers @ ..] = free_addresses::<4>()?;
    let mut servers = vec![Server::redis(store, directory, stop)?];
    let mut replicas = Vec::new();
    for (index, peer) in peers.iter().enumerate() {
        let config = include_str!("fleet.toml")
            .replace("{store}", &store.to_string())
            .replace("{peer}", &peer.to_string())
            .replace("{server}", without_scheme(url).trim_end_matches("/mcp"));
        let file = directory.join(format!("replica-{index}.toml"));
        let replica = Server::serve(program, &config, &file, stop)?;
        replicas.push(format!("\"{}\"", replica.address()));
        servers.push(replica);
    }
    let config = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nupstream = \"fleet\"\n\
         [upstreams.fleet]\nservers = [{}]\n",
        replicas.join(", ")
    );
    let front = Server::serve(program, &config, &directory.join("front.toml"), stop)?;
    let url = front.url();
    servers.push(front);
    Ok((servers, url))
}
