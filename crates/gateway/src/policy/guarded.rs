//! A handler that is protected by a policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thruway_message::Method;
use thruway_server::{Answer, Handler, Refused, Request, Response};

use super::Policy;
use super::fields::{EditedFields, VerifiedClient, VerifiedFacts};
use super::oidc::cookies::Session;
use super::oidc::outcome::{Outcome, Reply};
use super::refusal::Refusal;
use super::verdict::Verdict;

/// A handler that gets only the requests that a [`Policy`] accepts.
#[derive(Clone)]
pub struct Guarded {
    policy: Arc<Policy>,
    /// Name of the route. A policy that counts requests by route needs this name.
    route: Arc<str>,
    handler: Arc<dyn Handler>,
    refusals: Arc<RefusalCount>,
    is_recorded: bool,
    is_identified: bool,
    metadata_url: Option<Arc<str>>,
}

/// Number of requests that a policy has refused on a route.
#[derive(Default, Debug)]
pub struct RefusalCount(AtomicU64);

impl RefusalCount {
    /// Returns the number of refused requests so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a refused request.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Guarded {
    /// Returns a handler that applies `policy` before `handler`. `route` is the name of the route.
    pub fn new(policy: Arc<Policy>, route: impl Into<Arc<str>>, handler: Arc<dyn Handler>) -> Self {
        Self {
            policy,
            route: route.into(),
            handler,
            refusals: Arc::default(),
            is_recorded: false,
            is_identified: false,
            metadata_url: None,
        }
    }

    /// Sets the counter of refused requests.
    #[must_use]
    pub fn counted_by(self, refusals: Arc<RefusalCount>) -> Self {
        Self { refusals, ..self }
    }

    /// Sets whether access logs contain the [name of the authenticated user](Response::set_user). Default
    /// `false`, because copying the name costs time.
    #[must_use]
    pub fn recorded(self, is_recorded: bool) -> Self {
        Self { is_recorded, ..self }
    }

    /// Sets whether the [extensions](Request::extensions) of requests contain the client that the policy has
    /// verified, as an `Arc<VerifiedClient>`. If several policies verify the client, the handler gets the
    /// result of the last policy that verifies tokens. Without such a policy, it gets the result of the last
    /// policy. Default `false`, because the value takes memory and time.
    #[must_use]
    pub fn identified(self, is_identified: bool) -> Self {
        Self { is_identified, ..self }
    }

    /// Sets the URL of the metadata of the protected resource (RFC 9728). If a client needs another token, the
    /// challenge contains this URL in the parameter `resource_metadata`. Default: none.
    #[must_use]
    pub fn metadata_url(self, url: impl Into<Arc<str>>) -> Self {
        Self { metadata_url: Some(url.into()), ..self }
    }

    /// Passes the request to the handler, with the headers of the policy. Attaches the name of the user to
    /// the response, for the access log.
    fn identify<'a>(&'a self, request: &mut Request<'a>, mut facts: VerifiedFacts<'_>) -> Answer {
        let user = facts.user().filter(|_| self.is_recorded).map(str::to_owned);
        if self.is_identified {
            self.attach_client(request, &mut facts);
        }
        let answer = self.pass_on(request, &facts);
        let Some(user) = user else { return answer };
        answer.map(|mut response| {
            response.set_user(user);
            response
        })
    }

    /// Attaches the verified client to the request, unless an earlier policy has verified a token and this
    /// policy has not. Takes the claims out of `facts`.
    fn attach_client(&self, request: &mut Request<'_>, facts: &mut VerifiedFacts<'_>) {
        let has_token = |client: &Arc<VerifiedClient>| !client.claims.is_empty();
        if facts.claims.is_empty() && request.extensions().get().is_some_and(has_token) {
            return;
        }
        let user = facts.user().map(str::to_owned);
        let claims = std::mem::take(&mut facts.claims);
        let client = VerifiedClient { policy: self.policy.name.clone(), user, claims };
        request.extensions_mut().insert(Arc::new(client));
    }

    fn pass_on<'a>(&'a self, request: &mut Request<'a>, facts: &VerifiedFacts<'_>) -> Answer {
        if facts.fields.is_empty() && facts.withheld_cookies.is_none() {
            return self.handler.handle(request);
        }
        // A server may merge trailers into the header section (RFC 9110 §6.5.2), where a trailer could
        // replace a header of the policy.
        request.drop_trailers();
        let head = *request.head();
        match EditedFields::of(head.field_lines, facts) {
            None => self.handler.handle(request),
            Some(edited) => request.forward_with_head(&edited.head(head), &*self.handler),
        }
    }

    fn refuse(&self, refusal: &Refusal, is_for_tunnel: bool) -> Response {
        let response = refusal.to_response(self.policy.name(), is_for_tunnel, self.metadata_url.as_deref());
        self.refused(response, refusal.reason())
    }

    /// Counts and logs a refused request. Returns `response` with the reason for the access log.
    fn refused(&self, mut response: Response, reason: &'static str) -> Response {
        self.refusals.note();
        tracing::debug!(policy = self.policy.name(), reason, "request rejected by a policy");
        response.set_refused(Refused { policy: self.policy.name.clone(), reason });
        response
    }

    /// Returns the response of a policy that responds to requests.
    fn respond(&self, reply: Reply) -> Response {
        match reply.reason {
            Some(reason) => self.refused(reply.response, reason),
            None => reply.response,
        }
    }
}

