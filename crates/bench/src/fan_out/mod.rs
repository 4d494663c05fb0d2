//! Measures notifications: one publisher changes a resource, and the server notifies many subscribers. The
//! measured time ends when the last subscriber has been notified.
//!
//! The subscribers are clients of `thruway_mcp_sdk`, and all run in one thread. The measured times include
//! the work of these clients.

// notifications of each publication
mod notification_tally;

// results
mod tally;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use thruway_client::{Client, ClientConfig};
use thruway_mcp::Revision;
use thruway_mcp_sdk::schema::SubscriptionFilter;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, McpClientOptions, Subscription};
use thruway_net::Clock;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::{Failure, FailureKind};
use crate::listen_queue::ListenQueue;
use crate::live::ProgressDetails;
use crate::process::{self, Meter, Usage};
use crate::progress::{Progress, Stage};
use crate::run::{Load, Outcome, RunError, ServerUse};
use crate::stop::Limit;
use crate::worker::{WorkerUse, thread_use};
use notification_tally::NotificationTally;
use tally::Tally;

/// A publisher that changes a resource with a tool, and subscribers of this resource. A publication is
/// complete when all subscribers have been notified.
#[derive(Clone, Debug)]
pub struct FanOut {
    /// The URL of the MCP endpoint.
    pub url: String,
    /// Additional header fields of each request.
    pub headers: Vec<(String, String)>,
    /// The protocol revision.
    pub revision: Revision,
    /// Number of subscribers. Each subscriber uses separate connections.
    pub subscribers: usize,
    /// The URI of the resource.
    pub uri: String,
    /// The name of the tool that changes the resource.
    pub tool: String,
    /// The arguments of the tool.
    pub arguments: Value,
}

/// Reason why the measurement could not begin.
#[derive(Debug)]
pub enum FanOutError {
    /// The request for the first publication failed.
    Publish(McpClientError),
    /// The load could not be started.
    Run(RunError),
    /// A subscriber could not subscribe to the resource.
    Subscribe(McpClientError),
    /// Not all subscribers were notified of the first publication in time. This error contains the number
    /// of subscribers that were notified.
    NotNotified(usize),
    /// The tool returned an error for the first publication.
    ToolError,
}

impl FanOut {
    /// Publishes until the limit of `load` is reached. Each publication begins when the previous
    /// publication is complete. Uses only these settings of `load`: the limit, the warm-up, the request
    /// timeout, the server's process and addresses, the TLS options, the report interval and the stop flag.
    /// The first publication is not measured.
    ///
    /// # Errors
    /// Returns an error if a subscriber could not subscribe or was not notified of the first publication.
    /// Later failures are part of the outcome.
    pub fn run(&self, load: &Load, watch: &mut dyn FnMut(&Progress)) -> Result<Outcome, FanOutError> {
        if let Some(id) = load.server {
            process::usage(id).ok_or(RunError::ServerMissing(id))?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let notification_tally = Arc::new(NotificationTally::new(self.subscribers));
            let subscribers = tokio::select! {
                subscribers = self.subscribe(load, &notification_tally) => subscribers?,
                () = load.stop.wait() => return Err(io::Error::from(io::ErrorKind::Interrupted).into()),
            };
            let publisher = self.client(load);
            let mut rounds = Publications::new(self, load, &notification_tally, &publisher);
            rounds.first().await?;
            rounds.run(watch).await;
            let outcome = rounds.conclude();
            leave(subscribers, publisher).await;
            Ok(outcome)
        })
    }

    fn client(&self, load: &Load) -> McpClient {
        let options = McpClientOptions {
            era: EraChoice::Revision(self.revision),
            timeout: load.connection_options.timeout,
            ..McpClientOptions::default()
        };
        let tls = load.tls.as_ref().map(|tls| tls.connector.clone());
        let http = Client::with_config(ClientConfig { tls, ..ClientConfig::default() });
        let builder = McpClient::builder().options(options).http_client(http);
        let builder = self.headers.iter().fold(builder, |builder, (name, value)| builder.field(name, value));
        builder.http(&self.url)
    }

    /// Opens the subscriptions one after the other, because many simultaneous connections would be an
    /// additional load for the server.
    async fn subscribe(
        &self,
        load: &Load,
        notification_tally: &Arc<NotificationTally>,
    ) -> Result<Vec<(McpClient, JoinHandle<()>)>, FanOutError> {
        let mut subscribers = Vec::with_capacity(self.subscribers);
        for place in 0..self.subscribers {
            let client = self.client(load);
            let resource_subscriptions = vec![self.uri.clone()];
            let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
            let subscription = client.listen(filter).await.map_err(FanOutError::Subscribe)?;
            subscribers.push((client, tokio::spawn(listen(subscription, place, notification_tally.clone()))));
        }
        Ok(subscribers)
    }
}

