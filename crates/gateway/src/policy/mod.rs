//! Policies: checks before a request is handled.
//!
//! A policy has a name. It reads only the head of a request. A policy accepts the request, possibly with
//! additional headers, or refuses the request with a response. [`Guarded`] applies a policy before a handler.
//! If several policies are nested, the outermost policy decides first. Policies do not read request bodies,
//! so an accepted request arrives with its body unchanged.
//!
//! ```text
//! Guarded "office" ─▶ Guarded "users" ─▶ Guarded "steady" ─▶ Forward, Files, an MCP endpoint, …
//!     │ 403               │ 401              │ 429
//! ```

// a policy in front of a handler
mod guarded;
mod verdict;
mod refusal;

// shared by policies
mod key;
mod credentials;
mod fields;

// kinds of policies
mod addresses;
mod api_keys;
mod basic_auth;
mod client_certificate;
mod forward_auth;
mod jwt;
mod oidc;
mod rate_limit;
mod concurrency;
mod quota;

// limits for a fleet
mod fleet;

#[cfg(test)]
mod scene;

use std::fmt;
use std::sync::Arc;

use thruway_server::Request;

use crate::forward::read_alike;

pub use addresses::AddressesConfig;
pub use api_keys::{ApiKeysConfig, InvalidKeyDigest, KeyDigest, KeyPlace};
pub use basic_auth::{BasicAuthConfig, InvalidPasswordHash, PasswordHash};
pub use client_certificate::{
    CertificateFingerprint, CertificateMatch, ClientCertificateConfig, InvalidFingerprint,
};
pub use concurrency::ConcurrencyConfig;
pub use credentials::{InvalidLine, is_user_name, lines_of};
pub use fields::VerifiedClient;
pub use fleet::{
    LimitAnswer, LimitOperation, LimitStore, OnStoreFailure, SharedLimit, SharedLimitCounts,
    SharedLimitStatus, SharedLimits,
};
pub use forward_auth::{ForwardAuth, ForwardAuthConfig};
pub use guarded::{Guarded, RefusalCount};
pub use jwt::{InvalidJwtKeys, JwtAlgorithm, JwtConfig, JwtKeySource, JwtKeys, JwtRules};
pub use key::CountBy;
pub use oidc::{ClaimCondition, InvalidOidcSecrets, OidcClientSecret, OidcConfig, OidcSecrets};
pub use quota::{QuotaConfig, QuotaPeriod};
pub use rate_limit::{DelayConfig, RateLimitConfig};

use addresses::Addresses;
use api_keys::ApiKeys;
use basic_auth::BasicAuth;
use client_certificate::ClientCertificate;
use concurrency::Concurrency;
use concurrency::fleet::SharedConcurrency;
use fields::VerifiedFacts;
use jwt::Jwt;
use oidc::Oidc;
use oidc::cookies::Session;
use oidc::outcome::Reply;
use quota::Quota;
use rate_limit::RateLimit;
use rate_limit::delay::DelayingRateLimit;
use rate_limit::fleet::SharedRateLimit;
use refusal::Refusal;
use verdict::Verdict;

/// Settings of a policy, one variant for each kind.
#[derive(Clone, PartialEq, Debug)]
pub enum PolicyConfig {
    /// Allows or refuses clients by their addresses.
    Addresses(AddressesConfig),
    /// Requires an API key.
    ApiKeys(ApiKeysConfig),
    /// Requires a user name and password (RFC 7617).
    BasicAuth(BasicAuthConfig),
    /// Requires a client certificate. The listener must request certificates from its clients.
    ClientCertificate(ClientCertificateConfig),
    /// Limits the number of requests in flight.
    Concurrency(ConcurrencyConfig),
    /// Maximum length of the request body, in bytes.
    ContentBytesMax(u64),
    /// Lets an authorization server decide. Only [`ForwardAuth`] applies this policy. [`Guarded`] refuses all
    /// requests.
    ForwardAuth(ForwardAuthConfig),
    /// Requires a JSON Web Token (RFC 7519).
    Jwt(JwtConfig),
    /// Requires a login at an OpenID provider.
    Oidc(OidcConfig),
    /// Limits the number of requests in each hour, day or month.
    Quota(QuotaConfig),
    /// Limits the rate of requests.
    RateLimit(RateLimitConfig),
}

