//! Options that all kinds of loads share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use thruway_client::UpstreamAddr;
use thruway_net::raise_descriptor_limit;
use thruway_net::tls::{Roots, TlsConnector, TlsConnectorConfig, TlsServerName, TlsVersion};

use super::error::PlanError;
use crate::requests::{LoadUrl, Origin, Requests};
use crate::run::Load;
use crate::schedule::Pace;
use crate::stages::{StageUnit, Stages};
use crate::stop::{Limit, StopFlag};
use crate::worker::{ConnectionOptions, LoadTls};

/// Options of a load.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadOptions {
    /// Number of concurrent connections. Default: 16.
    pub connections: u32,
    /// Number of threads of the load generator. Default: 1.
    pub workers: u16,
    /// Duration or number of requests after which the load ends. Default: 10 seconds.
    pub limit: Limit,
    /// Duration of the load before the measurement begins. Default: zero.
    pub warm_up: Duration,
    /// Schedule of the requests. Default: a closed loop.
    pub pace: Pace,
    /// Number of concurrent requests on a connection. Default: 1.
    pub pipeline: u16,
    /// `true` if a connection serves several requests (keep-alive). Default: `true`.
    pub is_persistent: bool,
    /// Request timeout. Default: 10 seconds.
    pub timeout: Duration,
    /// TLS options.
    pub tls: TlsOptions,
}

/// TLS options. These options apply to `https` URLs only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsOptions {
    /// PEM file with certificate authorities. Default: the certificate authorities of the system.
    pub ca: Option<PathBuf>,
    /// `true` if the server's certificate is verified. Default: `true`.
    pub verify: bool,
    /// The only TLS version to offer. Default: TLS 1.2 and 1.3.
    pub version: Option<TlsVersion>,
    /// `true` if post-quantum key exchanges are offered. Default: `true`.
    pub post_quantum: bool,
    /// `true` if TLS sessions are resumed. Default: `true`.
    pub resume: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            connections: 16,
            workers: 1,
            limit: Limit::Duration(Duration::from_secs(10)),
            warm_up: Duration::ZERO,
            pace: Pace::Closed,
            pipeline: 1,
            is_persistent: true,
            timeout: Duration::from_secs(10),
            tls: TlsOptions::default(),
        }
    }
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { ca: None, verify: true, version: None, post_quantum: true, resume: true }
    }
}

impl LoadOptions {
    /// Longest duration of a load.
    pub const DURATION_MAX: Duration = crate::duration::DURATION_MAX;

    /// Returns the options of a load with stages. The stages set the duration of the load, and its rate or its
    /// number of connections. If `seed` is set, requests start at random times.
    #[must_use]
    pub fn with_stages(self, stages: Stages, seed: Option<u64>) -> Self {
        Self {
            limit: Limit::Duration(stages.duration()),
            connections: stages.connections_max().unwrap_or(self.connections),
            pace: Pace::Stages { stages: Arc::new(stages), seed },
            ..self
        }
    }

    /// Checks that the options fit together and respect the limits of this process. Raises the soft limit
    /// of open file descriptors.
    ///
    /// # Errors
    /// Returns an error if there are more workers than connections, if there are too few file descriptors, or
    /// if the requests would take too long at the given rate.
    pub fn check(&self) -> Result<(), PlanError> {
        self.check_duration()?;
        if let Pace::Stages { stages, seed } = &self.pace {
            if seed.is_some() && stages.unit() == StageUnit::Connections {
                return Err(PlanError::Stages(
                    "stages of connections (closed loop) have no random start times",
                ));
            }
            if !self.warm_up.is_zero() {
                return Err(PlanError::Stages("a load with stages has no separate warm-up"));
            }
        }
        let (workers, connections) = (self.workers, self.connections);
        if u32::from(workers) > connections {
            return Err(PlanError::Workers { workers, connections });
        }
        raise_descriptor_limit();
        let needed =
            u64::from(connections) + u64::from(workers) * DESCRIPTORS_OF_A_WORKER + OTHER_DESCRIPTORS;
        match getrlimit(Resource::Nofile).current {
            Some(limit) if needed > limit => Err(PlanError::Descriptors { connections, needed, limit }),
            _ => Ok(()),
        }
    }

