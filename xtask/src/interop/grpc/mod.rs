//! gRPC: clients of `grpcio` (Python) and `grpc-go` ask servers of both through a gateway, and ours, in clear
//! and in TLS.

// the server that is ours
mod ours;

use std::any::Any;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::check::{self, Row, Setting};
use super::tls::{Authority, Key};
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
    Speaker { program: "python3", command: &["{python:grpc}", "-I", "{file:grpc/echo.py}"] };
const GO: Speaker = Speaker { program: "go", command: &["{go-module:grpc:grpc-go}/grpc"] };
const OURS: Speaker = Speaker { program: "thruway", command: &[] };

const CLIENTS: [&Speaker; 2] = [&PYTHON, &GO];

/// The servers, and whether a gateway stands before them.
const SERVERS: [(&Speaker, bool); 4] = [(&PYTHON, true), (&GO, true), (&OURS, true), (&OURS, false)];

/// Has every client ask every server.
pub(super) fn run(setting: &Setting<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let pairs = CLIENTS.iter().flat_map(|client| SERVERS.iter().map(move |server| (client, server)));
    for (client, &(server, has_gateway)) in pairs {
        for is_secured in [false, true] {
            let call = Call { client, server, has_gateway, is_secured, setting };
            let missing = [client, server].into_iter().find(|end| !end.is_there());
            if let Some(missing) = missing {
                rows.push(Row::not_installed(missing.program, &call.what()));
                continue;
            }
            eprintln!("{}: {}", client.program, call.what());
            rows.push(check::row(client.program, &call.what(), || call.run()));
            setting.stop.check()?;
        }
    }
    Ok(rows)
}

impl Speaker {
    fn is_there(&self) -> bool {
        self.command.is_empty() || find_on_path(self.program).is_some()
    }
}

/// A client, a server, and the way between them.
struct Call<'c> {
    client: &'c Speaker,
    server: &'c Speaker,
    has_gateway: bool,
    is_secured: bool,
    setting: &'c Setting<'c>,
}

impl Call<'_> {
    fn what(&self) -> String {
        let how = if self.is_secured { "in TLS" } else { "in clear" };
        let way = if self.has_gateway { "" } else { ", no gateway" };
        format!("gRPC to {}, {how}{way}", self.server.program)
    }

    /// Runs the calls, and returns the line that the client prints.
    fn run(&self) -> anyhow::Result<String> {
        let stop = self.setting.stop;
        let directory = tempfile::tempdir_in(self.setting.directory)?;
        let directory = directory.path();
        if self.is_secured {
            Authority::new(directory, stop)?.issue_server(Key::P256, directory)?;
        }
        let (_server, url) = self.start_server(directory)?;
        let gateway = self.has_gateway.then(|| self.start_gateway(&url, directory)).transpose()?;
        let url = gateway.as_ref().map_or(url, Server::url);
        let words = self.words(self.client)?;
        let (program, arguments) = words.split_first().context("there is no client")?;
        let mut command = Command::new(program);
        command.args(arguments).arg(url).arg(directory.join("root.pem"));
        let said = child::output_of("the client of gRPC", command, LIMIT, stop)?;
        gateway.map(|gateway| gateway.end(stop)).transpose()?;
        Ok(said.trim().to_owned())
    }

    /// Returns the server, which ends when dropped, and its URL.
    fn start_server(&self, directory: &Path) -> anyhow::Result<(Box<dyn Any>, String)> {
        let mut words = self.words(self.server)?.into_iter().map(OsString::from);
        let Some(program) = words.next() else {
            let ours = ours::start(directory, self.is_secured)?;
            let url = ours.url.clone();
            return Ok((Box::new(ours), url));
        };
        let files = ["www.pem", "www.key"].map(|name| directory.join(name).into_os_string());
        let files = files.into_iter().filter(|_| self.is_secured);
        let arguments: Vec<_> = words.chain(["serve".into()]).chain(files).collect();
        let log = directory.join("upstream.log");
        let server = Server::start(Path::new(&program), &arguments, &log, self.setting.stop)?;
        let url = server.url();
        Ok((Box::new(server), url))
    }

    fn words(&self, speaker: &Speaker) -> anyhow::Result<Vec<String>> {
        let words: Vec<_> = speaker.command.iter().map(|word| (*word).to_owned()).collect();
        words::filled(&words, &[], &self.setting.scene(String::new(), 0, &[]))
    }

    fn start_gateway(&self, upstream: &str, directory: &Path) -> anyhow::Result<Server> {
        let [listener, servers] = if self.is_secured { SECURED } else { [""; 2] };
        let config = CONFIG.replace("{upstream}", without_scheme(upstream)).replace("{listener}", listener);
        let file = directory.join("gateway.toml");
        Server::serve(self.setting.program, &(config + servers), &file, self.setting.stop)
    }
}

const CONFIG: &str = include_str!("gateway.toml");

/// Further settings of the listener and of the upstream.
const SECURED: [&str; 2] =
    ["tls.certificates = [{ chain = \"www.pem\", key = \"www.key\" }]\n", "tls.roots = [\"root.pem\"]\n"];

const LIMIT: Duration = Duration::from_secs(90);
