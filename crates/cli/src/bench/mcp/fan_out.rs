//! `thruway bench mcp --subscribers`: how long it takes until everybody was told.

use std::sync::Arc;

use serde_json::json;
use thruway_bench::{
    Endpoint, FanOut, FanOutError, LoadTls, McpRequests, McpServerFacts, Origin, Report, SessionUse, StopFlag,
};
use thruway_client::UpstreamAddr;

use super::super::{load, progress::ProgressLine};
use super::args::McpArgs;
use super::operations;
use crate::bench::args::LoadArgs;
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
    let publication = operations::call(args, facts)?;
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
    let load_args = LoadArgs { connections, ..args.load() };
    load::check(&load_args)?;
    let requests = McpRequests::new(facts.revision, SessionUse::None, &[publication], Some(endpoint));
    let requests = requests.map_err(Failure::new)?;
    let load = load::assemble(Arc::new(requests), addresses, &load_args, stop);
    let load =
        thruway_bench::Load { server: args.report.pid, tls, connections: subscribers as usize + 1, ..load };
    let line = ProgressLine::new("");
    let outcome = fan_out.run(&load, &mut |progress| line.show(&load, progress));
    line.finish();
    let name =
        format!("{url} (MCP {}: {} tells {subscribers} subscribers of {uri})", facts.revision, fan_out.tool);
    Ok(Report::new(name, &load, &outcome.map_err(|error| not_told(&error, &fan_out))?))
}

/// Why nothing could be measured, and what to do about it.
fn not_told(error: &FanOutError, fan_out: &FanOut) -> Failure {
    let failure = Failure::new(error);
    match error {
        FanOutError::Publish(_) | FanOutError::ToolError => {
            failure.with_hint("is that a tool of the server, and are those its `--arguments`?")
        }
        FanOutError::Run(error) => load::unreachable(error),
        FanOutError::Subscribe(_) => failure.with_hint("does the server let that resource be subscribed to?"),
        FanOutError::Told(_) => {
            let hint =
                format!("does `{}` change `{}`?", fan_out.tool.escape_debug(), fan_out.uri.escape_debug());
            failure.with_hint(hint)
        }
    }
}
