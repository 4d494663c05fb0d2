//! The verdicts of policies on requests.

use std::borrow::Cow;
use std::pin::Pin;

use super::basic_auth::state::Verification;
use super::concurrency::state::Permit;
use super::fields::VerifiedFacts;
use super::fleet::SharedPermit;
use super::jwt::source::Refreshed;
use super::oidc::outcome::{Exchange, Reply};
use super::refusal::Refusal;

/// The decision of a policy about a request.
pub(super) enum Verdict<'p> {
    /// The policy decides again after the next fetch of the keys. If the request has already waited once,
    /// the policy refuses the request with `otherwise`.
    RetryAfterRefresh { refreshed: Refreshed, otherwise: Refusal },
    /// The policy accepts the request.
    Continue,
    /// The policy accepts the request after a delay.
    Delay(Pin<Box<dyn Future<Output = ()>>>),
    /// The policy accepts the request. The permit is kept until the end of the response.
    Hold(Permit),
    /// The policy accepts the request. The permit of the fleet is kept until the end of the response.
    HoldShared(SharedPermit),
    /// The policy accepts the request, but reading its body fails after this number of bytes.
    Limit(u64),
    /// The policy refuses the request.
    Refuse(Refusal),
    /// The policy accepts the request and adds headers. The access log contains the name of the user.
    Identify(VerifiedFacts<'p>),
    /// The request waits for the result of a password check.
    Wait(Verification),
    /// The policy responds to the request.
    Respond(Box<Reply>),
    /// The request waits for an exchange with a login provider.
    Exchange(Exchange),
}

impl<'p> Verdict<'p> {
    /// Returns the verdict that accepts a request of `user`. If `field` is set, the gateway sends the user
    /// name to the upstream in the header with this name.
    pub(super) fn of_user(field: Option<&'p str>, user: &'p str) -> Self {
        Self::Identify(VerifiedFacts::of_user(field, user))
    }
}

impl<'p> VerifiedFacts<'p> {
    pub(super) fn of_user(field: Option<&'p str>, user: &'p str) -> Self {
        let fields = field.map(|field| (field, Some(Cow::Borrowed(user.as_bytes())))).into_iter().collect();
        Self { fields, user: Some(Cow::Borrowed(user)), ..Self::default() }
    }
}
