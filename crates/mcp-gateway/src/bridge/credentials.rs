//! The access tokens that the gateway sends to one member: its own token, or a token for each caller. The
//! tokens of the callers themselves never reach the member.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::oauth::{
    AccessToken, OAuthError, ServerAccess, SubjectToken, TokenFuture, TokenSource,
};
use thruway_mcp_server::backend::Caller;
use thruway_net::{Admitted, LogLimit};
use tokio::time::Instant;

use super::caller_key::{CallerKey, expiry_of};

/// The access tokens for one member.
pub(crate) struct MemberCredentials {
    /// The name of the member.
    member: Box<str>,
    access: ServerAccess,
    callers: Mutex<HashMap<CallerKey, Weak<CallerCredential>>>,
    /// The issuer has refused to issue the gateway's own token. Until this time, the gateway sends its own
    /// requests without a token.
    refused_until: Mutex<Option<Instant>>,
    failures: LogLimit,
}

/// The credential of one caller at one member. A connection with this credential serves no other caller.
pub(crate) struct CallerCredential {
    key: CallerKey,
    credentials: Arc<MemberCredentials>,
    subject: ArcSwap<Subject>,
}

/// The token of a caller.
struct Subject {
    token: SubjectToken,
    /// Seconds since the Unix epoch at which the token expires.
    expires_at: Option<u64>,
}

/// The credential for requests that belong to no caller.
#[derive(Debug)]
struct OwnCredential(Arc<MemberCredentials>);

impl MemberCredentials {
    pub(crate) fn new(member: &str, access: ServerAccess) -> Arc<Self> {
        Arc::new(Self {
            member: member.into(),
            access,
            callers: Mutex::default(),
            refused_until: Mutex::default(),
            failures: LogLimit::new(),
        })
    }

    /// Returns the tokens for requests that belong to no caller.
    pub(super) fn own(self: &Arc<Self>) -> Arc<dyn TokenSource> {
        Arc::new(OwnCredential(self.clone()))
    }

    /// Returns `true` if each caller has its own credential.
    pub(super) const fn is_per_caller(&self) -> bool {
        self.access.is_per_caller()
    }

    /// Returns the credential of `caller`. Returns `None` if all callers share the gateway's own token. If
    /// the caller has renewed its token, the credential uses the token that expires later.
    ///
    /// # Errors
    /// The request of the caller has no verified token.
    pub(super) fn of_caller(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<Option<Arc<CallerCredential>>, McpClientError> {
        if !self.access.is_per_caller() {
            return Ok(None);
        }
        let missing = McpClientError::Authorization(OAuthError::CallerTokenRequired);
        let token = caller.token().ok_or(missing)?;
        let key = CallerKey::of(caller, token);
        let subject =
            Subject { token: SubjectToken::new(token.as_str()), expires_at: expiry_of(caller.claims()) };
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = callers.get(&key).and_then(Weak::upgrade) {
            if subject.expires_at >= known.subject.load().expires_at {
                known.subject.store(Arc::new(subject));
            }
            return Ok(Some(known));
        }
        if callers.len() >= CALLERS_SWEPT {
            callers.retain(|_, caller| caller.strong_count() > 0);
        }
        let (credentials, subject) = (self.clone(), ArcSwap::from_pointee(subject));
        let credential = Arc::new(CallerCredential { key, credentials, subject });
        callers.insert(key, Arc::downgrade(&credential));
        Ok(Some(credential))
    }

    /// Returns the token for a request of `caller`, if it is in the cache. Sends no request.
    pub(crate) fn cached_token(&self, caller: &Caller) -> Option<AccessToken> {
        if !self.access.is_per_caller() {
            return self.access.cached_token(None);
        }
        self.access.cached_token(Some(&SubjectToken::new(caller.token()?.as_str())))
    }

    /// Removes `token` from the cache, because the member has refused it.
    pub(crate) fn reject(&self, token: &AccessToken) {
        self.access.reject(token);
    }

    /// Returns the gateway's own token. If callers have their own tokens, the gateway also works without
    /// its own token, because some members list their tools without a token.
    async fn own_token(&self) -> Result<Option<AccessToken>, OAuthError> {
        if self.is_refused() {
            return Ok(None);
        }
        match self.access.own_token().await {
            Ok(token) => Ok(Some(token)),
            Err(error) => {
                self.log(&error, "the gateway");
                if !self.access.is_per_caller() || !error.is_refusal() {
                    return Err(unavailable(&error));
                }
                *self.refused_until.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now() + REFUSAL_PAUSE);
                Ok(None)
            }
        }
    }

    fn is_refused(&self) -> bool {
        let refused_until = *self.refused_until.lock().unwrap_or_else(PoisonError::into_inner);
        refused_until.is_some_and(|until| Instant::now() < until)
    }

    fn log(&self, error: &OAuthError, whose: &str) {
        if let Some(Admitted { suppressed }) = self.failures.admit() {
            let (server, issuer) = (&self.member, self.access.issuers());
            tracing::warn!(%server, %issuer, suppressed, "cannot obtain the token of {whose}: {error}");
        }
    }
}

/// Returns the error for callers. The error does not describe the issuer.
const fn unavailable(error: &OAuthError) -> OAuthError {
    OAuthError::TokenUnavailable(error.is_passing())
}

impl CallerCredential {
    pub(super) const fn key(&self) -> &CallerKey {
        &self.key
    }

    async fn exchanged(&self) -> Result<Option<AccessToken>, OAuthError> {
        let subject = self.subject.load_full();
        let token = self.credentials.access.token_for(&subject.token).await;
        token.map(Some).map_err(|error| {
            self.credentials.log(&error, "a caller");
            unavailable(&error)
        })
    }
}

impl TokenSource for CallerCredential {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(self.exchanged())
    }

    fn reject(&self, token: &AccessToken) -> bool {
        self.credentials.access.reject(token);
        true
    }
}

impl TokenSource for OwnCredential {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(self.0.own_token())
    }

    fn reject(&self, token: &AccessToken) -> bool {
        self.0.access.reject(token);
        true
    }
}

impl PartialEq for CallerCredential {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for CallerCredential {}

impl fmt::Debug for CallerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerCredential").field("member", &self.credentials.member).finish_non_exhaustive()
    }
}

impl fmt::Debug for MemberCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberCredentials").field("member", &self.member).finish_non_exhaustive()
    }
}

/// Number of callers at which the gateway forgets callers without a connection.
const CALLERS_SWEPT: usize = 1000;

/// Time for which the gateway requests no own token, after the issuer has refused to issue it.
const REFUSAL_PAUSE: Duration = Duration::from_mins(1);
