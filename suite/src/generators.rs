//! Third-party load generators: their command lines and their output. They run the same load as our load
//! generator, to check it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use thruway_bench::usage;
use thruway_net::Clock;

use crate::case::{Case, ComparisonKind, LoadCondition, Request, Security, Workload, whole_seconds};
use crate::figures::{Figures, Metric};
use crate::process::{Runner, first_line, on_path};
use crate::results::Tool;

/// A third-party load generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Generator {
    Wrk,
    Ab,
    H2load,
}

/// The figures in the output of a load generator.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Printed {
    answered: u64,
    failed: u64,
    rate: f64,
}

impl Generator {
    const ALL: [Self; 3] = [Self::Wrk, Self::Ab, Self::H2load];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::H2load => "h2load",
        }
    }

    /// Returns the load generators for `case`, installed or not.
    pub(crate) fn of(case: &Case) -> &'static [Self] {
        match case.workload {
            Workload::Plaintext | Workload::Tls => &[Self::Wrk, Self::H2load],
            Workload::Pipelining | Workload::Gateway | Workload::Floor | Workload::Axum => &[Self::Wrk],
            Workload::KeepAlive => &[Self::Ab],
            Workload::Http2 => &[Self::H2load],
            Workload::CrossCheck if case.is_http2 => &[Self::H2load],
            Workload::CrossCheck => &Self::ALL,
            _ => &[],
        }
    }

    /// Returns `true` if this load generator can make the load of a case that compares servers or gateways.
    pub(crate) fn can_load(self, case: &Case) -> bool {
        let compares_servers = matches!(
            case.between,
            ComparisonKind::Servers | ComparisonKind::Gateways | ComparisonKind::GatewaysBeforeClosing
        );
        let is_closed_loop = case.rate.is_none() && case.circumstance != LoadCondition::Reloads;
        // Only ab can open a connection for each request.
        let has_connections = case.is_persistent || self == Self::Ab;
        compares_servers && is_closed_loop && has_connections && Self::of(case).contains(&self)
    }

    /// Returns `true` if the load generator is installed.
    pub(crate) fn is_installed(self) -> bool {
        on_path(self.name()).is_ok()
    }

    /// Returns all installed load generators with their versions.
    pub(crate) fn versions() -> Vec<Tool> {
        let installed = Self::ALL.into_iter().filter(|generator| generator.is_installed());
        let tool = |generator: Self| {
            let argument = match generator {
                Self::Wrk => "-v",
                Self::Ab => "-V",
                Self::H2load => "--version",
            };
            let version = first_line(Command::new(generator.name()).arg(argument));
            Tool { name: generator.name().to_owned(), version: version.unwrap_or_default() }
        };
        installed.map(tool).collect()
    }

    /// Runs the load of a case on the server at `address` with the process id `server`.
    pub(crate) fn load(
        self,
        case: &Case,
        duration: Duration,
        address: SocketAddr,
        server: u32,
        runner: Runner<'_>,
    ) -> anyhow::Result<Figures> {
        let directory = tempfile::tempdir()?;
        let mut command = self.command(case, duration, &address.to_string(), directory.path())?;
        let (clock, before) = (Clock::system(), usage(server));
        let start = clock.now_exact();
        let ended = runner.end_of(&mut command, duration + WAIT_LIMIT)?;
        let seconds = clock.now_exact().saturating_sub(start).as_secs_f64();
        let after = usage(server);
        ensure!(ended.status.success(), "`{}` ended with {}", self.name(), ended.status);
        let printed = self.read(&ended.printed);
        let Printed { answered, failed, rate } = printed
            .with_context(|| format!("unexpected output of `{}`: {:?}", self.name(), ended.printed))?;
        let server_cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        let failure = if failed > 0 { format!("reported by `{}`", self.name()) } else { String::new() };
        let figures = Figures { failed, failure, ..Figures::counted(answered, seconds) };
        let figures = figures.with(Metric::Rate, rate).with_cpu(Metric::ServerCpu, server_cpu);
        Ok(figures.with_cpu(Metric::GeneratorCpu, Some(ended.cpu)))
    }

    fn command(
        self,
        case: &Case,
        duration: Duration,
        address: &str,
        directory: &Path,
    ) -> anyhow::Result<Command> {
        let Request::Get(target, _) = &case.request else { bail!("`{}` does not support MCP", self.name()) };
        let scheme = if case.security == Security::None { "http" } else { "https" };
        let (connections, url) = (case.connections.to_string(), format!("{scheme}://{address}{target}"));
        let mut command = Command::new(self.name());
        match self {
            Self::Wrk => {
                let seconds = whole_seconds(duration);
                command.args(["-t1", "-c", &connections]).arg(format!("-d{seconds}s"));
                if case.pipeline > 1 {
                    command.arg("-s").arg(script(directory, target, case.pipeline)?);
                }
            }
            Self::Ab => {
                let persistent = case.is_persistent.then_some("-k");
                command.arg("-q").args(persistent).args(["-c", &connections]);
                match case.requests {
                    Some(requests) => command.args(["-n", &requests.to_string()]),
                    // `-t` sets the number of requests to 50,000, so `-n` must follow.
                    None => command.args(["-t", &whole_seconds(duration).to_string(), "-n", "100000000"]),
                };
            }
            Self::H2load => {
                let duration = format!("{}ms", duration.as_millis());
                command.args(["-t", "1", "-c", &connections, "-D", &duration]);
                if case.is_http2 {
                    command.args(["-m", &case.pipeline.to_string()]);
                } else {
                    command.arg("--h1");
                }
            }
        }
        command.arg(url);
        Ok(command)
    }

    fn read(self, text: &str) -> Option<Printed> {
        let after = |label: &str| {
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
        let count = |value: f64| value as u64;
        match self {
            Self::Wrk => {
                let line = text.lines().find(|line| line.contains(" requests in "))?;
                let answered = line.split_whitespace().next()?.parse().ok()?;
                let failed = after("Non-2xx or 3xx responses:").map_or(0, count) + socket_errors(text);
                Some(Printed { answered, failed, rate: after("Requests/sec:")? })
            }
            Self::Ab => {
                let failed = count(after("Failed requests:")?);
                let answered = count(after("Complete requests:")?).saturating_sub(failed);
                Some(Printed { answered, failed, rate: after("Requests per second:")? })
            }
            Self::H2load => {
                let rate = text.lines().find_map(|line| line.strip_prefix("finished in "))?;
                let rate = rate.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
                let line = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
                let part =
                    |what: &str| line.split(", ").find_map(|part| part.strip_suffix(what)?.parse().ok());
                let failed = part(" failed")? + part(" timeout").unwrap_or(0);
                Some(Printed { answered: part(" succeeded")?, failed, rate })
            }
        }
    }
}

