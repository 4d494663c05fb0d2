//! The workloads of `thruway-suite`: builds their peers and calls it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, bail};

use super::peers::{self, PEERS, Peer};
use super::prepare::{self, Ready};
use super::{Options, write};
use crate::places::repository;
use crate::program::{self, Profile};
use crate::stop::Stop;

/// Builds ours and the peers that take part, and runs the suite `name` with what `options` say.
///
/// # Errors
/// When ours cannot be built, or the suite says that something has failed; its report is written all the same.
pub(super) fn run(options: &Options, name: &str, stop: &Stop) -> anyhow::Result<()> {
    let ready = prepare::all(&wanted(options), None, stop)?;
    let ours = &ready.find("thruway").context("`thruway` could not be built")?.program;
    let program = program::build_package("thruway-suite", Profile::Dist, stop)?;
    let directory = repository().join("target/suite");
    remove_reports(&directory)?;
    let mut command = Command::new(program);
    command.args(arguments(options, name, &directory)?);
    if options.ours.is_none() {
        command.arg("--program").arg(ours);
    }
    // It prints a summary. The directory has the whole report.
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    let report = |name: &str| fs::read_to_string(directory.join(name));
    if let Ok(markdown) = report("report.md") {
        let missing = missing(&ready);
        write(options.output.as_deref(), &(markdown + &missing))?;
    }
    if let (Some(path), Ok(json)) = (&options.json, report("report.json")) {
        write(Some(path), &json)?;
    }
    if status.success() { Ok(()) } else { bail!("the suite ended with {status}") }
}

/// Removes the reports of an earlier run, so that none of them is taken for that of this run.
fn remove_reports(directory: &Path) -> anyhow::Result<()> {
    for name in ["report.md", "report.html", "report.json"] {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove `{}`", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Ours, and those of the peers that can be built and are asked for.
fn wanted(options: &Options) -> Vec<&'static Peer> {
    let workloads = options.workload.workloads();
    let takes_part = |peer: &&Peer| peer.workloads.iter().any(|workload| workloads.contains(workload));
    let is_asked_for =
        |peer: &&Peer| options.peers.is_empty() || options.peers.iter().any(|name| name == peer.name);
    let others = PEERS.iter().filter(takes_part).filter(is_asked_for).filter(|peer| peer.name != "thruway");
    peers::find("thruway").into_iter().chain(others).collect()
}

fn arguments(options: &Options, name: &str, report: &Path) -> anyhow::Result<Vec<String>> {
    let text = |path: PathBuf| path.into_os_string().into_string().ok().context("a path is not UTF-8");
    let mut arguments = vec![name.to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--rounds", options.pairs.max(2).to_string());
    option("--duration", format!("{}s", options.seconds));
    option("--limit", format!("{}m", options.time_limit));
    option("--peers-from", text(repository().join("peers"))?);
    option("--report", text(report.to_owned())?);
    for (name, list) in [("--cases", &options.cases), ("--peers", &options.peers)] {
        if !list.is_empty() {
            option(name, list.join(","));
        }
    }
    if let Some(ours) = &options.ours {
        option("--program", ours.clone());
    }
    Ok(arguments)
}

/// Peers that could not be built, for the end of the report.
fn missing(ready: &Ready) -> String {
    let lines = ready.missing.iter().map(|(name, reason)| {
        format!("- {name}: {}\n", reason.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n## Could not be built\n\n{lines}") }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::bench::peers::Build;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Arguments::parse_from(["bench"].into_iter().chain(line.split_whitespace())).options
    }

    #[test]
    fn what_is_asked_for_is_passed_on() {
        let options =
            options("gateway --pairs 7 --seconds 2 --cases reloads --peers nginx,haproxy --ours a/b");
        let arguments = arguments(&options, "gateway", Path::new("reports")).unwrap();
        let text = arguments.join(" ");
        assert!(text.starts_with("gateway --rounds 7 --duration 2s --limit 120m --peers-from /"), "{text}");
        assert!(
            text.ends_with("--report reports --cases reloads --peers nginx,haproxy --program a/b"),
            "{text}"
        );
    }

    #[test]
    fn reports_of_an_earlier_run_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        remove_reports(&directory.path().join("missing")).unwrap();
        for name in ["report.md", "report.json", "notes.md"] {
            fs::write(directory.path().join(name), "earlier").unwrap();
        }
        remove_reports(directory.path()).unwrap();
        let left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.md"]);
    }

    #[test]
    fn only_what_takes_part_is_built() {
        let names = |line: &str| wanted(&options(line)).iter().map(|peer| peer.name).collect::<Vec<_>>();
        assert_eq!(names("gateway"), ["thruway", "relay", "haproxy-newest", "nginx-newest"]);
        assert_eq!(names("gateway --peers nginx"), ["thruway"]);
        assert_eq!(names("plaintext --peers hyper,nginx"), ["thruway", "hyper"]);
        assert!(
            names("connections").contains(&"may_minihttp") && !names("keep-alive").contains(&"may_minihttp")
        );
        let all = wanted(&options("all"));
        assert!(all.iter().any(|peer| peer.name == "rmcp"));
        assert!(all.iter().all(|peer| !matches!(peer.build, Build::Bench("bench-axum-on-thruway"))));
    }
}
