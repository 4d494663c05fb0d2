//! Checks gRPC through a gateway, in clear text and over TLS. The clients and servers use `grpcio` (Python)
//! and `grpc-go`. Another server uses our engine.

// a gRPC server with our engine
mod ours;

use std::any::Any;
use std::path::Path;
use std::time::Duration;

use thruway_testkit::CertificateAuthority;

use super::check::Checker;
use super::words;
use crate::child;
use crate::program::find_on_path;
use crate::server::{Server, without_scheme};

/// A program that is a gRPC client and server.
struct GrpcProgram {
    /// The program that must be installed.
    program: &'static str,
    /// The command without arguments; empty for the server in this process.
    command: &'static [&'static str],
}

const PYTHON: GrpcProgram =
    GrpcProgram { program: "python3", command: &["{python:grpc}/python", "-I", "{file:grpc/echo.py}"] };
const GO: GrpcProgram = GrpcProgram { program: "go", command: &["{go:grpc}/grpc"] };
const OURS: GrpcProgram = GrpcProgram { program: "thruway", command: &[] };

const CLIENTS: [&GrpcProgram; 2] = [&PYTHON, &GO];

/// The servers, each with `true` if the calls go through a gateway.
const SERVERS: [(&GrpcProgram, bool); 4] = [(&PYTHON, true), (&GO, true), (&OURS, true), (&OURS, false)];

/// Runs each client with each server.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    let pairs = CLIENTS.iter().flat_map(|client| SERVERS.iter().map(move |server| (client, server)));
    for (client, &(server, has_gateway)) in pairs {
        for is_secured in [false, true] {
            let transport = if is_secured { "over TLS" } else { "in clear text" };
            let path = if has_gateway { "" } else { ", no gateway" };
            let what = format!("gRPC to {}, {transport}{path}", server.program);
            if !server.command.is_empty() && find_on_path(server.program).is_none() {
                checker.not_installed(server.program, &what);
                continue;
            }
            let call = Call {
                client,
                server,
                has_gateway,
                authority: is_secured.then(CertificateAuthority::new),
                checker,
            };
            checker.check(client.program, &what, || call.run())?;
        }
    }
    Ok(())
}

/// A client, a server and the path between them. With `authority`, all connections use TLS.
struct Call<'c> {
    client: &'c GrpcProgram,
    server: &'c GrpcProgram,
    has_gateway: bool,
    authority: Option<CertificateAuthority>,
    checker: &'c Checker<'c>,
}

impl Call<'_> {
    /// Runs the calls, and returns the line that the client prints.
    fn run(&self) -> anyhow::Result<String> {
        let stop = self.checker.stop;
        let files = self.authority.as_ref().map(|authority| authority.issue("www", &["127.0.0.1"]));
        let files: Vec<_> = files.iter().flat_map(|files| [&*files.chain, &*files.key]).collect();
        let root = self.authority.as_ref().map(CertificateAuthority::root).unwrap_or_default();
        let (_server, url) = self.start_server(&files)?;
        let gateway = self.has_gateway.then(|| self.start_gateway(&url, &files, &root)).transpose()?;
        let url = gateway.as_ref().map_or(url, Server::url);
        let mut command = words::command(self.client.command, &[], self.checker)?;
        command.arg(url).arg(root);
        let printed = child::output_of("the gRPC client", command, LIMIT, stop)?;
        gateway.map(|gateway| gateway.end(stop)).transpose()?;
        Ok(printed.trim().to_owned())
    }

    /// Starts the server. Returns its URL, and a value that ends the server when the caller drops it.
    fn start_server(&self, files: &[&Path]) -> anyhow::Result<(Box<dyn Any>, String)> {
        if self.server.command.is_empty() {
            let ours = ours::start(files)?;
            let url = ours.url.clone();
            return Ok((Box::new(ours), url));
        }
        let mut command = words::command(self.server.command, &[], self.checker)?;
        command.arg("serve").args(files);
        let server = Server::start(command, &self.checker.directory.join("upstream.log"), self.checker.stop)?;
        let url = server.url();
        Ok((Box::new(server), url))
    }

    fn start_gateway(&self, upstream: &str, files: &[&Path], root: &Path) -> anyhow::Result<Server> {
        let mut config = include_str!("gateway.toml").replace("{upstream}", without_scheme(upstream));
        if let [chain, key] = files {
            let files = [("chain", *chain), ("key", *key), ("root", root)];
            let placeholders = files.map(|(name, file)| (name, file.display().to_string()));
            config = words::replaced(&config, &placeholders).replace("# In TLS: ", "");
        }
        Server::serve(
            self.checker.program,
            &config,
            &self.checker.directory.join("gateway.toml"),
            self.checker.stop,
        )
    }
}

const LIMIT: Duration = Duration::from_secs(90);