impl PolicyConfig {
    /// Returns `true` if the policy sets the header `name`, or a header with a name that servers may treat as
    /// `name`.
    pub fn owns_field(&self, name: &str) -> bool {
        let is_it = |own: &str| read_alike(own.as_bytes(), name.as_bytes());
        match self {
            Self::ApiKeys(config) => config.user_field.as_deref().is_some_and(is_it),
            Self::BasicAuth(config) => config.user_field.as_deref().is_some_and(is_it),
            Self::ForwardAuth(config) => config.fields.iter().any(|own| is_it(own)),
            Self::Jwt(config) => config.fields.iter().any(|(own, _)| is_it(own)),
            Self::Oidc(config) => config.fields.iter().any(|(own, _)| is_it(own)),
            Self::Addresses(_)
            | Self::ClientCertificate(_)
            | Self::Concurrency(_)
            | Self::ContentBytesMax(_)
            | Self::Quota(_)
            | Self::RateLimit(_) => false,
        }
    }
}

impl PolicyConfig {
    /// Returns the name of the query parameter with the API key, if clients send keys in the query. Logs
    /// must not contain the values of this parameter.
    pub fn key_parameter(&self) -> Option<&str> {
        match self {
            Self::ApiKeys(ApiKeysConfig { place: KeyPlace::Query(name), .. }) => Some(name),
            _ => None,
        }
    }

    /// Returns `true` if all replicas of a fleet enforce the limit together.
    pub const fn is_shared(&self) -> bool {
        match self {
            Self::Concurrency(config) => config.shared.is_some(),
            Self::Quota(config) => config.shared.is_some(),
            Self::RateLimit(config) => config.shared.is_some(),
            _ => false,
        }
    }

    /// Returns `true` if the policy counts requests by the user that an earlier policy has verified. Then the earlier
    /// policy needs [`Guarded::identified`].
    pub fn counts_by_user(&self) -> bool {
        match self {
            Self::Concurrency(config) => config.by == CountBy::User,
            Self::Quota(config) => config.by == CountBy::User,
            Self::RateLimit(config) => config.by == CountBy::User,
            _ => false,
        }
    }
}

/// A policy with its state, such as counters and verified users.
#[derive(Debug)]
pub struct Policy {
    name: Arc<str>,
    kind: Kind,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "policies are on the heap already, and there are few")]
enum Kind {
    Addresses(Addresses),
    ApiKeys(ApiKeys),
    BasicAuth(BasicAuth),
    ClientCertificate(ClientCertificate),
    Concurrency(Concurrency),
    ContentBytesMax(u64),
    DelayingRateLimit(DelayingRateLimit),
    /// A policy that only [`ForwardAuth`] applies.
    ForwardAuth,
    Jwt(Jwt),
    Oidc(Arc<Oidc>),
    Quota(Quota),
    RateLimit(RateLimit),
    SharedConcurrency(SharedConcurrency),
    SharedRateLimit(SharedRateLimit),
}

impl Policy {
    /// Creates a policy with empty state. A shared limit holds for this process only.
    pub fn new(name: impl Into<Arc<str>>, config: PolicyConfig) -> Self {
        Self::create(name.into(), config, None)
    }

    /// Creates a policy with empty state. A shared limit holds for all replicas with the same store.
    pub fn with_shared_limits(
        name: impl Into<Arc<str>>,
        config: PolicyConfig,
        limits: &SharedLimits,
    ) -> Self {
        Self::create(name.into(), config, Some(limits))
    }

    fn create(name: Arc<str>, config: PolicyConfig, limits: Option<&SharedLimits>) -> Self {
        let kind = match config {
            PolicyConfig::Addresses(config) => Kind::Addresses(Addresses::new(config)),
            PolicyConfig::ApiKeys(config) => Kind::ApiKeys(ApiKeys::new(config)),
            PolicyConfig::BasicAuth(config) => Kind::BasicAuth(BasicAuth::new(config)),
            PolicyConfig::ClientCertificate(config) => {
                Kind::ClientCertificate(ClientCertificate::new(config))
            }
            PolicyConfig::Concurrency(config) => match config.shared.zip(limits) {
                None => Kind::Concurrency(Concurrency::new(config)),
                Some((shared, limits)) => {
                    let limit = SharedConcurrency::new(&name, config, shared, limits.clone());
                    Kind::SharedConcurrency(limit)
                }
            },
            PolicyConfig::ContentBytesMax(bytes) => Kind::ContentBytesMax(bytes),
            PolicyConfig::ForwardAuth(_) => Kind::ForwardAuth,
            PolicyConfig::Jwt(config) => Kind::Jwt(Jwt::new(config)),
            PolicyConfig::Oidc(config) => Kind::Oidc(Arc::new(Oidc::new(name.clone(), config))),
            PolicyConfig::Quota(config) => Kind::Quota(Quota::new(&name, config, limits)),
            PolicyConfig::RateLimit(config) => match config.shared.zip(limits) {
                None => match config.delay {
                    None => Kind::RateLimit(RateLimit::new(&config)),
                    Some(delay) => Kind::DelayingRateLimit(DelayingRateLimit::new(&config, delay)),
                },
                Some((shared, limits)) => {
                    let limit = SharedRateLimit::new(&name, config, shared, limits.clone());
                    Kind::SharedRateLimit(limit)
                }
            },
        };
        Self { name, kind }
    }