/// Sums the errors in `Socket errors: connect 0, read 1, write 0, timeout 2`.
fn socket_errors(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("Socket errors:"));
    let numbers = line.into_iter().flat_map(|line| line.split([' ', ',']));
    numbers.filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Writes a wrk script that sends `depth` pipelined requests, and returns its path.
fn script(directory: &Path, target: &str, depth: u16) -> anyhow::Result<String> {
    let path = directory.join("pipeline.lua");
    let script = format!(
        "local all\nfunction init()\n  local each = {{}}\n  \
         for i = 1, {depth} do each[i] = wrk.format(nil, \"{target}\") end\n  \
         all = table.concat(each)\nend\nfunction request() return all end\n"
    );
    fs::write(&path, script)?;
    Ok(path.display().to_string())
}

const WAIT_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CASES;

    #[test]
    fn generator_loads_only_cases_that_it_supports() {
        let loads = |generator: Generator, name: &str| {
            generator.can_load(CASES.iter().find(|case| case.name == name).unwrap())
        };
        for name in ["floor plaintext c=16", "pipelining depth 100", "gateway 2 B c=50", "axum 1 MB"] {
            assert!(loads(Generator::Wrk, name), "{name}");
        }
        for name in
            ["keep-alive without -k", "gateway held c=10000", "plaintext c=16, by other load generators"]
        {
            assert!(!loads(Generator::Wrk, name), "{name}");
        }
        assert!(loads(Generator::Ab, "keep-alive without -k"));
        assert!(!loads(Generator::Ab, "pipelining depth 16"));
    }

    #[test]
    fn output_of_each_generator_is_parsed() {
        let wrk = "Running 1s test @ http://127.0.0.1/\n  64012 requests in 1.00s, 8.00MB read\n  \
                   Socket errors: connect 0, read 1, write 0, timeout 2\n  Non-2xx or 3xx responses: 4\n\
                   Requests/sec:  64000.50\n";
        let ab = "Complete requests:      5000\nFailed requests:        80\n\
                  Requests per second:    181264.50 [#/sec] (mean)\n";
        let h2load = "finished in 1.00s, 64494.00 req/s, 7.5MB/s\nrequests: 64510 total, 64510 started, \
                      64494 done, 64494 succeeded, 0 failed, 0 errored, 3 timeout\n";
        for (generator, text, answered, failed, rate) in [
            (Generator::Wrk, wrk, 64_012, 7, 64_000.5),
            (Generator::Ab, ab, 4920, 80, 181_264.5),
            (Generator::H2load, h2load, 64_494, 3, 64_494.0),
        ] {
            assert_eq!(generator.read(text), Some(Printed { answered, failed, rate }), "{generator:?}");
            assert_eq!(generator.read("cannot connect\n"), None);
        }
    }
}
