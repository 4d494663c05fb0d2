//! Sends up to a million requests over HTTP/1.1 and HTTP/2, with keep-alive and with new connections. During
//! the load, the certificates and ticket keys change several times a second. No request may fail, and the
//! memory must not grow.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::case::Case;
use super::certificates::Key;
use crate::child::{self, Running};
use crate::server::Server;
use crate::stop::now;

/// The kinds of load. Each kind has its share of 1000 requests, `true` for HTTP/2 with `h2load`, and
/// arguments.
const LOADS: [(u32, bool, &[&str]); 4] = [
    (420, false, &["-c", "32"]),
    (40, false, &["-c", "16", "--no-keep-alive"]),
    (20, false, &["-c", "16", "--no-keep-alive", "--full-handshakes"]),
    (520, true, &["-c", "8", "-m", "32"]),
];

/// Runs the check with a separate server.
pub(super) fn run(case: &Case<'_>) -> anyhow::Result<()> {
    case.checker.check("h2load", &case.what("changing certificates"), || soak(case))
}

fn soak(case: &Case<'_>) -> anyhow::Result<String> {
    let requests = case.checker.either(20_000, 1_000_000);
    let directory = case.directory.join("soak");
    let stop = case.checker.stop;
    for name in CERTIFICATES {
        fs::create_dir_all(directory.join(name))?;
        case.authority.issue_server(Key::P256, &directory.join(name))?;
    }
    let file = directory.join("thruway.toml");
    let server = Server::serve(case.checker.program, &config(0), &file, stop)?;
    let mut rotating = RotatingServer { case, server, file, generation: 0, last: now() };
    // The first requests fill the buffer pools, so they run before the first measurement.
    rotating.load_all(requests / 10)?;
    let (bytes_before, descriptors_before) = usage_of(rotating.server.id())?;
    rotating.load_all(requests)?;
    let (bytes, descriptors) = usage_of(rotating.server.id())?;
    let RotatingServer { server, file, generation: changes, .. } = rotating;
    server.end(stop)?;
    let grown = bytes.saturating_sub(bytes_before);
    ensure!(grown < GROWTH_BYTES_MAX, "the memory grew from {bytes_before} to {bytes} bytes");
    let is_closed = descriptors <= descriptors_before + DESCRIPTORS_MORE_MAX;
    ensure!(is_closed, "the number of descriptors grew from {descriptors_before} to {descriptors}");
    let log = child::text_of(&file.with_extension("log"))?;
    let reloads = log.matches("config reloaded").count();
    ensure!(
        reloads > changes / 2,
        "only {reloads} reloads after {changes} changes of the config\n{}",
        child::tail(&log)
    );
    Ok(format!("{requests} requests, {reloads} reloads, memory grew by {} KiB", grown >> 10))
}

/// Returns the config of a generation. With a new certificate, the server creates a new TLS config, which has
/// new ticket keys.
fn config(generation: usize) -> String {
    include_str!("soak.toml").replace("{name}", CERTIFICATES[generation % CERTIFICATES.len()])
}

/// A server with a config that changes.
struct RotatingServer<'c> {
    case: &'c Case<'c>,
    server: Server,
    file: PathBuf,
    generation: usize,
    last: Instant,
}

impl RotatingServer<'_> {
    fn load_all(&mut self, requests: u32) -> anyhow::Result<()> {
        LOADS.iter().try_for_each(|(share, is_http2, arguments)| {
            let load = self.load(requests / 1000 * share, *is_http2, arguments);
            load.with_context(|| format!("{arguments:?}"))
        })
    }

    /// Sends load to the server. Changes the config of the server at the same time.
    fn load(&mut self, requests: u32, is_http2: bool, arguments: &[&str]) -> anyhow::Result<()> {
        let log = self.case.directory.join("load.log");
        let (count, url) = (requests.to_string(), format!("{}/plaintext", self.server.url()));
        let mut command = Command::new("h2load");
        if !is_http2 {
            command = Command::new(self.case.checker.program);
            command.args(["bench", "http", "--output", "json", "--ca"]).arg(self.case.authority.root());
        }
        command.args(["-n", &count]).args(arguments).arg(url);
        let mut running = Running::start(command, &log)?;
        let status = self.case.checker.stop.wait("the responses to all requests", LIMIT, || {
            if self.last.elapsed() >= CHANGE_INTERVAL {
                (self.last, self.generation) = (now(), self.generation + 1);
                // Replaces the file atomically, because the server may read it at any time.
                let next = self.file.with_extension("next");
                fs::write(&next, config(self.generation))?;
                fs::rename(next, &self.file)?;
                child::send_sighup(self.server.id());
            }
            running.ended()
        })?;
        let printed = child::text_of(&log)?;
        ensure!(status.success() && answered(&printed) == Some(requests), "{}", child::tail(&printed));
        Ok(())
    }
}

/// Returns the number of responses in the output of `thruway bench` or `h2load`.
fn answered(printed: &str) -> Option<u32> {
    let number = |text: &str| text.trim().trim_end_matches(',').parse().ok();
    let line = |name: &str| printed.lines().find_map(|line| line.trim().strip_prefix(name));
    line("\"answered\":").and_then(number).or_else(|| number(line("status codes:")?.split_once(" 2xx")?.0))
}

/// Returns the memory of a process in bytes, and the number of its descriptors.
fn usage_of(id: u32) -> anyhow::Result<(u64, usize)> {
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).context("the server has ended")?.count();
    let memory = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line = memory.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok((kibibytes.context("cannot read the memory usage")? << 10, descriptors))
}

const CERTIFICATES: [&str; 2] = ["one", "other"];

/// Time between two changes of the config.
const CHANGE_INTERVAL: Duration = Duration::from_millis(300);

/// Maximum growth of the memory, in bytes. Allocators keep some freed memory.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// Maximum number of additional descriptors. Some connections may still be closing.
const DESCRIPTORS_MORE_MAX: usize = 8;

const LIMIT: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::{answered, usage_of};

    #[test]
    fn responses_are_counted_and_memory_usage_is_read() {
        assert_eq!(answered("{\n  \"answered\": 100,\n}"), Some(100));
        assert_eq!(answered("status codes: 7 2xx, 0 3xx, 0 4xx, 0 5xx\n"), Some(7));
        assert_eq!(answered("error\n"), None);
        assert!(usage_of(std::process::id()).unwrap().0 > 0);
        assert_eq!(super::LOADS.iter().map(|(share, ..)| share).sum::<u32>(), 1000);
    }
}
