//! Builds the members of MCP endpoints from their config.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use thruway_client::{Client, ClientConfig, Resolve, Resolving, UpstreamAddr};
use thruway_gateway::{HostRewrite, ServerAddr, ServerState, Upstream};
use thruway_mcp_sdk::{McpClient, McpClientBuilder, McpClientError, Member};

use super::access::server_access;
use crate::config::Config;
use crate::config::mcp::settings::{McpServerConfig, McpTarget};

/// Upstreams by their names.
pub(crate) type RunningUpstreams = BTreeMap<String, Arc<Upstream>>;

/// Returns the member for the MCP server with this name. The config was checked, so its upstream exists.
pub(super) fn member(
    config: &Config,
    name: &str,
    server: &McpServerConfig,
    upstreams: &RunningUpstreams,
) -> Member {
    let member = match &server.target {
        McpTarget::Upstream { upstream, path, headers, access } => {
            let upstream = upstreams[upstream].clone();
            let host = config.forwards.get(upstream.name()).map(|forward| &forward.host);
            let url = url(&upstream, host, path);
            let (client, headers) = (client(upstream), headers.clone());
            let access = access.as_deref().and_then(|access| server_access(access, &url));
            let member = Member::new(name, move |builder: McpClientBuilder| {
                let builder = builder.http_client(client.clone());
                let headers = headers.iter();
                let builder = headers.fold(builder, |builder, (name, value)| builder.field(name, value));
                Ok(builder.http(&url))
            });
            access.into_iter().fold(member, Member::access).servers_max(SESSIONS_MAX)
        }
        target @ McpTarget::Command { processes_max, .. } => {
            let target = target.clone();
            let member = Member::new(name, move |builder: McpClientBuilder| start(builder, &target));
            match processes_max {
                Some(processes) => member.servers_max(*processes),
                None => member,
            }
        }
    };
    member.tools(server.tools.filter()).required(server.is_required).rewrite_uris(server.rewrites_uris)
}

/// Starts the child process of a member.
fn start(builder: McpClientBuilder, target: &McpTarget) -> Result<McpClient, McpClientError> {
    let McpTarget::Command { words, environment, directory, .. } = target else {
        unreachable!("the caller passes a command")
    };
    builder.command(child_command(words, environment, directory.as_deref()))
}

/// Returns the command that starts the child process of an MCP server: a program and its arguments. The
/// process gets the variables in `environment`. From this process, it gets only harmless variables such as
/// `PATH` and `HOME`, because the other variables can contain tokens for other servers.
pub fn child_command(
    words: &[String],
    environment: &BTreeMap<String, String>,
    directory: Option<&Path>,
) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or("", String::as_str));
    let inherited = INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.args(words).env_clear().envs(inherited).envs(environment);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    command
}

/// The environment variables that child processes get from Thruway. The documentation of `environment` lists
/// them too.
const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Maximum number of separate connections to an MCP server over HTTP. Each session whose client can answer questions
/// has one. In contrast to a child process, such a connection needs little memory, so every session may have one.
const SESSIONS_MAX: usize = 10_000;

/// Returns the URL of an MCP endpoint at the servers of `upstream`. The host of the URL is the host in the
/// requests, and the name in the certificates of the servers.
fn url(upstream: &Upstream, host: Option<&HostRewrite>, path: &str) -> String {
    let scheme = if upstream.config().tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}{path}", host_of_requests(upstream, host))
}

/// Returns the host in the requests to the servers of `upstream`.
pub(super) fn host_of_requests(upstream: &Upstream, host: Option<&HostRewrite>) -> String {
    let config = upstream.config();
    let server_name = config.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
    match (host, server_name) {
        (_, Some(name)) => name.to_string(),
        (Some(HostRewrite::Fixed(host)), None) => host.clone(),
        (_, None) => {
            config.servers.first().map_or_else(|| "localhost".to_owned(), |server| host_of(&server.address))
        }
    }
}

/// Returns the host and port of a server. For a Unix socket, returns `localhost`.
fn host_of(server: &ServerAddr) -> String {
    match server {
        ServerAddr::Address(address) if address.tcp().is_none() => "localhost".to_owned(),
        named => named.to_string(),
    }
}

/// Returns a client that connects to the servers of `upstream`.
fn client(upstream: Arc<Upstream>) -> Client {
    let config = upstream.config();
    let client = ClientConfig {
        connect: config.connect_timeout,
        tls: config.tls.as_ref().map(|tls| tls.connector.clone()),
        ..ClientConfig::default()
    };
    Client::with_config(client).resolver(UpstreamServers(upstream))
}

/// Resolves each host to the addresses of the servers of an upstream. The healthy servers come first, so that
/// connections use another server only if the first healthy server refuses the connection.
#[derive(Debug)]
struct UpstreamServers(Arc<Upstream>);

impl UpstreamServers {
    fn addresses(&self) -> Vec<UpstreamAddr> {
        let mut servers: Vec<_> = self
            .0
            .server_statuses()
            .into_iter()
            .filter(|server| !matches!(server.state, ServerState::Disabled | ServerState::Draining))
            .collect();
        // The sort is stable, so servers of the same rank keep the order of the config.
        servers.sort_by_key(|server| (server.state != ServerState::Up, server.is_backup));
        servers.into_iter().map(|server| server.address).collect()
    }
}

impl Resolve for UpstreamServers {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
        let addresses = self.addresses();
        Box::pin(async move {
            if addresses.is_empty() {
                return Err(io::Error::other(format!("the upstream `{}` has no server", self.0.name())));
            }
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a child process could read the tokens of other servers.
    #[test]
    fn child_process_gets_only_harmless_and_configured_variables() {
        let environment = BTreeMap::from([("TOKEN".to_owned(), "own".to_owned())]);
        let command = child_command(&["server".to_owned()], &environment, None);
        // `env -i` is the form in which `Command` shows that it inherits no variables.
        assert!(format!("{command:?}").contains("env -i"), "{command:?}");
        for (name, _) in command.get_envs() {
            assert!(name == "TOKEN" || INHERITED.iter().any(|inherited| name == *inherited), "{name:?}");
        }
        assert!(command.get_envs().any(|(name, value)| name == "TOKEN" && value.is_some()));
    }
}
