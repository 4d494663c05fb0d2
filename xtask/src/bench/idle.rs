//! Opens connections that do nothing, and measures what they cost the server in memory.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::metric::{Metric, Sample};
use super::probe::Probe;
use super::request::Request;
use crate::process::{self, Memory};
use crate::stop::Stop;

/// How long a server may take to put away what it used while it was busy.
const SETTLE: Duration = Duration::from_millis(500);

/// After so many connections it is looked whether it is time to end.
const CHECKED_EVERY: u32 = 100;

/// Memory of the server `id` for each of so many idle connections, over what it has now.
///
/// # Errors
/// When a connection is refused, or does not answer a request before or after it was idle.
pub(super) fn measure(
    address: SocketAddr,
    request: Request,
    id: u32,
    connections: u32,
    stop: &Stop,
) -> anyhow::Result<Sample> {
    stop.sleep(SETTLE)?;
    let before = process::memory(id)?;
    let mut probes = open(address, request, connections, stop)?;
    stop.sleep(SETTLE)?;
    let after = process::memory(id)?;
    for probe in &mut probes {
        probe.repeat().context("an idle connection was not kept")?;
    }
    Ok(growth(&before, &after, connections))
}

fn open(address: SocketAddr, request: Request, connections: u32, stop: &Stop) -> anyhow::Result<Vec<Probe>> {
    let mut probes = Vec::new();
    for n in 0..connections {
        if n % CHECKED_EVERY == 0 {
            stop.check()?;
        }
        match Probe::connect(address, request) {
            Ok(probe) => probes.push(probe),
            Err(error) => bail!("connection {n} of {connections}: {error:#}"),
        }
    }
    Ok(probes)
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 octets")]
fn growth(before: &Memory, after: &Memory, connections: u32) -> Sample {
    let each = |before: u64, after: u64| (after as f64 - before as f64) / f64::from(connections);
    Sample::from([
        (Metric::ResidentPerConnection, each(before.resident, after.resident)),
        (Metric::AnonymousPerConnection, each(before.anonymous, after.anonymous)),
        (Metric::ResidentBase, before.resident as f64),
    ])
}

#[cfg(test)]
mod tests {
    use super::{Memory, Metric, growth};

    #[test]
    fn growth_is_shared_by_the_connections() {
        let (before, after) =
            (Memory { resident: 1000, anonymous: 500 }, Memory { resident: 21_000, anonymous: 400 });
        let sample = growth(&before, &after, 10);
        let figures = [Metric::ResidentPerConnection, Metric::AnonymousPerConnection, Metric::ResidentBase];
        assert_eq!(figures.map(|metric| sample[&metric].to_string()), ["2000", "-10", "1000"]);
    }
}