    /// Checks that the requests take at most [`DURATION_MAX`](Self::DURATION_MAX) at the given rate.
    ///
    /// # Errors
    /// Returns [`PlanError::Duration`] if the requests would take longer.
    pub fn check_duration(&self) -> Result<(), PlanError> {
        let (Limit::Requests(requests), Some(rate)) = (self.limit, self.pace.rate()) else { return Ok(()) };
        #[expect(clippy::cast_precision_loss, reason = "the limit of a year is coarse")]
        if requests as f64 / rate > Self::DURATION_MAX.as_secs_f64() {
            return Err(PlanError::Duration { requests, rate });
        }
        Ok(())
    }

    /// Checks that no TLS option is set if the load does not use TLS (`is_used` is `false`).
    ///
    /// # Errors
    /// Returns [`PlanError::TlsUnused`] if a TLS option is set without effect.
    pub fn check_tls(&self, is_used: bool) -> Result<(), PlanError> {
        if is_used || self.tls == TlsOptions::default() { Ok(()) } else { Err(PlanError::TlsUnused) }
    }

    /// Creates the load that sends these requests without TLS.
    pub fn load(&self, requests: Arc<dyn Requests>, addresses: Vec<UpstreamAddr>, stop: &StopFlag) -> Load {
        Load {
            requests,
            addresses,
            tls: None,
            connections: self.connections as usize,
            workers: self.workers.into(),
            pace: self.pace.clone(),
            limit: self.limit,
            warm_up: self.warm_up,
            connection_options: ConnectionOptions {
                is_http2: false,
                pipeline: self.pipeline.into(),
                is_persistent: self.is_persistent,
                timeout: self.timeout,
                // At the end, the load waits for the responses to all requests that were due, so that it
                // can measure their times.
                drain: self.timeout,
            },
            stop: stop.clone(),
            server: None,
        }
    }

    /// Creates the TLS settings for the server of `url`. The client offers the application protocol `alpn`.
    /// Returns `None` if the URL is not `https`.
    ///
    /// # Errors
    /// Returns an error if the certificate authorities cannot be loaded, or if TLS does not accept the host
    /// as a server name.
    pub fn tls(&self, url: &LoadUrl, alpn: &str) -> Result<Option<LoadTls>, PlanError> {
        let Origin::Tcp { host, .. } = &url.origin else { return Ok(None) };
        if !url.is_https {
            return Ok(None);
        }
        let TlsOptions { ca, verify, version, post_quantum, resume } = self.tls.clone();
        let config = TlsConnectorConfig {
            min_version: version.unwrap_or(TlsVersion::Tls12),
            max_version: version.unwrap_or(TlsVersion::Tls13),
            post_quantum,
            roots: ca.map_or(Roots::System, |file| Roots::Files(vec![file])),
            verify,
            resume,
            tickets_max: TICKETS_PER_CONNECTION * self.connections as usize,
            alpn: vec![alpn.as_bytes().to_vec()],
            ..TlsConnectorConfig::default()
        };
        let connector = TlsConnector::load(config).map_err(PlanError::Certificates)?;
        let server_name = TlsServerName::new(host).map_err(PlanError::ServerName)?;
        Ok(Some(LoadTls { connector: Arc::new(connector), server_name }))
    }
}

/// Number of stored TLS session tickets per connection. Servers send several tickets with each handshake,
/// and the load generator opens many connections at the same time.
const TICKETS_PER_CONNECTION: usize = 4;

/// Number of file descriptors for the event loop and the timer of a worker thread.
const DESCRIPTORS_OF_A_WORKER: u64 = 6;

/// Number of file descriptors for all other purposes.
const OTHER_DESCRIPTORS: u64 = 24;
