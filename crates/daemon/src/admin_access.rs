//! The users of the admin listener. A reload replaces them.
//!
//! The policies `basic_auth` and `api_keys` of the gateway check the credentials. They limit the number of
//! concurrent password checks. They use a slow hash for unknown names too, and compare keyed digests, so that
//! the time of a response reveals no name and no token.

use std::sync::Arc;

use thruway_gateway::{ApiKeysConfig, BasicAuthConfig, KeyPlace, Policy, PolicyConfig};
use thruway_server::Request;

use crate::config::{AdminAuthentication, AdminRole, Config};

/// The users of the admin listener, with the state of their password checks.
pub(crate) struct AdminAccess {
    authentication: AdminAuthentication,
    /// Checks passwords. `None` if no user has a password.
    passwords: Option<Arc<Policy>>,
    /// Checks tokens. `None` if no user has a token.
    tokens: Option<Arc<Policy>>,
}

impl AdminAccess {
    /// Returns the users of `config`. If the config has no users, returns the previous users: otherwise, a
    /// reload could open a running listener that other machines can reach. If the users have not changed,
    /// returns `before`, which knows the verified passwords.
    pub(crate) fn of(config: &Config, before: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let admin = config.admin.as_ref();
        let Some(authentication) = admin.and_then(|admin| admin.authentication.as_ref()) else {
            return before;
        };
        let is_same = |before: &Arc<Self>| before.authentication == *authentication;
        before.filter(is_same).or_else(|| Some(Arc::new(Self::new(authentication.clone()))))
    }

    fn new(authentication: AdminAuthentication) -> Self {
        let AdminAuthentication { passwords, tokens, .. } = &authentication;
        let policy = |config| Arc::new(Policy::new(REALM, config));
        let passwords = (!passwords.is_empty()).then(|| {
            policy(PolicyConfig::BasicAuth(BasicAuthConfig {
                realm: None,
                users: passwords.clone(),
                user_field: None,
            }))
        });
        let tokens = (!tokens.is_empty()).then(|| {
            policy(PolicyConfig::ApiKeys(ApiKeysConfig {
                place: KeyPlace::Bearer,
                keys: tokens.clone(),
                user_field: None,
            }))
        });
        Self { authentication, passwords, tokens }
    }

    /// Returns the policy that checks the credentials of `request`. For a request without credentials, this is
    /// the policy for passwords if there is one, because browsers then ask for a name and a password.
    pub(crate) fn policy_for(&self, request: &Request<'_>) -> Option<&Arc<Policy>> {
        let is_bearer = request.field("authorization").is_some_and(|value| {
            value.as_bytes().get(..BEARER.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(BEARER))
        });
        let (first, second) =
            if is_bearer { (&self.tokens, &self.passwords) } else { (&self.passwords, &self.tokens) };
        first.as_ref().or(second.as_ref())
    }

    /// Returns the role of a user.
    pub(crate) fn role_of(&self, user: &str) -> Option<AdminRole> {
        self.authentication.roles.get(user).copied()
    }
}

/// Realm of the challenges.
pub(crate) const REALM: &str = "thruway admin";
const BEARER: &[u8] = b"bearer ";
