//! The environment of a measurement: date, machine, version and command line.

use std::ffi::OsString;
use std::path::Path;

use rustix::system::uname;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_message::mask_userinfo;
use thruway_net::Clock;

/// The environment of a measurement. The command line contains no credentials: see
/// [`current`](Environment::current).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Date and time of the report (RFC 3339, UTC).
    pub date: String,
    /// Host name of the machine with the load generator.
    pub host: String,
    /// Operating system with its version, and the processor architecture.
    pub system: String,
    /// Number of CPU cores that the load generator may use.
    pub cpus: u64,
    /// Version of Thruway.
    pub thruway_version: String,
    /// The command line. Three stars replace headers, cookies, bodies, arguments of tools, and the values of
    /// options such as `--token`.
    pub command: String,
}

impl Environment {
    /// Returns the environment of this process at this time.
    pub fn current() -> Self {
        let system = uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        Self {
            date: humantime::format_rfc3339_seconds(Clock::system().time_of_day()).to_string(),
            host: text(system.nodename()),
            system: [system.sysname(), system.release(), system.machine()].map(text).join(" "),
            cpus,
            thruway_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(std::env::args_os()),
        }
    }

    /// Returns the rows of a table.
    pub(super) fn rows(&self) -> [[String; 2]; 4] {
        let cores = if self.cpus == 1 { "core" } else { "cores" };
        [
            ["date".to_owned(), self.date.clone()],
            ["host".to_owned(), format!("{}, {}, {} CPU {cores}", self.host, self.system, self.cpus)],
            ["version".to_owned(), format!("Thruway {}", self.thruway_version)],
            ["command".to_owned(), self.command.clone()],
        ]
    }
}

/// Returns a command line for a shell, without credentials.
fn command_line(args: impl Iterator<Item = OsString>) -> String {
    let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    let first = quoted(&name.unwrap_or(program));
    let rest = masked(args).into_iter().map(|arg| quoted(&arg));
    [first].into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

/// Masks credentials in arguments.
fn masked(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_after_name = false;
    let mask = |arg: String| {
        let is_value = std::mem::take(&mut is_after_name);
        if is_value && !is_reference(&arg) {
            return MASK.to_owned();
        }
        // A target of `bench compare` can contain the command that starts the server.
        if let Some((url, command)) = arg.split_once(" -- ") {
            let command = masked(command.split_whitespace().map(str::to_owned));
            return format!("{} -- {}", mask_userinfo(url), command.join(" "));
        }
        let (name, value) = arg.split_once('=').map_or((&*arg, None), |(name, value)| (name, Some(value)));
        if hides_value(name) {
            is_after_name = value.is_none();
            return match value {
                Some(value) if !is_reference(value) => format!("{name}={MASK}"),
                _ => arg,
            };
        }
        let is_short = |option: &&&str| arg.len() > option.len() && arg.starts_with(**option);
        if let Some(option) = SHORT_OPTIONS.iter().find(is_short) {
            return format!("{option}{MASK}");
        }
        mask_userinfo(&arg).into_owned()
    };
    args.map(mask).collect()
}

/// Returns `true` if the value of this option may contain credentials.
fn hides_value(option: &str) -> bool {
    let name = option.to_ascii_lowercase();
    SHORT_OPTIONS.contains(&option)
        || LONG_OPTIONS.contains(&&*name)
        || option.starts_with('-')
            && !name.ends_with("file")
            && SECRETS.iter().any(|word| name.contains(word))
}

/// Returns `true` if the value names a file or the standard input.
fn is_reference(value: &str) -> bool {
    value.starts_with('@') || value == "-"
}

/// Quotes an argument for a shell. Escapes control characters.
fn quoted(arg: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./:=@%+,{}[]".contains(character);
    if !arg.is_empty() && arg.chars().all(is_plain) {
        return arg.to_owned();
    }
    let escaped = arg.chars().map(|character| match character {
        '\'' => r"'\''".to_owned(),
        character if character.is_control() => character.escape_default().to_string(),
        character => character.to_string(),
    });
    format!("'{}'", escaped.collect::<String>())
}

const MASK: &str = "***";

/// Short options for headers and cookies.
const SHORT_OPTIONS: [&str; 2] = ["-H", "-C"];

/// Long options for headers, bodies and arguments of tools.
const LONG_OPTIONS: [&str; 3] = ["--header", "--content", "--arguments"];

/// Words in the names of options with credentials.
const SECRETS: [&str; 5] = ["token", "secret", "password", "passwd", "key"];

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&str]) -> String {
        command_line(args.iter().map(OsString::from))
    }

    #[test]
    fn command_line_has_no_credentials() {
        for (args, expected) in [
            (&["http", "http://a/", "-d", "5"][..], "http http://a/ -d 5"),
            (
                &["-H", "Authorization: Bearer x", "-HCookie: a=b", "--header=A: b"],
                "-H '***' '-H***' '--header=***'",
            ),
            (
                &["--content", "secret", "--content", "@file", "--content=-"],
                "--content '***' --content @file --content=-",
            ),
            (&["http://bob:pw@a/b?c=d"], "'http://******@a/b?c=d'"),
            (&["http://a/ -- ./server --token x --port 1"], "'http://a/ -- ./server --token *** --port 1'"),
            (&["--api-key=abc", "--token-file", "t.txt"], "'--api-key=***' --token-file t.txt"),
            (&["it's", "", "a\nb\u{1b}"], r"'it'\''s' '' 'a\nb\u{1b}'"),
        ] {
            assert_eq!(line(&[&["/usr/bin/thruway"], args].concat()), format!("thruway {expected}"));
        }
    }

    #[test]
    fn current_environment_is_complete() {
        let environment = Environment::current();
        assert!(environment.rows().iter().flatten().all(|text| !text.is_empty()), "{environment:?}");
        assert!(environment.date.ends_with('Z') && environment.date.len() == 20, "{}", environment.date);
    }
}
