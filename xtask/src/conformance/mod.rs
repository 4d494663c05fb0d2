//! `cargo xtask conformance`: runs the official MCP conformance suite against the server and the client in
//! `conformance/`.
//!
//! The suite is not part of this repository; npm installs it. Its scenarios for authorization servers do not
//! run, because Thruway has no such server. `--through` also runs the scenarios for servers through bridges or
//! federations with HTTP on both sides. A federation has one member, and keeps the names of its tools. Neither
//! a bridge nor such a federation may change any result.

// the result files of the suite
mod results;
// three gateways that share their state
mod fleet;

use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::program::{self, BUILD_LIMIT, Profile};
use crate::server::Server;
use crate::stop::Stop;
use crate::{child, list, packages};
use results::Results;

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also run the scenarios for servers through one hop and through two hops. With hops, at least as many
    /// checks must pass as without hops
    #[arg(long)]
    through: Option<Hop>,
}

/// A program between the suite and the server.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Hop {
    /// `thruway mcp bridge`
    Bridge,
    /// `thruway mcp federate` with one server and plain names
    Federation,
    /// Three gateways that share Redis. Each request goes to another gateway. Only one hop
    Fleet,
}

impl Hop {
    /// Returns the arguments of `thruway` for a hop in front of the server at `url`.
    fn arguments(self, url: &str) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Bridge => words(&["mcp", "bridge", url]),
            Self::Federation | Self::Fleet => {
                words(&["mcp", "federate", "--names", "plain", &format!("server={url}")])
            }
        }
    }
}

/// Scenarios that run together: an entry of `sets.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    side: Side,
    name: String,
    /// Arguments of the suite that select these scenarios.
    arguments: Vec<String>,
    /// Arguments of our server.
    #[serde(default)]
    of_server: Vec<String>,
    /// `true` if the set runs through bridges and federations too.
    #[serde(default)]
    through_hops: bool,
}

/// The side of a connection that the suite tests.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Side {
    #[serde(rename = "server")]
    Server,
    #[serde(rename = "client")]
    Client,
}

fn sets() -> anyhow::Result<Vec<Set>> {
    list::read(include_str!("sets.toml"))
}

/// Builds the programs, installs the suite, runs it, and prints the results of each set.
///
/// # Errors
/// A check failed, or passed only without hops, or a program did not run.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = &Stop::new(BUILD_LIMIT)?;
    let programs = program::build(&["thruway-conformance", "thruway"], Profile::Dev, stop)?;
    let suite = Suite {
        program: packages::npm("conformance", stop)?.join("@modelcontextprotocol/conformance/dist/index.js"),
        node: packages::node("conformance", stop)?,
        programs,
        hop: options.through,
        stop,
    };
    let hops_max = match options.through {
        None => 0,
        Some(Hop::Fleet) => 1,
        Some(Hop::Bridge | Hop::Federation) => 2,
    };
    let mut mistakes = Vec::new();
    println!("{:30} {:>9} {:>6} {:>6} {:>7}", "", "scenarios", "passed", "failed", "skipped");
    for set in sets()?.iter().filter(|set| set.through_hops || hops_max == 0) {
        let mut direct = None;
        for hops in 0..=hops_max {
            let through = if hops == 0 { String::new() } else { format!(", hops: {hops}") };
            let name = format!("{:?} {}{through}", set.side, set.name);
            let results = suite.run(set, hops).with_context(|| name.clone())?;
            println!("{name:30} {results}");
            let lost = direct.as_ref().map(|direct| results.lost_from(direct)).unwrap_or_default();
            let found = results.failures().into_iter().chain(lost);
            mistakes.extend(found.map(|mistake| format!("{name}: {mistake}")));
            direct.get_or_insert(results);
        }
    }
    ensure!(mistakes.is_empty(), "{} results are not as expected:\n{}", mistakes.len(), mistakes.join("\n"));
    Ok(())
}

/// The installed suite, and the programs under test.
struct Suite<'s> {
    node: PathBuf,
    program: PathBuf,
    programs: PathBuf,
    hop: Option<Hop>,
    stop: &'s Stop,
}

impl Suite<'_> {
    /// Runs a set through `hops` hops.
    ///
    /// # Errors
    /// The suite did not finish. A failed check is not an error: the results contain it.
    fn run(&self, set: &Set, hops: usize) -> anyhow::Result<Results> {
        let directory = tempfile::Builder::new().prefix("thruway-conformance-").tempdir()?;
        let output = directory.path().join("results");
        let mut command = Command::new(&self.node);
        command.arg(&self.program);
        let servers = match set.side {
            Side::Server => {
                let (servers, url) = self.start(set, hops, directory.path())?;
                command.args(["server", "--url", &url]);
                servers
            }
            Side::Client => {
                // The suite runs the command in a shell, so this code quotes the path.
                let client = format!("'{}'", self.programs.join("conformance-client").display());
                command.args(["client", "--command", &client]);
                Vec::new()
            }
        };
        command.args(&set.arguments).arg("-o").arg(&output);
        let printed = child::any_output_of(command, RUN_LIMIT, self.stop)?;
        ensure!(printed.contains("SUMMARY ==="), "the suite did not finish:\n{}", child::tail(&printed));
        // Ends the last hop first, because a running hop still uses the server before it.
        for server in servers.into_iter().rev() {
            server.end(self.stop)?;
        }
        Results::read(&output)
    }

    /// Starts our server and the hops in front of it. Returns the server and the hops, and the URL of the last
    /// of them.
    fn start(&self, set: &Set, hops: usize, directory: &Path) -> anyhow::Result<(Vec<Server>, String)> {
        let (mut servers, mut url) = (Vec::new(), String::new());
        let hops = self.hop.into_iter().flat_map(|hop| iter::repeat_n(hop, hops));
        for (index, hop) in iter::once(None).chain(hops.map(Some)).enumerate() {
            if let Some(Hop::Fleet) = hop {
                let (fleet, front) =
                    fleet::start(&self.programs.join("thruway"), &url, directory, self.stop)?;
                servers.extend(fleet);
                url = format!("{front}/mcp");
                continue;
            }
            let (program, arguments) = match hop {
                None => ("conformance-server", set.of_server.clone()),
                Some(hop) => ("thruway", hop.arguments(&url)),
            };
            let mut command = Command::new(self.programs.join(program));
            command.args(arguments).args(["--listen", "127.0.0.1:0"]);
            let server = Server::start(command, &directory.join(format!("{index}.log")), self.stop)?;
            url = format!("{}/mcp", server.url());
            servers.push(server);
        }
        Ok((servers, url))
    }
}

/// Time limit for one set of scenarios. A set takes only a few seconds.
const RUN_LIMIT: Duration = Duration::from_mins(2);

#[cfg(test)]
mod tests {
    #[test]
    fn sets_can_be_read() {
        let sets = super::sets().unwrap();
        assert_eq!((sets.len(), sets.iter().filter(|set| set.through_hops).count()), (11, 2));
    }
}
