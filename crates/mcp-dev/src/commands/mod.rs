//! The commands of `thruway mcp` for authors of MCP servers, with their arguments.

mod dev;
mod install;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::message::{CommandError, print};
use crate::new::{CrateSource, NewProject, PackageName};

/// A command of `thruway mcp` for authors of MCP servers.
#[derive(Subcommand)]
pub enum AuthorCommand {
    /// Create a Cargo project with an MCP server
    New(NewArgs),
    /// Add a server to the config of Claude Desktop, VS Code or Cursor, or remove it
    Install(Box<install::InstallArgs>),
    /// Run a server during its development: restart it when its source changes, and serve an inspector page
    Dev(dev::DevArgs),
}

impl AuthorCommand {
    /// Runs the command. Prints the result to the standard output.
    ///
    /// # Errors
    /// The command failed. The error names the reason, and the next step of the user.
    pub fn run(&self) -> Result<ExitCode, CommandError> {
        match self {
            Self::New(args) => args.run(),
            Self::Install(args) => args.run(),
            Self::Dev(args) => args.run(),
        }
    }
}

/// Arguments of `thruway mcp new`.
#[derive(clap::Args)]
#[command(after_help = PROJECTS)]
pub struct NewArgs {
    /// Name of the package. The command creates a directory of this name
    name: PackageName,
    /// Existing directory for the new directory
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    parent: PathBuf,
    /// Use the crates in this checkout of the Thruway repository, instead of the crates on crates.io
    ///
    /// By default, the project depends on the version of this program from crates.io. If crates.io does not
    /// have this version, Cargo cannot build the project. Then pass a checkout.
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
}

impl NewArgs {
    fn run(&self) -> Result<ExitCode, CommandError> {
        let crates = self.path.clone().map_or(CrateSource::Registry, CrateSource::Checkout);
        let directory =
            NewProject { name: self.name.clone(), parent: self.parent.clone(), crates }.create()?;
        let directory = directory.display();
        let note = match self.path {
            Some(_) => String::new(),
            None => format!(
                "The project uses version {} of the Thruway crates from crates.io. If Cargo does not find them \
                 there, create\nthe project again with `--path` and a checkout of the Thruway repository.\n",
                env!("CARGO_PKG_VERSION")
            ),
        };
        Ok(print(&format!(
            "created `{directory}`\n{note}Next steps:\n  cd {directory}\n  cargo test\n  thruway mcp inspect \
             -- cargo run --quiet\n"
        )))
    }
}

const PROJECTS: &str = "\
Projects:
  thruway mcp new notes
      Creates the directory `notes`: a server with two tools, a prompt and a resource, and its tests. The server
      uses stdio, or HTTP with `--http ADDRESS`
  thruway mcp new notes --path ../thruway
      The same with the crates in the checkout `../thruway`

Exit codes:
  0  The project was created
  2  The arguments are invalid, the directory exists, or a file cannot be written";
