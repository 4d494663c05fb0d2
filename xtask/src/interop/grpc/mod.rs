//! gRPC: clients of `grpcio` (Python) and `grpc-go` ask servers of both through a gateway, and ours, in clear
//! and in TLS.

// the server that is ours
mod ours;

use std::any::Any;
use std::path::Path;
use std::time::Duration;

use thruway_testkit::CertificateAuthority;

use super::check::Scene;
use super::words;
use crate::child;
use crate::program::find_on_path;
use crate::server::{Server, without_scheme};

/// A client and server of gRPC.
struct Speaker {
    /// The program that must be installed.
    program: &'static str,
    /// The command of both ends, without its arguments; empty for a server in this process.
    command: &'static [&'static str],
}

const PYTHON: Speaker =
    Speaker { program: "python3", command: &["{python:grpc}/python", "-I", "{file:grpc/echo.py}"] };
const GO: Speaker = Speaker { program: "go", command: &["{go:grpc}/grpc"] };
const OURS: Speaker = Speaker { program: "thruway", command: &[] };

const CLIENTS: [&Speaker; 2] = [&PYTHON, &GO];

/// The servers, and whether a gateway stands before them.
const SERVERS: [(&Speaker, bool); 4] = [(&PYTHON, true), (&GO, true), (&OURS, true), (&OURS, false)];

/// Has every client ask every server.
pub(super) fn run(scene: &Scene<'_>) -> anyhow::Result<()> {
    let pairs = CLIENTS.iter().flat_map(|client| SERVERS.iter().map(move |server| (client, server)));
    for (client, &(server, has_gateway)) in pairs {
        for is_secured in [false, true] {
            let how = if is_secured { "in TLS" } else { "in clear" };
            let way = if has_gateway { "" } else { ", no gateway" };
            let what = format!("gRPC to {}, {how}{way}", server.program);
            if !server.command.is_empty() && find_on_path(server.program).is_none() {
                scene.not_installed(server.program, &what);
                continue;
            }
            let call = Call {
                client,
                server,
                has_gateway,
                authority: is_secured.then(CertificateAuthority::new),
                scene,
            };
            scene.check(client.program, &what, || call.run())?;
        }
    }
    Ok(())
}

/// A client, a server, and the way between them, which has TLS if there is an authority.
struct Call<'c> {
    client: &'c Speaker,
    server: &'c Speaker,
    has_gateway: bool,
    authority: Option<CertificateAuthority>,
    scene: &'c Scene<'c>,
}

impl Call<'_> {
    /// Runs the calls, and returns the line that the client prints.
    fn run(&self) -> anyhow::Result<String> {
        let stop = self.scene.stop;
        let files = self.authority.as_ref().map(|authority| authority.issue("www", &["127.0.0.1"]));
        let files: Vec<_> = files.iter().flat_map(|files| [&*files.chain, &*files.key]).collect();
        let root = self.authority.as_ref().map(CertificateAuthority::root).unwrap_or_default();
        let (_server, url) = self.start_server(&files)?;
        let gateway = self.has_gateway.then(|| self.start_gateway(&url, &files, &root)).transpose()?;
        let url = gateway.as_ref().map_or(url, Server::url);
        let mut command = words::command(self.client.command, &[], self.scene)?;
        command.arg(url).arg(root);
        let said = child::output_of("the client of gRPC", command, LIMIT, stop)?;
        gateway.map(|gateway| gateway.end(stop)).transpose()?;
        Ok(said.trim().to_owned())
    }

    /// Returns the server, which ends when dropped, and its URL.
    fn start_server(&self, files: &[&Path]) -> anyhow::Result<(Box<dyn Any>, String)> {
        if self.server.command.is_empty() {
            let ours = ours::start(files)?;
            let url = ours.url.clone();
            return Ok((Box::new(ours), url));
        }
        let mut command = words::command(self.server.command, &[], self.scene)?;
        command.arg("serve").args(files);
        let server = Server::start(command, &self.scene.directory.join("upstream.log"), self.scene.stop)?;
        let url = server.url();
        Ok((Box::new(server), url))
    }

    fn start_gateway(&self, upstream: &str, files: &[&Path], root: &Path) -> anyhow::Result<Server> {
        let mut config = include_str!("gateway.toml").replace("{upstream}", without_scheme(upstream));
        if let [chain, key] = files {
            let files = [("chain", *chain), ("key", *key), ("root", root)];
            let places = files.map(|(name, file)| (name, file.display().to_string()));
            config = words::replaced(&config, &places).replace("# In TLS: ", "");
        }
        Server::serve(
            self.scene.program,
            &config,
            &self.scene.directory.join("gateway.toml"),
            self.scene.stop,
        )
    }
}

const LIMIT: Duration = Duration::from_secs(90);
