//! Clients that others wrote, as `clients.toml` lists them: each runs its commands, and must see what the
//! list says.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::check::{Check, Scene, expect};
use super::words;

/// The list in `clients.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    check: Vec<Client>,
}

/// A client, and what it must see. Texts may have places, as the words of commands do.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    /// The servers that it is for.
    sets: Vec<String>,
    #[serde(default = "curl", rename = "client")]
    name: String,
    what: String,
    /// `{n}` and `{seconds}` in a quick and in a full run.
    #[serde(default)]
    n: [u32; 2],
    #[serde(default)]
    seconds: [u32; 2],
    /// Arguments of curl, in place of commands.
    curl: Option<Vec<String>>,
    #[serde(default)]
    commands: Vec<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The result; the last line of the output if absent.
    says: Option<String>,
    #[serde(flatten)]
    expected: Expected,
}

fn curl() -> String {
    "curl".to_owned()
}

/// The expected output, and the expected content that curl receives.
#[derive(Clone, Default, Deserialize)]
struct Expected {
    /// The whole output, its start, parts of it, and texts that it must not have.
    printed: Option<String>,
    starts: Option<String>,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    /// Lines by their start, with their rest.
    #[serde(default)]
    lines: BTreeMap<String, String>,
    /// The whole content.
    received: Option<String>,
    /// Parts of the content in lower case, and texts that it must not have.
    #[serde(default)]
    received_has: Vec<String>,
    #[serde(default)]
    received_lacks: Vec<String>,
    /// The content is that of the file `content`, from one place on, to another if there are two.
    received_content: Option<Vec<usize>>,
    /// The content is a head that starts so, in lower case, and a body of this length.
    received_head: Option<String>,
    received_body_bytes: Option<usize>,
    /// The data of the events in the content.
    received_events: Option<Vec<String>>,
}

/// Returns the checks for a kind of server.
pub(super) fn checks(set: &str) -> anyhow::Result<Vec<Check>> {
    let list: List = toml::from_str(include_str!("clients.toml"))?;
    let of_set = list.check.into_iter().filter(|client| client.sets.iter().any(|of| of == set));
    let check = |client: Client| {
        let (name, what) = (client.name.clone(), client.what.clone());
        Check::new(&name, &what, move |scene| client.run(scene))
    };
    Ok(of_set.map(check).collect())
}

impl Client {
    fn run(&self, scene: &Scene<'_>) -> anyhow::Result<String> {
        let number = |[quick, full]: [u32; 2]| scene.either(quick, full).to_string();
        let places = [("n", number(self.n)), ("seconds", number(self.seconds))];
        let commands = if let Some(arguments) = &self.curl {
            let mut command = Command::new("curl");
            // Without a config or a proxy of the user.
            command.args(["-q", "--noproxy", "*", "--silent", "--show-error", "--output", "received"]);
            command.args(["--write-out", "%{http_code} %{num_connects} %{size_download}\\n"]);
            command.args(words::filled(arguments, &places, scene)?);
            command.current_dir(scene.directory);
            vec![command]
        } else {
            let commands = self.commands.iter().map(|command| words::command(command, &places, scene));
            commands.collect::<anyhow::Result<_>>()?
        };
        let fill = |text: &str| words::text(text, &places, scene);
        let mut last = String::new();
        for mut command in commands {
            command.envs(&self.env);
            let printed = scene.output(&self.name, command)?;
            let received =
                if self.curl.is_some() { fs::read(scene.directory.join("received"))? } else { Vec::new() };
            self.expected.check(&printed, &received, &fill, || scene.content())?;
            printed.lines().last().unwrap_or_default().clone_into(&mut last);
        }
        match &self.says {
            Some(says) => fill(says),
            None if last.is_empty() => bail!("it printed nothing"),
            None => Ok(last),
        }
    }
}