async fn listen(mut subscription: Subscription, place: usize, notification_tally: Arc<NotificationTally>) {
    while subscription.next().await.is_some() {
        notification_tally.hear(place, Clock::system().now_exact());
    }
}

/// Ends the subscriptions and the sessions. Waits for the server for at most a second.
async fn leave(subscribers: Vec<(McpClient, JoinHandle<()>)>, publisher: McpClient) {
    let clients = subscribers.into_iter().map(|(client, listening)| {
        listening.abort();
        client
    });
    let closing = clients.chain([publisher]).map(McpClient::close);
    // A timeout is harmless, because the server expires sessions that no client has ended.
    let _ = timeout(LEAVE, join_all(closing)).await;
}

/// The publications of a load, with their measurements.
struct Publications<'a> {
    fan_out: &'a FanOut,
    load: &'a Load,
    notification_tally: &'a NotificationTally,
    publisher: &'a McpClient,
    clock: Clock,
    measured_from: Duration,
    tally: Tally,
    server: Option<Meter>,
    server_before: Option<Usage>,
    resident_max_bytes: u64,
    listen_queue_before: Option<ListenQueue>,
    used_before: Option<WorkerUse>,
}

impl<'a> Publications<'a> {
    fn new(
        fan_out: &'a FanOut,
        load: &'a Load,
        notification_tally: &'a NotificationTally,
        publisher: &'a McpClient,
    ) -> Self {
        Self {
            fan_out,
            load,
            notification_tally,
            publisher,
            clock: Clock::system(),
            measured_from: Duration::MAX,
            tally: Tally::new(Duration::MAX, load.interval()),
            server: load.server.map(Meter::new),
            server_before: None,
            resident_max_bytes: 0,
            listen_queue_before: ListenQueue::look(load.server, &load.addresses),
            used_before: None,
        }
    }

    /// Publishes once, to verify that the tool changes the resource.
    async fn first(&self) -> Result<(), FanOutError> {
        let answer = async {
            let result = self.publish().await.map_err(FanOutError::Publish)?;
            if result { Ok(()) } else { Err(FanOutError::ToolError) }
        };
        self.notification_tally.begin(self.clock.now_exact(), false);
        answer.await?;
        let notified =
            timeout(self.load.connection_options.timeout, self.notification_tally.all_received()).await;
        notified.map(drop).map_err(|_| FanOutError::NotNotified(self.notification_tally.notified()))
    }

    /// Calls the tool. Returns `true` if the tool succeeded.
    async fn publish(&self) -> Result<bool, McpClientError> {
        let FanOut { tool, arguments, .. } = self.fan_out;
        let result = self.publisher.call_tool(tool, arguments).await?;
        Ok(result.is_error != Some(true))
    }

    async fn run(&mut self, watch: &mut dyn FnMut(&Progress)) {
        let begin = self.clock.now_exact();
        self.measured_from = begin + self.load.warm_up;
        self.tally = Tally::new(self.measured_from, self.load.interval());
        let mut next_look = begin;
        while !self.is_over() {
            let started = self.clock.now_exact();
            if started >= self.measured_from && self.used_before.is_none() {
                self.used_before = Some(thread_use());
                self.server_before = self.server.as_mut().and_then(Meter::look);
            }
            let outcome = tokio::select! {
                outcome = self.publication(started) => outcome,
                () = self.load.stop.wait() => {
                    self.tally.record.cut_off += 1;
                    return;
                }
            };
            if started >= self.measured_from {
                self.tally.count(started, self.clock.now_exact(), outcome.as_ref().copied());
            }
            if self.clock.now_exact() >= next_look {
                next_look = self.clock.now_exact() + LOOK;
                self.look_at_server();
                watch(&self.progress());
            }
        }
    }

    fn is_over(&self) -> bool {
        let record = &self.tally.record;
        let measured = self.clock.now_exact().checked_sub(self.measured_from);
        let is_enough = match self.load.limit {
            Limit::Duration(duration) => measured.is_some_and(|measured| measured >= duration),
            Limit::Requests(requests) => record.answered + record.failed() >= requests,
        };
        is_enough || self.load.stop.is_set() || record.is_given_up
    }