    /// Uses the keys and documents that `before` has fetched. `before` is this policy in the previous config.
    #[must_use]
    pub fn in_place_of(mut self, before: &Self) -> Self {
        if let (Kind::Jwt(jwt), Kind::Jwt(before)) = (&mut self.kind, &before.kind) {
            jwt.take_keys_of(before);
        }
        if let (Kind::Oidc(oidc), Kind::Oidc(before)) = (&mut self.kind, &before.kind)
            && let Some(oidc) = Arc::get_mut(oidc)
        {
            oidc.take_provider_of(before);
        }
        self
    }

    /// Returns the name of the policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, request: &Request<'_>, route: &str) -> Verdict<'_> {
        match &self.kind {
            Kind::Addresses(addresses) => addresses.decide(request),
            Kind::ApiKeys(keys) => keys.decide(request),
            Kind::BasicAuth(users) => users.decide(request),
            Kind::ClientCertificate(certificates) => certificates.decide(request),
            Kind::Concurrency(concurrency) => concurrency.decide(request, route),
            Kind::ContentBytesMax(bytes) => decide_content(request, *bytes),
            Kind::DelayingRateLimit(limit) => match limit.admit(request, route) {
                Ok(None) => Verdict::Continue,
                Ok(Some(delay)) => Verdict::Delay(Box::into_pin(delay)),
                Err(refusal) => Verdict::Refuse(refusal),
            },
            Kind::ForwardAuth => Verdict::Refuse(Refusal::Address),
            Kind::Jwt(jwt) => jwt.decide(request),
            Kind::Oidc(oidc) => oidc.decide(request),
            Kind::Quota(quota) => quota.decide(request, route),
            Kind::RateLimit(limit) => limit.decide(request, route),
            Kind::SharedConcurrency(limit) => limit.decide(request, route),
            Kind::SharedRateLimit(limit) => limit.decide(request, route),
        }
    }

    /// Returns the verified properties of the user of a session, or the response if the user has no access.
    fn facts_of_session(&self, session: &Session) -> Result<VerifiedFacts<'_>, Box<Reply>> {
        match &self.kind {
            Kind::Oidc(oidc) => oidc.facts(session).map_err(|_| Box::new(oidc.not_allowed())),
            _ => Ok(VerifiedFacts::default()),
        }
    }

    /// Returns the verified properties of an authenticated user.
    fn facts_of_user<'p>(&'p self, user: &'p str) -> VerifiedFacts<'p> {
        let field = match &self.kind {
            Kind::BasicAuth(users) => users.user_field(),
            _ => None,
        };
        VerifiedFacts::of_user(field, user)
    }
}

/// Refuses the request if the known length of its body exceeds the limit. If the length is unknown, reading
/// the body fails as soon as the body exceeds the limit.
fn decide_content(request: &Request<'_>, bytes_max: u64) -> Verdict<'static> {
    match request.content_length() {
        Some(bytes) if bytes > bytes_max => Verdict::Refuse(Refusal::ContentTooLarge),
        Some(_) => Verdict::Continue,
        None => Verdict::Limit(bytes_max),
    }
}

/// Writes the settings of the policy as text, without secrets.
impl fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(config) => config.fmt(f),
            Self::ApiKeys(config) => config.fmt(f),
            Self::BasicAuth(config) => config.fmt(f),
            Self::ClientCertificate(config) => config.fmt(f),
            Self::Concurrency(config) => config.fmt(f),
            Self::ContentBytesMax(bytes) => write!(f, "body of at most {bytes} bytes"),
            Self::ForwardAuth(config) => config.fmt(f),
            Self::Jwt(config) => config.fmt(f),
            Self::Oidc(config) => config.fmt(f),
            Self::Quota(config) => config.fmt(f),
            Self::RateLimit(config) => config.fmt(f),
        }
    }
}