impl Expected {
    fn check(
        &self,
        printed: &str,
        received: &[u8],
        fill: &dyn Fn(&str) -> anyhow::Result<String>,
        content: impl Fn() -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<()> {
        if let Some(whole) = &self.printed {
            expect("it printed", &printed, &fill(whole)?.as_str())?;
        }
        if let Some(start) = &self.starts {
            ensure!(printed.starts_with(start), "it printed {printed:?}");
        }
        for text in &self.has {
            ensure!(printed.contains(text), "it did not print {text:?}:\n{printed}");
        }
        for text in &self.lacks {
            ensure!(!printed.contains(text), "it printed {text:?}:\n{printed}");
        }
        for (name, rest) in &self.lines {
            let line = printed.lines().find_map(|line| line.strip_prefix(name.as_str())).map(str::trim);
            expect(name, &line, &Some(fill(rest)?.as_str()))?;
        }
        self.check_received(received, content)
    }

    fn check_received(
        &self,
        received: &[u8],
        content: impl Fn() -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let text = String::from_utf8_lossy(received);
        if let Some(whole) = &self.received {
            expect("content", &&*text, &whole.as_str())?;
        }
        let lower = text.to_lowercase();
        for part in &self.received_has {
            ensure!(lower.contains(part), "the content lacks {part:?}: {lower:?}");
        }
        for part in &self.received_lacks {
            ensure!(!lower.contains(part), "the content has {part:?}: {lower:?}");
        }
        if let Some(range) = &self.received_content {
            let content = content()?;
            let [start, end] = [0, 1].map(|place| range.get(place).copied());
            let expected = content.get(start.unwrap_or(0)..end.unwrap_or(content.len()));
            ensure!(Some(received) == expected, "the content is another");
        }
        if let Some(start) = &self.received_head {
            let end =
                received.windows(4).position(|window| window == b"\r\n\r\n").context("there is no head")?;
            ensure!(lower.starts_with(start), "an odd status line: {lower:.100?}");
            expect("bytes", &(received.len() - end - 4), &self.received_body_bytes.unwrap_or_default())?;
        }
        if let Some(events) = &self.received_events {
            let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            expect("events", &data.map(|data| data.trim().to_owned()).collect::<Vec<_>>(), events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check of this name, held against what a client printed and received.
    fn verdict(client: &str, what: &str, printed: &str, received: &str) -> anyhow::Result<()> {
        let list: List = toml::from_str(include_str!("clients.toml")).unwrap();
        let mut named = list.check.into_iter().filter(|check| check.name == client && check.what == what);
        let fill = |text: &str| Ok(text.replace("{n}", "7").replace("{body_bytes}", "4"));
        named.next().unwrap().expected.check(printed, received.as_bytes(), &fill, || Ok(b"1234".to_vec()))
    }

    #[test]
    fn every_set_has_checks() {
        for (set, count) in [("demo", 19), ("files", 2), ("gateway", 20), ("gateway, full", 1), ("mcp", 7)] {
            assert_eq!(checks(set).unwrap().len(), count, "{set}");
        }
    }

    #[test]
    fn load_generators_fail_unless_each_request_did_well() {
        let wrk = |printed| verdict("wrk", "GET", printed, "");
        assert!(wrk("  1234 requests in 2.00s, 1MB read\n").is_ok());
        assert!(wrk("  0 requests in 2.00s, 0B read\n").is_err());
        assert!(wrk("  9 requests in 2.00s\n  Non-2xx or 3xx responses: 1\n").is_err());
        assert!(wrk("  9 requests in 2.00s\n  Socket errors: connect 0, read 1\n").is_err());
        let ab = |printed: &str| verdict("ab", "GET, persistent (-k)", printed, "");
        let report = "Complete requests:      7\nFailed requests:        0\nKeep-Alive requests:    7\n";
        assert!(ab(report).is_ok());
        assert!(ab(&report.replace("Complete requests:      7", "Complete requests:      8")).is_err());
        assert!(ab(&report.replace("Alive requests:    7", "Alive requests:    6")).is_err());
        assert!(ab(&report.replace("        0", "        1")).is_err());
        assert!(ab(&format!("{report}Non-2xx responses:      7\n")).is_err());
        let h2load = |printed: &str| verdict("h2load", "GET (--h1)", printed, "");
        let report = "requests: 7 total, 7 started, 7 done, 7 succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: 7 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert!(h2load(report).is_ok());
        assert!(h2load(&report.replace("7 2xx, 0 3xx", "6 2xx, 1 3xx")).is_err());
        assert!(h2load(&report.replace("0 errored", "1 errored")).is_err());
    }

    #[test]
    fn what_curl_receives_must_be_what_is_expected() {
        assert!(verdict("curl", "GET", "200 1 13\n", "Hello, World!").is_ok());
        assert!(verdict("curl", "GET", "200 2 13\n", "Hello, World!").is_err());
        assert!(verdict("curl", "GET", "200 1 13\n", "Hello, World?").is_err());
        assert!(verdict("curl", "POST, chunked", "200 1 4\n", "1234").is_ok());
        assert!(verdict("curl", "POST, chunked", "200 1 4\n", "1235").is_err());
        let events = |received| verdict("curl", "server-sent events", "", received);
        assert!(events("data: 1\n\ndata: 2\n\ndata: 3\n\n").is_ok() && events("data: 1\n").is_err());
        let old = |content: &str| verdict("curl", "GET, HTTP/1.0", "", content);
        let body = "x".repeat(100_000);
        assert!(old(&format!("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{body}")).is_ok());
        assert!(old(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}")).is_err());
        assert!(old(&format!("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{body}x")).is_err());
    }
}
