//! Slow attacks with slowhttptest. The server must close the slow connections and still respond to other
//! clients.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::check::Checker;
use crate::child::{self, Running};

/// Runs each kind of attack.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    for (what, mode, path) in [
        ("slow header section (-H)", "-H", "/plaintext"),
        ("slow content (-B)", "-B", "/echo"),
        ("slow read (-X)", "-X", "/download?bytes=8388608"),
    ] {
        checker.check("slowhttptest", what, || attack(checker, mode, path))?;
    }
    Ok(())
}

/// Fails unless the server accepts the connections, closes them, and stays available. Counts the sockets of
/// the server, because a slow reader notices a closed connection only minutes later.
fn attack(checker: &Checker<'_>, mode: &str, path: &str) -> anyhow::Result<String> {
    let connections = checker.either(100, 800);
    let before = sockets(checker.server)?;
    let log = checker.directory.join("slowhttptest.log");
    let (count, length) = (connections.to_string(), checker.either(10, 60).to_string());
    let mut command = Command::new("slowhttptest");
    command.args([mode, "-i", "1", "-l", &length, "-p", "2", "-c", &count, "-r", &count]);
    command.args(["-u", &format!("{}{path}", checker.url)]).current_dir(checker.directory);
    let mut attacker = Running::start(command, &log)?;
    let most = before + usize::try_from(connections)? / 2;
    let mut is_over = || -> anyhow::Result<bool> { Ok(attacker.ended()?.is_some()) };
    checker.stop.wait("the attack to begin", LIMIT, || {
        let is_under_attack = sockets(checker.server)? >= most;
        ensure!(is_under_attack || !is_over()?, "the attack ended too early");
        Ok(is_under_attack.then_some(()))
    })?;
    checker.stop.wait("the server to close the connections", LIMIT, || {
        // The additional socket may be the availability probe of slowhttptest.
        Ok((sockets(checker.server)? <= before + 1).then_some(()))
    })?;
    let is_ended_by_server = !is_over()? || child::text_of(&log)?.contains("No open connections left");
    ensure!(is_ended_by_server, "the server did not end the attack before its time limit");
    // slowhttptest reports the availability of the server every five seconds, and at its own end.
    checker.stop.wait("a report of slowhttptest", checker.limit(), || {
        let count = availability_reports(&child::text_of(&log)?);
        Ok((is_over()? || count.is_some_and(|count| count > 1)).then_some(()))
    })?;
    drop(attacker);
    availability_reports(&child::text_of(&log)?).context("the server was not available")?;
    Ok(format!("{connections} slow connections closed, server stayed available"))
}

/// Returns the number of availability reports. Returns `None` if there are none, or if a report says that the
/// server is not available.
fn availability_reports(printed: &str) -> Option<usize> {
    let mut availability_reports = printed.lines().filter(|line| line.contains("service available:"));
    let count = availability_reports.clone().count();
    (count > 0 && availability_reports.all(|line| line.contains("YES"))).then_some(count)
}

/// Returns the number of open sockets of a process.
fn sockets(id: u32) -> anyhow::Result<usize> {
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).context("the server has ended")?;
    let targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count())
}

/// Time limit of each wait. It is more than twice the timeouts of the config, for busy machines.
const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unavailable_report_fails_and_sockets_are_counted() {
        assert_eq!(availability_reports("service available:   YES\nservice available:   YES\n"), Some(2));
        assert_eq!(availability_reports("service available:   YES\nservice available:   NO\n"), None);
        assert_eq!(availability_reports("nothing\n"), None);
        let before = sockets(std::process::id()).unwrap();
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(sockets(std::process::id()).unwrap() > before);
    }
}
