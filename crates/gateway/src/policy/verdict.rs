//! The verdict of a policy on a request.

use std::borrow::Cow;

use super::basic_auth::state::Verification;
use super::concurrency::state::Permit;
use super::fields::Told;
use super::jwt::source::Refreshed;
use super::refusal::Refusal;

/// Decision of a policy about a request.
pub(super) enum Verdict<'p> {
    /// It is decided when keys have been fetched. If that is to be waited for once more then, it is answered
    /// with this.
    Again { refreshed: Refreshed, otherwise: Refusal },
    /// It goes on.
    Continue,
    /// It goes on, and this is kept until its response is over.
    Hold(Permit),
    /// The request passes, and its content fails after this number of bytes.
    Limit(u64),
    /// It is answered.
    Refuse(Refusal),
    /// It goes on, with the fields in place of those of the client, and the access log names the user.
    Tell(Told<'p>),
    /// This takes some time.
    Wait(Verification),
}

impl<'p> Verdict<'p> {
    /// The request of `user` goes on, with the name of the user in `field`, if there is one.
    pub(super) fn of_user(field: Option<&'p str>, user: &'p str) -> Self {
        Self::Tell(Told::of_user(field, user))
    }
}

impl<'p> Told<'p> {
    pub(super) fn of_user(field: Option<&'p str>, user: &'p str) -> Self {
        let fields = field.map(|field| (field, Some(Cow::Borrowed(user)))).into_iter().collect();
        Self { fields, user: Some(Cow::Borrowed(user)) }
    }
}
