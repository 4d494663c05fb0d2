//! The upstreams that the corpus goes to, as `upstreams.toml` lists them: each logs the requests that it saw,
//! and all but nginx answer with them too.

use std::any::Any;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use super::ours;
use crate::child::Running;
use crate::interop::check::Scene;
use crate::interop::words;
use crate::server::{Server, without_scheme};

/// The list in `upstreams.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    upstream: Vec<Upstream>,
}

/// An upstream that the corpus goes to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    /// The program that must be installed.
    pub(super) program: String,
    pub(super) what: String,
    /// `true` if its answers describe the requests.
    #[serde(default = "yes")]
    pub(super) tells: bool,
    /// `true` if only `--full` includes it, because it has to be installed.
    #[serde(default)]
    pub(super) full_only: bool,
    /// The command, which prints its address; `{log}` is the file to log to. nginx and our own engine have
    /// none.
    #[serde(default)]
    command: Vec<String>,
}

const fn yes() -> bool {
    true
}

/// A running upstream; dropping it ends it.
pub(super) struct Started {
    _running: Box<dyn Any>,
    /// `IP:PORT`.
    pub(super) address: String,
}

/// Returns all upstreams.
pub(super) fn all() -> anyhow::Result<Vec<Upstream>> {
    let list: List = toml::from_str(include_str!("upstreams.toml"))?;
    Ok(list.upstream)
}

impl Upstream {
    /// Starts it with an empty log.
    pub(super) fn start(&self, log: &Path, scene: &Scene<'_>) -> anyhow::Result<Started> {
        fs::write(log, "")?;
        match self.program.as_str() {
            "thruway" => {
                let ours = ours::start(log)?;
                let address = without_scheme(&ours.url).to_owned();
                Ok(Started { _running: Box::new(ours), address })
            }
            "nginx" => nginx(log, scene),
            _ => {
                let places = [("log", text(log)?)];
                let words = words::filled(&self.command, &places, scene)?;
                let (program, arguments) = words.split_first().context("there is no command")?;
                let output = scene.directory.join("upstream.log");
                let server = Server::start(Path::new(program), arguments, &output, scene.stop)?;
                let address = server.address().to_owned();
                Ok(Started { _running: Box::new(server), address })
            }
        }
    }
}

fn nginx(log: &Path, scene: &Scene<'_>) -> anyhow::Result<Started> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let directory = scene.directory.join("nginx");
    fs::create_dir_all(&directory)?;
    let config = include_str!("../upstreams/nginx.conf")
        .replace("{address}", &address.to_string())
        .replace("{log}", &text(log)?)
        .replace("{directory}", &text(&directory)?);
    let file = directory.join("nginx.conf");
    fs::write(&file, config)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&directory).args(["-e", "stderr", "-c"]).arg(&file);
    let running = Running::start_listening(command, address, &directory.join("output"), scene.stop)?;
    Ok(Started { _running: Box::new(running), address: address.to_string() })
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).context("the temporary directory's path is not UTF-8")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_can_be_read() {
        let is_special = |program: &str| ["thruway", "nginx"].contains(&program);
        let all = super::all().unwrap();
        assert!(all.iter().all(|upstream| upstream.command.is_empty() == is_special(&upstream.program)));
        assert_eq!(all.len(), 7);
    }
}