impl Guarded {
    /// Handles the request according to the verdict of the policy.
    #[inline]
    fn act<'a>(&'a self, request: &mut Request<'a>, verdict: Verdict<'a>) -> Answer {
        match verdict {
            Verdict::RetryAfterRefresh { refreshed, .. } => {
                let (guarded, request) = (self.clone(), request.take_owned());
                Answer::later(async move {
                    refreshed.await;
                    match request.forward_to(&GuardedAfterRefresh(guarded)) {
                        Answer::Now(response) => response,
                        Answer::Later(later) => later.await,
                    }
                })
            }
            Verdict::Continue => self.handler.handle(request),
            Verdict::Delay(delay) => {
                let (guarded, request) = (self.clone(), request.take_owned());
                Answer::later(async move {
                    delay.await;
                    match request.forward_to(&AfterDelay(guarded)) {
                        Answer::Now(response) => response,
                        Answer::Later(later) => later.await,
                    }
                })
            }
            Verdict::Hold(permit) => self.handler.handle(request).map(|response| response.holding(permit)),
            Verdict::HoldShared(permit) => {
                self.handler.handle(request).map(|response| response.holding(permit))
            }
            Verdict::Limit(bytes) => {
                request.limit_content(bytes);
                self.handler.handle(request)
            }
            Verdict::Refuse(refusal) => {
                Answer::Now(self.refuse(&refusal, request.method() == Method::Connect))
            }
            Verdict::Identify(facts) => self.identify(request, facts),
            Verdict::Respond(reply) => Answer::Now(self.respond(*reply)),
            Verdict::Exchange(exchange) => {
                let (guarded, request) = (self.clone(), request.take_owned());
                Answer::later(async move {
                    match exchange.await {
                        Outcome::Respond(reply) => guarded.respond(reply),
                        Outcome::Admit { session, cookie } => {
                            let answer = request.forward_to(&LoggedIn { guarded, session });
                            let mut response = match answer {
                                Answer::Now(response) => response,
                                Answer::Later(later) => later.await,
                            };
                            if let Some(cookie) = cookie {
                                // The headers consist of valid characters, so these calls do not fail. A shared
                                // cache must not store the cookie (RFC 9111 §3.5).
                                let _ = response.append_field("Set-Cookie", cookie);
                                let _ = response.set_field("Cache-Control", "no-store");
                            }
                            response
                        }
                    }
                })
            }
            Verdict::Wait(verification) => {
                let is_for_tunnel = request.method() == Method::Connect;
                let (guarded, request) = (self.clone(), request.take_owned());
                Answer::later(async move {
                    match verification.await {
                        Err(refusal) => guarded.refuse(&refusal, is_for_tunnel),
                        Ok(user) => match request.forward_to(&Verified { guarded, user }) {
                            Answer::Now(response) => response,
                            Answer::Later(later) => later.await,
                        },
                    }
                })
            }
        }
    }
}

impl Handler for Guarded {
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let verdict = self.policy.decide(request, &self.route);
        self.act(request, verdict)
    }
}

/// The handler of a request that has already waited once for a fetch of keys.
struct GuardedAfterRefresh(Guarded);

impl Handler for GuardedAfterRefresh {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let verdict = match self.0.policy.decide(request, &self.0.route) {
            Verdict::RetryAfterRefresh { otherwise, .. } => Verdict::Refuse(otherwise),
            verdict => verdict,
        };
        self.0.act(request, verdict)
    }
}

/// The handler of a request that the policy has delayed.
struct AfterDelay(Guarded);

impl Handler for AfterDelay {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.0.handler.handle(request)
    }
}

/// The handler that runs after a password check has verified the user of the request.
struct Verified {
    guarded: Guarded,
    user: Arc<str>,
}

impl Handler for Verified {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.guarded.identify(request, self.guarded.policy.facts_of_user(&self.user))
    }
}

/// The handler that runs after the refresh of a session.
struct LoggedIn {
    guarded: Guarded,
    session: Session,
}

impl Handler for LoggedIn {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match self.guarded.policy.facts_of_session(&self.session) {
            Ok(facts) => self.guarded.identify(request, facts),
            Err(reply) => Answer::Now(self.guarded.respond(*reply)),
        }
    }
}