    /// Publishes once, and returns the time until the last notification. If the tool call fails, returns
    /// the failure without waiting for the subscribers.
    async fn publication(&self, started: Duration) -> Result<Duration, Failure> {
        self.notification_tally.begin(started, started >= self.measured_from);
        let published = async {
            let is_well = Box::pin(self.publish()).await.map_err(|error| failure(&error))?;
            if is_well { Ok(()) } else { Err(Failure::of(FailureKind::ToolError)) }
        };
        let notified = async { Ok(self.notification_tally.all_received().await) };
        let both = async { tokio::try_join!(published, notified) };
        let both = timeout(self.load.connection_options.timeout, both).await;
        let ((), last) = both.unwrap_or_else(|_| Err(Failure::of(FailureKind::TimedOut)))?;
        Ok(last.saturating_sub(started))
    }

    fn look_at_server(&mut self) -> Option<Usage> {
        let usage = self.server.as_mut().and_then(Meter::look)?;
        self.resident_max_bytes = self.resident_max_bytes.max(usage.resident_bytes);
        Some(usage)
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn progress(&self) -> Progress {
        let record = &self.tally.record;
        let measured = self.clock.now_exact().checked_sub(self.measured_from);
        let seconds = measured.unwrap_or_default().as_secs_f64().max(f64::MIN_POSITIVE);
        Progress {
            stage: Stage::of(measured),
            answered: record.answered,
            failed: record.failed(),
            rate: record.answered as f64 / seconds,
            p99: record.response.percentile(99.0),
            details: ProgressDetails::default(),
        }
    }

    fn conclude(mut self) -> Outcome {
        let now = self.clock.now_exact();
        let elapsed = now.saturating_sub(self.measured_from);
        let used = self.used_before.map_or_else(WorkerUse::default, |before| thread_use().since(before));
        let after = self.look_at_server();
        let listen_queue = ListenQueue::look(self.load.server, &self.load.addresses);
        let (record, over_time) = self.tally.conclude();
        let server = self.server_before.zip(after).map(|(before, after)| ServerUse {
            cpu: after.cpu.saturating_sub(before.cpu),
            resident_before_bytes: before.resident_bytes,
            resident_after_bytes: after.resident_bytes,
            resident_max_bytes: self.resident_max_bytes,
            is_incomplete: self.server.as_ref().is_some_and(Meter::is_incomplete),
        });
        Outcome {
            elapsed,
            silence: now.saturating_sub(record.last_answer.max(self.measured_from)),
            window: elapsed,
            workers: vec![used],
            server,
            listen_queue: listen_queue
                .zip(self.listen_queue_before)
                .map(|(after, before)| after.since(before)),
            record,
            over_time,
            is_stopped: self.load.stop.is_set(),
            missing: None,
            deliveries: Some(self.notification_tally.deliveries()),
        }
    }
}

fn failure(error: &McpClientError) -> Failure {
    match error {
        McpClientError::TimedOut => Failure::of(FailureKind::TimedOut),
        McpClientError::Server(error) => Failure::code(error.code.0),
        McpClientError::Status(status) => Failure::status(status.as_u16()),
        McpClientError::MessageInvalid => Failure::of(FailureKind::NotAResponse),
        _ => Failure::of(FailureKind::Closed),
    }
}

impl From<RunError> for FanOutError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<io::Error> for FanOutError {
    fn from(error: io::Error) -> Self {
        Self::Run(error.into())
    }
}

impl fmt::Display for FanOutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publish(error) => write!(f, "cannot call the tool: {error}"),
            Self::Run(error) => error.fmt(f),
            Self::Subscribe(error) => write!(f, "cannot subscribe to the resource: {error}"),
            Self::NotNotified(notified) => {
                write!(f, "{notified} subscribers were notified of the first publication in time")
            }
            Self::ToolError => f.write_str("the tool returned an error"),
        }
    }
}

impl std::error::Error for FanOutError {}

impl FanOutError {
    /// Returns the hint that `thruway bench` prints below the error, if there is one.
    pub fn hint(&self, fan_out: &FanOut) -> Option<String> {
        let hint = match self {
            Self::Publish(_) | Self::ToolError => "check the name of the tool and its `--arguments`",
            Self::Run(error) => return error.hint().map(str::to_owned),
            Self::Subscribe(_) => "check that the server supports subscriptions to this resource",
            Self::NotNotified(_) => {
                let (tool, uri) = (fan_out.tool.escape_debug(), fan_out.uri.escape_debug());
                return Some(format!("check that `{tool}` changes `{uri}`"));
            }
        };
        Some(hint.to_owned())
    }
}

const LOOK: Duration = Duration::from_millis(200);

const LEAVE: Duration = Duration::from_secs(1);
