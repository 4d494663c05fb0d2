//! Requests of clients of the modern era.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Id, Request, write_error, write_result};
use thruway_mcp::modern::{self, ResultType};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{LoggingLevel, RequestId, SubscriptionFilter, methods};
use thruway_mcp::{Era, Revision, dual_era};
use thruway_message::FieldLines;

use super::answer::{self, Way};
use super::caller_bound::{self, CallerBound};
use super::leases::{Lease, Lessee};
use super::messages::onward;
use super::ongoing::{Listener, ModernParty, Ongoing, Step};
use super::suspended::CallInFlight;
use super::tasks;
use super::upstreams::can_be_asked;
use super::{Bridge, LogSubscription, Upstream, Watch};
use crate::ask::BoundRequest;
use crate::authorization::Caller;
use crate::client::{Answer, McpClientError, Onward, ReceivedParamHeaders, may_ask};
use crate::dispatch::{Exchange, Reply, Status, require_tasks};
use crate::server::Shared;
use crate::session::Holder;
use crate::shares::Share;

/// Forwards a request. `headers` are those of the HTTP request that it came in, if it came in one.
pub(crate) fn handle_request(
    (shared, bridge): (&Arc<Shared>, &Arc<Bridge>),
    request: &Request<'_>,
    params: &Params<'_>,
    headers: Option<FieldLines<'_>>,
    caller: &Caller,
    output: &mut Vec<u8>,
) -> Reply {
    let has_request = dual_era::has_request(Era::Modern, &request.method);
    if tasks::is_about_tasks(&request.method) && (bridge.era() == Era::Legacy || !has_request) {
        return Reply::error(output, &request.id, &tasks::no_method());
    }
    if !has_request {
        return Reply::error(output, &request.id, &answer::no_method());
    }
    if caller_bound::is_about_tasks(&request.method)
        && let Err(error) = require_tasks(params)
    {
        // The server would say the same of a task that it knows; here, ids are looked at first.
        return Reply::error(output, &request.id, &error);
    }
    let bytes = match shared.request_bytes.hold(caller, request, params) {
        Ok(bytes) => bytes.map(Arc::new),
        Err(error) => return Reply::unavailable(output, &request.id, &error),
    };
    let forwarding = Forwarding {
        shared: shared.clone(),
        bridge: bridge.clone(),
        id: request.id.to_owned(),
        holder: caller.holder(),
        bytes,
        _call: bridge.calls.begin(),
    };
    let (listener, messages) = Listener::of(params, &bridge.dropped);
    let capabilities = match asked(bridge, params) {
        Ok(capabilities) => capabilities,
        Err(error) => return Reply::error(output, &request.id, &error),
    };
    let mut onward = onward(request, params);
    if request.method == methods::TOOLS_CALL {
        onward.param_headers = headers.map(ReceivedParamHeaders::of);
    }
    let Some(capabilities) = capabilities else {
        let bound = CallerBound::new(&shared.state_key, caller, &request.method, params);
        let answer = forwarding.plain(onward, listener, bound);
        return Reply::Later(Exchange::new(answer, messages));
    };
    let lessee = lessee(caller, capabilities);
    if !may_ask(&request.method) {
        let answer = forwarding.apart(lessee, onward, listener);
        return Reply::Later(Exchange::new(answer, messages));
    }
    let bound = BoundRequest::new(caller, &request.method, params);
    match &params.request_state {
        None => {
            let answer = forwarding.asking(lessee, onward, listener, bound);
            Reply::Later(Exchange::new(answer, messages))
        }
        Some(state) => match resume(bridge, state, &bound, params, listener) {
            Ok(ongoing) => {
                let answer = forwarding.drive_on(ongoing, onward, bound);
                Reply::Later(Exchange::new(answer, messages))
            }
            Err(error) => Reply::error(output, &request.id, &error),
        },
    }
}

/// What the client can be asked, if the server asks by requests. Servers may offer more to such clients.
pub(crate) fn asked<'p>(bridge: &Bridge, params: &Params<'p>) -> Result<Option<&'p str>, Error> {
    if bridge.era() == Era::Modern {
        return Ok(None);
    }
    let capabilities = modern::client_capabilities(&params.meta)?;
    let raw = params.meta.client_capabilities.filter(|_| can_be_asked(&capabilities));
    Ok(raw.map(RawValue::get))
}

fn lessee(caller: &Caller, capabilities: &str) -> Lessee {
    Lessee { owner: caller.principal().map(Into::into), capabilities: capabilities.into() }
}

