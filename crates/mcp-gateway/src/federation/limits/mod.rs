//! Limits for the calls of each caller.

mod calls_in_flight;
mod running_tasks;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use thruway_mcp::federated::{Glob, InvalidGlob};
use thruway_mcp_server::backend::{Caller, Holder};
use thruway_net::{TokenBuckets, TokenRate};
use tokio::time::Instant;

use crate::bridge::StartedTask;
use calls_in_flight::{CallPermit, CallsInFlight};
use running_tasks::RunningTasks;

/// A limit for the tool calls of each caller. A call must be within all limits whose globs match the tool.
///
/// A caller is the subject of a verified token. Callers without a token are grouped by client address. IPv6
/// addresses with the same first 64 bits count as one caller. All programs on this machine count as one caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallLimit {
    /// Globs for the names of tools that clients use. Default: `*`, all tools.
    pub tools: Vec<String>,
    /// Maximum rate of calls. Default: no limit.
    pub rate: Option<CallRate>,
    /// Maximum number of calls in flight, at least 1. A call that has become a task counts until the task ends.
    /// Default: no limit.
    pub concurrent: Option<u32>,
    /// The calls that share a counter. Default: all calls of a caller.
    pub by: LimitBy,
}

/// A maximum rate of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRate {
    /// Average number of calls in each period `per`, at least 1.
    pub calls: u32,
    /// Length of the period for `calls`.
    pub per: Duration,
    /// Maximum number of calls that may arrive at once, at least 1.
    pub burst: u32,
}

/// The calls that share a counter of a [`CallLimit`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LimitBy {
    /// All calls of a caller.
    #[default]
    Caller,
    /// All calls of a caller to the same tool.
    CallerAndTool,
}

/// The error for an invalid [`CallLimit`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// A glob is empty or too long.
    Glob(InvalidGlob),
    /// The limit has neither a rate nor a number of calls in flight.
    Empty,
    /// The limit permits no calls.
    Zero,
}

/// The reason why a call is not within a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LimitExceeded {
    /// Time after which a new call may be within the limit.
    pub(super) retry_after: Duration,
}

/// Counts the call toward the limits of calls in flight until this value is dropped.
pub(super) type CallPermits = Vec<CallPermit>;

/// The checked limits of a gateway, with their counters.
#[derive(Debug)]
pub(super) struct CallLimits {
    limits: Box<[CompiledLimit]>,
    tasks: RunningTasks,
    /// Makes the keys unpredictable, so that a caller cannot choose the key of another caller.
    hasher: RandomState,
    start: Instant,
}

#[derive(Debug)]
struct CompiledLimit {
    tools: Box<[Glob]>,
    by: LimitBy,
    rate: Option<(TokenRate, TokenBuckets)>,
    in_flight: Option<CallsInFlight>,
}

impl Default for CallLimit {
    fn default() -> Self {
        Self { tools: vec!["*".to_owned()], rate: None, concurrent: None, by: LimitBy::Caller }
    }
}

impl CallLimits {
    /// Checks the limits.
    ///
    /// # Errors
    /// Returns the number of the first invalid limit, counted from 1, and the reason.
    pub(super) fn compile(limits: &[CallLimit]) -> Result<Self, (usize, InvalidLimit)> {
        let limits = limits
            .iter()
            .enumerate()
            .map(|(index, limit)| CompiledLimit::compile(limit).map_err(|error| (index + 1, error)));
        Ok(Self {
            limits: limits.collect::<Result<_, _>>()?,
            tasks: RunningTasks::default(),
            hasher: RandomState::new(),
            start: Instant::now(),
        })
    }

