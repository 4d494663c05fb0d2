//! A load, as the arguments say.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use thruway_bench::{
    Limit, Load, LoadTls, Manner, OpenError, Origin, Pace, Requests, RunError, StopFlag, Url,
};
use thruway_client::{ConnectError, UpstreamAddr, resolve};
use thruway_net::tls::{
    InvalidServerName, Roots, TlsConnector, TlsConnectorConfig, TlsFailure, TlsServerName, TlsVersion,
};
use thruway_net::{Clock, raise_descriptor_limit};

use super::args::{HttpLoadArgs, LoadArgs, TIME_MAX};
use super::requests;
use crate::config::Failure;

/// The load of `targets` that `args` ask for. Somebody must listen there.
pub(super) fn build(targets: &[String], args: &HttpLoadArgs, stop: &StopFlag) -> Result<Load, Failure> {
    let mut load = build_unreached(targets, args, stop)?;
    check_tls(&args.load, load.tls.is_some())?;
    load.addresses = reachable(&load.addresses)?;
    Ok(load)
}

/// The same, of a server that may not listen yet.
pub(super) fn build_unreached(
    targets: &[String],
    args: &HttpLoadArgs,
    stop: &StopFlag,
) -> Result<Load, Failure> {
    check(&args.load)?;
    let (requests, url) = requests::resolve(targets, args)?;
    let alpn = if args.is_http2 { "h2" } else { "http/1.1" };
    let tls = tls(&url, alpn, &args.load)?;
    let load = assemble(Arc::new(requests), addresses(&url.origin)?, &args.load, stop);
    let pipeline = if args.is_http2 { args.streams.into() } else { load.manner.pipeline };
    let manner = Manner { is_http2: args.is_http2, pipeline, ..load.manner };
    Ok(Load { tls, manner, ..load })
}

/// The load of these requests.
pub(super) fn assemble(
    requests: Arc<dyn Requests>,
    addresses: Vec<UpstreamAddr>,
    args: &LoadArgs,
    stop: &StopFlag,
) -> Load {
    let pace = match args.rate {
        None => Pace::Closed,
        Some(rate) if args.poisson => Pace::Poisson { rate, seed: args.seed.unwrap_or_else(any_seed) },
        Some(rate) => Pace::Constant { rate },
    };
    Load {
        requests,
        addresses,
        tls: None,
        connections: args.connections as usize,
        workers: args.workers.into(),
        pace,
        limit: args.requests.map_or(Limit::Duration(args.duration), Limit::Requests),
        warm_up: args.warm_up,
        manner: Manner {
            is_http2: false,
            pipeline: args.pipeline.into(),
            is_persistent: !args.is_not_persistent,
            timeout: args.timeout,
            // Each request that was due has its time.
            drain: args.timeout,
        },
        stop: stop.clone(),
        server: None,
    }
}

/// Another one each time, short enough to be typed again.
fn any_seed() -> u64 {
    let nanoseconds = Clock::system().now_exact().subsec_nanos();
    u64::from(nanoseconds) % 1_000_000
}

/// Options of TLS are of no use where nobody speaks it.
pub(super) fn check_tls(args: &LoadArgs, is_spoken: bool) -> Result<(), Failure> {
    let is_asked_for = args.ca.is_some()
        || args.is_insecure
        || args.tls_version.is_some()
        || args.is_classical
        || args.is_without_resumption;
    if is_asked_for && !is_spoken {
        return Err(Failure::new("nothing here speaks TLS").with_hint("begin the URL with `https://`"));
    }
    Ok(())
}

/// A number of requests at a rate is a time, and bounded as one.
pub(super) fn check_time(args: &LoadArgs) -> Result<(), Failure> {
    let (Some(requests), Some(rate)) = (args.requests, args.rate) else { return Ok(()) };
    #[expect(clippy::cast_precision_loss, reason = "a year more or less")]
    if requests as f64 / rate > TIME_MAX.as_secs_f64() {
        let message = format!("{requests} requests take more than a year at {rate} a second");
        return Err(Failure::new(message).with_hint("ask for a higher `--rate`, or for fewer `--requests`"));
    }
    Ok(())
}

/// What does not go together, and what this machine does not allow.
pub(super) fn check(args: &LoadArgs) -> Result<(), Failure> {
    check_time(args)?;
    if u32::from(args.workers) > args.connections {
        let message = format!("{} workers cannot share {} connections", args.workers, args.connections);
        return Err(Failure::new(message)
            .with_hint("each worker needs a connection: fewer `--workers`, or more `--connections`"));
    }
    raise_descriptor_limit();
    let needed =
        u64::from(args.connections) + u64::from(args.workers) * DESCRIPTORS_OF_A_WORKER + DESCRIPTORS;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if needed > limit => Err(Failure::new(format!(
            "{} connections need {needed} descriptors, and this process may have {limit}",
            args.connections
        ))
        .with_hint(format!("allow more with `ulimit -n {needed}`, or ask for fewer connections (`-c`)"))),
        _ => Ok(()),
    }
}

