//! slowhttptest: clients that take their time. The server answers others meanwhile, and ends their
//! connections.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::check::Scene;
use crate::child::{self, Running};

/// Checks each kind of slowness.
pub(super) fn run(scene: &Scene<'_>) -> anyhow::Result<()> {
    for (what, mode, path) in [
        ("slow header section (-H)", "-H", "/plaintext"),
        ("slow content (-B)", "-B", "/echo"),
        ("slow read (-X)", "-X", "/download?bytes=8388608"),
    ] {
        scene.check("slowhttptest", what, || attack(scene, mode, path))?;
    }
    Ok(())
}

/// Fails unless the server gets all the connections, ends them, and stays available. The attacker's own count
/// of connections is no measure: a slow reader notices a closed connection minutes later.
fn attack(scene: &Scene<'_>, mode: &str, path: &str) -> anyhow::Result<String> {
    let connections = scene.either(100, 800);
    let before = sockets(scene.server)?;
    let log = scene.directory.join("slowhttptest.log");
    let (count, length) = (connections.to_string(), scene.either(10, 60).to_string());
    let mut command = Command::new("slowhttptest");
    command.args([mode, "-i", "1", "-l", &length, "-p", "2", "-c", &count, "-r", &count]);
    command.args(["-u", &format!("{}{path}", scene.url)]).current_dir(scene.directory);
    let mut attacker = Running::start(command, &log)?;
    let most = before + usize::try_from(connections)? / 2;
    let mut is_over = || -> anyhow::Result<bool> { Ok(attacker.ended()?.is_some()) };
    scene.stop.wait("the attack to begin", LIMIT, || {
        let is_under_attack = sockets(scene.server)? >= most;
        ensure!(is_under_attack || !is_over()?, "the attack was over before it began");
        Ok(is_under_attack.then_some(()))
    })?;
    scene.stop.wait("the connections to be ended", LIMIT, || {
        // One more may be the question whether the server is still there.
        Ok((sockets(scene.server)? <= before + 1).then_some(()))
    })?;
    let is_over_by_us = !is_over()? || child::text_of(&log)?.contains("No open connections left");
    ensure!(is_over_by_us, "the attack lasted as long as it was to");
    // It says its verdict every five seconds, and when it ends.
    scene.stop.wait("a verdict", scene.limit(), || {
        let count = verdicts(&child::text_of(&log)?);
        Ok((is_over()? || count.is_some_and(|count| count > 1)).then_some(()))
    })?;
    drop(attacker);
    verdicts(&child::text_of(&log)?).context("the server was not available")?;
    Ok(format!("{connections} connections ended, others answered"))
}

/// Returns how often the attacker found the server available; `None` if it was unavailable once.
fn verdicts(printed: &str) -> Option<usize> {
    let mut verdicts = printed.lines().filter(|line| line.contains("service available:"));
    let count = verdicts.clone().count();
    (count > 0 && verdicts.all(|line| line.contains("YES"))).then_some(count)
}

/// Returns the number of open sockets of a process.
fn sockets(id: u32) -> anyhow::Result<usize> {
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).context("the server is gone")?;
    let targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count())
}

/// Twice the timeouts of the config, and some for a machine that is busy.
const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_counted_and_a_server_is_available_only_if_it_always_was() {
        assert_eq!(verdicts("service available:   YES\nservice available:   YES\n"), Some(2));
        assert_eq!(verdicts("service available:   YES\nservice available:   NO\n"), None);
        assert_eq!(verdicts("nothing\n"), None);
        let before = sockets(std::process::id()).unwrap();
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(sockets(std::process::id()).unwrap() > before);
    }
}