    /// Counts a call of `tool` by `caller`.
    ///
    /// # Errors
    /// The call is not within one of the limits.
    pub(super) fn admit(&self, caller: &Caller, tool: &str) -> Result<CallPermits, LimitExceeded> {
        let mut permits = Vec::new();
        let limits: Vec<_> = self.limits.iter().filter(|limit| limit.applies_to(tool)).collect();
        if limits.is_empty() {
            return Ok(permits);
        }
        let holder = caller.holder();
        for limit in &limits {
            if let Some(in_flight) = &limit.in_flight {
                let permit = in_flight.enter(self.key(&holder, limit.by, tool));
                permits.push(permit.ok_or(LimitExceeded { retry_after: IN_FLIGHT_RETRY })?);
            }
        }
        // The rates come last, so that a call that waits for other calls does not count toward a rate.
        let rates = limits.iter().filter_map(|limit| {
            let (rate, buckets) = limit.rate.as_ref()?;
            Some((buckets, self.key(&holder, limit.by, tool), *rate))
        });
        self.take_from_all(rates)?;
        Ok(permits)
    }

    /// Takes a token from each bucket, or from none of them.
    fn take_from_all<'b>(
        &self,
        buckets: impl Iterator<Item = (&'b TokenBuckets, u64, TokenRate)>,
    ) -> Result<(), LimitExceeded> {
        let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut taken = Vec::new();
        for (buckets, key, rate) in buckets {
            if let Err(retry_after) = buckets.take(key, rate, now) {
                for (buckets, key, rate) in taken {
                    TokenBuckets::give_back(buckets, key, rate);
                }
                return Err(LimitExceeded { retry_after });
            }
            taken.push((buckets, key, rate));
        }
        Ok(())
    }

    /// Counts a call of `tool` that has become a task of the member with the index `member`, until the task ends.
    pub(super) fn begin_task(&self, member: usize, tool: &str, task: StartedTask) {
        let StartedTask { holder, poll, .. } = task;
        let permits = self.limits.iter().filter(|limit| limit.applies_to(tool)).filter_map(|limit| {
            let in_flight = limit.in_flight.as_ref()?;
            Some(in_flight.enter_again(self.key(&holder, limit.by, tool)))
        });
        let permits: Vec<_> = permits.collect();
        if !permits.is_empty() {
            self.tasks.begin(member, permits, poll);
        }
    }

    /// Stops counting a task. `id` is the member's own id of the task.
    pub(super) fn end_task(&self, member: usize, id: &str) {
        self.tasks.end(member, id);
    }

    fn key(&self, holder: &Holder, by: LimitBy, tool: &str) -> u64 {
        match by {
            LimitBy::Caller => self.hasher.hash_one(holder),
            LimitBy::CallerAndTool => self.hasher.hash_one((holder, tool)),
        }
    }
}

impl CompiledLimit {
    fn compile(limit: &CallLimit) -> Result<Self, InvalidLimit> {
        let CallLimit { tools, rate, concurrent, by } = limit;
        if rate.is_none() && concurrent.is_none() {
            return Err(InvalidLimit::Empty);
        }
        let has_no_rate = rate.is_some_and(|rate| rate.calls == 0 || rate.burst == 0);
        if has_no_rate || *concurrent == Some(0) || tools.is_empty() {
            return Err(InvalidLimit::Zero);
        }
        let globs = tools.iter().map(|glob| Glob::try_from(&**glob).map_err(InvalidLimit::Glob));
        let rate = rate.map(|rate| TokenRate::new(rate.calls, rate.per, rate.burst));
        Ok(Self {
            tools: globs.collect::<Result<_, _>>()?,
            by: *by,
            rate: rate.map(|rate| (rate, TokenBuckets::new(KEYS_MAX))),
            in_flight: concurrent.map(CallsInFlight::new),
        })
    }

    fn applies_to(&self, tool: &str) -> bool {
        self.tools.iter().any(|glob| glob.matches(tool))
    }
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(error) => error.fmt(f),
            Self::Empty => f.write_str("the limit limits nothing: add `rate` or `concurrent`"),
            Self::Zero => f.write_str("the limit permits no calls, or applies to no tool"),
        }
    }
}

impl std::error::Error for InvalidLimit {}

/// Number of callers that a rate remembers. They need 280 KiB. If more callers are active, the rate forgets the
/// callers with the fewest recent calls.
const KEYS_MAX: usize = 16_384;

/// Proposed time until the next attempt if too many calls are in flight.
const IN_FLIGHT_RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
