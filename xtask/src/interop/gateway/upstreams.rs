//! The upstreams that others wrote, and ours: each tells in its log, and all but nginx in their answers too,
//! what they were asked.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::ours::Ours;
use crate::child::{self, Running};
use crate::packages;
use crate::server::Server;
use crate::stop::Stop;

/// An upstream that the corpus goes to.
pub(super) struct Upstream {
    /// The program without which there is none.
    pub(super) program: &'static str,
    pub(super) what: &'static str,
    /// Whether it answers what it was asked.
    pub(super) tells: bool,
    /// Whether it is left to `--full`, because it is installed first.
    pub(super) full_only: bool,
    start: fn(&Place<'_>) -> anyhow::Result<Started>,
}

/// Where an upstream is started.
pub(super) struct Place<'p> {
    pub(super) directory: &'p Path,
    pub(super) log: &'p Path,
    pub(super) stop: &'p Stop,
}

/// A running upstream; dropping it ends it.
pub(super) struct Started {
    _running: Any,
    /// `IP:PORT`.
    pub(super) address: String,
}

#[expect(dead_code, reason = "held so that they end when dropped")]
enum Any {
    Ours(Ours),
    Server(Server),
    Child(Running),
}

pub(super) const UPSTREAMS: &[Upstream] = &[
    upstream("thruway", "our own engine", ours),
    Upstream { tells: false, ..upstream("nginx", "nginx", nginx) },
    upstream("node", "node:http", node),
    upstream("python3", "http.server", http_server),
    upstream("go", "net/http", net_http),
    Upstream { full_only: true, ..upstream("python3", "uvicorn with h11", h11) },
    Upstream { full_only: true, ..upstream("python3", "uvicorn with httptools", httptools) },
];

const fn upstream(
    program: &'static str,
    what: &'static str,
    start: fn(&Place<'_>) -> anyhow::Result<Started>,
) -> Upstream {
    Upstream { program, what, tells: true, full_only: false, start }
}

impl Upstream {
    /// Starts it with an empty log.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub(super) fn start(&self, place: &Place<'_>) -> anyhow::Result<Started> {
        fs::write(place.log, "")?;
        (self.start)(place)
    }
}

fn ours(place: &Place<'_>) -> anyhow::Result<Started> {
    let ours = Ours::start(place.log)?;
    let address = without_scheme(&ours.url);
    Ok(Started { _running: Any::Ours(ours), address })
}

fn node(place: &Place<'_>) -> anyhow::Result<Started> {
    let script = place.directory.join("seen.mjs");
    fs::write(&script, NODE)?;
    server(place, Path::new("node"), &[&text(&script)?])
}

fn http_server(place: &Place<'_>) -> anyhow::Result<Started> {
    server(place, Path::new("python3"), &["-I", "-c", PYTHON])
}

fn h11(place: &Place<'_>) -> anyhow::Result<Started> {
    uvicorn(place, "h11")
}

fn httptools(place: &Place<'_>) -> anyhow::Result<Started> {
    uvicorn(place, "httptools")
}

fn uvicorn(place: &Place<'_>, parser: &str) -> anyhow::Result<Started> {
    let python = packages::python("gateway", place.stop)?;
    server_with(place, &python, &["-I", "-c", ASGI], &[parser])
}

fn net_http(place: &Place<'_>) -> anyhow::Result<Started> {
    let source = place.directory.join("seen.go");
    fs::write(&source, GO)?;
    let program = packages::go_file(&source, place.directory, place.stop)?;
    server(place, &program, &[])
}

fn nginx(place: &Place<'_>) -> anyhow::Result<Started> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let directory = place.directory.join("nginx");
    fs::create_dir_all(&directory)?;
    let config = directory.join("nginx.conf");
    let filled =
        [("{address}", address.to_string()), ("{log}", text(place.log)?), ("{directory}", text(&directory)?)]
            .iter()
            .fold(NGINX.to_owned(), |config, (name, value)| config.replace(name, value));
    fs::write(&config, filled)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&directory).args(["-e", "stderr", "-c"]).arg(&config);
    let log = directory.join("output");
    let mut running = Running::start(command, &log)?;
    place.stop.wait("nginx to listen", START, || {
        if running.ended()?.is_some() {
            anyhow::bail!("nginx ended\n{}", child::tail(&fs::read_to_string(&log)?));
        }
        Ok(TcpStream::connect(address).ok())
    })?;
    Ok(Started { _running: Any::Child(running), address: address.to_string() })
}

/// A program whose last argument is the log, and that says where it listens.
fn server(place: &Place<'_>, program: &Path, arguments: &[&str]) -> anyhow::Result<Started> {
    server_with(place, program, arguments, &[])
}

fn server_with(
    place: &Place<'_>,
    program: &Path,
    arguments: &[&str],
    after_log: &[&str],
) -> anyhow::Result<Started> {
    let log = text(place.log)?;
    let arguments = [arguments, &[log.as_str()], after_log].concat();
    let output = place.directory.join("upstream.log");
    let server = Server::start(program, &arguments, &output, place.stop)?;
    let address = without_scheme(&server.url());
    Ok(Started { _running: Any::Server(server), address })
}

fn without_scheme(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

fn text(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = path.to_owned();
    path.into_os_string().into_string().ok().context("the temporary directory's path is not UTF-8")
}

const NODE: &str = include_str!("../upstreams/seen.mjs");
const PYTHON: &str = include_str!("../upstreams/seen.py");
const ASGI: &str = include_str!("../upstreams/seen_asgi.py");
const GO: &str = include_str!("../upstreams/seen.go");
const NGINX: &str = include_str!("../upstreams/nginx.conf");

const START: Duration = Duration::from_secs(10);
