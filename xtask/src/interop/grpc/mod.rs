//! gRPC: clients of `grpcio` (Python) and `grpc-go` ask servers of both through a gateway, and ours, in clear
//! and in TLS.

// the server that is ours
mod ours;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::check::{self, Row, Setting};
use super::tls::{Authority, Key};
use crate::child;
use crate::packages;
use crate::program::find_on_path;
use crate::server::Server;
use ours::Ours;

/// Who speaks gRPC.
struct Speaker {
    /// The program without which there is nothing to run.
    program: &'static str,
    /// How its ends are started, before what they are to do; `None` if it is a server in this process.
    start: Option<Start>,
}

/// A command line, made ready first.
type Start = fn(&Setting<'_>) -> anyhow::Result<Vec<String>>;

const PYTHON: Speaker = Speaker { program: "python3", start: Some(python) };
const GO: Speaker = Speaker { program: "go", start: Some(go) };
const OURS: Speaker = Speaker { program: "thruway", start: None };

const CLIENTS: [&Speaker; 2] = [&PYTHON, &GO];

/// The servers, and whether a gateway stands before them.
const SERVERS: [(&Speaker, bool); 4] = [(&PYTHON, true), (&GO, true), (&OURS, true), (&OURS, false)];

/// Has every client ask every server.
///
/// # Errors
/// Only when it is time to end.
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
        self.start.is_none() || find_on_path(self.program).is_some()
    }
}

/// Who calls whom, and how.
struct Call<'c> {
    client: &'c Speaker,
    server: &'c Speaker,
    has_gateway: bool,
    is_secured: bool,
    setting: &'c Setting<'c>,
}

/// A server that is called.
enum Called {
    Ours(Ours),
    Child(Server),
}

impl Called {
    fn url(&self) -> String {
        match self {
            Self::Ours(ours) => ours.url.clone(),
            Self::Child(server) => server.url(),
        }
    }
}

impl Call<'_> {
    fn what(&self) -> String {
        let how = if self.is_secured { "in TLS" } else { "in clear" };
        let way = if self.has_gateway { "" } else { ", no gateway" };
        format!("gRPC to {}, {how}{way}", self.server.program)
    }

    /// What the client says of its calls.
    fn run(&self) -> anyhow::Result<String> {
        let stop = self.setting.stop;
        let directory = tempfile::tempdir_in(self.setting.directory)?;
        let directory = directory.path();
        if self.is_secured {
            Authority::new(directory, stop)?.issue_server(Key::P256, directory)?;
        }
        let server = self.start_server(directory)?;
        let gateway = self.has_gateway.then(|| self.start_gateway(&server.url(), directory)).transpose()?;
        let url = gateway.as_ref().map_or_else(|| server.url(), Server::url);
        let start = self.client.start.context("no client")?;
        let mut command = command_of(&start(self.setting)?)?;
        command.arg(url).arg(directory.join("root.pem"));
        let said = child::output_of("the client of gRPC", command, LIMIT, stop)?;
        gateway.map(|gateway| gateway.end(stop)).transpose()?;
        Ok(said.trim().to_owned())
    }

    fn start_server(&self, directory: &Path) -> anyhow::Result<Called> {
        let Some(start) = self.server.start else {
            return Ok(Called::Ours(Ours::start(directory, self.is_secured)?));
        };
        let mut words = start(self.setting)?;
        words.push("serve".to_owned());
        if self.is_secured {
            words.extend([text(&directory.join("www.pem"))?, text(&directory.join("www.key"))?]);
        }
        let (program, arguments) = words.split_first().context("nothing to start")?;
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let log = directory.join("upstream.log");
        Ok(Called::Child(Server::start(Path::new(program), &arguments, &log, self.setting.stop)?))
    }

    fn start_gateway(&self, upstream: &str, directory: &Path) -> anyhow::Result<Server> {
        let address = upstream.split("://").nth(1).context("no address")?;
        let [listener, servers] = if self.is_secured { SECURED } else { [""; 2] };
        let config = CONFIG.replace("{upstream}", address).replace("{listener}", listener);
        let path = directory.join("gateway.toml");
        fs::write(&path, config + servers)?;
        let log = directory.join("gateway.log");
        Server::start(self.setting.program, &["serve", &text(&path)?], &log, self.setting.stop)
    }
}

fn command_of(words: &[String]) -> anyhow::Result<Command> {
    let (program, arguments) = words.split_first().context("nothing to start")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn python(setting: &Setting<'_>) -> anyhow::Result<Vec<String>> {
    let python = packages::python("grpc", setting.stop)?;
    let script = setting.directory.join("echo.py");
    fs::write(&script, SCRIPT)?;
    Ok(vec![text(&python)?, "-I".to_owned(), text(&script)?])
}

fn go(setting: &Setting<'_>) -> anyhow::Result<Vec<String>> {
    let programs = packages::go_module("xtask/src/interop/grpc", "grpc-go", &["."], setting.stop)?;
    Ok(vec![text(&programs.join(GO_PROGRAM))?])
}

fn text(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = path.to_owned();
    path.into_os_string().into_string().ok().context("a path that is not UTF-8")
}

const SCRIPT: &str = include_str!("echo.py");

const CONFIG: &str = r#"
[[listeners]]
address = "127.0.0.1:0"
http2 = true
{listener}

[[routes]]
path = "/"
upstream = "grpc"

[upstreams.grpc]
servers = ["{upstream}"]
http2 = true
"#;

/// What a listener has more, and an upstream.
const SECURED: [&str; 2] =
    ["tls.certificates = [{ chain = \"www.pem\", key = \"www.key\" }]\n", "tls.roots = [\"root.pem\"]\n"];

const LIMIT: Duration = Duration::from_secs(90);
/// Name of the Go module's program.
const GO_PROGRAM: &str = "grpc";
