//! A load generator for HTTP servers. The load generator starts requests on a schedule, counts the outcome
//! of each request, and creates a report.
//!
//! All loads consist of the same parts. A [schedule](Pace) sets the start of each request, a
//! [source](Requests) encodes the requests, a [worker](Worker) drives the connections, a [record](Record)
//! collects the results, and a [limit](Limit) ends the load. [`Load::run`] runs a load on threads with
//! sockets. [`LoadOptions`], [`HttpOptions`] and [`McpOperations`] create a load from the options of the
//! user. [`StartedServer`] starts the server that the load measures. Only [`ProgressDisplay`] writes to the terminal.
//!
//! ```no_run
//! use thruway_bench::{HttpOptions, LoadOptions, Report, StopFlag};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = LoadOptions { connections: 64, ..LoadOptions::default() };
//! let target = "http://127.0.0.1:8080/".to_owned();
//! let load = HttpOptions::default().load(&[target.clone()], &options, &StopFlag::default())?;
//! let outcome = load.run(&mut |progress| println!("{}", progress.describe(load.limit)))?;
//! println!("{}", Report::new(target, &load, &outcome).to_text());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// requests and their schedule
mod duration;
mod requests;
mod schedule;
mod stages;
mod stop;

// sending
mod worker;
mod stdio;
mod probe;
mod fan_out;

// results
mod failure;
mod times;
mod lateness;
mod stage_records;
mod record;
mod cut_off;
mod over_time;
mod process;
mod listen_queue;
mod live;
mod progress;
mod run;

// load plans and started servers
mod plan;
mod started_server;

// evaluation
pub mod statistics;
pub mod compare;
pub mod ramp;
pub mod report;
mod threshold;

pub use duration::{parse_pause, parse_percent, parse_rate, parse_time};
pub use failure::FailureKind;
pub use fan_out::{FanOut, FanOutError};
pub use listen_queue::ListenQueue;
pub use live::{ProgressDetails, ProgressDisplay, StageProgress, restore_terminal};
pub use over_time::OverTime;
pub use plan::{
    HttpOptions, InvalidOperations, LoadOptions, McpOperations, OperationKind, PlanError, ScenarioRequests,
    TlsOptions, describe_operations, parse_url, reachable_address, read_content, resolve_origin,
    without_connection_option,
};
pub use probe::{FoundTool, McpServerFacts, ProbeError, probe_child, probe_http};
pub use process::{Usage, cpu_of_ended, usage};
pub use progress::{Progress, Stage};
pub use record::{Interval, Record};
pub use report::{
    ByteCounts, Connections, Environment, ErrorCount, Generator, Handshakes, IterationsReport, Part, Point,
    Report, RequestCounts, ServerCost, Settings, StageIterationsReport, StageReport, Status, StepReport,
    ThresholdReport, ThresholdUnit, TimesReport, UrlReport, bytes, rate, time,
};
pub use requests::{
    Conversation, Endpoint, Expected, Http2Request, HttpRequest, HttpRequests, InvalidDigest, InvalidLoadUrl,
    InvalidRequest, InvalidRequestsFile, InvalidScenario, LoadUrl, McpOperation, McpRequests, Origin,
    PartRecord, RequestLine, Requests, Scenario, ScenarioRecord, SessionUse, read_lines,
};
pub use run::{Load, Outcome, RunError, ServerUse};
pub use schedule::{Pace, Schedule};
pub use stage_records::{StageRecord, StageRecords};
pub use stages::{InvalidStages, StageUnit, Stages};
pub use started_server::{KilledGroups, ProcessGroups, StartError, StartedServer};
pub use stdio::{ChildError, ChildServer};
pub use stop::{Limit, StopFlag};
pub use threshold::{InvalidThreshold, PartMissing, Threshold};
pub use thruway_mcp::{Era, Revision};
pub use times::Times;
pub use worker::{
    Connect, ConnectionOptions, Handshake, LoadTls, OpenError, Opened, Share, Worker, WorkerUse,
};
