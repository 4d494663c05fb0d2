//! What can be typed after `thruway bench mcp`.

use clap::ValueEnum;
use thruway_bench::{McpOperations, OperationKind, Revision, SessionUse};

use crate::bench::args::{LoadArgs, ReportArgs, verbatim};

/// Load a server with messages of MCP, over Streamable HTTP or over the pipes of a child
#[derive(clap::Args)]
#[command(after_help = verbatim(AFTER), override_usage = USAGE)]
pub(crate) struct McpArgs {
    /// The endpoint: `http://HOST:PORT/PATH`, `https://HOST/PATH`, or `http://unix:SOCKET:/PATH`
    #[arg(value_name = "URL", required_unless_present_any = ["schema", "command"], conflicts_with = "command")]
    pub(crate) target: Option<String>,
    /// The command of a server that reads its standard input and writes its standard output
    #[arg(value_name = "COMMAND", last = true, conflicts_with_all = OF_CONNECTIONS)]
    pub(crate) command: Vec<String>,

    /// What is asked for
    #[arg(short, long, value_name = "NAME", value_enum, default_value_t = OperationName::Call, conflicts_with = "mix")]
    pub(crate) operation: OperationName,
    /// Several operations with their weights, as `call=8,list=1,ping=1`; they are chosen at random
    #[arg(long, value_name = "MIX", value_delimiter = ',', value_parser = parse_weighted)]
    pub(crate) mix: Vec<(OperationName, u32)>,
    /// The tool that is called [default: `echo`, or the first one that needs no arguments]
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Its arguments, an object
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    pub(crate) arguments: Option<serde_json::Value>,
    /// The resource that is read, or of which subscribers are told
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Option<String>,
    /// Let so many subscribe to `--uri`, call `--tool`, which changes it, and measure the time until the last
    /// of them was told
    #[arg(long, value_name = "N", requires_all = ["tool", "uri"], value_parser = clap::value_parser!(u32).range(1..=100_000),
        conflicts_with_all = ["command", "operation", "mix", "session", "connections", "workers", "rate", "pipeline", "is_not_persistent"])]
    pub(crate) subscribers: Option<u32>,

    /// `modern`, `legacy`, or the date of a revision [default: modern if the server speaks it, otherwise
    /// legacy]
    #[arg(long, value_name = "ERA", value_parser = parse_era)]
    pub(crate) era: Option<Revision>,
    /// How long sessions of the legacy era are over HTTP [default: per-connection]
    #[arg(long, value_name = "USE", value_enum)]
    pub(crate) session: Option<SessionName>,
    /// Requests that a child has not answered at the same time; the next is sent as soon as one is answered
    #[arg(long, value_name = "N", requires = "command", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) window: Option<u16>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// What can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OperationName {
    /// `tools/call`
    Call,
    /// `tools/list`
    List,
    /// `ping`; `server/discover` in the modern era, which has no ping
    Ping,
    /// `server/discover`, in the modern era
    Discover,
    /// `resources/list`
    Resources,
    /// `resources/read` of `--uri`
    Read,
    /// `prompts/list`
    Prompts,
}

/// How sessions are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SessionName {
    /// The first request of a connection begins one
    PerConnection,
    /// Each request has its own, from `initialize` to `DELETE`; all of that is its time
    PerCall,
    /// There is none: some servers do without
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
    /// The operations that these arguments describe.
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

    /// How it is loaded: a child has no connections, and a window instead of a pipeline.
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
    let weight = weight.ok_or("a weight is a number from 1 to 1000")?;
    Ok((OperationName::from_str(name, true)?, weight))
}

fn parse_object(text: &str) -> Result<serde_json::Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ serde_json::Value::Object(_)) => Ok(value),
        Ok(_) => Err("arguments are a JSON object, as `{\"message\": \"hello\"}`".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_era(text: &str) -> Result<Revision, String> {
    match text {
        "modern" => Ok(Revision::LATEST),
        "legacy" => Ok(Revision::LATEST_LEGACY),
        _ => text.parse().map_err(|_| {
            let known = Revision::ALL.map(Revision::as_str).join(", ");
            format!("an era is `modern`, `legacy` or one of {known}")
        }),
    }
}

/// What a child does not have.
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

const AFTER: &str = r#"Texts in arguments may hold placeholders:
  {n}       The number of the request, from 0
  {random}  16 hexadecimal digits

Examples:
  thruway bench mcp http://127.0.0.1:8080/mcp --tool add --arguments '{"a": 1, "b": 2}'
  thruway bench mcp http://127.0.0.1:8080/mcp --era legacy --session per-call --mix call=8,list=1,ping=1
  thruway bench mcp http://127.0.0.1:8080/mcp --subscribers 100 --tool count --uri example://counter
  thruway bench mcp --window 16 -d 3s -- thruway mcp serve --stdio

Exit codes:
  0    Every request was answered as expected
  1    Some were not
  2    The arguments cannot be used, or the server cannot be reached or does not speak MCP
  130  It was interrupted; what was measured is reported. At a second signal it ends at once"#;
