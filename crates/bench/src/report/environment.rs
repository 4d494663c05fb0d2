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
    /// The command line. Three stars replace headers, cookies, bodies, arguments of tools, the values of options such
    /// as `--token`, the values in the query of a URL, and the arguments of commands that start a server.
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
    let mut args = args;
    let (mut output, mut is_after_name) = (Vec::new(), false);
    while let Some(arg) = args.next() {
        let is_value = std::mem::take(&mut is_after_name);
        if is_value && !is_reference(&arg) {
            output.push(MASK.to_owned());
        } else if let Some(option) = short_option(&arg) {
            is_after_name = option == arg;
            output.push(if is_after_name { arg } else { format!("{option}{MASK}") });
        } else if arg == "--" {
            // The other arguments are a command, or the URL.
            output.push(arg);
            let masked =
                |first: String| if is_variable(&first) { MASK.to_owned() } else { masked_word(&first) };
            output.extend(args.next().map(masked));
            output.extend(args.next().map(|_| MASK.to_owned()));
            break;
        } else {
            let (name, value) =
                arg.split_once('=').map_or((&*arg, None), |(name, value)| (name, Some(value)));
            let hides_value = hides_value(name);
            is_after_name = hides_value && value.is_none();
            output.push(match value {
                Some(value) if hides_value && !is_reference(value) => format!("{name}={MASK}"),
                _ => masked_word(&arg),
            });
        }
    }
    output
}

/// Masks credentials in an argument that is not the value of a secret option. A target of `bench compare` can contain
/// the command that starts the server: the result contains only the program of this command.
fn masked_word(arg: &str) -> String {
    let command = if arg.starts_with('-') { None } else { arg.split_once(" -- ") };
    let Some((url, command)) = command else {
        return match arg.split_once('=') {
            Some((name, _)) if is_variable(arg) && is_secret(name) => format!("{name}={MASK}"),
            _ => masked_url(arg),
        };
    };
    let mut words = command.split_whitespace();
    let program = words.next().filter(|word| !is_variable(word)).map_or(MASK.to_owned(), masked_url);
    let rest = if words.next().is_some() && program != MASK { format!(" {MASK}") } else { String::new() };
    format!("{} -- {program}{rest}", masked_url(url))
}

/// Returns `true` if the argument sets an environment variable, such as `API_KEY=abc`.
fn is_variable(arg: &str) -> bool {
    let name = arg.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Masks the userinfo and the values of the query in a URL.
fn masked_url(url: &str) -> String {
    let url = mask_userinfo(url);
    let Some((before, query)) = url.split_once('?') else { return url.into_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None => pair.to_owned(),
    });
    format!("{before}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Returns the beginning of an argument up to a short option for a header or a cookie, such as `-H` or `-kH`.
fn short_option(arg: &str) -> Option<&str> {
    let letters = arg.strip_prefix('-')?;
    let flags = letters.find(|letter| !SHORT_FLAGS.contains(letter))?;
    letters[flags..].starts_with(SHORT_OPTIONS).then(|| &arg[..flags + 2])
}

/// Returns `true` if the value of this option may contain credentials.
fn hides_value(option: &str) -> bool {
    let name = option.to_ascii_lowercase();
    LONG_OPTIONS.contains(&&*name) || option.starts_with('-') && !name.ends_with("file") && is_secret(option)
}

/// Returns `true` if the name of an option or a variable says that its value is secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|word| name.contains(word))
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
const SHORT_OPTIONS: [char; 2] = ['H', 'C'];

/// Short options without a value. Another short option can follow in the same argument.
const SHORT_FLAGS: &str = "kiqrlv";

/// Long options for headers, bodies and arguments of tools.
const LONG_OPTIONS: [&str; 3] = ["--header", "--content", "--arguments"];

/// Words in the names of options and variables with credentials.
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
            (
                &["-HX-Api-Key: c2Vj==", "-H=A: S", "-kHA: S", "-rC", "S"],
                "'-H***' '-H***' '-kH***' -rC '***'",
            ),
            (
                &[
                    "--header=Authorization: Bearer S -- x",
                    r#"--content={"p":"S -- x"}"#,
                    "-HCookie: a=S -- b",
                ],
                "'--header=***' '--content=***' '-H***'",
            ),
            (&["--header", "A: S -- x", "-mHEAD", "-d5s"], "--header '***' -mHEAD -d5s"),
            (
                &["http://bob:pw@a/b?c=S&api_key=S?=&d", "--url=http://a/?token=S"],
                "'http://******@a/b?c=***&api_key=***&d' '--url=http://a/?token=***'",
            ),
            (&["http://a/?b=S -- ./server --port 1"], "'http://a/?b=*** -- ./server ***'"),
            (&["http://a/ -- w.sh 1 --header 'A: B' -pS"], "'http://a/ -- w.sh ***'"),
            (&["http://a/ -- env API_KEY=S server"], "'http://a/ -- env ***'"),
            (&["http://a/ -- API_KEY=S server", "http://b/ -- x"], "'http://a/ -- ***' 'http://b/ -- x'"),
            (&["--set", "API_KEY=S", "--set", "user=bob"], "--set 'API_KEY=***' --set user=bob"),
            (&["-d", "1s", "--", "server", "-pS", "S"], "-d 1s -- server '***'"),
            (&["--", "API_KEY=S", "S"], "-- '***' '***'"),
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
