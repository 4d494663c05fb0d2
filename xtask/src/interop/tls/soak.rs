//! A million requests over HTTP/1.1 and HTTP/2, on lasting and on new connections. Meanwhile certificates and
//! ticket keys change several times a second. No request may fail, and the memory must not grow.

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

/// The kinds of load: the share of a thousand requests, `true` for HTTP/2 by `h2load`, and arguments.
const LOADS: [(u32, bool, &[&str]); 4] = [
    (420, false, &["-c", "32"]),
    (40, false, &["-c", "16", "--no-keep-alive"]),
    (20, false, &["-c", "16", "--no-keep-alive", "--full-handshakes"]),
    (520, true, &["-c", "8", "-m", "32"]),
];

/// Loads a server of its own.
pub(super) fn run(case: &Case<'_>) -> anyhow::Result<()> {
    case.scene.check("h2load", &case.what("changing certificates"), || soak(case))
}

fn soak(case: &Case<'_>) -> anyhow::Result<String> {
    let requests = case.scene.either(20_000, 1_000_000);
    let directory = case.directory.join("soak");
    let stop = case.scene.stop;
    for name in CERTIFICATES {
        fs::create_dir_all(directory.join(name))?;
        case.authority.issue_server(Key::P256, &directory.join(name))?;
    }
    let file = directory.join("thruway.toml");
    let server = Server::serve(case.scene.program, &config(0), &file, stop)?;
    let mut rotating = Rotating { case, server, file, generation: 0, last: now() };
    // The first requests fill the pools.
    rotating.load_all(requests / 10)?;
    let (bytes_before, descriptors_before) = usage_of(rotating.server.id())?;
    rotating.load_all(requests)?;
    let (bytes, descriptors) = usage_of(rotating.server.id())?;
    let Rotating { server, file, generation: changes, .. } = rotating;
    server.end(stop)?;
    let grown = bytes.saturating_sub(bytes_before);
    ensure!(grown < GROWTH_BYTES_MAX, "{bytes_before} bytes have become {bytes}");
    let is_closed = descriptors <= descriptors_before + DESCRIPTORS_MORE_MAX;
    ensure!(is_closed, "{descriptors_before} descriptors have become {descriptors}");
    let said = child::text_of(&file.with_extension("log"))?;
    let reloads = said.matches("config reloaded").count();
    ensure!(reloads > changes / 2, "of {changes} changes only {reloads} were heeded\n{}", child::tail(&said));
    Ok(format!("{requests} requests, {reloads} changes, {} KiB more", grown >> 10))
}

/// Another certificate is another config of TLS, and so has other keys for tickets.
fn config(generation: usize) -> String {
    include_str!("soak.toml").replace("{name}", CERTIFICATES[generation % CERTIFICATES.len()])
}

/// A server with a config that changes.
struct Rotating<'c> {
    case: &'c Case<'c>,
    server: Server,
    file: PathBuf,
    generation: usize,
    last: Instant,
}

impl Rotating<'_> {
    fn load_all(&mut self, requests: u32) -> anyhow::Result<()> {
        LOADS.iter().try_for_each(|(share, is_http2, arguments)| {
            let load = self.load(requests / 1000 * share, *is_http2, arguments);
            load.with_context(|| format!("{arguments:?}"))
        })
    }

    /// Loads the server, and changes its config meanwhile.
    fn load(&mut self, requests: u32, is_http2: bool, arguments: &[&str]) -> anyhow::Result<()> {
        let log = self.case.directory.join("load.log");
        let (count, url) = (requests.to_string(), format!("{}/plaintext", self.server.url()));
        let mut command = Command::new("h2load");
        if !is_http2 {
            command = Command::new(self.case.scene.program);
            command.args(["bench", "http", "--output", "json", "--ca"]).arg(self.case.authority.root());
        }
        command.args(["-n", &count]).args(arguments).arg(url);
        let mut running = Running::start(command, &log)?;
        let status = self.case.scene.stop.wait("the requests to be answered", LIMIT, || {
            if self.last.elapsed() >= EVERY {
                (self.last, self.generation) = (now(), self.generation + 1);
                // As a whole: the server may read it at any time.
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

/// Returns the number of answered requests, from the output of either program.
fn answered(printed: &str) -> Option<u32> {
    let number = |text: &str| text.trim().trim_end_matches(',').parse().ok();
    let line = |name: &str| printed.lines().find_map(|line| line.trim().strip_prefix(name));
    line("\"answered\":").and_then(number).or_else(|| number(line("status codes:")?.split_once(" 2xx")?.0))
}

/// Returns the memory of a process in bytes, and the number of its descriptors.
fn usage_of(id: u32) -> anyhow::Result<(u64, usize)> {
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).context("the server is gone")?.count();
    let memory = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line = memory.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok((kibibytes.context("its memory is unknown")? << 10, descriptors))
}

const CERTIFICATES: [&str; 2] = ["one", "other"];

/// From one change to the next.
const EVERY: Duration = Duration::from_millis(300);

/// Memory that allocators keep.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// Connections that are just being closed.
const DESCRIPTORS_MORE_MAX: usize = 8;

const LIMIT: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::{answered, usage_of};

    #[test]
    fn answers_are_counted_as_each_program_says_it_and_memory_is_known() {
        assert_eq!(answered("{\n  \"answered\": 100,\n}"), Some(100));
        assert_eq!(answered("status codes: 7 2xx, 0 3xx, 0 4xx, 0 5xx\n"), Some(7));
        assert_eq!(answered("error\n"), None);
        assert!(usage_of(std::process::id()).unwrap().0 > 0);
        assert_eq!(super::LOADS.iter().map(|(share, ..)| share).sum::<u32>(), 1000);
    }
}
