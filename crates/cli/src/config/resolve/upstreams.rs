//! Upstreams, and the routes that lead to them.

use std::collections::BTreeMap;

use thruway_client::{InvalidUpstreamAddr, UpstreamAddr};
use thruway_gateway::{Balance, UpstreamConfig};

use super::super::raw::{RawBalance, RawUpstream};
use super::super::spanned::Spanned;
use super::super::{Action, Upstreams};
use super::Resolver;

impl Resolver<'_> {
    pub(super) fn upstreams(&mut self, raw: BTreeMap<String, Spanned<RawUpstream>>) -> Upstreams {
        raw.into_iter().map(|(name, upstream)| (name.clone(), self.upstream(name, upstream))).collect()
    }

    fn upstream(&mut self, name: String, raw: Spanned<RawUpstream>) -> UpstreamConfig {
        let span = raw.span();
        let RawUpstream { servers, balance } = raw.into_inner();
        if servers.is_empty() {
            self.refuse_at(&span, "an upstream has at least one server");
        }
        let servers: Vec<_> = servers.iter().filter_map(|server| self.server_address(server)).collect();
        let balance = match balance {
            RawBalance::RoundRobin => Balance::RoundRobin,
            RawBalance::LeastConnections => Balance::LeastConnections,
        };
        UpstreamConfig { balance, ..UpstreamConfig::new(name, servers) }
    }

    fn server_address(&mut self, raw: &Spanned<String>) -> Option<UpstreamAddr> {
        match raw.get_ref().parse::<UpstreamAddr>() {
            Ok(address) => match address.unix_path() {
                Some(path) => Some(UpstreamAddr::unix(self.beside_config(path))),
                None => Some(address),
            },
            Err(error) => {
                self.refuse_with(raw, error, InvalidUpstreamAddr::HINT);
                None
            }
        }
    }

    /// The action that sends requests to the upstream of this name.
    pub(super) fn forward(&mut self, name: &Spanned<String>, upstreams: &Upstreams) -> Option<Action> {
        if upstreams.contains_key(name.get_ref()) {
            return Some(Action::Forward(name.get_ref().clone()));
        }
        let message = format!("there is no upstream `{}`", name.get_ref().escape_debug());
        let known: Vec<_> = upstreams.keys().map(|name| format!("`{name}`")).collect();
        match &known[..] {
            [] => self.refuse_with(
                name,
                message,
                "add one: `[upstreams.NAME]` and below it `servers = [\"IP:PORT\"]`",
            ),
            known => self.refuse_with(name, message, &format!("there are {}", known.join(", "))),
        }
        None
    }
}
