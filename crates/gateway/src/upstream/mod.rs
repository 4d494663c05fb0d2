//! Upstreams: servers that answer the same requests, and which of them is next.

mod balance;
mod connections;
mod server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thruway_client::{Config, PoolConfig, UpstreamAddr};

pub use balance::Balance;
pub(crate) use connections::{acquire, release};
pub(crate) use server::{Lease, Server};

/// Servers that answer the same requests. Shared by all workers.
#[derive(Debug)]
pub struct Upstream {
    /// Tells the connections to this upstream from those to others, also to one of the same name before a reload.
    pub(crate) id: u64,
    pub(crate) config: UpstreamConfig,
    pub(crate) servers: Vec<Server>,
    selection: balance::Selection,
}

/// An upstream, as it is wanted.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// What it is called in logs and metrics.
    pub name: String,
    /// Its servers; without any, every request is answered 503.
    pub servers: Vec<ServerConfig>,
    /// How the next server is found. Default round robin.
    pub balance: Balance,
    /// How long a server may take to accept a connection. Default 5 s.
    pub connect_timeout: Duration,
    /// Limits and timeouts of exchanges.
    pub exchange: Config,
    /// How many connections wait to be used again, for each worker. Default 1024 to one server and 4096 in all: with fewer
    /// than there are requests at a time, every other request pays for a new connection.
    pub pool: PoolConfig,
    /// How many more servers are tried when a request fails and may be sent again. Default 2.
    pub retries_max: u32,
}

/// One server of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// Where it is.
    pub address: UpstreamAddr,
    /// How many requests it gets, in relation to the others. Default 1; with 0, none.
    pub weight: u32,
}

impl UpstreamConfig {
    /// An upstream of servers of the same weight.
    pub fn new(name: impl Into<String>, servers: impl IntoIterator<Item = UpstreamAddr>) -> Self {
        Self {
            name: name.into(),
            servers: servers.into_iter().map(|address| ServerConfig { address, weight: 1 }).collect(),
            balance: Balance::default(),
            connect_timeout: Duration::from_secs(5),
            exchange: Config::default(),
            pool: PoolConfig { idle_per_address_max: 1024, idle_max: 4096, ..PoolConfig::default() },
            retries_max: 2,
        }
    }
}

impl Upstream {
    /// The upstream that `config` describes. Nothing is connected yet.
    pub fn new(config: UpstreamConfig) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            servers: config.servers.iter().map(Server::new).collect(),
            selection: balance::Selection::new(config.balance, &config.servers),
            config,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The place of the server that is to get the next request, none of those `tried` if there is another; `None` if no
    /// server may get any.
    pub(crate) fn select(&self, tried: &[usize]) -> Option<usize> {
        self.selection.select(&self.servers, tried)
    }
}
