//! The table of peers that are built here: each is a command line and how to build it.
//!
//! A new peer is a row here and a folder in `peers/`; nothing else knows their names, except the targets, and the suite for those that
//! take part in it.

use anyhow::bail;

use super::workloads::Workload::{
    self, Axum, Churn, Gateway, General, Mcp, McpBridge, McpBridgeModern, McpClient, McpCommand, McpLegacy,
    McpSoak, McpStdio, McpStdioLegacy,
};

/// A server that can be started and measured; ours is one of them.
pub(super) struct Peer {
    /// Name on the command line and in the report.
    pub(super) name: &'static str,
    /// What it is and how it is set up, for the report.
    pub(super) about: &'static str,
    /// Where its program comes from.
    pub(super) build: Build,
    /// Its arguments; `{address}`, `{host}`, `{port}` and `{bench}` are filled in, and for a command `{backend}`, where the server beside it is.
    pub(super) arguments: &'static [&'static str],
    /// The arguments with which it serves its standard input and output instead, filled in likewise; none if it cannot.
    pub(super) stdio: Option<&'static [&'static str]>,
    /// Where its version is found.
    pub(super) version: Version,
    /// The workloads it takes part in when nothing is said on the command line.
    pub(super) workloads: &'static [Workload],
}

/// Where a program comes from.
pub(super) enum Build {
    /// `thruway`, from the root workspace.
    Root,
    /// A package of the workspace `peers/`, whose binary has its name.
    Bench(&'static str),
    /// A command of the Go module `peers/go`.
    Go(&'static str),
    /// Node, with the packages of this folder of `bench`.
    Node(&'static str),
    /// The newest package of this name that Debian has, which this machine need not have.
    Debian(&'static str),
    /// The interpreter of an environment with the packages of this folder of `bench`.
    Python(&'static str),
}

/// Where a version is found.
pub(super) enum Version {
    /// The entry of this package in `peers/Cargo.lock`.
    BenchLock(&'static str),
    /// The entry of this module in `peers/go/go.mod`.
    GoModule(&'static str),
    /// The entry of a package in the `package-lock.json` of this folder of `bench`.
    NpmLock(&'static str, &'static str),
    /// The line of a package in the `requirements.txt` of this folder of `bench`.
    Requirement(&'static str, &'static str),
    /// What `go version` says.
    GoToolchain,
    /// The first line that the program prints when given this argument.
    Printed(&'static str),
    /// The commit of this repository, which the report names anyway.
    Repository,
}

const GENERAL: &[Workload] = &[General, Churn];
const MCP: &[Workload] = &[Mcp, McpLegacy, McpStdio, McpStdioLegacy];

/// `axum-on-thruway` is a package of `peers/` that depends on `../crates/server` by path and takes the arguments that
/// all of them take. Like the `axum` package it uses mimalloc, so that the engines differ and nothing else.
pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "thruway",
        about: "ours, one worker",
        build: Build::Root,
        arguments: &["serve", "--listen", "{address}", "--workers", "1"],
        stdio: None,
        version: Version::Printed("--version"),
        workloads: GENERAL,
    },
    Peer {
        name: "axum-on-thruway",
        about: "axum mounted on our engine, one worker",
        build: Build::Bench("bench-axum-on-thruway"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::Repository,
        workloads: &[Axum],
    },
    Peer {
        name: "ceiling",
        about: "raw epoll, constant answer, no parsing; reads no `Connection`, so it takes no part in `keep-alive`",
        build: Build::Bench("bench-ceiling"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::Repository,
        workloads: &[General, McpClient],
    },
    Peer {
        name: "relay",
        about: "passes octets on and reads no HTTP, a connection to the backend for each client",
        build: Build::Bench("bench-relay"),
        arguments: &["--listen", "{address}", "--backend", "{backend}"],
        stdio: None,
        version: Version::Repository,
        workloads: &[Gateway],
    },
    Peer {
        name: "haproxy-newest",
        about: "the newest HAProxy of Debian, as it comes",
        build: Build::Debian("haproxy"),
        arguments: &["-db", "-f", "{config}"],
        stdio: None,
        version: Version::Printed("-v"),
        workloads: &[Gateway],
    },
    Peer {
        name: "nginx-newest",
        about: "the newest nginx of Debian",
        build: Build::Debian("nginx"),
        arguments: &["-c", "{config}"],
        stdio: None,
        version: Version::Printed("-v"),
        workloads: &[Gateway],
    },
    Peer {
        name: "hyper",
        about: "current-thread tokio, `TCP_NODELAY`, `pipeline_flush`, mimalloc",
        build: Build::Bench("bench-hyper"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::BenchLock("hyper"),
        workloads: GENERAL,
    },
    Peer {
        name: "axum",
        about: "`axum::serve` on current-thread tokio, `TCP_NODELAY`, mimalloc",
        build: Build::Bench("bench-axum"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::BenchLock("axum"),
        workloads: &[General, Churn, Axum],
    },
    Peer {
        name: "axum-flush",
        about: "the same router on hyper directly, with `pipeline_flush`, which `axum::serve` cannot set",
        build: Build::Bench("bench-axum"),
        arguments: &["--listen", "{address}", "--pipeline-flush"],
        stdio: None,
        version: Version::BenchLock("axum"),
        workloads: &[General, Axum],
    },
    Peer {
        name: "axum-fixed",
        about: "axum with one JSON answer for all messages: what a server of MCP costs that does nothing",
        build: Build::Bench("bench-axum"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::BenchLock("axum"),
        workloads: &[McpLegacy],
    },
    Peer {
        name: "mcp-on-thruway",
        about: "a server of MCP on our SDK, one worker, 100 tools, no sessions, mimalloc",
        build: Build::Bench("bench-mcp-on-thruway"),
        arguments: &["--listen", "{address}", "--tools", "100"],
        stdio: Some(&["--stdio", "--tools", "100"]),
        version: Version::Repository,
        workloads: &[Mcp, McpLegacy, McpStdio, McpStdioLegacy, McpSoak, McpClient],
    },
    Peer {
        name: "thruway-echo",
        about: "ours, sending the message back unread, mimalloc",
        build: Build::Bench("bench-mcp-on-thruway"),
        arguments: &["--listen", "{address}", "--echo"],
        stdio: None,
        version: Version::Repository,
        workloads: &[Mcp, McpLegacy, McpSoak],
    },
    Peer {
        name: "pipe-echo",
        about: "a process that sends back what comes over two pipes, unread, with blocking calls",
        build: Build::Bench("bench-pipe-echo"),
        arguments: &[],
        stdio: Some(&[]),
        version: Version::Repository,
        workloads: &[McpStdio],
    },
    Peer {
        name: "rmcp",
        about: "the official Rust SDK on axum, current-thread tokio, `TCP_NODELAY`, JSON answers, no sessions, mimalloc",
        build: Build::Bench("bench-rmcp"),
        arguments: &["--listen", "{address}", "--tools", "100"],
        stdio: Some(&["--stdio", "--tools", "100"]),
        version: Version::BenchLock("rmcp"),
        workloads: &[Mcp, McpLegacy, McpStdio, McpStdioLegacy, McpClient],
    },
    Peer {
        name: "tower-mcp",
        about: "tower-mcp on axum, current-thread tokio, `TCP_NODELAY`, JSON answers, no sessions, mimalloc",
        build: Build::Bench("bench-tower-mcp"),
        arguments: &["--listen", "{address}", "--tools", "100"],
        stdio: Some(&["--stdio", "--tools", "100"]),
        version: Version::BenchLock("tower-mcp"),
        workloads: MCP,
    },
    Peer {
        name: "mcp-go",
        about: "mark3labs/mcp-go on net/http, `GOMAXPROCS` 1, `GOGC` 400, no sessions",
        build: Build::Go("mcpgo"),
        arguments: &["--listen", "{address}", "--tools", "100"],
        stdio: Some(&["--stdio", "--tools", "100"]),
        version: Version::GoModule("github.com/mark3labs/mcp-go"),
        workloads: MCP,
    },
    Peer {
        name: "go-sdk",
        about: "the official Go SDK on net/http, `GOMAXPROCS` 1, `GOGC` 400, JSON answers, no sessions",
        build: Build::Go("gosdk"),
        arguments: &["--listen", "{address}", "--tools", "100"],
        stdio: Some(&["--stdio", "--tools", "100"]),
        version: Version::GoModule("github.com/modelcontextprotocol/go-sdk"),
        workloads: MCP,
    },
    Peer {
        name: "typescript-sdk",
        about: "the official TypeScript SDK, low-level server, Hono's adapter for Node, JSON answers, no sessions",
        build: Build::Node("typescript"),
        arguments: &["{bench}/target/typescript/server.mjs", "--listen", "{address}", "--tools", "100"],
        stdio: Some(&["{bench}/target/typescript/server.mjs", "--stdio", "--tools", "100"]),
        version: Version::NpmLock("typescript", "@modelcontextprotocol/server"),
        workloads: MCP,
    },
    Peer {
        name: "python-sdk",
        about: "the official Python SDK, low-level server, uvicorn with uvloop and httptools, JSON answers, no sessions",
        build: Build::Python("python"),
        arguments: &["{bench}/python/server.py", "--listen", "{address}", "--tools", "100"],
        stdio: Some(&["{bench}/python/server.py", "--stdio", "--tools", "100"]),
        version: Version::Requirement("python", "mcp"),
        workloads: MCP,
    },
    Peer {
        name: "actix",
        about: "actix-web, one worker, mimalloc",
        build: Build::Bench("bench-actix"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::BenchLock("actix-web"),
        workloads: GENERAL,
    },
    Peer {
        name: "ntex",
        about: "its HTTP service without the web framework, io_uring, one worker, mimalloc",
        build: Build::Bench("bench-ntex"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::BenchLock("ntex"),
        workloads: GENERAL,
    },
    Peer {
        name: "may_minihttp",
        about: "one worker, mimalloc; reads no `Connection`, so it takes no part in `keep-alive`",
        build: Build::Bench("bench-may-minihttp"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::BenchLock("may_minihttp"),
        workloads: &[General],
    },
    Peer {
        name: "thruway-bridge",
        about: "ours, one worker",
        build: Build::Root,
        arguments: &["mcp", "bridge", "--listen", "{address}", "--", SERVER_ON_STDIO, "--stdio"],
        stdio: None,
        version: Version::Printed("--version"),
        workloads: &[McpBridge, McpBridgeModern],
    },
    Peer {
        name: "supergateway",
        about: "with sessions, as a server is started for each request otherwise",
        build: Build::Node("bridges"),
        arguments: &[
            "{bench}/target/bridges/node_modules/supergateway/dist/index.js",
            "--stdio",
            "{bench}/target/release/bench-mcp-on-thruway --stdio",
            "--outputTransport",
            "streamableHttp",
            "--stateful",
            "--port",
            "{port}",
            "--logLevel",
            "none",
        ],
        stdio: None,
        version: Version::NpmLock("bridges", "supergateway"),
        workloads: &[McpBridge, McpBridgeModern],
    },
    Peer {
        name: "mcp-proxy-npm",
        about: "without what it keeps for clients that come back",
        build: Build::Node("bridges"),
        arguments: &[
            "{bench}/target/bridges/node_modules/.bin/mcp-proxy",
            "--host",
            "{host}",
            "--port",
            "{port}",
            "--server",
            "stream",
            "--no-eventStore",
            "--",
            SERVER_ON_STDIO,
            "--stdio",
        ],
        stdio: None,
        version: Version::NpmLock("bridges", "mcp-proxy"),
        workloads: &[McpBridge, McpBridgeModern],
    },
    Peer {
        name: "mcp-proxy-python",
        about: "as it comes",
        build: Build::Python("python-bridge"),
        arguments: &[
            "-m",
            "mcp_proxy",
            "--host",
            "{host}",
            "--port",
            "{port}",
            "--",
            SERVER_ON_STDIO,
            "--stdio",
        ],
        stdio: None,
        version: Version::Requirement("python-bridge", "mcp-proxy"),
        workloads: &[McpBridge],
    },
    Peer {
        name: "thruway-call",
        about: "a call of a tool from the command line",
        build: Build::Root,
        arguments: &["mcp", "call", "http://{backend}/mcp", "echo", "message=hello"],
        stdio: None,
        version: Version::Printed("--version"),
        workloads: &[McpCommand],
    },
    Peer {
        name: "thruway-version",
        about: "the command line, asked for its version",
        build: Build::Root,
        arguments: &["--version"],
        stdio: None,
        version: Version::Printed("--version"),
        workloads: &[McpCommand],
    },
    Peer {
        name: "thruway-help",
        about: "the command line, asked what it can do",
        build: Build::Root,
        arguments: &["--help"],
        stdio: None,
        version: Version::Printed("--version"),
        workloads: &[McpCommand],
    },
    Peer {
        name: "fasthttp",
        about: "Go, `GOMAXPROCS` 1",
        build: Build::Go("fasthttp"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::GoModule("github.com/valyala/fasthttp"),
        workloads: GENERAL,
    },
    Peer {
        name: "nethttp",
        about: "Go's net/http, `GOMAXPROCS` 1",
        build: Build::Go("nethttp"),
        arguments: &["--listen", "{address}"],
        stdio: None,
        version: Version::GoToolchain,
        workloads: GENERAL,
    },
];

/// The server behind bridges.
const SERVER_ON_STDIO: &str = "{bench}/target/release/bench-mcp-on-thruway";

/// The row of this name.
pub(super) fn find(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

/// Where a peer stands in the table, to list peers in its order.
pub(super) fn position(peer: &Peer) -> usize {
    PEERS.iter().position(|row| row.name == peer.name).unwrap_or(PEERS.len())
}

/// The rows of these names in the order of the table; all of them when none is given.
///
/// # Errors
/// A name that the table does not hold.
pub(super) fn select(names: &[String]) -> anyhow::Result<Vec<&'static Peer>> {
    if let Some(unknown) = names.iter().find(|name| find(name).is_none()) {
        let known: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
        bail!("no peer is called `{unknown}`\n\nhint: there are {}", known.join(", "));
    }
    let chosen = |peer: &&Peer| names.is_empty() || names.iter().any(|name| name == peer.name);
    Ok(PEERS.iter().filter(chosen).collect())
}
