//! A million requests over HTTP/1.1 and HTTP/2, on lasting and on new connections. Meanwhile certificates and
//! ticket keys change several times a second. No request may fail, and the memory must not grow.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::case::Case;
use super::certificates::Key;
use crate::child::{self, Running};
use crate::interop::check::{Row, Setting};
use crate::program::find_on_path;
use crate::server::Server;
use crate::stop::now;

/// One kind of load: a share of all requests.
struct Load {
    /// The program, if it is not `thruway`.
    program: Option<&'static str>,
    arguments: &'static [&'static str],
    /// Requests of a thousand.
    share: u32,
}

const LOADS: [Load; 4] = [
    Load { program: None, arguments: &["-c", "32"], share: 420 },
    Load { program: None, arguments: &["-c", "16", "--no-keep-alive"], share: 40 },
    Load { program: None, arguments: &["-c", "16", "--no-keep-alive", "--full-handshakes"], share: 20 },
    Load { program: Some("h2load"), arguments: &["-c", "8", "-m", "32"], share: 520 },
];

/// Loads a server of its own.
pub(super) fn run(case: &Case<'_>) -> Vec<Row> {
    if find_on_path("h2load").is_none() {
        return vec![Row::not_installed("h2load", "a soak of changing certificates")];
    }
    let Setting { is_full, .. } = *case.setting;
    let requests = if is_full { 1_000_000 } else { 20_000 };
    vec![case.row("thruway", "changing certificates", || soak(case, requests))]
}

fn soak(case: &Case<'_>, requests: u32) -> anyhow::Result<String> {
    let directory = case.directory.join("soak");
    let stop = case.setting.stop;
    for name in CERTIFICATES {
        fs::create_dir_all(directory.join(name))?;
        case.authority.issue_server(Key::P256, &directory.join(name))?;
    }
    let mut rotating = Rotating { config: directory.join("thruway.toml"), generation: 0, last: now() };
    rotating.write()?;
    let log = directory.join("server.log");
    let arguments = [OsStr::new("serve"), rotating.config.as_os_str()];
    let server = Server::start(case.setting.program, &arguments, &log, stop)?;
    // The first requests fill the pools.
    rotating.load_all(case, &server, requests / 10)?;
    let before = Usage::of(server.id())?;
    rotating.load_all(case, &server, requests)?;
    let after = Usage::of(server.id())?;
    server.end(stop)?;
    let grown = after.bytes.saturating_sub(before.bytes);
    ensure!(grown < GROWTH_BYTES_MAX, "{} bytes have become {}", before.bytes, after.bytes);
    ensure!(
        after.descriptors <= before.descriptors + DESCRIPTORS_MORE_MAX,
        "{} descriptors have become {}",
        before.descriptors,
        after.descriptors
    );
    let changes = rotating.generation;
    let said = fs::read_to_string(&log)?;
    let reloads = said.matches("config reloaded").count();
    ensure!(reloads > changes / 2, "of {changes} changes only {reloads} were heeded\n{}", child::tail(&said));
    Ok(format!("{requests} requests, {reloads} changes, {} KiB more", grown >> 10))
}

/// A config that changes.
struct Rotating {
    config: PathBuf,
    generation: usize,
    last: Instant,
}

impl Rotating {
    /// Another certificate is another config of TLS, and so has other keys for tickets.
    fn write(&self) -> anyhow::Result<()> {
        let name = CERTIFICATES[self.generation % CERTIFICATES.len()];
        // As a whole: the server may read it at any time.
        let next = self.config.with_extension("next");
        fs::write(&next, CONFIG.replace("{name}", name))?;
        Ok(fs::rename(next, &self.config)?)
    }

    fn load_all(&mut self, case: &Case<'_>, server: &Server, requests: u32) -> anyhow::Result<()> {
        LOADS.iter().try_for_each(|load| self.load(case, server, load, requests / 1000 * load.share))
    }

    /// Loads the server, and changes its config meanwhile.
    fn load(&mut self, case: &Case<'_>, server: &Server, load: &Load, requests: u32) -> anyhow::Result<()> {
        let log = case.directory.join("load.log");
        let (count, url) = (requests.to_string(), format!("{}/plaintext", server.url()));
        let mut command = Command::new(load.program.map_or(case.setting.program, Path::new));
        match load.program {
            Some(_) => command.args(["-n", &count]).args(load.arguments).arg(url),
            None => command
                .args(["bench", "http", &url, "-n", &count, "--output", "json", "--ca"])
                .arg(case.authority.root())
                .args(load.arguments),
        };
        let mut running = Running::start(command, &log)?;
        let status = case.setting.stop.wait("the requests to be answered", LIMIT, || {
            if self.last.elapsed() >= EVERY {
                (self.last, self.generation) = (now(), self.generation + 1);
                self.write()?;
                child::hang_up(server.id());
            }
            running.ended()
        })?;
        let printed = fs::read_to_string(&log)?;
        ensure!(status.success() && answered(&printed) == Some(requests), "{}", child::tail(&printed));
        Ok(())
    }
}

/// Returns the number of answered requests, from the output of either program.
fn answered(printed: &str) -> Option<u32> {
    let number = |text: &str| text.trim().trim_end_matches(',').parse().ok();
    let line = |name: &str| printed.lines().find_map(|line| line.trim().strip_prefix(name));
    line("\"answered\":").and_then(number).or_else(|| number(line("status codes:")?.split_once(" 2xx")?.0))
}

/// The resources of a process.
struct Usage {
    bytes: u64,
    descriptors: usize,
}

impl Usage {
    fn of(id: u32) -> anyhow::Result<Self> {
        let descriptors = fs::read_dir(format!("/proc/{id}/fd")).context("the server is gone")?.count();
        let memory = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
        let line = memory.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Ok(Self { bytes: kibibytes.context("its memory is unknown")? << 10, descriptors })
    }
}

const CERTIFICATES: [&str; 2] = ["one", "other"];

const CONFIG: &str = include_str!("soak.toml");

/// From one change to the next.
const EVERY: Duration = Duration::from_millis(300);

/// Memory that allocators keep.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// Connections that are just being closed.
const DESCRIPTORS_MORE_MAX: usize = 8;

const LIMIT: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::{Usage, answered};

    #[test]
    fn the_memory_of_a_process_is_known() {
        assert!(Usage::of(std::process::id()).unwrap().bytes > 0);
    }

    #[test]
    fn answers_are_counted_as_each_program_says_it() {
        assert_eq!(answered("{\n  \"answered\": 100,\n}"), Some(100));
        assert_eq!(answered("status codes: 7 2xx, 0 3xx, 0 4xx, 0 5xx\n"), Some(7));
        assert_eq!(answered("error\n"), None);
    }

    #[test]
    fn shares_are_of_a_thousand() {
        assert_eq!(super::LOADS.iter().map(|load| load.share).sum::<u32>(), 1000);
    }
}
