//! The applications: the paths and formats of their config files.
//!
//! Thruway runs on Linux, so these are the paths on Linux. Sources:
//! <https://modelcontextprotocol.io/quickstart/user> for Claude Desktop,
//! <https://code.visualstudio.com/docs/copilot/reference/mcp-configuration> for VS Code, and
//! <https://cursor.com/docs/mcp> for Cursor.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::entry::{Places, ServerEntry, ServerTarget, object};
use crate::message::CommandError;

/// An application that starts MCP servers or connects to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Application {
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
}

/// The users and projects to which an entry applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Scope {
    /// All projects of this user
    User,
    /// Only the project in the current directory
    Project,
}

impl Application {
    /// Returns the path of the config file on Linux.
    pub(super) fn config_path(self, scope: Scope, places: &Places) -> Result<PathBuf, CommandError> {
        if let Some(file) = &places.file {
            return Ok(file.clone());
        }
        let user = |folder: &str| {
            places.xdg_config.clone().unwrap_or_else(|| places.home.join(".config")).join(folder)
        };
        match (self, scope) {
            (Self::ClaudeDesktop, Scope::User) => Ok(user("Claude").join("claude_desktop_config.json")),
            (Self::ClaudeDesktop, Scope::Project) => {
                Err(CommandError::new("Claude Desktop has no config for projects")
                    .with_hint("omit `--scope project`"))
            }
            (Self::Cursor, Scope::User) => Ok(places.home.join(".cursor/mcp.json")),
            (Self::Cursor, Scope::Project) => Ok(places.project.join(".cursor/mcp.json")),
            (Self::VsCode, Scope::User) => Ok(user("Code/User").join("mcp.json")),
            (Self::VsCode, Scope::Project) => Ok(places.project.join(".vscode/mcp.json")),
        }
    }

    /// Returns the member of the config that contains the servers.
    pub(super) const fn section(self) -> &'static str {
        match self {
            Self::ClaudeDesktop | Self::Cursor => "mcpServers",
            Self::VsCode => "servers",
        }
    }

    /// Returns the entry of a server.
    pub(super) fn value(self, entry: &ServerEntry, places: &Places) -> Result<Value, CommandError> {
        match (self, &entry.target) {
            (_, ServerTarget::Command { program, args, env }) => Ok(self.command(program, args, env)),
            (Self::ClaudeDesktop, ServerTarget::Url { url, headers }) => {
                // Claude Desktop reads only commands from its config. Other users of the machine can see the
                // arguments of a command, so they must not contain the values of headers.
                if !headers.is_empty() {
                    return Err(CommandError::new("the config of Claude Desktop cannot contain headers")
                        .with_hint("omit `-H`: the bridge can log in with OAuth"));
                }
                let args = ["mcp", "bridge", url, "--login"].map(str::to_owned);
                let program = places.program.to_str().ok_or_else(|| {
                    CommandError::new("the path of this program is not UTF-8, so a config cannot contain it")
                })?;
                Ok(self.command(program, &args, &[]))
            }
            (_, ServerTarget::Url { url, headers }) => {
                let mut value = Map::new();
                if self == Self::VsCode {
                    value.insert("type".to_owned(), "http".into());
                }
                value.insert("url".to_owned(), url.as_str().into());
                if !headers.is_empty() {
                    value.insert("headers".to_owned(), object(headers));
                }
                Ok(value.into())
            }
        }
    }

    fn command(self, program: &str, args: &[String], env: &[(String, String)]) -> Value {
        let mut value = Map::new();
        if self == Self::VsCode {
            value.insert("type".to_owned(), "stdio".into());
        }
        value.insert("command".to_owned(), program.into());
        value.insert("args".to_owned(), json!(args));
        if !env.is_empty() {
            value.insert("env".to_owned(), object(env));
        }
        value.into()
    }
}
