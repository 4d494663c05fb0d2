//! Arguments of `thruway bench mcp`.

use clap::ValueEnum;
use thruway_bench::{McpOperations, OperationKind, Revision, SessionUse};

use crate::bench::args::{LoadArgs, ReportArgs, verbatim};

/// Send MCP requests as fast as possible or at a fixed rate, and measure the response times
///
/// The command connects to the server over Streamable HTTP, or over the standard input and output of a child
/// process.
#[derive(clap::Args)]
#[command(after_help = verbatim(AFTER), override_usage = USAGE)]
pub(crate) struct McpArgs {
    /// URL of the MCP endpoint: `http://HOST:PORT/PATH`, `https://HOST/PATH`, or `http://unix:SOCKET:/PATH`
    #[arg(value_name = "URL", required_unless_present_any = ["schema", "command"], conflicts_with = "command")]
    pub(crate) target: Option<String>,
    /// Command that starts an MCP server, which reads requests from its standard input
    #[arg(value_name = "COMMAND", last = true, conflicts_with_all = OF_CONNECTIONS)]
    pub(crate) command: Vec<String>,

    /// MCP operation that every request performs
    #[arg(short, long, value_name = "NAME", value_enum, default_value_t = OperationName::Call, conflicts_with = "mix")]
    pub(crate) operation: OperationName,
    /// Several operations with weights, such as `call=8,list=1,ping=1`; each request performs one of these
    /// operations at random
    #[arg(long, value_name = "MIX", value_delimiter = ',', value_parser = parse_weighted)]
    pub(crate) mix: Vec<(OperationName, u32)>,
    /// Tool to call [default: `echo`, or the first tool without required arguments]
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Arguments of the tool as a JSON object
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    pub(crate) arguments: Option<serde_json::Value>,
    /// URI of the resource to read or to subscribe to
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Option<String>,
    /// Number of clients that subscribe to the resource `--uri`. Each request calls `--tool`, which must
    /// change this resource. The response time of a request ends when the last subscriber has received the
    /// notification of the change
    #[arg(long, value_name = "N", requires_all = ["tool", "uri"], value_parser = clap::value_parser!(u32).range(1..=100_000),
        conflicts_with_all = ["command", "operation", "mix", "session", "connections", "workers", "rate", "stages", "pipeline", "is_not_persistent"])]
    pub(crate) subscribers: Option<u32>,

    /// MCP revision: `modern` (2026-07-28), `legacy` (2025-11-25), or another revision [default: modern if
    /// the server supports 2026-07-28, otherwise legacy]
    #[arg(long, value_name = "ERA", value_parser = parse_era)]
    pub(crate) era: Option<Revision>,
    /// Use of MCP sessions, for MCP revision 2025-11-25 and earlier over HTTP [default: per-connection]
    #[arg(long, value_name = "USE", value_enum)]
    pub(crate) session: Option<SessionName>,
    /// Number of requests in flight to the child process. When a response arrives, the command sends the next
    /// request
    #[arg(long, value_name = "N", requires = "command", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) window: Option<u16>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// MCP operation of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OperationName {
    /// `tools/call`
    Call,
    /// `tools/list`
    List,
    /// `ping`, or `server/discover` with MCP revisions that have no `ping` (2026-07-28 and later)
    Ping,
    /// `server/discover` (only with MCP revision 2026-07-28 and later)
    Discover,
    /// `resources/list`
    Resources,
    /// `resources/read` of `--uri`
    Read,
    /// `prompts/list`
    Prompts,
}

/// Use of MCP sessions in a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SessionName {
    /// One session for each connection
    PerConnection,
    /// One session for each request; the response time begins with `initialize` and ends with the response to
    /// `DELETE`
    PerCall,
    /// No sessions, for servers that do not require a session
    None,
}

impl From<OperationName> for OperationKind {
    fn from(name: OperationName) -> Self {
        match name {
            OperationName::Call => Self::Call,
            OperationName::List => Self::List,
            OperationName::Ping => Self::Ping,
            OperationName::Discover => Self::Discover,
            OperationName::Resources => Self::Resources,
            OperationName::Read => Self::Read,
            OperationName::Prompts => Self::Prompts,
        }
    }
}

impl From<SessionName> for SessionUse {
    fn from(name: SessionName) -> Self {
        match name {
            SessionName::None => Self::None,
            SessionName::PerConnection => Self::PerConnection,
            SessionName::PerCall => Self::PerCall,
        }
    }
}

impl McpArgs {
    /// Returns the MCP operations that the arguments select.
    pub(super) fn operations(&self) -> McpOperations {
        let single = [(self.operation, 1)];
        let names = if self.mix.is_empty() { &single[..] } else { &self.mix[..] };
        McpOperations {
            kinds: names.iter().map(|(name, weight)| ((*name).into(), *weight)).collect(),
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            uri: self.uri.clone(),
        }
    }

    /// Returns the load options. For a child process, the number of connections is 1, and `--window` replaces
    /// `--pipeline`.
    pub(super) fn load(&self) -> LoadArgs {
        if self.command.is_empty() {
            return self.load.clone();
        }
        LoadArgs { connections: 1, pipeline: self.window.unwrap_or(1), ..self.load.clone() }
    }
}

fn parse_weighted(text: &str) -> Result<(OperationName, u32), String> {
    let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
    let weight = weight.parse().ok().filter(|weight| (1..=1000).contains(weight));
    let weight = weight.ok_or("expected a weight from 1 to 1000")?;
    Ok((OperationName::from_str(name, true)?, weight))
}

fn parse_object(text: &str) -> Result<serde_json::Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ serde_json::Value::Object(_)) => Ok(value),
        Ok(_) => Err("expected a JSON object, such as `{\"message\": \"hello\"}`".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_era(text: &str) -> Result<Revision, String> {
    match text {
        "modern" => Ok(Revision::LATEST),
        "legacy" => Ok(Revision::LATEST_LEGACY),
        _ => text.parse().map_err(|_| {
            let known = Revision::ALL.map(Revision::as_str).join(", ");
            format!("unknown era, expected `modern`, `legacy` or one of {known}")
        }),
    }
}

/// Names of the options that have no effect on a server in a child process.
const OF_CONNECTIONS: [&str; 11] = [
    "connections",
    "workers",
    "pipeline",
    "is_not_persistent",
    "header",
    "pid",
    "ca",
    "is_insecure",
    "is_without_resumption",
    "tls_version",
    "is_classical",
];

const USAGE: &str = "thruway bench mcp [OPTIONS] <URL>\n       thruway bench mcp [OPTIONS] -- <COMMAND>...";

const AFTER: &str = r#"Placeholders in the strings of `--arguments`:
  {n}       Number of the request, from 0
  {random}  16 random hexadecimal digits

Examples:
  thruway bench mcp http://127.0.0.1:8080/mcp --tool add --arguments '{"a": 1, "b": 2}'
  thruway bench mcp http://127.0.0.1:8080/mcp --era legacy --session per-call --mix call=8,list=1
  thruway bench mcp http://127.0.0.1:8080/mcp --subscribers 100 --tool count --uri example://counter
  thruway bench mcp --window 16 -d 3s -- thruway mcp serve --stdio

Exit codes:
  0    All responses were as expected
  1    Some requests failed
  2    The arguments are invalid, the server cannot be reached, or the server is not an MCP server
  130  Interrupted. The report contains the measurements so far. A second signal exits at once"#;
