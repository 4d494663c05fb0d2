//! Settings of a connection to Redis or Valkey.

use std::fmt;
use std::time::Duration;

use super::url::StoreUrl;

/// Settings of a connection to Redis or Valkey. Its debug text contains no secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Address of the store.
    pub url: StoreUrl,
    /// User and password for the store.
    pub credentials: StoreCredentials,
    /// User and password for Sentinel.
    pub sentinel_credentials: StoreCredentials,
    /// First part of all keys. Fleets with different prefixes can use the same store.
    pub prefix: String,
    /// Maximum time of an operation.
    pub timeout: Duration,
    /// Maximum number of connections for operations. Several operations share a connection. The store opens
    /// another connection if many operations wait. Subscriptions use an additional connection.
    pub connections_max: usize,
    /// Certificates for TLS.
    pub tls: StoreTls,
    /// Identities of the fleet, from [`SharedKey::identities`](crate::SharedKey::identities). The store refuses
    /// to connect if another fleet uses the prefix. If empty, the store does not check that.
    pub identities: Vec<String>,
}

impl StoreConfig {
    /// Returns the default settings for `url`: the prefix `thruway`, a timeout of 250 ms, at most four
    /// connections, no credentials, the authorities of the system, and no check of the identity.
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            credentials: StoreCredentials::default(),
            sentinel_credentials: StoreCredentials::default(),
            prefix: "thruway".to_owned(),
            timeout: Duration::from_millis(250),
            connections_max: 4,
            tls: StoreTls::default(),
            identities: Vec::new(),
        }
    }
}

/// User and password. Both are optional.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoreCredentials {
    /// Name of the user. If `None`, the store uses its default user.
    pub user: Option<String>,
    /// Password of the user.
    pub password: Option<String>,
}

impl fmt::Debug for StoreCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("StoreCredentials").field("user", &self.user).field("password", &password).finish()
    }
}

/// Certificates for TLS, in PEM.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoreTls {
    /// Certificates of the trusted authorities. If `None`, the authorities of the system are trusted.
    pub roots: Option<Vec<u8>>,
    /// The certificate chain and the private key of this client.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for StoreTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, identity) = (self.roots.is_some(), self.identity.is_some());
        f.debug_struct("StoreTls").field("roots", &roots).field("identity", &identity).finish()
    }
}