fn resume(
    bridge: &Bridge,
    state: &str,
    bound: &BoundRequest,
    params: &Params<'_>,
    listener: Listener,
) -> Result<Ongoing, Error> {
    let mut ongoing = bridge.suspended.take(state, &bound.binding())?;
    ongoing.resume(params, listener)?;
    Ok(ongoing)
}

/// A request that is being forwarded.
struct Forwarding {
    shared: Arc<Shared>,
    bridge: Arc<Bridge>,
    id: RequestId,
    /// The party that the call counts against.
    holder: Holder,
    /// The bytes of its parameters, as long as it goes on.
    bytes: Option<Arc<Share>>,
    _call: CallInFlight,
}

impl Forwarding {
    /// Forwards it to the server that all clients share. A server of the modern era asks by its answer; the
    /// answer is forwarded as it is but for what is bound to the caller.
    async fn plain(self, mut onward: Onward, listener: Listener, bound: CallerBound) -> (Vec<u8>, Status) {
        let log_level = self.log_level(&listener);
        if !listener.is_deaf() {
            ModernParty::new(self.next_key(), listener).speak_for(&mut onward);
        }
        let outcome = self.forward_bound(&mut onward, log_level, &bound).await;
        self.write(&onward.method, outcome)
    }

    async fn forward_bound(
        &self,
        onward: &mut Onward,
        log_level: Option<LoggingLevel>,
        bound: &CallerBound,
    ) -> Result<Answer, McpClientError> {
        let upstream = self.bridge.far_side.upstreams.plain().await?;
        if let Some(level) = log_level {
            upstream.log_from(level).await;
        }
        if self.bridge.era() == Era::Legacy {
            return upstream.client.forward(onward).await;
        }
        let run = upstream.run();
        bound.open(onward, &run)?;
        bound.seal(upstream.client.forward(onward).await?, onward, &run, &upstream)
    }

    /// Forwards it to a server that knows what the client can be asked, and must not ask now.
    async fn apart(self, lessee: Lessee, mut onward: Onward, listener: Listener) -> (Vec<u8>, Status) {
        let log_level = self.log_level(&listener);
        ModernParty::new(self.next_key(), listener).speak_for(&mut onward);
        let outcome = match self.lease(lessee, log_level).await {
            Ok(lease) => lease.forward(&onward).await,
            Err(error) => Err(error),
        };
        self.write(&onward.method, outcome)
    }

    /// Forwards it to a server that may ask.
    async fn asking(
        self,
        lessee: Lessee,
        onward: Onward,
        listener: Listener,
        bound: BoundRequest,
    ) -> (Vec<u8>, Status) {
        match self.lease(lessee, self.log_level(&listener)).await {
            Ok(lease) => {
                let ongoing = Ongoing::begin(self.next_key(), lease, onward, listener, self.bytes.clone());
                self.drive(ongoing, bound).await
            }
            Err(error) => self.write(bound.method(), Err(error)),
        }
    }

    /// Continues a call that the client answers questions of. The headers of this request must match the
    /// arguments too; otherwise the call is canceled.
    async fn drive_on(self, ongoing: Ongoing, onward: Onward, bound: BoundRequest) -> (Vec<u8>, Status) {
        if onward.param_headers.is_none() {
            return self.drive(ongoing, bound).await;
        }
        let checked = match self.bridge.far_side.upstreams.plain().await {
            Ok(upstream) => upstream.client.check_param_headers(&onward).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => self.drive(ongoing, bound).await,
            Err(error) => self.write(bound.method(), Err(error)),
        }
    }

    /// Waits for the answer, or asks the client to come back with answers of its own.
    async fn drive(self, mut ongoing: Ongoing, bound: BoundRequest) -> (Vec<u8>, Status) {
        match ongoing.next().await {
            Step::Done(outcome) => self.write(bound.method(), outcome),
            Step::Asks => {
                let mut output = Vec::new();
                if let Err(error) = self.ask(&mut output, ongoing, &bound) {
                    write_error(&mut output, Some(&Id::from(&self.id)), &error);
                }
                (output, Status::Ok)
            }
        }
    }

    fn ask(&self, output: &mut Vec<u8>, ongoing: Ongoing, bound: &BoundRequest) -> Result<(), Error> {
        ongoing.suspend();
        let questions = serde_json::to_value(ongoing.questions())
            .map_err(|_| Error::internal("the questions of the server cannot be written"))?;
        let state = self.bridge.suspended.put(ongoing, bound.binding(), &self.holder)?;
        let result = json!({"inputRequests": questions, "requestState": state});
        write_result(output, &Id::from(&self.id), |output| {
            self.shared.results.write(output, ResultType::InputRequired, None, &result, None)
        });
        Ok(())
    }

