//! Entries of configs, and the places of config files.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// A server in the config of an application.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    /// Name of the server in the config.
    pub name: String,
    /// The way to reach the server.
    pub target: ServerTarget,
}

/// The way in which an application reaches a server.
#[derive(Clone, Debug)]
pub enum ServerTarget {
    /// The application starts this program with stdio.
    Command {
        /// The program. Applications start it in a directory of their choice, so use an absolute path or a
        /// program in `PATH`.
        program: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Additional environment variables.
        env: Vec<(String, String)>,
    },
    /// The server at this URL.
    Url {
        /// URL of the Streamable HTTP endpoint.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
    },
}

/// The change of a config.
#[derive(Clone, Debug)]
pub enum ConfigChange {
    /// Add the entry, or replace the entry of the same name.
    Set(ServerEntry),
    /// Remove the entry of this name.
    Remove(String),
}

/// The places of config files.
#[derive(Clone, Debug)]
pub struct Places {
    /// Home directory of the user.
    pub home: PathBuf,
    /// Directory of the project, for [`Scope::Project`].
    pub project: PathBuf,
    /// Config file of the application, instead of the file in its usual place.
    pub file: Option<PathBuf>,
    /// Value of `XDG_CONFIG_HOME`, if it is an absolute path.
    pub xdg_config: Option<PathBuf>,
    /// Path of this program, for servers with a URL in applications without support for URLs.
    pub program: PathBuf,
}

/// Returns a JSON object from names and values.
pub(super) fn object(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect::<Map<_, _>>().into()
}
