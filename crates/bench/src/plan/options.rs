//! Options of a load, whatever it sends.

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
use crate::stop::{Limit, StopFlag};
use crate::worker::{ConnectionOptions, LoadTls};

/// Options of a load.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadOptions {
    /// Connections at the same time. Default 16.
    pub connections: u32,
    /// Threads of the load generator. Default 1.
    pub workers: u16,
    /// End of the load. Default after 10 seconds.
    pub limit: Limit,
    /// Time before the measurement begins. Default none.
    pub warm_up: Duration,
    /// Start times of the requests. Default a closed loop.
    pub pace: Pace,
    /// Requests on a connection at the same time. Default 1.
    pub pipeline: u16,
    /// `true` if a connection serves several requests. Default `true`.
    pub is_persistent: bool,
    /// Time that a request may take. Default 10 seconds.
    pub timeout: Duration,
    /// Options of TLS.
    pub tls: TlsOptions,
}

/// Options of TLS; they apply to `https` URLs only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsOptions {
    /// PEM file of certificate authorities. Default those of the system.
    pub ca: Option<PathBuf>,
    /// `true` if the certificate of the server is verified. Default `true`.
    pub verify: bool,
    /// The only version to offer. Default TLS 1.2 and 1.3.
    pub version: Option<TlsVersion>,
    /// `true` if key exchanges that resist quantum computers are offered. Default `true`.
    pub post_quantum: bool,
    /// `true` if sessions are resumed. Default `true`.
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
    pub const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

    /// Checks the options against each other and against the limits of this process. Raises its limit of
    /// descriptors.
    ///
    /// # Errors
    /// There are more workers than connections, too few descriptors, or too many requests for the rate.
    pub fn check(&self) -> Result<(), PlanError> {
        self.check_duration()?;
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

    /// Checks that the requests take less than [`DURATION_MAX`](Self::DURATION_MAX) at their rate.
    ///
    /// # Errors
    /// They take longer.
    pub fn check_duration(&self) -> Result<(), PlanError> {
        let (Limit::Requests(requests), Some(rate)) = (self.limit, self.pace.rate()) else { return Ok(()) };
        #[expect(clippy::cast_precision_loss, reason = "a year more or less")]
        if requests as f64 / rate > Self::DURATION_MAX.as_secs_f64() {
            return Err(PlanError::Duration { requests, rate });
        }
        Ok(())
    }

    /// Checks that options of TLS are set only if TLS is used.
    ///
    /// # Errors
    /// Some are set, and `is_used` is `false`.
    pub fn check_tls(&self, is_used: bool) -> Result<(), PlanError> {
        if is_used || self.tls == TlsOptions::default() { Ok(()) } else { Err(PlanError::TlsUnused) }
    }

    /// Returns the load of these requests, without TLS.
    pub fn load(&self, requests: Arc<dyn Requests>, addresses: Vec<UpstreamAddr>, stop: &StopFlag) -> Load {
        Load {
            requests,
            addresses,
            tls: None,
            connections: self.connections as usize,
            workers: self.workers.into(),
            pace: self.pace,
            limit: self.limit,
            warm_up: self.warm_up,
            connection_options: ConnectionOptions {
                is_http2: false,
                pipeline: self.pipeline.into(),
                is_persistent: self.is_persistent,
                timeout: self.timeout,
                // Each request that was due has its time.
                drain: self.timeout,
            },
            stop: stop.clone(),
            server: None,
        }
    }

    /// Returns the TLS client for the server of `url`, which offers the protocol `alpn`; `None` if the URL is
    /// not `https`.
    ///
    /// # Errors
    /// The certificate authorities cannot be used, or the host is no name for TLS.
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

/// Servers send some with each handshake, and connections come in bursts.
const TICKETS_PER_CONNECTION: usize = 4;

/// Descriptors of the reactor and the timer of a thread.
const DESCRIPTORS_OF_A_WORKER: u64 = 6;

/// Descriptors of everything else.
const OTHER_DESCRIPTORS: u64 = 24;
