//! The report: targets first, then a table for each case, then how all of it was measured.

use serde_json::json;
use thruway_bench::statistics::Summary;

use super::machine::Machine;
use super::metric::Metric;
use super::prepare::{Prepared, Ready};
use super::results::{Comparison, Results};
use super::server::CLIENT_CORE;
use super::server::SERVER_CORE;
use super::targets::Verdict;
use super::workloads::{CASES, Case, Load};
use super::{Options, calls, wrk};

/// What stands for the address, as each run has a port of its own.
const ADDRESS: &str = "127.0.0.1:PORT";

/// All that a report says.
pub(super) struct Report<'a> {
    pub(super) options: &'a Options,
    pub(super) machine: &'a Machine,
    pub(super) ready: &'a Ready,
    /// Cases that could not be run, with the name of what would have been ours.
    pub(super) left_out: &'a [(&'static str, &'static str)],
    pub(super) results: &'a Results,
    pub(super) verdicts: &'a [Verdict],
}

impl Report<'_> {
    /// The report for people.
    pub(super) fn to_markdown(&self) -> String {
        let mut sections = vec!["# Thruway beside its peers".to_owned(), self.introduction()];
        sections.extend(self.shortcomings());
        sections.push(self.targets());
        sections.extend(CASES.iter().filter_map(|case| self.case(case)));
        sections.push(self.method());
        sections.push(self.servers());
        sections.join("\n\n") + "\n"
    }

    /// Every figure of every run.
    ///
    /// # Errors
    /// When a figure is no number.
    pub(super) fn to_json(&self) -> anyhow::Result<String> {
        let servers: Vec<_> = self.ready.servers.iter().map(server_json).collect();
        let report = json!({
            "machine": self.machine,
            "pairs": self.options.pairs,
            "seconds": self.options.seconds,
            "servers": servers,
            "missing": self.ready.missing,
            "not_run": self.left_out,
            "results": self.results,
            "verdicts": self.verdicts,
        });
        Ok(serde_json::to_string_pretty(&report)? + "\n")
    }

    fn introduction(&self) -> String {
        let Machine { date, commit, kernel, cpu, cores, memory, .. } = self.machine;
        let Options { pairs, seconds, .. } = self.options;
        format!(
            "{date}, commit {commit}. Linux {kernel}, {cpu}, {cores} cores, {memory} of memory.\n\n\
             Each figure is the median of {pairs} pairs of runs (`wrk` runs last {seconds} s); a ratio is taken within \
             each pair, ours to the peer's, and stands with its spread (smallest to largest). CPU time of the server \
             is the steadiest figure: where the load generator is the bottleneck (`core used` well below 100 %), \
             requests per second say little."
        )
    }

    /// What keeps this report from being whole.
    fn shortcomings(&self) -> Option<String> {
        let early =
            self.results.ended_early.iter().map(|reason| format!("- **The runs ended early**: {reason}."));
        let failures = self.results.failures.iter().map(|failure| {
            format!("- **Failed**: {} in `{}`: {}", failure.server, failure.case, one_line(&failure.error))
        });
        let missing = self
            .ready
            .missing
            .iter()
            .map(|(name, reason)| format!("- Missing: {name}: {}", one_line(reason)));
        let without = self
            .left_out
            .iter()
            .map(|(case, ours)| format!("- Not run: `{case}`, as {ours} has no part in it or is missing"));
        let lines: Vec<_> = early.chain(failures).chain(missing).chain(without).collect();
        (!lines.is_empty()).then(|| format!("## Not whole\n\n{}", lines.join("\n")))
    }

    fn targets(&self) -> String {
        let rows = self.verdicts.iter().map(|verdict| {
            let figure = verdict.figure.as_ref().map_or_else(none, with_spread);
            vec![verdict.target.clone(), verdict.bound.clone(), figure, judgement(verdict).to_owned()]
        });
        let table = table(&["target", "bound", "figure", "verdict"], rows);
        format!(
            "## Targets\n\nRatios are ours to the peer's. A failed request makes a run a failure.\n\n{table}"
        )
    }

    fn case(&self, case: &Case) -> Option<String> {
        let comparisons: Vec<_> = self.results.of_case(case.name).collect();
        let ours = comparisons.first()?.ours;
        let mut headings = vec![format!("{ours} beside")];
        for metric in Metric::compared(case.load) {
            headings.extend([format!("{}, ours", metric.label()), "theirs".to_owned(), "ratio".to_owned()]);
        }
        headings.extend(
            Metric::shown(case.load).iter().map(|metric| format!("{}, ours / theirs", metric.label())),
        );
        let headings: Vec<_> = headings.iter().map(String::as_str).collect();
        let table = table(&headings, comparisons.iter().map(|comparison| row(comparison)));
        let command = load_command(case.load, self.options.seconds);
        let note = if case.note.is_empty() { String::new() } else { format!("\n\n{}", case.note) };
        Some(format!("## {}\n\n{command}{note}\n\n{table}", case.name))
    }

    fn method(&self) -> String {
        let Machine { rustc, wrk, descriptors, cpu_time_source, .. } = self.machine;
        let descriptors = descriptors.map_or_else(|| "without limit".to_owned(), |n| n.to_string());
        format!(
            "## How it was measured\n\n\
             - Each run starts its server anew on a free loopback port, pinned to core {SERVER_CORE}; the load generator \
             is pinned to core {CLIENT_CORE} unless the case says otherwise. Receiving on loopback is charged to whoever sends.\n\
             - Runs alternate: ours, peer, ours, next peer …; every peer has its own runs of ours to be compared with.\n\
             - Before the load one request is checked (status, `Content-Type`, `Content-Length`, `Server`, `Date`, \
             content), then some 10,000 pipelined ones, or those of five seconds, warm the server up and must give as many \
             answers and nothing more.\n\
             - A run with a socket error, another status, a failed request or a wrong number of octets is a failure.\n\
             - CPU time: {cpu_time_source}, from before the load generator's start to after its end.\n\
             - Open descriptors: {descriptors}. {rustc}; {wrk}."
        )
    }

    fn servers(&self) -> String {
        let rows = self.ready.servers.iter().map(|server| {
            let command = format!("`{}`", shown_command(server));
            vec![server.peer.name.to_owned(), server.version.clone(), server.peer.about.to_owned(), command]
        });
        format!("## Servers\n\n{}", table(&["name", "version", "what", "command line"], rows))
    }
}

