//! `thruway bench mcp --subscribers`: how long it takes until everybody was told.

use std::sync::Arc;

use serde_json::json;
use thruway_bench::{
    Endpoint, FanOut, Load, LoadTls, McpRequests, McpServerFacts, Origin, Report, SessionUse, StopFlag,
};
use thruway_client::UpstreamAddr;

use super::args::McpArgs;
use crate::bench::args::LoadArgs;
use crate::bench::output::{failure, not_planned};
use crate::bench::progress::ProgressLine;
use crate::config::Failure;

/// Publishes at a server that says this of itself and is at these addresses.
pub(super) fn run(
    args: &McpArgs,
    facts: &McpServerFacts,
    endpoint: &Endpoint,
    (addresses, tls): (Vec<UpstreamAddr>, Option<LoadTls>),
    stop: &StopFlag,
) -> Result<Report, Failure> {
    let (Some(subscribers), Some(uri), Some(url)) = (args.subscribers, &args.uri, &args.target) else {
        return Err(Failure::new("there is nobody to tell"));
    };
    if matches!(endpoint.url.origin, Origin::Unix(_)) {
        return Err(Failure::new("subscribers come over TCP").with_hint("give an `http://HOST:PORT/PATH`"));
    }
    let publication = args.operations().call(facts);
    let publication = publication.map_err(|error| failure(&error, Some(error.hint())))?;
    let fan_out = FanOut {
        url: url.clone(),
        headers: endpoint.headers.clone(),
        revision: facts.revision,
        subscribers: subscribers as usize,
        uri: uri.clone(),
        tool: publication.params["name"].as_str().unwrap_or_default().to_owned(),
        arguments: publication.params.get("arguments").cloned().unwrap_or_else(|| json!({})),
    };
    // In the legacy era, a subscriber has one connection for its session and one for what it is told.
    let connections = 2 * (subscribers + 1);
    let options = LoadArgs { connections, ..args.load() }.options();
    options.check().map_err(not_planned)?;
    let requests = McpRequests::new(facts.revision, SessionUse::None, &[publication], Some(endpoint));
    let requests = requests.map_err(Failure::new)?;
    let load = options.load(Arc::new(requests), addresses, stop);
    let load = Load { server: args.report.pid, tls, connections: subscribers as usize + 1, ..load };
    let line = ProgressLine::new("");
    let outcome = fan_out.run(&load, &mut |progress| line.show(&load, progress));
    line.finish();
    let name =
        format!("{url} (MCP {}: {} tells {subscribers} subscribers of {uri})", facts.revision, fan_out.tool);
    let outcome = outcome.map_err(|error| failure(&error, error.hint(&fan_out)))?;
    Ok(Report::new(name, &load, &outcome))
}