/// How TLS is spoken with the server of `url`, if it is, and `alpn` within it.
pub(super) fn tls(url: &Url, alpn: &str, args: &LoadArgs) -> Result<Option<LoadTls>, Failure> {
    let Origin::Tcp { host, .. } = &url.origin else { return Ok(None) };
    if !url.is_https {
        return Ok(None);
    }
    let version = args.tls_version.map(TlsVersion::from);
    let config = TlsConnectorConfig {
        min_version: version.unwrap_or(TlsVersion::Tls12),
        max_version: version.unwrap_or(TlsVersion::Tls13),
        post_quantum: !args.is_classical,
        roots: args.ca.clone().map_or(Roots::System, |file| Roots::Files(vec![file])),
        verify: !args.is_insecure,
        resume: !args.is_without_resumption,
        tickets_max: TICKETS_FOR_EACH * args.connections as usize,
        alpn: vec![alpn.as_bytes().to_vec()],
        ..TlsConnectorConfig::default()
    };
    let connector = TlsConnector::load(config);
    let connector = connector.map_err(|error| Failure::new(&error).with_hint(error.hint()))?;
    let server_name =
        TlsServerName::new(host).map_err(|error| Failure::new(error).with_hint(InvalidServerName::HINT))?;
    Ok(Some(LoadTls { connector: Arc::new(connector), server_name }))
}

/// Where `origin` is.
pub(super) fn addresses(origin: &Origin) -> Result<Vec<UpstreamAddr>, Failure> {
    let (host, port) = match origin {
        Origin::Unix(path) => return Ok(vec![UpstreamAddr::unix(path)]),
        Origin::Tcp { host, port } => (host, *port),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.and_then(|runtime| runtime.block_on(resolve(host, port)));
    let addresses = found.map_err(|error| {
        Failure::new(format!("`{host}` cannot be resolved: {error}"))
            .with_hint("is the name spelled rightly?")
    })?;
    if addresses.is_empty() {
        return Err(Failure::new(format!("`{host}` has no address")));
    }
    Ok(addresses)
}

/// A name may stand for several addresses, of which the server listens at some: the first of those.
pub(super) fn reachable(addresses: &[UpstreamAddr]) -> Result<Vec<UpstreamAddr>, Failure> {
    let mut last = None;
    for address in addresses {
        match reach(address) {
            Ok(()) => return Ok(vec![address.clone()]),
            Err(error) => last = Some(unreachable(&RunError::Connect(address.clone(), error.into()))),
        }
    }
    Err(last.unwrap_or_else(|| Failure::new("there is no address")))
}

/// Whether somebody listens there.
fn reach(address: &UpstreamAddr) -> Result<(), ConnectError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ConnectError::Other(error.kind()))?;
    runtime.block_on(thruway_client::connect(address, REACH_TIMEOUT)).map(drop)
}

/// Why a load could not begin, and what to do about it.
pub(super) fn unreachable(error: &RunError) -> Failure {
    let hint = match error {
        RunError::Connect(_, OpenError::Connect(error)) => unconnected(*error),
        RunError::Connect(_, OpenError::NotHttp2) => Some("leave `--http2` out to load it with HTTP/1.1"),
        RunError::ServerMissing(_) => Some("`--pid` is the number of the server's process"),
        RunError::System(_) => None,
    };
    hint.into_iter().fold(Failure::new(error), Failure::with_hint)
}

/// Why there is no connection, and what to do about it.
pub(super) fn unconnected(error: ConnectError) -> Option<&'static str> {
    Some(match error {
        ConnectError::Refused => "is the server running, and is that its port?",
        ConnectError::SocketNotFound => "is the server running, and is that its socket?",
        ConnectError::TimedOut | ConnectError::Unreachable => {
            "is the address right, and does no firewall stand between?"
        }
        ConnectError::Tls(
            TlsFailure::CertificateUnknownIssuer
            | TlsFailure::CertificateForOtherName
            | TlsFailure::CertificateExpired,
        ) => "name who has issued it with `--ca FILE`, or load whoever answers with `--insecure`",
        ConnectError::LocalAddressUnavailable => {
            "one address of this machine has some 28,000 ports: ask for fewer connections (`-c`)"
        }
        ConnectError::DescriptorsExhausted => "allow more descriptors with `ulimit -n`",
        _ => return None,
    })
}

/// Servers send some with each handshake, and connections come in bursts.
const TICKETS_FOR_EACH: usize = 4;
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Of the reactor and the timer of a thread.
const DESCRIPTORS_OF_A_WORKER: u64 = 6;
/// Of everything else.
const DESCRIPTORS: u64 = 24;
