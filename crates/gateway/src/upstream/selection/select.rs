//! Selects the server for the next request. The server of a sticky cookie has priority. Without a sticky
//! cookie, the balancing method selects a server from the first tier with candidates.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::balance_config::Balance;
use super::balance_methods::pick;
use super::candidates::{Candidates, TIERS};
use crate::upstream::health::admin_state::AdminState;
use crate::upstream::health::ejection::Admission;
use crate::upstream::membership::server_list::ServerList;
use crate::upstream::request_key::RequestKey;
use crate::upstream::server::Server;

/// State for selecting servers of one upstream.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Position of the next server for round robin. The method `LeastConnections` starts its search at this
    /// position.
    turn: AtomicUsize,
}

/// Result of a selection.
#[derive(Debug)]
pub(crate) enum Selected<'s> {
    /// The selected server. Its number of requests in progress already includes this request.
    Server(&'s Arc<Server>, Admission),
    /// The available servers have no capacity.
    Busy,
    /// No server is available.
    NoServer,
}

impl Selection {
    /// Selects the server for the next request, and counts the request at this server. Servers in `tried`
    /// are selected only if no other server is available.
    pub(crate) fn select<'s>(
        &self,
        servers: &'s ServerList,
        balance: &Balance,
        key: &RequestKey,
        tried: &[usize],
        now: u64,
    ) -> Selected<'s> {
        let begin = |server: &'s Arc<Server>| match server.begin(now) {
            Admission::Refused => None,
            admission => Some(Selected::Server(server, admission)),
        };
        let sticky = key.sticky.and_then(|token| sticky_server(servers, token, tried, now));
        if let Some(selected) = sticky.and_then(begin) {
            return selected;
        }
        for tier in TIERS {
            let candidates = Candidates { servers, tier, tried, now };
            // A server that refuses the request is no longer a candidate.
            while let Some(place) = pick(balance, &candidates, &self.turn, key.hash) {
                if let Some(selected) = begin(&servers.list[place]) {
                    return selected;
                }
            }
            if candidates.has_busy() {
                return Selected::Busy;
            }
        }
        Selected::NoServer
    }
}

/// Returns the server of a sticky cookie, if the server is available. The weight of the server may be 0,
/// because such a server completes its existing sessions.
fn sticky_server<'s>(
    servers: &'s ServerList,
    token: u64,
    tried: &[usize],
    now: u64,
) -> Option<&'s Arc<Server>> {
    let server = servers.list.iter().find(|server| server.token == token)?;
    let may_be = server.health().admin_state() != AdminState::Disabled
        && server.is_available(now)
        && server.has_capacity()
        && !tried.contains(&server.number);
    may_be.then_some(server)
}
