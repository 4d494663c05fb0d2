//! `thruway fleet status`: shows the replicas of a fleet.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use serde::Deserialize;

use super::view::printable;
use super::{AdminClient, TopAccess, runtime};
use crate::config::Failure;

#[derive(Deserialize)]
struct Status {
    fleet: Option<Fleet>,
}

#[derive(Deserialize)]
struct Fleet {
    replica: String,
    replicas: Vec<Replica>,
    forwarded: u64,
    received: u64,
    missing_owners: u64,
}

#[derive(Deserialize)]
struct Replica {
    id: String,
    name: String,
    /// Absent without a peer listener.
    address: Option<String>,
    state: String,
    sessions: u64,
    pending_calls: u64,
    tasks: u64,
    #[serde(default)]
    holds_certificate_lock: bool,
    version: String,
    heartbeat_age_ms: u64,
}

/// Prints the replicas of the fleet, as the service sees them whose admin listener has the URL `url`.
///
/// # Errors
/// Returns an error if the URL is invalid, if the root certificates cannot be read, if the service cannot be reached, or
/// if it belongs to no fleet.
pub fn fleet_status(url: &str, access: &TopAccess, output: &mut dyn Write) -> Result<(), Failure> {
    let admin = AdminClient::new(url, access)?;
    let status: Status = runtime()?.block_on(admin.read("/status"))?;
    let Some(fleet) = status.fleet else {
        let failure = Failure::new(format!("the service at `{url}` belongs to no fleet"));
        return Err(failure.with_hint("set `store` in `[shared]` to make it a replica"));
    };
    // A write error is ignored, because the reader may have closed the pipe.
    let _ = output.write_all(table(&fleet).as_bytes());
    Ok(())
}

fn table(fleet: &Fleet) -> String {
    let mut text = line(["NAME", "ID", "ADDRESS", "STATE", "SEEN", "SESSIONS", "CALLS", "TASKS", "VERSION"]);
    for replica in &fleet.replicas {
        let numbers =
            [replica.sessions, replica.pending_calls, replica.tasks].map(|number| number.to_string());
        let [sessions, calls, tasks] = &numbers;
        let Replica { id, name, address, state, version, .. } = replica;
        let seconds = Duration::from_millis(replica.heartbeat_age_ms).as_secs();
        let (own, seen) = if *id == fleet.replica {
            (" (this replica)", "now".to_owned())
        } else {
            ("", format!("{seconds} s"))
        };
        let lock = if replica.holds_certificate_lock { ", orders certificates" } else { "" };
        let address = address.as_deref().unwrap_or("-");
        let version = format!("{version}{own}{lock}");
        text += &line([name, id, address, state, &seen, sessions, calls, tasks, &version]);
    }
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "\n{} requests forwarded, {} received, {} whose owner was missing",
        fleet.forwarded, fleet.received, fleet.missing_owners
    );
    text
}

fn line(cells: [&str; 9]) -> String {
    let [name, id, address, state, seen, sessions, calls, tasks, version] = cells.map(printable);
    let line = format!(
        "{name:<16} {id:<16} {address:<22} {state:<8} {seen:>5} {sessions:>8} {calls:>5} {tasks:>5} {version}"
    );
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_has_a_line() {
        let replica = |id: &str, name: &str, state: &str| Replica {
            id: id.to_owned(),
            name: name.to_owned(),
            address: Some("10.0.0.1:9300".to_owned()),
            state: state.to_owned(),
            sessions: 3,
            pending_calls: 2,
            tasks: 1,
            holds_certificate_lock: id == "1",
            version: "0.1.0".to_owned(),
            heartbeat_age_ms: 1_900,
        };
        let replicas = vec![replica("1", "a", "live"), replica("2", "b\u{1b}", "draining")];
        let fleet = Fleet { replica: "1".to_owned(), replicas, forwarded: 4, received: 5, missing_owners: 0 };
        let text = table(&fleet);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1],
            "a                1                10.0.0.1:9300          live       now        3     2     1 0.1.0 (this \
             replica), orders certificates"
        );
        assert!(lines[2].contains("draining   1 s ") && !lines[2].contains('\u{1b}'), "{text}");
        assert_eq!(lines[4], "4 requests forwarded, 5 received, 0 whose owner was missing");
    }
}
