//! What is measured in a run, with its unit and how to print it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::workloads::Load;

/// A figure of one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(super) enum Metric {
    /// User and system time of the server and its children, per answered request, in microseconds.
    CpuPerRequest,
    /// The same of the client and the server.
    CpuOfBoth,
    /// The same of the client alone.
    CpuOfClient,
    /// The same of a bridge without the servers behind it.
    CpuOfBridge,
    /// User and system time of a command from its start to its end, in microseconds.
    CpuPerRun,
    /// How long a command runs, in microseconds.
    TimePerRun,
    RequestsPerSecond,
    /// Time from sending a request to the end of its answer, in microseconds: its percentiles.
    P50,
    P90,
    P99,
    /// The longest of them.
    Longest,
    /// Share of its core that the server used: well below 1, the load generator was the bottleneck.
    CoreUse,
    /// Growth of `Pss_Anon` over a run, in octets.
    AnonymousGrowth,
    /// Requests of a run.
    Requests,
}

/// The figures of one run.
pub(super) type Sample = BTreeMap<Metric, f64>;

impl Metric {
    /// Heading of its column.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::CpuPerRequest => "CPU per request",
            Self::CpuOfBoth => "CPU of both per call",
            Self::CpuOfClient => "CPU of the client",
            Self::CpuOfBridge => "CPU of the bridge per call",
            Self::CpuPerRun => "CPU per run",
            Self::TimePerRun => "time of a run",
            Self::RequestsPerSecond => "requests/s",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::Longest => "longest",
            Self::CoreUse => "core used",
            Self::AnonymousGrowth => "growth of Pss_Anon",
            Self::Requests => "requests",
        }
    }

    /// Prints a value with its unit.
    pub(super) fn format(self, value: f64) -> String {
        match self {
            Self::CpuPerRequest | Self::CpuOfBoth | Self::CpuOfClient | Self::CpuOfBridge => {
                format!("{value:.3} µs")
            }
            Self::RequestsPerSecond | Self::Requests => thousands(value),
            Self::P50 | Self::P90 | Self::P99 | Self::Longest | Self::CpuPerRun | Self::TimePerRun => {
                format!("{:.2} ms", value / 1000.0)
            }
            Self::CoreUse => format!("{:.0} %", value * 100.0),
            Self::AnonymousGrowth => format!("{} B", thousands(value)),
        }
    }

    /// The figures of a load that are compared, with the spread of their ratios.
    pub(super) fn compared(load: Load) -> &'static [Self] {
        match load {
            Load::Wrk { .. } | Load::Mcp { .. } | Load::Stdio { .. } => {
                &[Self::CpuPerRequest, Self::RequestsPerSecond]
            }
            Load::Soak { .. } => &[Self::CpuPerRequest],
            Load::Calls { .. } => &[Self::CpuOfBoth, Self::RequestsPerSecond],
            Load::Bridge { .. } => &[Self::CpuOfBridge, Self::RequestsPerSecond],
            Load::Command { .. } => &[Self::CpuPerRun],
        }
    }

    /// The figures of a load that are only shown beside each other.
    pub(super) fn shown(load: Load) -> &'static [Self] {
        match load {
            Load::Wrk { depth: 1, .. } | Load::Mcp { .. } => {
                &[Self::P50, Self::P90, Self::P99, Self::Longest, Self::CoreUse]
            }
            Load::Wrk { .. } | Load::Stdio { .. } => &[Self::CoreUse],
            Load::Soak { .. } => &[Self::AnonymousGrowth, Self::Requests],
            Load::Calls { .. } => &[Self::CpuOfClient, Self::CpuPerRequest],
            Load::Bridge { .. } => &[Self::CpuPerRequest, Self::P50, Self::P99],
            Load::Command { .. } => &[Self::TimePerRun],
        }
    }
}

/// Prints a whole number with its thousands apart.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let sign = if value <= -0.5 { "-" } else { "" };
    let apart: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{sign}{}", apart.join(","))
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(-12_345.0), "-12,345");
    }
}
