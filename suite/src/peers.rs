//! The servers that can take part, as a table: what they are, how they are started, how they are set up.

use crate::cases::Workload;

use crate::descriptors;

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
    /// Where peers were built, below the folder `bench`.
    Built(&'static str),
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
}

/// What a server can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It has `GET /plaintext`.
    Http,
    /// It has `POST /mcp`.
    Mcp,
    /// It speaks MCP on its standard input and output.
    Pipes,
    /// It stands before others.
    Gateway,
    /// It has `GET /ok` and `/download?bytes=N` in TLS.
    Tls,
    /// It has the same over HTTP/2.
    Http2,
    /// It stands before others and speaks HTTP/2 with its clients.
    Http2Gateway,
}

/// How a server is started to be one thing. `{address}`, `{host}`, `{port}`, `{directory}`, `{content}`, `{config}`, `{backend}`, `{backend_port}`, `{certificate}`, `{key}` and
/// `{certificate_and_key}` are filled in.
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
const fn built(name: &'static str, about: &'static str, program: &'static str, version: Version) -> Peer {
    Peer { name, about, program: Program::Built(program), version, setups: LISTENING, not_in: &[] }
}

const fn built_for_mcp(
    name: &'static str,
    about: &'static str,
    program: &'static str,
    version: Version,
) -> Peer {
    Peer { setups: SPEAKING_MCP, ..built(name, about, program, version) }
}

/// Another version of one that is installed, which `cargo xtask bench` takes from Debian.
const fn newest(
    name: &'static str,
    about: &'static str,
    program: &'static str,
    setups: &'static [Setup],
) -> Peer {
    Peer {
        name,
        about,
        program: Program::Built(program),
        version: Version::Printed("-v"),
        setups,
        not_in: &[],
    }
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
    &[setup(Role::Mcp, &["--listen", "{address}"]), setup(Role::Pipes, &["--stdio"])];

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
        ..built(
            "ceiling",
            "raw epoll, a constant answer, nothing parsed: what the kernel's part costs",
            "target/release/bench-ceiling",
            Version::Locked("bench-ceiling"),
        )
    },
    newest(
        "haproxy-newest",
        "as `haproxy`, the newest that Debian has",
        "target/debian/haproxy/haproxy",
        &[configured(Role::Gateway, HAPROXY, GATEWAY_HAPROXY)],
    ),
    newest(
        "nginx-newest",
        "as `nginx`, the newest that Debian has",
        "target/debian/nginx/nginx",
        &[configured(Role::Gateway, NGINX, GATEWAY_NGINX)],
    ),
    Peer {
        setups: &[setup(Role::Gateway, &["--listen", "{address}", "--backend", "{backend}"])],
        ..built(
            RELAY,
            "passes octets on and reads no HTTP, a connection to the backend for each client: what the kernel's part of a gateway costs",
            "target/release/bench-relay",
            Version::Locked("bench-relay"),
        )
    },
    Peer {
        setups: &[
            setup(Role::Http, &["--listen", "{address}"]),
            setup(Role::Http2, &["--listen", "{address}", "--http2"]),
        ],
        ..built("hyper", "`pipeline_flush`, mimalloc", "target/release/bench-hyper", Version::Locked("hyper"))
    },
    built("axum", "`axum::serve`, mimalloc", "target/release/bench-axum", Version::Locked("axum")),
    Peer {
        setups: &[setup(Role::Http, &["--listen", "{address}", "--pipeline-flush"])],
        ..built(
            "axum-flush",
            "axum on hyper with `pipeline_flush`, which `axum::serve` does not set; where there are pipelines",
            "target/release/bench-axum",
            Version::Locked("axum"),
        )
    },
    built("actix", "actix-web, mimalloc", "target/release/bench-actix", Version::Locked("actix-web")),
    built(
        "ntex",
        "its HTTP service alone, io_uring, mimalloc",
        "target/release/bench-ntex",
        Version::Locked("ntex"),
    ),
    Peer {
        // It reads no `Connection`.
        not_in: &[Workload::Persistence],
        ..built(
            "may_minihttp",
            "mimalloc",
            "target/release/bench-may-minihttp",
            Version::Locked("may_minihttp"),
        )
    },
    built(
        "fasthttp",
        "Go, `GOMAXPROCS` 1",
        "target/go/fasthttp",
        Version::GoModule("github.com/valyala/fasthttp"),
    ),
    built("nethttp", "Go's net/http, `GOMAXPROCS` 1", "target/go/nethttp", Version::Go),
    built_for_mcp(
        "rmcp",
        "the official Rust SDK, JSON answers, no sessions, mimalloc",
        "target/release/bench-rmcp",
        Version::Locked("rmcp"),
    ),
    built_for_mcp(
        "tower-mcp",
        "JSON answers, no sessions, mimalloc",
        "target/release/bench-tower-mcp",
        Version::Locked("tower-mcp"),
    ),
    built_for_mcp(
        "mcp-go",
        "mark3labs/mcp-go, `GOMAXPROCS` 1, `GOGC` 400, no sessions",
        "target/go/mcpgo",
        Version::GoModule("github.com/mark3labs/mcp-go"),
    ),
    built_for_mcp(
        "go-sdk",
        "the official Go SDK, `GOMAXPROCS` 1, `GOGC` 400, no sessions",
        "target/go/gosdk",
        Version::GoModule("github.com/modelcontextprotocol/go-sdk"),
    ),
];

/// It takes two descriptors for each client.
const RELAY: &str = "relay";

const GATEWAY_NGINX: &str = include_str!("../peers/gateway-nginx.conf");
const GATEWAY_HAPROXY: &str = include_str!("../peers/gateway-haproxy.cfg");
const GATEWAY_THRUWAY: &str = include_str!("../peers/gateway-thruway.toml");

/// A backend that closes after each response.
pub(crate) const CLOSING_BACKEND: &str = include_str!("../peers/closing.py");

impl Peer {
    /// Whether it takes part only where a case names it: another setup or version of one that takes part anyway, or who cannot do all that others do.
    pub(crate) fn is_extra(&self) -> bool {
        const EXTRAS: &[&str] = &["haproxy-tuned", "haproxy-newest", "nginx-newest", "axum-flush", RELAY];
        let is_ours = matches!(self.program, Program::Ours);
        is_ours && self.name != PEERS[0].name || EXTRAS.contains(&self.name)
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

    use crate::cases::{Between, Peers, cases};

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
        assert!(!PEERS[0].is_extra() && extras.len() == 13);
        for extra in extras {
            let is_named = |case: &crate::cases::Case| match case.peers {
                Peers::Only(named) | Peers::AllAnd(named) => named.contains(&extra.name),
                Peers::All | Peers::None => false,
            };
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
