//! `thruway mcp install`.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::install::{Application, ConfigChange, Places, Plan, Scope, ServerEntry, ServerTarget};
use crate::message::{CommandError, print};

/// Arguments of `thruway mcp install`.
#[derive(clap::Args)]
#[command(after_help = INSTALLATIONS, override_usage = "thruway mcp install [OPTIONS] --client CLIENT NAME URL\n       thruway mcp install [OPTIONS] --client CLIENT NAME -- COMMAND [ARG]...\n       thruway mcp install --remove --client CLIENT NAME")]
pub struct InstallArgs {
    /// Name of the server in the config: letters, digits, `-`, `_` and `.`
    name: String,
    /// URL of the server. If a COMMAND follows `--`, omit the URL
    #[arg(conflicts_with_all = ["command", "remove"], required_unless_present_any = ["command", "remove"])]
    url: Option<String>,
    /// Command that starts the server with stdio: a program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "remove")]
    command: Vec<String>,
    /// Application to configure
    #[arg(long, value_enum)]
    client: Application,
    /// Projects to which the entry applies
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
    /// Environment variable of the command, `NAME=VALUE`; may be repeated. The config contains the value as
    /// text
    #[arg(long, value_name = "NAME=VALUE", requires = "command", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Header `Name: value` of each request to the URL; may be repeated. The config contains the value as
    /// text
    #[arg(short = 'H', long, value_name = "HEADER", requires = "url", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// Remove the entry
    #[arg(long)]
    remove: bool,
    /// Print the change, and change nothing. The output contains the values of variables and headers
    #[arg(long)]
    dry_run: bool,
    /// Config file, instead of the usual file of the application and the scope
    #[arg(long, value_name = "FILE", conflicts_with = "home")]
    file: Option<PathBuf>,
    /// Home directory, instead of the value of `HOME`
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

impl InstallArgs {
    pub(super) fn run(&self) -> Result<ExitCode, CommandError> {
        let plan = Plan::new(self.client, self.scope, &self.places()?, &self.change()?)?;
        let text = plan.describe();
        if self.dry_run || !plan.has_change() {
            return Ok(print(&text));
        }
        let path = plan.path().display().to_string();
        let written = plan.apply()?;
        let backup =
            written.backup.map(|backup| format!("The previous file is in `{}`.\n", backup.display()));
        let action = if self.remove { "removed" } else { "wrote" };
        let backup = backup.unwrap_or_default();
        let restart = match self.client {
            Application::ClaudeDesktop => "Restart Claude Desktop to use the new config.\n",
            Application::Cursor | Application::VsCode => "",
        };
        Ok(print(&format!("{action} the entry `{}` in `{path}`\n{backup}{restart}", self.name)))
    }

    fn change(&self) -> Result<ConfigChange, CommandError> {
        let name = self.name.clone();
        let target = match (&self.url, &self.command[..]) {
            _ if self.remove => return Ok(ConfigChange::Remove(name)),
            (Some(url), _) => {
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    let message =
                        format!("`{}` does not begin with `http://` or `https://`", url.escape_debug());
                    return Err(CommandError::new(message).with_hint("pass a command after `--`"));
                }
                ServerTarget::Url { url: url.clone(), headers: self.header.clone() }
            }
            (None, [program, args @ ..]) => ServerTarget::Command {
                program: absolute(program)?,
                args: args.to_vec(),
                env: self.env.clone(),
            },
            (None, []) => return Err(CommandError::new("no server is given")),
        };
        Ok(ConfigChange::Set(ServerEntry { name, target }))
    }

    fn places(&self) -> Result<Places, CommandError> {
        let variable = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = self.home.clone().or_else(|| variable("HOME")).ok_or_else(|| {
            CommandError::new("the variable `HOME` is not an absolute path").with_hint("pass `--home DIR`")
        })?;
        let failed = |error| CommandError::new(format!("cannot find the current directory: {error}"));
        let project = env::current_dir().map_err(failed)?;
        // The variable belongs to the home directory of the user, not to the directory of `--home`.
        let xdg_config = if self.home.is_some() { None } else { variable("XDG_CONFIG_HOME") };
        let program = env::current_exe().unwrap_or_else(|_| "thruway".into());
        Ok(Places { home, project, file: self.file.clone(), xdg_config, program })
    }
}

/// Returns the absolute path of a program with a relative path, because applications start programs in
/// another directory. Programs without a directory stay names in `PATH`.
fn absolute(program: &str) -> Result<String, CommandError> {
    if !program.contains('/') {
        return Ok(program.to_owned());
    }
    let path = std::path::absolute(program);
    let path =
        path.map_err(|error| CommandError::new(format!("cannot find the current directory: {error}")))?;
    let text = path.into_os_string().into_string();
    text.map_err(|_| CommandError::new("the path of the program is not UTF-8, so a config cannot contain it"))
}

fn parse_variable(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected `NAME=VALUE`"),
    }
}

fn parse_header(text: &str) -> Result<(String, String), &'static str> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    match text.split_once(':') {
        Some((name, value)) if is_name(name) && !value.contains(char::is_control) => {
            Ok((name.to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected `Name: value`"),
    }
}

const INSTALLATIONS: &str = "\
Installations:
  thruway mcp install --client claude-desktop notes -- ./target/release/notes
      Writes the absolute path of the program into the config of Claude Desktop
  thruway mcp install --client vscode --scope project docs https://docs.example/mcp
      Adds the URL to `.vscode/mcp.json`
  thruway mcp install --client cursor --env NOTES_DIR=/srv/notes notes -- notes --all
      Adds a command with a variable to `~/.cursor/mcp.json`
  thruway mcp install --client claude-desktop docs https://docs.example/mcp
      Claude Desktop reads only commands, so the entry starts `thruway mcp bridge`

Files:
  claude-desktop  ~/.config/Claude/claude_desktop_config.json
  cursor          ~/.cursor/mcp.json, or .cursor/mcp.json with `--scope project`
  vscode          ~/.config/Code/User/mcp.json, or .vscode/mcp.json with `--scope project`
  If the application uses another file, pass `--file`. The command changes only the entry, and keeps
  comments. It copies the previous file to FILE.thruway-backup

Exit codes:
  0  The file contains the entry, or the entry is removed
  2  The arguments are invalid, or the file cannot be read, changed or written";
