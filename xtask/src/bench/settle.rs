//! Waits until the kernel has put away the connections of earlier runs.
//!
//! The connection churn leaves a hundred thousand of them in TIME-WAIT. A minute later their timers expire, and that
//! is charged to whatever runs on the core at the time.

use std::fs;
use std::time::Duration;

use crate::stop::Stop;

/// So many may be left: less than a thousandth of a core.
const FEW: u64 = 10_000;

/// TIME-WAIT lasts a minute.
const LIMIT: Duration = Duration::from_secs(75);

/// Waits for the connections in TIME-WAIT to become few; when they do not, others make them, and it is no use.
///
/// # Errors
/// When it is time to end.
pub(super) fn wait(stop: &Stop) -> anyhow::Result<()> {
    let sockets = || fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    if time_wait(&sockets()) <= FEW {
        return Ok(());
    }
    eprintln!("waiting for connections of earlier runs to leave TIME-WAIT");
    let few = stop.wait("TIME-WAIT to end", LIMIT, || Ok((time_wait(&sockets()) <= FEW).then_some(())));
    few.or_else(|_many| stop.check())
}

/// The number after `tw` in the line of TCP; none when the kernel does not say.
fn time_wait(sockstat: &str) -> u64 {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let number = line.split_whitespace().skip_while(|word| *word != "tw").nth(1);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::time_wait;

    #[test]
    fn connections_in_time_wait_are_counted() {
        let sockstat = "sockets: used 40\nTCP: inuse 5 orphan 0 tw 50123 alloc 6 mem 1\nUDP: inuse 0 mem 0\n";
        assert_eq!(time_wait(sockstat), 50_123);
        assert_eq!(time_wait(""), 0);
    }
}
