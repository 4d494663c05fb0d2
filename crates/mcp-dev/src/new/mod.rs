//! A new Cargo project with an MCP server.

mod package_name;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::message::CommandError;
use crate::message::escaped_line;

pub use package_name::{InvalidPackageName, PackageName};

/// Creates a Cargo project with an MCP server: two tools, a prompt, a resource, and tests.
#[derive(Clone, Debug)]
pub struct NewProject {
    /// Name of the package. The project gets a directory of this name.
    pub name: PackageName,
    /// Existing directory that will contain the directory of the project.
    pub parent: PathBuf,
    /// Source of the Thruway crates.
    pub crates: CrateSource,
}

/// Source of the Thruway crates of a new project.
#[derive(Clone, Debug)]
pub enum CrateSource {
    /// The registry crates.io, with the version of this crate.
    Registry,
    /// A checkout of the Thruway repository.
    Checkout(PathBuf),
}

impl NewProject {
    /// Writes the files of the project, and returns its directory.
    ///
    /// # Errors
    /// The directory exists, a file cannot be written, or the checkout does not contain the crates. After an
    /// error, the directory of the project does not exist, unless it existed before.
    pub fn create(&self) -> Result<PathBuf, CommandError> {
        let manifest = self.manifest()?;
        let directory = self.parent.join(self.name.as_str());
        fs::create_dir(&directory).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                CommandError::new(format!("`{}` already exists", directory.display()))
                    .with_hint("choose another name, or another directory with `--in DIR`")
            }
            _ => cannot_write(&directory, &error),
        })?;
        let written = self.write_files(&directory, &manifest);
        if written.is_err() {
            // The command has created this directory. If it cannot be removed, the first error matters more.
            let _ = fs::remove_dir_all(&directory);
        }
        written.map(|()| directory)
    }

    fn write_files(&self, directory: &Path, manifest: &str) -> Result<(), CommandError> {
        let source = directory.join("src");
        fs::create_dir(&source).map_err(|error| cannot_write(&source, &error))?;
        let readme = README.replace("NAME", self.name.as_str());
        for (path, text) in [
            ("Cargo.toml", manifest),
            ("README.md", &readme),
            (".gitignore", GITIGNORE),
            ("src/main.rs", MAIN),
            ("src/server.rs", SERVER),
        ] {
            let path = directory.join(path);
            let written = File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
            written.map_err(|error| cannot_write(&path, &error))?;
        }
        Ok(())
    }

    /// Returns the text of `Cargo.toml`.
    fn manifest(&self) -> Result<String, CommandError> {
        let (sdk, server, tables) = match &self.crates {
            CrateSource::Registry => {
                let version = env!("CARGO_PKG_VERSION");
                (format!("\"{version}\""), format!("\"{version}\""), String::new())
            }
            CrateSource::Checkout(path) => {
                let checkout = Checkout::find(path)?;
                let dependency = |path: &str| Ok(format!("{{ path = {} }}", checkout.quoted(path)?));
                let tables = if checkout.0.join(PATCHED_H2).join("Cargo.toml").is_file() {
                    let h2: String = dependency(PATCHED_H2)?;
                    format!(
                        "\n# The workspace of Thruway has the same patch.\n[patch.crates-io]\nh2 = {h2}\n"
                    )
                } else {
                    String::new()
                };
                (dependency("crates/mcp-sdk")?, dependency("crates/server")?, tables)
            }
        };
        let manifest = MANIFEST
            .replace("NAME", self.name.as_str())
            .replace("SDK\n", &format!("thruway-mcp-sdk = {sdk}\n"))
            .replace("SERVER\n", &format!("thruway-server = {server}\n"));
        Ok(manifest + &tables)
    }
}

/// Absolute path of a checkout of the Thruway repository.
struct Checkout(PathBuf);

impl Checkout {
    fn find(path: &Path) -> Result<Self, CommandError> {
        let shown = escaped_line(&path.to_string_lossy(), 200);
        let absolute = fs::canonicalize(path)
            .map_err(|error| CommandError::new(format!("cannot open the checkout `{shown}`: {error}")))?;
        if !absolute.join("crates/mcp-sdk/Cargo.toml").is_file() {
            let message = format!("`{shown}` is not a checkout of Thruway: it has no `crates/mcp-sdk`");
            return Err(
                CommandError::new(message).with_hint("pass the root directory of the Thruway repository")
            );
        }
        Ok(Self(absolute))
    }

    /// Returns the path of a directory of the checkout as a TOML string.
    fn quoted(&self, path: &str) -> Result<String, CommandError> {
        let path = self.0.join(path);
        let text = path.to_str().ok_or_else(|| {
            CommandError::new(format!(
                "the path `{}` is not UTF-8, so `Cargo.toml` cannot contain it",
                path.display()
            ))
        })?;
        Ok(toml::Value::String(text.to_owned()).to_string())
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(format!("cannot write `{}`: {error}", path.display()))
}

/// Directory of the patched `h2` in a checkout.
const PATCHED_H2: &str = "third_party/h2";

const MANIFEST: &str = include_str!("../../template/manifest.toml");
const README: &str = include_str!("../../template/README.md");
const GITIGNORE: &str = include_str!("../../template/gitignore");
const MAIN: &str = include_str!("../../template/src/main.rs");
const SERVER: &str = include_str!("../../template/src/server.rs");