fn row(comparison: &Comparison) -> Vec<String> {
    let load = comparison.case.load;
    let mut cells = vec![comparison.peer.to_owned()];
    for &metric in Metric::compared(load) {
        cells.extend([
            median(comparison.ours_of(metric), metric),
            median(comparison.peer_of(metric), metric),
            comparison.ratio_of(metric).as_ref().map_or_else(none, with_spread),
        ]);
    }
    cells.extend(Metric::shown(load).iter().map(|&metric| {
        format!(
            "{} / {}",
            median(comparison.ours_of(metric), metric),
            median(comparison.peer_of(metric), metric)
        )
    }));
    cells
}

fn median(summary: Option<Summary>, metric: Metric) -> String {
    summary.map_or_else(none, |summary| metric.format(summary.median))
}

fn judgement(verdict: &Verdict) -> &'static str {
    match (verdict.figure, verdict.met, verdict.close) {
        (None, _, _) => "not measured",
        (_, true, false) => "met",
        (_, true, true) => "met, but the spread crosses it",
        (_, false, true) => "**missed**, but the spread crosses it",
        (_, false, false) => "**missed**",
    }
}

/// A message of several lines on one, as a list in Markdown needs it.
fn one_line(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" / ")
}

fn none() -> String {
    "–".to_owned()
}

fn with_spread(summary: &Summary) -> String {
    // Three digits that say something: octets have no use for decimals, ratios have.
    let digits = match summary.max {
        max if max >= 100.0 => 0,
        max if max >= 0.1 => 2,
        _ => 4,
    };
    let Summary { median, min, max, .. } = summary;
    format!("**{median:.digits$}** ({min:.digits$} … {max:.digits$})")
}

fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let headings: Vec<_> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let mut lines = vec![line(&headings), format!("|{}", "---|".repeat(headings.len()))];
    lines.extend(rows.map(|cells| line(&cells)));
    lines.join("\n")
}

/// The command line of a load, or what is done in its place.
fn load_command(load: Load, seconds: u32) -> String {
    let wrk_command = |request, connections, depth, seconds| {
        let core = load.core_of_client();
        let load = wrk::Load { request, connections, depth, seconds, core };
        quoted(core, "wrk", wrk::arguments(&load, ADDRESS, "xtask/src/bench/wrk.lua", "REQUEST"))
    };
    match load {
        Load::Wrk { connections, depth } => wrk_command(load.request(), connections, depth, seconds),
        Load::Mcp { request, connections } => wrk_command(request, connections, 1, seconds),
        Load::Stdio { window, .. } => {
            format!(
                "Messages on the standard input of a child process for {seconds} s, {window} unanswered at a time."
            )
        }
        Load::Soak { requests, connections } => {
            format!("Messages of all kinds in turn on {connections} connections, at least {requests}.")
        }
        Load::Calls { in_flight, core } => {
            let load = calls::Load { in_flight, seconds, core };
            quoted(core, "PROGRAM", calls::arguments(load, &format!("http://{ADDRESS}/mcp")))
        }
        Load::Bridge { revision, connections } => {
            format!(
                "`thruway bench mcp http://{ADDRESS}/mcp --era {revision} -c {connections} -d {seconds}s`"
            )
        }
        Load::Command { runs } => format!("{runs} runs, one after the other."),
    }
}

fn quoted(core: u32, program: &str, arguments: Vec<String>) -> String {
    let quote = |argument: String| if argument.contains(' ') { format!("'{argument}'") } else { argument };
    let arguments: Vec<_> = arguments.into_iter().map(quote).collect();
    format!("`taskset -c {core} {program} {}`", arguments.join(" "))
}

/// The command line of a server, with names in the place of what differs between runs.
fn shown_command(server: &Prepared) -> String {
    let places = [("{address}", ADDRESS), ("{bench}", "bench"), ("{host}", "127.0.0.1"), ("{port}", "PORT")];
    let arguments = server.peer.arguments.join(" ");
    let arguments = places.iter().fold(arguments, |text, (place, name)| text.replace(place, name));
    format!("taskset -c {SERVER_CORE} {} {arguments}", server.shown_program)
}

fn server_json(server: &Prepared) -> serde_json::Value {
    json!({ "name": server.peer.name, "version": server.version, "command": shown_command(server) })
}
