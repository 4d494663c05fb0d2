//! The admin listener: its address, its TLS, and its users.

mod users;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::InvalidListenAddr;

use crate::config::listeners::resolve_listener;
use crate::config::resolver::Resolver;
use crate::config::tls::{RawListenerTlsForm, resolve_listener_tls};
use crate::config::values::{Spanned, TextOrTable};
use crate::config::{AdminConfig, Http2, ListenerConfig, is_listed};
pub(crate) use users::{AdminAuthentication, AdminRole};
use users::{RawAdminAuthentication, resolve_authentication};

/// The admin listener, for health, status, metrics, reloads and the admin state of servers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAdmin {
    /// Address of the admin listener: `IP:PORT` or `unix:PATH`. It must differ from the addresses in
    /// `listeners`. An address that other machines can reach requires `tls` and `authentication`.
    pub(in crate::config) address: Spanned<String>,
    /// TLS for the clients of the admin listener: a table, or `"internal"` as in `listeners`. Only a restart applies changes of this table, but Thruway
    /// reads changed certificate files again. Default: no TLS.
    pub(in crate::config) tls: Option<Spanned<TextOrTable<RawListenerTlsForm>>>,
    /// The users of the admin listener. A reload applies changed users. Only a restart applies the removal of
    /// this table. Risk of the default: every program and every user on this machine can reload the config
    /// and disable servers. With `unix:PATH`, the permissions of the directory limit the access. Default:
    /// none, every client is an operator.
    pub(in crate::config) authentication: Option<Spanned<RawAdminAuthentication>>,
}

pub(in crate::config) fn resolve_admin(
    resolver: &mut Resolver<'_>,
    raw: RawAdmin,
    listeners: &[ListenerConfig],
) -> Option<AdminConfig> {
    let RawAdmin { address: text, tls, authentication } = raw;
    let mut admin = match text.get_ref().parse() {
        Ok(address) => AdminConfig::at(resolve_listener(resolver, address)),
        Err(error) => {
            resolver.refuse_with(&text, error, InvalidListenAddr::HINT);
            return None;
        }
    };
    if is_listed(listeners.iter().map(ListenerConfig::address), &admin.address) {
        let message = format!("another listener has the address `{}`", admin.address);
        resolver.refuse_with(&text, message, OWN_ADDRESS_HINT);
    }
    let missing = match (&tls, &authentication) {
        (None, None) => Some("`tls` and `authentication`"),
        (None, Some(_)) => Some("`tls`"),
        (Some(_), None) => Some("`authentication`"),
        (Some(_), Some(_)) => None,
    };
    if let Some(missing) = missing.filter(|_| admin.is_remote()) {
        let message = format!("other machines can reach `{}`, but `[admin]` lacks {missing}", admin.address);
        resolver.refuse_with(&text, message, REMOTE_HINT);
    }
    admin.tls = tls.and_then(|tls| resolve_listener_tls(resolver, tls, Http2::Too, text.get_ref()));
    admin.authentication = authentication.and_then(|raw| resolve_authentication(resolver, raw));
    Some(admin)
}

const OWN_ADDRESS_HINT: &str = "choose another address for the admin listener";

const REMOTE_HINT: &str = "write `127.0.0.1:PORT` or `unix:PATH`, or add both `[admin.tls]` (with `certificates`) and \
                           `[admin.authentication]` (with `users` or `users_file`)";
