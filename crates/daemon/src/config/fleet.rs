//! The section `shared`: the store that several gateways share.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_store::{SharedKey, StoreConfig, StoreCredentials, StoreTls, StoreUrl, StoreUrlError};

use crate::config::Span;
use crate::config::peers::{PeerConfig, RawPeerTls, RawPeers, resolve_peers};
use crate::config::policies::headers::resolve_text_of_file;
use crate::config::resolver::Resolver;
use crate::config::values::{Period, Spanned};

/// The store that several gateways share, so that they act as one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawShared {
    /// URL of the store in Redis (6.2 or newer) or Valkey, or `memory` for a single gateway:
    /// `redis://HOST:PORT/DATABASE` for one server, `redis+sentinel://HOST:PORT,HOST:PORT/MASTER` for Sentinel,
    /// and `redis+cluster://HOST:PORT,HOST:PORT` for Redis Cluster. `rediss` in place of `redis` uses TLS. Risk:
    /// without TLS, other machines on the network path can read and change the shared state. Default: `memory`.
    pub(in crate::config) store: Option<Spanned<String>>,
    /// First part of the names of all keys in the store. Several fleets can use the same store if they have
    /// different prefixes. Default: `thruway`.
    pub(in crate::config) prefix: Option<Spanned<String>>,
    /// Maximum time of an operation, 10ms to 5s. A lower value limits the effect of a slow store. Default: 250ms.
    pub(in crate::config) timeout: Option<Spanned<Period>>,
    /// Maximum number of connections for operations, 1 to 64. Thruway opens more than one connection only if
    /// many operations wait. Default: 4.
    pub(in crate::config) connections_max: Option<Spanned<u64>>,
    /// Name of the user of the store (ACL). Default: the default user of the store.
    pub(in crate::config) user: Option<String>,
    /// Password of the user. Thruway hides the password in error messages. Default: none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) password: Option<Spanned<String>>,
    /// File with the password. A relative path starts at the directory of the config. Default: none.
    pub(in crate::config) password_file: Option<Spanned<PathBuf>>,
    /// Name of the user of Sentinel. Default: the default user of Sentinel.
    pub(in crate::config) sentinel_user: Option<String>,
    /// Password of the user of Sentinel. Thruway hides the password in error messages. Default: none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) sentinel_password: Option<Spanned<String>>,
    /// PEM file with the root certificates that are trusted for the store. Default: the roots of the system.
    pub(in crate::config) ca_file: Option<Spanned<PathBuf>>,
    /// Client certificate for the store. Default: none.
    pub(in crate::config) certificate: Option<RawStoreCertificate>,
    /// Operator key of the fleet: 32 random bytes in base64, as from `openssl rand -base64 32`. All gateways of
    /// a fleet need the same key. It encrypts the secrets in the store, and proves that gateways belong
    /// together. Thruway hides the key in error messages. Required unless `store` is `memory`. Default: none.
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) key: Option<Spanned<String>>,
    /// File with the operator key, and older keys on the following lines. A relative path starts at the
    /// directory of the config. Default: none.
    pub(in crate::config) key_file: Option<Spanned<PathBuf>>,
    /// Other keys of the fleet, which still decrypt values while the operator replaces `key`. Thruway hides the
    /// keys in error messages. Default: none.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) other_keys: Vec<Spanned<String>>,
    /// Name of this gateway in the fleet. Each gateway needs a different name. Default: the name of the host and a
    /// random part.
    pub(in crate::config) replica: Option<Spanned<String>>,
    /// `true` if the gateways exchange the results of health checks and ejections. A server then gets as many checks
    /// as from one gateway. Failed checks of another gateway do not count, because only its network may have failed.
    /// Default: false.
    #[serde(default)]
    pub(in crate::config) health: bool,
    /// Address of the listener on which other gateways of the fleet forward MCP requests to this gateway, as
    /// `IP:PORT`. It requires `key`. An address that other machines can reach requires `peer_tls`. Default: none, so
    /// each gateway knows only its own MCP sessions, pending calls and tasks.
    pub(in crate::config) peer_listen: Option<Spanned<String>>,
    /// Address of this listener for the other gateways, as `IP:PORT` or `HOST:PORT`. Thruway looks up the host once, at
    /// its start. Default: the address in `peer_listen`.
    pub(in crate::config) peer_address: Option<Spanned<String>>,
    /// Mutual TLS between the gateways of the fleet. Default: none.
    pub(in crate::config) peer_tls: Option<Spanned<RawPeerTls>>,
    /// `true` keeps MCP tasks in the store, and also the events of legacy sessions that their clients can resume. They
    /// then survive their gateway. It requires `peer_listen`. Each task needs at least two operations of the store, and
    /// each event needs one. Default: false.
    pub(in crate::config) durable: Option<Spanned<bool>>,
}

