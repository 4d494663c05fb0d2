//! The verdict of a policy on a request.

use std::borrow::Cow;

use super::basic_auth::state::Verification;
use super::concurrency::state::Permit;
use super::fields::VerifiedFacts;
use super::jwt::source::Refreshed;
use super::refusal::Refusal;

/// Decision of a policy about a request.
pub(super) enum Verdict<'p> {
    /// Decides again after the next fetch of the keys. If the request has already waited once, refuses with
    /// `otherwise`.
    Again { refreshed: Refreshed, otherwise: Refusal },
    /// The request passes.
    Continue,
    /// The request passes. The permit is kept until the end of its response.
    Hold(Permit),
    /// The request passes, and its content fails after this number of bytes.
    Limit(u64),
    /// The request is refused.
    Refuse(Refusal),
    /// The request passes with the headers of the policy, and the access log names the user.
    Tell(VerifiedFacts<'p>),
    /// The password check is in progress.
    Wait(Verification),
}

impl<'p> Verdict<'p> {
    /// Returns the verdict for a request of `user`. If the header `field` is set, it sends the name to the
    /// upstream.
    pub(super) fn of_user(field: Option<&'p str>, user: &'p str) -> Self {
        Self::Tell(VerifiedFacts::of_user(field, user))
    }
}

impl<'p> VerifiedFacts<'p> {
    pub(super) fn of_user(field: Option<&'p str>, user: &'p str) -> Self {
        let fields = field.map(|field| (field, Some(Cow::Borrowed(user)))).into_iter().collect();
        Self { fields, user: Some(Cow::Borrowed(user)) }
    }
}