    fn write(&self, method: &str, outcome: Result<Answer, McpClientError>) -> (Vec<u8>, Status) {
        let way = Way { near: Revision::LATEST, far: self.bridge.far_side.revision };
        let room = outcome.as_ref().map_or(0, |answer| answer.get().len());
        let mut output = Vec::with_capacity(room + ENVELOPE_BYTES);
        let id = Id::from(&self.id);
        let status = answer::write(&mut output, &id, way, method, &self.shared.results, outcome);
        (output, status)
    }

    /// A server for one call, which logs from `log_level` on.
    async fn lease(&self, lessee: Lessee, log_level: Option<LoggingLevel>) -> Result<Lease, McpClientError> {
        let lease = self.bridge.far_side.upstreams.lease(lessee, &self.holder).await?;
        if let Some(level) = log_level {
            lease.log_from(level).await;
        }
        Ok(lease)
    }

    /// From which level on a server that does not hear it with the request is to log.
    fn log_level(&self, listener: &Listener) -> Option<LoggingLevel> {
        let is_to_be_asked =
            self.bridge.era() == Era::Legacy && self.bridge.far_side.capabilities.logging.is_some();
        listener.log_level().filter(|_| is_to_be_asked)
    }

    fn next_key(&self) -> u64 {
        self.bridge.far_side.upstreams.next_party()
    }
}

/// Lets the far side tell what a subscription of `caller` wants to know, whose client can be asked what `capabilities` say: by
/// the server that will handle its calls, unless subscriptions share one. Returns what it will tell, and what keeps it telling.
///
/// # Errors
/// There is no room for a server that would tell it.
pub(crate) async fn watch_all(
    bridge: &Bridge,
    caller: &Caller,
    capabilities: Option<&str>,
    mut filter: SubscriptionFilter,
) -> Result<(SubscriptionFilter, Vec<Watch>), Error> {
    let wants_lists = [filter.tools_list_changed, filter.prompts_list_changed, filter.resources_list_changed];
    if wants_lists.contains(&Some(true)) {
        bridge.watch_lists().await;
    }
    let mut watches = Vec::new();
    if !filter.resource_subscriptions.is_empty() {
        let upstream = upstream_of_subscription(bridge, caller, capabilities).await;
        let upstream = match upstream {
            Err(error) if error.is_of_capacity() => return Err(answer::error_of(error)),
            upstream => upstream.ok(),
        };
        let uris: BTreeSet<_> = std::mem::take(&mut filter.resource_subscriptions).into_iter().collect();
        for uri in uris {
            if let Some(watch) = watch(upstream.as_ref(), &uri, &caller.holder()).await {
                watches.push(watch);
                filter.resource_subscriptions.push(uri);
            }
        }
    }
    Ok((filter, watches))
}

/// Returns the server for a subscription of `caller`, whose client can be asked what `capabilities` say.
async fn upstream_of_subscription(
    bridge: &Bridge,
    caller: &Caller,
    capabilities: Option<&str>,
) -> Result<Arc<Upstream>, McpClientError> {
    let upstreams = &bridge.far_side.upstreams;
    match capabilities.filter(|_| !bridge.shares_subscriptions) {
        None => upstreams.plain().await,
        Some(capabilities) => upstreams.next_leased(lessee(caller, capabilities), &caller.holder()).await,
    }
}

/// Returns the level from which on a subscription wants log messages that belong to no call. Servers of the
/// modern era send none: there, a log message belongs to a request (2026-07-28, logging).
pub(crate) fn log_level(bridge: &Bridge, params: &Params<'_>) -> Option<LoggingLevel> {
    let has_logs = bridge.era() == Era::Legacy && bridge.far_side.capabilities.logging.is_some();
    params.meta.log_level.as_deref().filter(|_| has_logs)?.parse().ok()
}

/// Subscribes `caller` to the log messages of the server that belong to no call, from `level` on.
///
/// # Errors
/// The server has no capacity, or cannot be reached.
pub(crate) async fn watch_logs(
    bridge: &Bridge,
    caller: &Caller,
    capabilities: Option<&str>,
    level: LoggingLevel,
) -> Result<LogSubscription, Error> {
    let upstream = upstream_of_subscription(bridge, caller, capabilities).await.map_err(answer::error_of)?;
    let subscription = upstream.log_listeners.subscribe(&upstream, level);
    upstream.log_from(level).await;
    Ok(subscription)
}

async fn watch(upstream: Option<&Arc<Upstream>>, uri: &str, holder: &Holder) -> Option<Watch> {
    upstream?.watch(uri, holder).await.ok()
}

/// Room for what stands around a result.
const ENVELOPE_BYTES: usize = 512;