/// A client certificate for the store.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawStoreCertificate {
    /// PEM file with the certificate, followed by its intermediate certificates.
    pub(in crate::config) chain: Spanned<PathBuf>,
    /// PEM file with the private key.
    pub(in crate::config) key: Spanned<PathBuf>,
}

/// The settings of the shared store.
#[derive(Clone)]
pub(crate) struct SharedConfig {
    /// `None` for a store in memory.
    pub(crate) store: Option<StoreConfig>,
    /// The operator key. `None` only for a store in memory.
    pub(crate) key: Option<SharedKey>,
    /// Name of this gateway. `None` for the name of the host and a random part.
    pub(crate) replica: Option<String>,
    /// `true` if the gateways exchange the results of health checks and ejections.
    pub(crate) health: bool,
    /// The peer listener, if other gateways forward MCP requests to this gateway.
    pub(crate) peers: Option<PeerConfig>,
    /// `true` if tasks and events survive their gateway.
    pub(crate) is_durable: bool,
    /// Position of the URL, or of the section.
    pub(crate) span: Span,
}

impl SharedConfig {
    /// Returns `true` if both configs use the same store in the same way.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let identities = |config: &Self| config.key.as_ref().map(SharedKey::identities);
        let has_same_peers = match (&self.peers, &other.peers) {
            (Some(own), Some(other)) => own.is_same_as(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.store == other.store
            && self.replica == other.replica
            && self.health == other.health
            && self.is_durable == other.is_durable
            && has_same_peers
            && identities(self) == identities(other)
    }
}

pub(in crate::config) fn resolve_shared(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawShared>,
) -> SharedConfig {
    let section = raw.span();
    let raw = raw.into_inner();
    let span = raw.store.as_ref().map_or(section, |store| store.span());
    let url = resolve_url(resolver, raw.store.as_ref());
    let key = resolve_key(resolver, raw.key, raw.key_file.as_ref(), &raw.other_keys);
    if url.is_some() && key.is_none() && resolver.failures.is_empty() {
        resolver.failures.push(
            resolver
                .source
                .failure(span.clone(), "a shared store requires the key of the fleet")
                .with_hint(KEY_HINT),
        );
    }
    if let Some(listen) = raw.peer_listen.as_ref().filter(|_| key.is_none() && resolver.failures.is_empty()) {
        resolver.refuse_with(listen, "a peer listener requires the key of the fleet", KEY_HINT);
    }
    let is_durable = raw.durable.as_ref().is_some_and(|durable| *durable.get_ref());
    if let Some(durable) = raw.durable.as_ref().filter(|_| is_durable && raw.peer_listen.is_none()) {
        resolver.refuse_with(durable, "durable tasks and events require a peer listener", DURABLE_HINT);
    }
    let peers = RawPeers { listen: raw.peer_listen, address: raw.peer_address, tls: raw.peer_tls };
    let peers = resolve_peers(resolver, peers);
    check_replica(resolver, raw.replica.as_ref());
    let prefix = resolve_prefix(resolver, raw.prefix);
    let timeout = resolver.or(raw.timeout, Period(DEFAULT_TIMEOUT), TIMEOUTS).0;
    let connections_max = resolver.count(raw.connections_max, 1..=64).unwrap_or(DEFAULT_CONNECTIONS);
    let password = resolve_password(resolver, raw.password, raw.password_file.as_ref());
    let tls = resolve_tls(resolver, url.as_ref(), raw.ca_file.as_ref(), raw.certificate.as_ref());
    let store = url.map(|url| StoreConfig {
        credentials: StoreCredentials { user: raw.user, password },
        sentinel_credentials: StoreCredentials {
            user: raw.sentinel_user,
            password: raw.sentinel_password.map(Spanned::into_inner),
        },
        prefix,
        timeout,
        connections_max,
        tls,
        identities: key.as_ref().map(SharedKey::identities).unwrap_or_default(),
        ..StoreConfig::new(url)
    });
    let replica = raw.replica.map(Spanned::into_inner);
    SharedConfig { store, key, replica, health: raw.health, peers, is_durable, span }
}

/// Returns `None` for a store in memory.
fn resolve_url(resolver: &mut Resolver<'_>, raw: Option<&Spanned<String>>) -> Option<StoreUrl> {
    let raw = raw.filter(|raw| raw.get_ref() != "memory")?;
    match raw.get_ref().parse::<StoreUrl>() {
        Ok(url) => Some(url),
        Err(error) => {
            let hint = match error {
                StoreUrlError::Credentials => "write `user` and `password` or `password_file` below the URL",
                StoreUrlError::Parameters => "remove the part from `?` or `#`",
                _ => "write `redis://HOST:6379`, or `memory` for a single gateway",
            };
            resolver.refuse_with(raw, error, hint);
            None
        }
    }
}

fn resolve_key(
    resolver: &mut Resolver<'_>,
    key: Option<Spanned<String>>,
    file: Option<&Spanned<PathBuf>>,
    others: &[Spanned<String>],
) -> Option<SharedKey> {
    if let (Some(key), Some(_)) = (&key, file) {
        resolver.refuse_with(key, "the config has both `key` and `key_file`", "remove one of them");
        return None;
    }
    for key in key.iter().chain(others) {
        if let Err(error) = SharedKey::parse([key.get_ref().as_str()]) {
            resolver.refuse_with(key, error, KEY_HINT);
            return None;
        }
    }
    let text = match file {
        Some(file) => resolve_text_of_file(resolver, file)?,
        None => key?.into_inner(),
    };
    let first = text.lines().filter(|line| !line.trim().is_empty());
    let keys = first.chain(others.iter().map(|key| key.get_ref().as_str()));
    match SharedKey::parse(keys) {
        Ok(key) => Some(key),
        Err(error) => {
            if let Some(file) = file {
                resolver.refuse_with(file, error, "write one key on each line of the file");
            }
            None
        }
    }
}

fn resolve_password(
    resolver: &mut Resolver<'_>,
    password: Option<Spanned<String>>,
    file: Option<&Spanned<PathBuf>>,
) -> Option<String> {
    match (password, file) {
        (Some(password), Some(_)) => {
            resolver.refuse_with(
                &password,
                "the config has both `password` and `password_file`",
                "remove one of them",
            );
            None
        }
        (Some(password), None) => Some(password.into_inner()),
        (None, Some(file)) => Some(resolve_text_of_file(resolver, file)?.trim_end().to_owned()),
        (None, None) => None,
    }
}

fn resolve_prefix(resolver: &mut Resolver<'_>, raw: Option<Spanned<String>>) -> String {
    let Some(raw) = raw else { return DEFAULT_PREFIX.to_owned() };
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if raw.get_ref().is_empty() || raw.get_ref().len() > 64 || !raw.get_ref().chars().all(is_valid) {
        let hint = "use 1 to 64 letters, digits, `-`, `_` and `.`";
        resolver.refuse_with(&raw, "this is not a prefix of keys", hint);
    }
    raw.into_inner()
}

fn check_replica(resolver: &mut Resolver<'_>, raw: Option<&Spanned<String>>) {
    let Some(raw) = raw else { return };
    let is_valid = |c: char| c.is_ascii_graphic() && !matches!(c, ':' | '|');
    if raw.get_ref().is_empty() || raw.get_ref().len() > 128 || !raw.get_ref().chars().all(is_valid) {
        let hint = "use 1 to 128 ASCII characters without spaces, `:` and `|`";
        resolver.refuse_with(raw, "this is not a name of a gateway", hint);
    }
}

fn resolve_tls(
    resolver: &mut Resolver<'_>,
    url: Option<&StoreUrl>,
    roots: Option<&Spanned<PathBuf>>,
    certificate: Option<&RawStoreCertificate>,
) -> StoreTls {
    let first = roots.or(certificate.map(|certificate| &certificate.chain));
    if let (Some(url), Some(first)) = (url, first)
        && !url.is_tls
    {
        resolver.refuse_with(first, "this key requires TLS", "write `rediss` in place of `redis` in `store`");
    }
    let mut read = |file: &Spanned<PathBuf>| resolve_text_of_file(resolver, file).map(String::into_bytes);
    StoreTls {
        roots: roots.and_then(&mut read),
        identity: certificate
            .and_then(|certificate| Some((read(&certificate.chain)?, read(&certificate.key)?))),
    }
}

const DEFAULT_PREFIX: &str = "thruway";
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(250);
const DEFAULT_CONNECTIONS: usize = 4;
const TIMEOUTS: std::ops::RangeInclusive<Period> =
    Period(Duration::from_millis(10))..=Period(Duration::from_secs(5));

const DURABLE_HINT: &str =
    "set `peer_listen` and `key`, for a single gateway as in `peer_listen = \"127.0.0.1:0\"`";

const KEY_HINT: &str =
    "create a key with `openssl rand -base64 32`, and write it as `key` or into `key_file`";
