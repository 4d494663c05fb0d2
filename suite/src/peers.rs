//! The servers that can take part, as a table: what they are, how they are started, how they are set up.

use crate::case::{Case, Peers, Role, Workload};
use crate::descriptors;
use crate::floor::RELAY;
use crate::libraries::OUR_SDK;

/// A server that can take part; ours is one of them.
pub(crate) struct Peer {
    /// Its name on the command line and in reports.
    pub(crate) name: &'static str,
    /// How it is set up, for reports.
    pub(crate) about: &'static str,
    /// Where its program is.
    pub(crate) program: Program,
    /// Where its version is found.
    pub(crate) version: Version,
    /// What it can be, each with how it is started.
    pub(crate) setups: &'static [Setup],
    /// The workloads that it has no part in nevertheless.
    pub(crate) not_in: &'static [Workload],
}

/// Where a program is.
pub(crate) enum Program {
    /// It is the one whose servers are measured.
    Ours,
    /// In the `PATH`.
    Installed(&'static str),
    /// A package of the workspace `peers/`, whose program has its name.
    Cargo(&'static str),
    /// A command of the Go module `peers/go`.
    Go(&'static str),
    /// The newest package of this name that Debian has.
    Debian(&'static str),
    /// Node, with the packages of this folder of `peers/`.
    Node(&'static str),
    /// Python, with the packages of this folder of `peers/`.
    Python(&'static str),
}

/// Where a version is found.
pub(crate) enum Version {
    /// The first line that the program prints with this argument.
    Printed(&'static str),
    /// The entry of this package in `Cargo.lock`.
    Locked(&'static str),
    /// The line of this module in `go/go.mod`.
    GoModule(&'static str),
    /// What `go version` says of the program.
    Go,
    /// The entry of a package in the `package-lock.json` of this folder.
    NpmLock(&'static str, &'static str),
    /// The line of a package in the `requirements.txt` of this folder.
    Requirement(&'static str, &'static str),
}

/// How a server is started to be one thing. `{address}`, `{host}`, `{port}`, `{directory}`, `{content}`, `{config}`, `{backend}`, `{backend_port}`, `{certificate}`, `{key}`,
/// `{certificate_and_key}` and `{peers}` are filled in.
pub(crate) struct Setup {
    pub(crate) role: Role,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) config: Option<&'static str>,
}

const fn setup(role: Role, arguments: &'static [&'static str]) -> Setup {
    Setup { role, arguments, config: None }
}

const fn configured(role: Role, arguments: &'static [&'static str], config: &'static str) -> Setup {
    Setup { role, arguments, config: Some(config) }
}

/// A peer of the repository's folder `bench`, which takes the arguments that all of them take.
const fn built(name: &'static str, about: &'static str, program: Program, version: Version) -> Peer {
    Peer { name, about, program, version, setups: LISTENING, not_in: &[] }
}

const fn built_for_mcp(name: &'static str, about: &'static str, program: Program, version: Version) -> Peer {
    Peer { setups: SPEAKING_MCP, ..built(name, about, program, version) }
}

/// Another version of one that is installed, which `cargo xtask bench` takes from Debian.
const fn newest(name: &'static str, about: &'static str, program: Program, setups: &'static [Setup]) -> Peer {
    Peer { name, about, program, version: Version::Printed("-v"), setups, not_in: &[] }
}

/// Ours, set up in another way.
const fn ours(name: &'static str, about: &'static str, setups: &'static [Setup]) -> Peer {
    Peer { name, about, program: Program::Ours, version: Version::Printed("--version"), setups, not_in: &[] }
}

/// Ours behind gateways, at nine addresses with the same port.
pub(crate) const BACKEND: Setup = setup(
    Role::Http,
    &[
        "serve",
        "--workers",
        "1",
        "--listen",
        "{address}",
        "--listen",
        "127.0.0.2:{port}",
        "--listen",
        "127.0.0.3:{port}",
        "--listen",
        "127.0.0.4:{port}",
        "--listen",
        "127.0.0.5:{port}",
        "--listen",
        "127.0.0.6:{port}",
        "--listen",
        "127.0.0.7:{port}",
        "--listen",
        "127.0.0.8:{port}",
        "--listen",
        "127.0.0.9:{port}",
    ],
);

const LISTENING: &[Setup] = &[setup(Role::Http, &["--listen", "{address}"])];
const SPEAKING_MCP: &[Setup] =
    &[setup(Role::Mcp, LISTEN_WITH_TOOLS), setup(Role::Pipes, &["--stdio", "--tools", "100"])];
const SPEAKING_AND_CALLING_MCP: &[Setup] = &[
    setup(Role::Mcp, LISTEN_WITH_TOOLS),
    setup(Role::Pipes, &["--stdio", "--tools", "100"]),
    setup(Role::Client, LISTEN_WITH_TOOLS),
];
const LISTEN_WITH_TOOLS: &[&str] = &["--listen", "{address}", "--tools", "100"];

const GATEWAY: &[&str] = &["serve", "{config}"];
const NGINX: &[&str] = &["-p", "{directory}", "-e", "stderr", "-c", "{config}"];
const HAPROXY: &[&str] = &["-db", "-f", "{config}"];

/// All of them, ours first.
pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: "thruway",
        about: "ours, one worker",
        program: Program::Ours,
        version: Version::Printed("--version"),
        setups: &[
            setup(Role::Http, &["serve", "--listen", "{address}", "--workers", "1"]),
            setup(Role::Mcp, &["mcp", "serve", "--listen", "{address}", "--workers", "1"]),
            setup(Role::Pipes, &["mcp", "serve", "--stdio"]),
            configured(Role::Gateway, GATEWAY, GATEWAY_THRUWAY),
            configured(Role::Tls, &["serve", "{config}"], include_str!("../peers/tls-thruway.toml")),
            configured(Role::Http2, &["serve", "{config}"], include_str!("../peers/http2-thruway.toml")),
            configured(
                Role::Http2Gateway,
                &["serve", "{config}"],
                include_str!("../peers/http2-gateway-thruway.toml"),
            ),
        ],
        not_in: &[],
    },
    Peer {
        name: "nginx",
        about: "`return 200`, as a gateway persistent connections to the backend; one worker process, no access log",
        program: Program::Installed("nginx"),
        version: Version::Printed("-v"),
        setups: &[
            configured(Role::Http, NGINX, include_str!("../peers/nginx.conf")),
            configured(Role::Gateway, NGINX, GATEWAY_NGINX),
            configured(Role::Tls, NGINX, include_str!("../peers/tls-nginx.conf")),
            configured(Role::Http2, NGINX, include_str!("../peers/http2-nginx.conf")),
            configured(Role::Http2Gateway, NGINX, include_str!("../peers/http2-gateway-nginx.conf")),
        ],
        not_in: &[],
    },
    Peer {
        name: "haproxy",
        about: "`http-request return`, as a gateway as it comes; one thread, no log",
        program: Program::Installed("haproxy"),
        version: Version::Printed("-v"),
        setups: &[
            configured(Role::Http, HAPROXY, include_str!("../peers/haproxy.cfg")),
            configured(Role::Gateway, HAPROXY, GATEWAY_HAPROXY),
            configured(Role::Tls, HAPROXY, include_str!("../peers/tls-haproxy.cfg")),
            configured(Role::Http2Gateway, HAPROXY, include_str!("../peers/http2-gateway-haproxy.cfg")),
        ],
        not_in: &[],
    },
    Peer {
        name: "haproxy-tuned",
        about: "as a gateway with splice, larger buffers and connections shared by all clients; where there is something to splice",
        program: Program::Installed("haproxy"),
        version: Version::Printed("-v"),
        setups: &[configured(Role::Gateway, HAPROXY, include_str!("../peers/gateway-haproxy-tuned.cfg"))],
        not_in: &[],
    },
    ours(
        "thruway-realistic",
        "ours as a gateway with 20 routes, 3 upstreams of 3 servers, fields rewritten, access log, metrics and checks",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-realistic.toml"))],
    ),
    ours(
        "thruway-routes",
        "ours as a gateway with 20 routes",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-routes.toml"))],
    ),
    ours(
        "thruway-servers",
        "ours as a gateway with 3 servers",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-servers.toml"))],
    ),
    ours(
        "thruway-access-log",
        "ours as a gateway with an access log",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-access-log.toml"))],
    ),
    ours(
        "thruway-metrics",
        "ours as a gateway with metrics",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-metrics.toml"))],
    ),
    ours(
        "thruway-checks",
        "ours as a gateway that checks 3 servers every second",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-checks.toml"))],
    ),
    ours(
        "thruway-rewriting",
        "ours as a gateway that rewrites fields",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-rewriting.toml"))],
    ),
    ours(
        "thruway-policies",
        "ours as a gateway with three policies",
        &[configured(Role::Gateway, GATEWAY, include_str!("../peers/gateway-policies.toml"))],
    ),
    Peer {
        name: "h2o",
        about: "files, one thread, no log",
        program: Program::Installed("h2o"),
        version: Version::Printed("-v"),
        setups: &[
            configured(Role::Http, &["-c", "{config}"], include_str!("../peers/h2o.conf")),
            configured(Role::Http2, &["-c", "{config}"], include_str!("../peers/http2-h2o.conf")),
        ],
        not_in: &[],
    },
    Peer {
        // It reads no `Connection`.
        not_in: &[Workload::Persistence],
        setups: &[
            setup(Role::Http, &["--listen", "{address}"]),
            setup(Role::Client, &["--listen", "{address}"]),
        ],
        ..built(
            "ceiling",
            "raw epoll, a constant answer, nothing parsed: what the kernel's part costs",
            Program::Cargo("bench-ceiling"),
            Version::Locked("bench-ceiling"),
        )
    },
    newest(
        "haproxy-newest",
        "as `haproxy`, the newest that Debian has",
        Program::Debian("haproxy"),
        &[configured(Role::Gateway, HAPROXY, GATEWAY_HAPROXY)],
    ),
    newest(
        "nginx-newest",
        "as `nginx`, the newest that Debian has",
        Program::Debian("nginx"),
        &[configured(Role::Gateway, NGINX, GATEWAY_NGINX)],
    ),
    Peer {
        setups: &[setup(Role::Gateway, &["--listen", "{address}", "--backend", "{backend}"])],
        ..built(
            RELAY,
            "passes octets on and reads no HTTP, a connection to the backend for each client: what the kernel's part of a gateway costs",
            Program::Cargo("bench-relay"),
            Version::Locked("bench-relay"),
        )
    },
    Peer {
        setups: &[
            setup(Role::Http, &["--listen", "{address}"]),
            setup(Role::Http2, &["--listen", "{address}", "--http2"]),
        ],
        ..built(
            "hyper",
            "`pipeline_flush`, mimalloc",
            Program::Cargo("bench-hyper"),
            Version::Locked("hyper"),
        )
    },
    built("axum", "`axum::serve`, mimalloc", Program::Cargo("bench-axum"), Version::Locked("axum")),
    Peer {
        setups: &[setup(Role::Http, &["--listen", "{address}", "--pipeline-flush"])],
        ..built(
            "axum-flush",
            "axum on hyper with `pipeline_flush`, which `axum::serve` does not set; where there are pipelines",
            Program::Cargo("bench-axum"),
            Version::Locked("axum"),
        )
    },
    built("actix", "actix-web, mimalloc", Program::Cargo("bench-actix"), Version::Locked("actix-web")),
    built(
        "ntex",
        "its HTTP service alone, io_uring, mimalloc",
        Program::Cargo("bench-ntex"),
        Version::Locked("ntex"),
    ),
    Peer {
        // It reads no `Connection`.
        not_in: &[Workload::Persistence],
        ..built(
            "may_minihttp",
            "mimalloc",
            Program::Cargo("bench-may-minihttp"),
            Version::Locked("may_minihttp"),
        )
    },
    built(
        "fasthttp",
        "Go, `GOMAXPROCS` 1",
        Program::Go("fasthttp"),
        Version::GoModule("github.com/valyala/fasthttp"),
    ),
    built("nethttp", "Go's net/http, `GOMAXPROCS` 1", Program::Go("nethttp"), Version::Go),
    Peer {
        setups: SPEAKING_AND_CALLING_MCP,
        ..built(
            "rmcp",
            "the official Rust SDK, JSON answers, no sessions, kept connections, mimalloc",
            Program::Cargo("bench-rmcp"),
            Version::Locked("rmcp"),
        )
    },
    built_for_mcp(
        "tower-mcp",
        "JSON answers, no sessions, mimalloc",
        Program::Cargo("bench-tower-mcp"),
        Version::Locked("tower-mcp"),
    ),
    built_for_mcp(
        "mcp-go",
        "mark3labs/mcp-go, `GOMAXPROCS` 1, `GOGC` 400, no sessions",
        Program::Go("mcpgo"),
        Version::GoModule("github.com/mark3labs/mcp-go"),
    ),
    built_for_mcp(
        "go-sdk",
        "the official Go SDK, `GOMAXPROCS` 1, `GOGC` 400, no sessions",
        Program::Go("gosdk"),
        Version::GoModule("github.com/modelcontextprotocol/go-sdk"),
    ),
    built(
        "axum-on-thruway",
        "axum mounted on our engine, mimalloc",
        Program::Cargo("bench-axum-on-thruway"),
        Version::Locked("bench-axum-on-thruway"),
    ),
    Peer {
        setups: &[setup(Role::Mcp, &["--listen", "{address}"])],
        ..built(
            "axum-fixed",
            "axum with one JSON answer to all messages: the cost of an MCP server that does nothing",
            Program::Cargo("bench-axum"),
            Version::Locked("axum"),
        )
    },
    Peer {
        setups: SPEAKING_AND_CALLING_MCP,
        ..built(
            OUR_SDK,
            "an MCP server on our SDK, one worker, 100 tools, no sessions, mimalloc",
            Program::Cargo(SDK_PROGRAM),
            Version::Locked(SDK_PROGRAM),
        )
    },
    Peer {
        setups: &[setup(Role::Mcp, &["--listen", "{address}", "--echo"])],
        ..built(
            "thruway-echo",
            "ours, which sends the message back unread, mimalloc",
            Program::Cargo(SDK_PROGRAM),
            Version::Locked(SDK_PROGRAM),
        )
    },
    Peer {
        setups: &[setup(Role::Pipes, &[])],
        ..built(
            "pipe-echo",
            "a process that sends its input back unread, with blocking calls",
            Program::Cargo("bench-pipe-echo"),
            Version::Locked("bench-pipe-echo"),
        )
    },
    Peer {
        setups: &[
            setup(
                Role::Mcp,
                &["{peers}/target/typescript/server.mjs", "--listen", "{address}", "--tools", "100"],
            ),
            setup(Role::Pipes, &["{peers}/target/typescript/server.mjs", "--stdio", "--tools", "100"]),
        ],
        ..built(
            "typescript-sdk",
            "the official TypeScript SDK, low-level server, Hono's adapter for Node, JSON answers, no sessions",
            Program::Node("typescript"),
            Version::NpmLock("typescript", "@modelcontextprotocol/server"),
        )
    },
    Peer {
        setups: &[
            setup(Role::Mcp, &["{peers}/python/server.py", "--listen", "{address}", "--tools", "100"]),
            setup(Role::Pipes, &["{peers}/python/server.py", "--stdio", "--tools", "100"]),
        ],
        ..built(
            "python-sdk",
            "the official Python SDK, low-level server, uvicorn with uvloop and httptools, JSON answers, no sessions",
            Program::Python("python"),
            Version::Requirement("python", "mcp"),
        )
    },
    ours(
        "thruway-bridge",
        "ours as a bridge, one worker",
        &[setup(Role::Bridge, &["mcp", "bridge", "--listen", "{address}", "--", BEHIND_BRIDGES, "--stdio"])],
    ),
    Peer {
        setups: &[setup(
            Role::Bridge,
            &[
                "{peers}/target/bridges/node_modules/supergateway/dist/index.js",
                "--stdio",
                "{peers}/target/release/bench-mcp-on-thruway --stdio",
                "--outputTransport",
                "streamableHttp",
                "--stateful",
                "--port",
                "{port}",
                "--logLevel",
                "none",
            ],
        )],
        ..built(
            "supergateway",
            "with sessions, because without them it starts a server for each request",
            Program::Node("bridges"),
            Version::NpmLock("bridges", "supergateway"),
        )
    },
    Peer {
        setups: &[setup(
            Role::Bridge,
            &[
                "{peers}/target/bridges/node_modules/.bin/mcp-proxy",
                "--host",
                "{host}",
                "--port",
                "{port}",
                "--server",
                "stream",
                "--no-eventStore",
                "--",
                BEHIND_BRIDGES,
                "--stdio",
            ],
        )],
        ..built(
            "mcp-proxy-npm",
            "without its store of events for clients that reconnect",
            Program::Node("bridges"),
            Version::NpmLock("bridges", "mcp-proxy"),
        )
    },
    Peer {
        setups: &[setup(
            Role::Bridge,
            &["-m", "mcp_proxy", "--host", "{host}", "--port", "{port}", "--", BEHIND_BRIDGES, "--stdio"],
        )],
        ..built(
            "mcp-proxy-python",
            "with its defaults",
            Program::Python("python-bridge"),
            Version::Requirement("python-bridge", "mcp-proxy"),
        )
    },
    ours(
        "thruway-call",
        "a tool call from the command line",
        &[setup(Role::Command, &["mcp", "call", "http://{backend}/mcp", "echo", "message=hello"])],
    ),
    ours("thruway-version", "the command line with `--version`", &[setup(Role::Command, &["--version"])]),
    ours("thruway-help", "the command line with `--help`", &[setup(Role::Command, &["--help"])]),
];

/// Package of the server on our SDK, and its program behind bridges.
pub(crate) const SDK_PROGRAM: &str = "bench-mcp-on-thruway";
const BEHIND_BRIDGES: &str = "{peers}/target/release/bench-mcp-on-thruway";

/// Peers that take part only where a case names them.
const EXTRAS: &[&str] = &[
    "haproxy-tuned",
    "haproxy-newest",
    "nginx-newest",
    "axum-flush",
    RELAY,
    "axum-on-thruway",
    "axum-fixed",
    OUR_SDK,
    "thruway-echo",
    "pipe-echo",
    "typescript-sdk",
    "python-sdk",
    "supergateway",
    "mcp-proxy-npm",
    "mcp-proxy-python",
];

const GATEWAY_NGINX: &str = include_str!("../peers/gateway-nginx.conf");
const GATEWAY_HAPROXY: &str = include_str!("../peers/gateway-haproxy.cfg");
const GATEWAY_THRUWAY: &str = include_str!("../peers/gateway-thruway.toml");

/// A backend that closes after each response.
pub(crate) const CLOSING_BACKEND: &str = include_str!("../peers/closing.py");

impl Program {
    /// Returns the place of a program that is built, below the folder `peers`.
    pub(crate) fn place(&self) -> Option<String> {
        match self {
            Self::Ours | Self::Installed(_) => None,
            Self::Cargo(package) => Some(format!("target/release/{package}")),
            Self::Go(command) => Some(format!("target/go/{command}")),
            Self::Debian(package) => Some(format!("target/debian/{package}/{package}")),
            // The system's Node, if the packages of the folder have none.
            Self::Node(folder) => Some(format!("target/{folder}/node")),
            Self::Python(folder) => Some(format!("target/{folder}/bin/python")),
        }
    }
}

impl Peer {
    /// Whether it takes part only where a case names it: another setup or version of one that takes part anyway, or who cannot do all that others do.
    pub(crate) fn is_extra(&self) -> bool {
        let is_ours = matches!(self.program, Program::Ours);
        is_ours && self.name != PEERS[0].name || EXTRAS.contains(&self.name)
    }

    /// Whether it answers MCP messages without reading them, as a floor for servers that do.
    pub(crate) fn reads_no_messages(&self) -> bool {
        ["axum-fixed", "ceiling", "pipe-echo", "thruway-echo"].contains(&self.name)
    }

    /// Whether it can take part in a case.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        let is_chosen = match case.peers {
            Peers::All => !self.is_extra(),
            Peers::AllAnd(names) => !self.is_extra() || names.contains(&self.name),
            Peers::Only(names) => names.contains(&self.name),
            Peers::None => false,
        };
        let is_other = self.name != case.ours && self.name != PEERS[0].name;
        is_chosen && is_other && self.setup(case.role()).is_some() && !self.not_in.contains(&case.workload)
    }

    /// How many connections it is given instead of `wanted`, if it has descriptors for fewer.
    pub(crate) fn connections_instead_of(&self, wanted: u32) -> Option<u32> {
        // Others share connections to the backend between clients, or queue requests.
        let room = if self.name == RELAY { descriptors::room_for_clients(2) } else { None };
        room.filter(|room| *room < wanted)
    }

    /// How it is started to be `role`, if it can be.
    pub(crate) fn setup(&self, role: Role) -> Option<&'static Setup> {
        self.setups.iter().find(|setup| setup.role == role)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::case::{Between, Peers};
    use crate::cases::cases;

    use super::*;

    #[test]
    fn every_peer_that_a_case_names_is_in_the_table_once() {
        let names: BTreeSet<_> = PEERS.iter().map(|peer| peer.name).collect();
        assert_eq!(names.len(), PEERS.len());
        for case in cases(&Workload::ALL) {
            if let Peers::Only(named) | Peers::AllAnd(named) = case.peers {
                assert!(named.iter().all(|name| names.contains(name)), "{}: {named:?}", case.name);
            }
        }
    }

    #[test]
    fn another_setup_of_a_peer_takes_part_only_where_it_is_named() {
        let extras: Vec<_> = PEERS.iter().filter(|peer| peer.is_extra()).collect();
        assert!(!PEERS[0].is_extra() && extras.len() == 27);
        for extra in extras {
            let is_named = |case: &Case| match case.peers {
                Peers::Only(named) | Peers::AllAnd(named) => named.contains(&extra.name),
                Peers::All | Peers::None => false,
            };
            let is_named = |case: &Case| is_named(case) || case.ours == extra.name;
            assert!(cases(&Workload::ALL).iter().any(is_named), "{}", extra.name);
        }
    }

    #[test]
    fn who_reads_no_http_stands_before_backends_that_keep_connections_and_with_fewer_clients() {
        let relay = PEERS.iter().find(|peer| peer.name == RELAY).unwrap();
        for case in cases(&Workload::ALL) {
            let is_named =
                matches!(case.peers, Peers::Only(named) | Peers::AllAnd(named) if named.contains(&RELAY));
            let can_be = case.between == Between::Gateways && !case.is_http2;
            assert!(can_be || !is_named, "{}", case.name);
        }
        assert_eq!(relay.connections_instead_of(1), None);
        assert_eq!(relay.connections_instead_of(u32::MAX), descriptors::room_for_clients(2));
        assert_eq!(PEERS[0].connections_instead_of(u32::MAX), None);
    }

    #[test]
    fn ours_can_be_everything_and_comes_first() {
        let ours = &PEERS[0];
        assert!(matches!(ours.program, Program::Ours));
        let of_https = [Role::Tls, Role::Http2, Role::Http2Gateway];
        for role in [Role::Http, Role::Mcp, Role::Pipes, Role::Gateway].into_iter().chain(of_https) {
            assert!(ours.setup(role).is_some(), "{role:?}");
        }
    }
}
