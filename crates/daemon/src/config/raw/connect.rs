//! Tunnels, as the file says them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::spanned::Spanned;
use super::Period;

/// Tunnels that clients ask for with CONNECT. Defaults are those of `thruway_gateway::ConnectConfig`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawConnect {
    /// The hosts that may be named, at least one: `example.com`, `*.example.com`, an address, or `*` for any.
    pub(in super::super) hosts: Spanned<Vec<Spanned<String>>>,
    /// The ports that may be named. Default 443.
    pub(in super::super) ports: Option<Spanned<Vec<Spanned<u16>>>>,
    /// Networks that may be reached although their addresses are not of the whole internet, or are this machine's: `10.1.0.0/16`. Default none.
    #[serde(default)]
    pub(in super::super) private: Vec<Spanned<String>>,
    /// Whether tunnels may lead to listeners of this server too, as far as `private` lets them. Default no.
    #[serde(default)]
    pub(in super::super) own_listeners: bool,
    /// For the name of the host to be resolved and the connection to be accepted.
    pub(in super::super) connect_timeout: Option<Spanned<Period>>,
    /// Without an octet in either direction; then the tunnel is closed.
    pub(in super::super) idle_timeout: Option<Spanned<Period>>,
}
