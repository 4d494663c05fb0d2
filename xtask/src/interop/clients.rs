//! Runs the third-party clients in `clients.toml`, and compares their output with the expected output.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{bail, ensure};
use regex::Regex;
use serde::Deserialize;

use super::check::Checker;
use super::words;

/// A check with a client and its expected output. All texts may contain placeholders.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    /// The kinds of servers to check.
    sets: Vec<String>,
    #[serde(default = "curl", rename = "client")]
    name: String,
    what: String,
    /// The values of `{n}` and `{seconds}` in a quick run and in a full run.
    #[serde(default)]
    n: [u32; 2],
    #[serde(default)]
    seconds: [u32; 2],
    /// Arguments of curl. Replaces `commands`.
    curl: Option<Vec<String>>,
    #[serde(default)]
    commands: Vec<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The result to print. The default is the last line of the output.
    says: Option<String>,
    #[serde(flatten)]
    expected: Expected,
}

fn curl() -> String {
    "curl".to_owned()
}

/// Patterns for the output, and for the body that curl receives.
#[derive(Deserialize)]
struct Expected {
    /// Patterns that the output must match, and patterns that it must not match.
    #[serde(default)]
    printed: Vec<String>,
    #[serde(default)]
    not_printed: Vec<String>,
    /// Patterns that the received body must match, and patterns that it must not match.
    #[serde(default)]
    received: Vec<String>,
    #[serde(default)]
    not_received: Vec<String>,
    /// The body must equal this byte range of the file `content`.
    received_content: Option<[usize; 2]>,
}

fn list() -> anyhow::Result<Vec<Client>> {
    crate::list::read(include_str!("clients.toml"))
}

/// Runs the checks for a kind of server.
pub(super) fn run(checker: &Checker<'_>, set: &str) -> anyhow::Result<()> {
    for client in list()?.into_iter().filter(|client| client.sets.iter().any(|of| of == set)) {
        checker.check(&client.name, &client.what, || client.run(checker))?;
    }
    Ok(())
}

impl Client {
    fn run(&self, checker: &Checker<'_>) -> anyhow::Result<String> {
        let number = |[quick, full]: [u32; 2]| checker.either(quick, full).to_string();
        let placeholders = [("n", number(self.n)), ("seconds", number(self.seconds))];
        let commands = if let Some(arguments) = &self.curl {
            let mut command = Command::new("curl");
            // Ignores the curl config and the proxy of the user.
            command.args(["-q", "--noproxy", "*", "--silent", "--show-error", "--output", "received"]);
            command.args(["--write-out", "%{http_code} %{num_connects} %{size_download}\\n"]);
            command.args(words::filled(arguments, &placeholders, checker)?);
            command.current_dir(checker.directory);
            vec![command]
        } else {
            let commands =
                self.commands.iter().map(|command| words::command(command, &placeholders, checker));
            commands.collect::<anyhow::Result<_>>()?
        };
        let fill = |text: &str| words::text(text, &placeholders, checker);
        let mut last = String::new();
        for mut command in commands {
            command.envs(&self.env);
            let printed = checker.output(&self.name, command)?;
            let received = self.curl.as_ref().map(|_| fs::read(checker.directory.join("received")));
            let content = fs::read(checker.directory.join("content"))?;
            self.expected.check(&printed, &received.transpose()?.unwrap_or_default(), &content, &fill)?;
            printed.lines().last().unwrap_or_default().clone_into(&mut last);
        }
        match &self.says {
            Some(says) => fill(says),
            None if last.is_empty() => bail!("the client printed nothing"),
            None => Ok(last),
        }
    }
}

