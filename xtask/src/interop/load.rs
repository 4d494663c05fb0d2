//! Load generators: many requests on many connections, none of which may fail.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::check::{Check, Scene, expect};

pub(super) const CHECKS: &[&Check] = &[
    &Check { client: "wrk", what: "GET", run: wrk },
    &Check { client: "ab", what: "GET, a connection each", run: ab },
    &Check { client: "ab", what: "GET, persistent (-k)", run: ab_persistent },
    &Check { client: "ab", what: "POST, persistent (-k -p)", run: ab_post },
    &Check { client: "h2load", what: "GET (--h1)", run: h2load },
    &Check { client: "h2load", what: "GET, pipelined (--h1 -m 8)", run: h2load_pipelined },
];

fn wrk(scene: &Scene<'_>) -> anyhow::Result<String> {
    let mut command = Command::new("wrk");
    let (connections, seconds) = (scene.either(32, 256), scene.either(2, 20));
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s")]);
    command.arg(format!("{}/plaintext", scene.url));
    let printed = scene.output("wrk", command)?;
    wrk_requests(&printed).map(|requests| format!("{requests} requests, none failed"))
}

/// The requests that `wrk` made; it is silent about errors if there were none.
fn wrk_requests(printed: &str) -> anyhow::Result<u64> {
    for complaint in ["Socket errors", "Non-2xx"] {
        ensure!(!printed.contains(complaint), "{complaint}:\n{printed}");
    }
    let line = printed.lines().find(|line| line.contains(" requests in ")).context("no count of requests")?;
    let requests = line.split_whitespace().next().context("no count of requests")?.parse()?;
    ensure!(requests > 0, "no request was answered");
    Ok(requests)
}

fn ab(scene: &Scene<'_>) -> anyhow::Result<String> {
    run_ab(scene, scene.either(2000, 20_000), &[], "/plaintext")
}

fn ab_persistent(scene: &Scene<'_>) -> anyhow::Result<String> {
    run_ab(scene, scene.either(20_000, 500_000), &["-k"], "/plaintext")
}

fn ab_post(scene: &Scene<'_>) -> anyhow::Result<String> {
    run_ab(scene, scene.either(500, 5000), &["-k", "-p", "content", "-T", "text/plain"], "/echo")
}

fn run_ab(scene: &Scene<'_>, requests: u32, arguments: &[&str], path: &str) -> anyhow::Result<String> {
    let mut command = Command::new("ab");
    command.args(["-q", "-c", "20", "-n", &requests.to_string()]).args(arguments);
    command.arg(format!("{}{path}", scene.url)).current_dir(scene.directory);
    let printed = scene.output("ab", command)?;
    check_ab(&printed, requests, arguments.contains(&"-k"))?;
    Ok(format!("{requests} requests, none failed"))
}

fn check_ab(printed: &str, requests: u32, is_persistent: bool) -> anyhow::Result<()> {
    let value = |name: &str| {
        let value = printed.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u32>().ok()
    };
    expect("complete", &value("Complete requests:"), &Some(requests))?;
    expect("failed", &value("Failed requests:"), &Some(0))?;
    ensure!(!printed.contains("Non-2xx"), "not every status was 200:\n{printed}");
    if is_persistent {
        expect("persistent", &value("Keep-Alive requests:"), &Some(requests))?;
    }
    Ok(())
}

fn h2load(scene: &Scene<'_>) -> anyhow::Result<String> {
    run_h2load(scene, &[])
}

fn h2load_pipelined(scene: &Scene<'_>) -> anyhow::Result<String> {
    run_h2load(scene, &["-m", "8"])
}

fn run_h2load(scene: &Scene<'_>, arguments: &[&str]) -> anyhow::Result<String> {
    let requests = scene.either(20_000, 500_000);
    let mut command = Command::new("h2load");
    command.args(["--h1", "-c", "20", "-n", &requests.to_string()]).args(arguments);
    command.arg(format!("{}/plaintext", scene.url));
    check_h2load(&scene.output("h2load", command)?, requests)?;
    Ok(format!("{requests} requests, none failed"))
}

fn check_h2load(printed: &str, requests: u32) -> anyhow::Result<()> {
    let line = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let n = requests;
    let all = format!("{n} total, {n} started, {n} done, {n} succeeded, 0 failed, 0 errored, 0 timeout");
    expect("requests", &line("requests:"), &Some(all.as_str()))?;
    expect("statuses", &line("status codes:"), &Some(format!("{n} 2xx, 0 3xx, 0 4xx, 0 5xx").as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_fails_when_it_complains_or_did_nothing() {
        assert_eq!(wrk_requests("  1234 requests in 2.00s, 1MB read\n").unwrap(), 1234);
        assert!(wrk_requests("  0 requests in 2.00s, 0B read\n").is_err());
        assert!(wrk_requests("  9 requests in 2.00s\n  Non-2xx or 3xx responses: 1\n").is_err());
        assert!(wrk_requests("  9 requests in 2.00s\n  Socket errors: connect 0, read 1\n").is_err());
    }

    #[test]
    fn ab_fails_unless_each_request_did_well() {
        let report = "Complete requests:      7\nFailed requests:        0\nKeep-Alive requests:    7\n";
        assert!(check_ab(report, 7, true).is_ok());
        assert!(check_ab(report, 8, true).is_err());
        assert!(check_ab(&report.replace("Alive requests:    7", "Alive requests:    6"), 7, true).is_err());
        assert!(check_ab(&report.replace("        0", "        1"), 7, false).is_err());
        assert!(check_ab(&format!("{report}Non-2xx responses:      7\n"), 7, true).is_err());
    }

    #[test]
    fn h2load_fails_unless_each_request_did_well() {
        let report = "requests: 7 total, 7 started, 7 done, 7 succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: 7 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert!(check_h2load(report, 7).is_ok());
        assert!(check_h2load(&report.replace("7 2xx, 0 3xx", "6 2xx, 1 3xx"), 7).is_err());
        assert!(check_h2load(&report.replace("0 errored", "1 errored"), 7).is_err());
    }
}
