//! The arguments of `thruway-suite`.

use std::path::PathBuf;
use std::time::Duration;

use crate::case::Workload;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};

/// Run the workloads of published reports, beside the peers that are found on this machine
#[derive(clap::Parser)]
#[command(name = "thruway-suite", version)]
#[command(after_help = AFTER)]
pub(crate) struct SuiteArgs {
    /// The workload
    #[arg(value_name = "NAME", value_parser = names(), required_unless_present_any = ["schema", "from"])]
    pub(crate) name: Option<String>,
    /// Time limit of the whole run. If it is too short, the suite shortens measurements, then measures less
    /// often, then leaves out cases and names them
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_time)]
    pub(crate) limit: Duration,
    /// Duration of each measurement
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub(crate) duration: Duration,
    /// Number of rounds of each case; intervals of 95 % need 6
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=100))]
    pub(crate) rounds: u16,
    /// Only cases with one of these texts in the name
    #[arg(long, value_name = "TEXT,…", value_delimiter = ',')]
    pub(crate) cases: Vec<String>,
    /// Only these peers; `none` for ours alone [default: all that are found]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// The folder `peers` of the repository, in which peers were built by `cargo xtask bench` [default:
    /// `$THRUWAY_PEERS`]
    #[arg(long, value_name = "DIR")]
    pub(crate) peers_from: Option<PathBuf>,
    /// Build the peers that take part first; needs `--peers-from`
    #[arg(long)]
    pub(crate) build: bool,
    /// The `thruway` program under test [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,
    /// Write `report.md`, `report.html` and `report.json` into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Measure nothing: make the reports of a `report.json` again
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_MEASURING)]
    pub(crate) from: Option<PathBuf>,
    /// Form of the printed report
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Print the JSON Schema of `--output json` instead
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// Returns the names of the workloads, and `all`.
fn names() -> PossibleValuesParser {
    let all = PossibleValue::new(ALL).help("W1 to W9");
    Workload::all().iter().filter_map(ValueEnum::to_possible_value).chain([all]).into()
}

impl SuiteArgs {
    /// Returns the workloads to run.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let named = self.name.as_deref().and_then(|name| Workload::from_str(name, false).ok());
        named.map_or_else(|| Workload::published().to_vec(), |workload| vec![workload])
    }
}

const ALL: &str = "all";

/// Options that have no effect without a measurement.
const OF_MEASURING: [&str; 9] =
    ["name", "build", "cases", "rounds", "duration", "limit", "peers", "peers_from", "program"];

const AFTER: &str = r"Servers have a core of their own, and so has the load generator, where there are two. Without `--peers-from`, the peers are nginx, HAProxy
and h2o, as far as they are installed; wrk, ab and h2load check the load generator.

Examples:
  thruway-suite plaintext --limit 1m --peers nginx
  thruway-suite all --peers-from peers --report target/suite
  thruway-suite --from target/suite/report.json --output markdown

Exit codes:
  0    Every request was answered as expected
  1    Some were not, or a server has died
  2    The arguments cannot be used, or nothing could be measured
  130  It was interrupted; what was measured is reported. At a second signal it ends at once";

/// The form of the report on the standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Form {
    /// Tables for people
    #[default]
    Text,
    /// JSON; its schema is printed by `--schema`
    Json,
    /// A line of names, a line for each load
    Csv,
    /// Tables in Markdown
    Markdown,
}

/// Parses a time that is more than 0, such as `500ms` or `2m`.
fn parse_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("it must be more than 0".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}
