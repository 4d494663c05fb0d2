//! Other load generators, which make the same load to check ours: how they are called, and what they print.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::case::{Amount, Case, Request, Security, Workload, whole_seconds};
use crate::figures::{Figures, cpu_each, kept};
use crate::results::Tool;
use tempfile::TempDir;
use thruway_bench::usage;
use thruway_net::Clock;

use crate::process::{first_line, on_path, wait};
use crate::server::{Server, ServerResources};

/// Another load generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Generator {
    Wrk,
    Ab,
    H2load,
}

/// The figures that one prints.
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
            Workload::Pipelining => &[Self::Wrk],
            Workload::Persistence => &[Self::Ab],
            Workload::Http2 => &[Self::H2load],
            Workload::CrossCheck if case.is_http2 => &[Self::H2load],
            Workload::CrossCheck => &Self::ALL,
            _ => &[],
        }
    }

    /// Returns `true` if it is installed.
    pub(crate) fn is_there(self) -> bool {
        on_path(self.name()).is_some()
    }

    /// All that are on this machine, with their versions.
    pub(crate) fn versions() -> Vec<Tool> {
        let there = Self::ALL.into_iter().filter(|generator| generator.is_there());
        let tool = |generator: Self| {
            let argument = match generator {
                Self::Wrk => "-v",
                Self::Ab => "-V",
                Self::H2load => "--version",
            };
            let version = first_line(Command::new(generator.name()).arg(argument));
            Tool { name: generator.name().to_owned(), version: version.unwrap_or_default() }
        };
        there.map(tool).collect()
    }

    /// Makes the load on `server`.
    pub(crate) fn load(
        self,
        case: &Case,
        duration: Duration,
        server: &Server,
        ground: ServerResources<'_>,
    ) -> Result<Figures, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = self.command(case, duration, &server.address.to_string(), &directory)?;
        let printed = directory.path().join("printed");
        let output = File::create(&printed).map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let (clock, before) = (Clock::system(), usage(server.id()));
        let start = clock.now_exact();
        let mut child = ground.groups.start(&mut command).map_err(|error| error.to_string())?;
        let ended = wait(&mut child, duration + PATIENCE, ground.stop);
        ground.groups.forget(child.id());
        let (status, own_cpu) = ended?;
        let seconds = clock.now_exact().saturating_sub(start).as_secs_f64();
        let after = usage(server.id());
        let text = fs::read_to_string(&printed).unwrap_or_default();
        let found = self.read(&text).filter(|_| status.success());
        let Printed { answered, failed, rate } =
            found.ok_or_else(|| format!("`{}` ended with {status}", self.name()))?;
        let server_cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        Ok(Figures {
            failed,
            failure: if failed > 0 { format!("as `{}` says", self.name()) } else { String::new() },
            rate: kept(rate),
            server_cpu: server_cpu.map(|cpu| cpu_each(cpu, answered)),
            generator_cpu: Some(cpu_each(own_cpu, answered)),
            ..Figures::counted(answered, seconds)
        })
    }

    fn command(
        self,
        case: &Case,
        duration: Duration,
        address: &str,
        directory: &TempDir,
    ) -> Result<Command, String> {
        let Request::Get(target, _) = case.request else {
            return Err(format!("`{}` knows no MCP", self.name()));
        };
        let scheme = if case.security == Security::None { "http" } else { "https" };
        let (connections, url) = (case.connections.to_string(), format!("{scheme}://{address}{target}"));
        let mut command = Command::new(self.name());
        match self {
            Self::Wrk => {
                let seconds = duration.as_secs().max(1);
                command.args(["-t1", "-c", &connections]).arg(format!("-d{seconds}s"));
                if case.pipeline > 1 {
                    command.arg("-s").arg(script(directory.path(), target, case.pipeline)?);
                }
            }
            Self::Ab => {
                let persistent = case.is_persistent.then_some("-k");
                command.arg("-q").args(persistent).args(["-c", &connections]);
                match case.amount {
                    Amount::Requests(requests, _) => command.args(["-n", &requests.to_string()]),
                    // A time sets the number to 50,000 unless a number follows.
                    Amount::Time => {
                        command.args(["-t", &whole_seconds(duration).to_string(), "-n", "100000000"])
                    }
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

/// Of `Socket errors: connect 0, read 1, write 0, timeout 2`.
fn socket_errors(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("Socket errors:"));
    let numbers = line.into_iter().flat_map(|line| line.split([' ', ',']));
    numbers.filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// A script for wrk that sends `depth` requests at once.
fn script(directory: &Path, target: &str, depth: u16) -> Result<String, String> {
    let path = directory.join("pipeline.lua");
    let script = format!(
        "local all\nfunction init()\n  local each = {{}}\n  for i = 1, {depth} do each[i] = wrk.format(nil, \"{target}\") end\n  \
         all = table.concat(each)\nend\nfunction request() return all end\n"
    );
    fs::write(&path, script).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_they_print_is_understood() {
        let wrk = "Running 1s test @ http://127.0.0.1/\n  64012 requests in 1.00s, 8.00MB read\n  Socket errors: connect 0, read 1, write 0, timeout 2\n  \
                   Non-2xx or 3xx responses: 4\nRequests/sec:  64000.50\n";
        let read = Generator::Wrk.read(wrk).unwrap();
        assert_eq!(read, Printed { answered: 64_012, failed: 7, rate: 64_000.5 });
        let ab = "Complete requests:      5000\nFailed requests:        80\nRequests per second:    181264.50 [#/sec] (mean)\n";
        let read = Generator::Ab.read(ab).unwrap();
        assert_eq!(read, Printed { answered: 4920, failed: 80, rate: 181_264.5 });
        let h2load = "finished in 1.00s, 64494.00 req/s, 7.5MB/s\nrequests: 64510 total, 64510 started, 64494 done, 64494 succeeded, 0 failed, 0 errored, 3 timeout\n";
        let read = Generator::H2load.read(h2load).unwrap();
        assert_eq!(read, Printed { answered: 64_494, failed: 3, rate: 64_494.0 });
        for generator in Generator::ALL {
            assert_eq!(generator.read("cannot connect\n"), None);
        }
    }
}