impl Expected {
    fn check(
        &self,
        printed: &str,
        received: &[u8],
        content: &[u8],
        fill: &dyn Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let text = String::from_utf8_lossy(received);
        for (patterns, text, is_expected) in [
            (&self.printed, printed, true),
            (&self.not_printed, printed, false),
            (&self.received, &*text, true),
            (&self.not_received, &*text, false),
        ] {
            for pattern in patterns {
                let is_match = Regex::new(&fill(pattern)?)?.is_match(text);
                let verb = if is_match { "matches" } else { "does not match" };
                ensure!(is_match == is_expected, "the output {verb} `{pattern}`: {text:.1000?}");
            }
        }
        let is_content =
            self.received_content.is_none_or(|[start, end]| content.get(start..end) == Some(received));
        ensure!(is_content, "the received body differs");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_checks() {
        let clients = list().unwrap();
        for (set, count) in
            [("demo", 19), ("files", 2), ("gateway", 20), ("gateway, full", 1), ("mcp", 7), ("federation", 7)]
        {
            assert_eq!(clients.iter().filter(|client| client.sets.iter().any(|of| of == set)).count(), count);
        }
    }

    const AB: &str = "Complete requests:      7\nFailed requests:        0\nKeep-Alive requests:    7\n";
    const H2LOAD: &str = "requests: 7 total, 7 started, 7 done, 7 succeeded, 0 failed, 0 errored, 0 timeout\n\
                          status codes: 7 2xx, 0 3xx, 0 4xx, 0 5xx\n";
    const OLD: &str = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n";

    #[test]
    fn unexpected_client_output_is_an_error() {
        let (list, content) = (list().unwrap(), "x".repeat(300_000));
        for (what, printed, received, is_good) in [
            ("wrk GET", "  1234 requests in 2.00s, 1MB read\n", "", true),
            ("wrk GET", "  0 requests in 2.00s, 0B read\n", "", false),
            ("wrk GET", "  9 requests in 2.00s\n  Non-2xx or 3xx responses: 1\n", "", false),
            ("wrk GET", "  9 requests in 2.00s\n  Socket errors: connect 0, read 1\n", "", false),
            ("ab GET, keep-alive (-k)", AB, "", true),
            ("ab GET, keep-alive (-k)", &AB.replacen("  7", " 17", 1), "", false),
            (
                "ab GET, keep-alive (-k)",
                &AB.replace("Alive requests:    7", "Alive requests:    6"),
                "",
                false,
            ),
            ("ab GET, keep-alive (-k)", &AB.replace(" 0\n", " 1\n"), "", false),
            ("ab GET, keep-alive (-k)", &format!("{AB}Non-2xx responses:      7\n"), "", false),
            ("h2load GET (--h1)", H2LOAD, "", true),
            ("h2load GET (--h1)", &H2LOAD.replace("7 2xx, 0 3xx", "6 2xx, 1 3xx"), "", false),
            ("h2load GET (--h1)", &H2LOAD.replace("0 errored", "1 errored"), "", false),
            ("curl GET", "200 1 13\n", "Hello, World!", true),
            ("curl GET", "200 2 13\n", "Hello, World!", false),
            ("curl GET", "200 1 13\n", "Hello, World?", false),
            ("curl POST, chunked", "200 1 300000\n", &content, true),
            ("curl POST, chunked", "200 1 300000\n", &content[1..], false),
            ("curl server-sent events", "", "data: 1\n\ndata: 2\n\ndata: 3\n\n", true),
            ("curl server-sent events", "", "data: 1\n\ndata: 3\n\ndata: 3\n\n", false),
            ("curl GET, HTTP/1.0", "200 1 100000\n", OLD, true),
            ("curl GET, HTTP/1.0", "200 1 100000\n", &OLD.replace("A:", "transfer-encoding:"), false),
            ("curl GET, HTTP/1.0", "200 1 100001\n", OLD, false),
        ] {
            let fill = |text: &str| Ok(text.replace("{n}", "7"));
            let is_it = |client: &&Client| format!("{} {}", client.name, client.what) == what;
            let expected = &list.iter().find(is_it).unwrap().expected;
            let checked = expected.check(printed, received.as_bytes(), content.as_bytes(), &fill);
            assert_eq!(checked.is_ok(), is_good, "{what}: {printed}{received:.100}");
        }
    }
}
