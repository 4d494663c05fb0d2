//! From what the file says to what is to be done.

mod listeners;
mod rewrite;
mod routes;
mod shares;
mod timeouts;
mod connect;
mod answer;
mod policies;
mod certificates;
mod tls;
mod upstreams;
pub(super) mod usage;

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use thruway_gateway::{OtherReading, PathReadings, PolicyConfig};
use thruway_server::{
    AccessLogFormat, AccessLogLines, AccessLogTarget, Http2Limits, InvalidListenAddr, Limits, ListenAddr,
    Timeouts, TrustedProxies,
};

use super::acme::{check_challenge, resolve_acme};
use super::compression::resolve_compression;
use super::failure::Source;
use super::places::Places;
use super::proxies::resolve_trusted_proxies;
use super::raw::{Period, Raw, RawAccessLog, RawAdmin, RawFormat, RawLimits, RawOtherReading, RawTimeouts};
use super::resolver::{HEAD_BYTES_MAX, PERIOD_MAX, Resolver};
use super::{AccessLogConfig, AdminConfig, Config, Failure, ListenerConfig, is_listed};
use certificates::check_certificates;
use listeners::{check_redirects, resolve_listener, resolve_listeners};
use policies::{ResolvedPolicies, resolve_policies};
use rewrite::resolve_forwards;
use routes::{Known, resolve_routes};
use upstreams::resolve_upstreams;
use usage::{AboutRequests, check_usage};

/// Resolves `raw`, which `source` says.
///
/// # Errors
/// All that is wrong, not only what comes first.
pub(super) fn resolve(raw: Raw, source: Source) -> Result<Config, Failure> {
    let mut resolver = Resolver { source: &source, failures: Vec::new(), acme: None };
    let places = Places::of(&raw);
    let workers = resolver.count(raw.workers, 1..=1024);
    let connections_max = resolver.count(raw.connections_max, 1..=10_000_000);
    let forwards = resolve_forwards(&mut resolver, &raw.upstreams);
    let about_requests = AboutRequests::of(&raw.upstreams);
    let required = raw.upstreams.iter().filter(|(_, raw)| raw.get_ref().required_for_ready == Some(true));
    let required_for_ready = required.map(|(name, _)| name.clone()).collect();
    let upstreams = resolve_upstreams(&mut resolver, raw.upstreams);
    let acme_span = raw.acme.as_ref().map(|acme| acme.span());
    resolver.acme = raw.acme.and_then(|acme| resolve_acme(&mut resolver, acme));
    let listeners = resolve_listeners(&mut resolver, raw.listeners, &upstreams);
    check_challenge(&mut resolver, acme_span.as_ref(), &listeners);
    let admin = raw.admin.and_then(|admin| resolve_admin(&mut resolver, &admin, &listeners));
    let asking_for_certificates = certificates::asking_for_certificates(&raw.policies);
    let policies = resolve_policies(&mut resolver, raw.policies);
    // Streams have no routes, and neither have requests that are redirected to https.
    let needs_routes = listeners.is_empty() || listeners.iter().any(ListenerConfig::has_routes);
    check_redirects(&mut resolver, &listeners, !raw.routes.is_empty());
    let compression = raw.compression.and_then(|compression| resolve_compression(&mut resolver, compression));
    let known = Known { upstreams: &upstreams, policies: &policies, compression: compression.as_ref() };
    let routes = resolve_routes(&mut resolver, raw.routes, known, needs_routes);
    let access_log = raw.access_log.map(|log| resolve_access_log(&resolver, log, &policies));
    let trusted_proxies =
        resolve_trusted_proxies(&mut resolver, &raw.trusted_proxies, raw.trusted_proxies_write);
    let server = resolve_server(&mut resolver, raw.limits, raw.timeouts, trusted_proxies);
    if resolver.failures.is_empty() {
        check_usage(&mut resolver, about_requests, &listeners, &routes);
        check_certificates(&mut resolver, asking_for_certificates, &listeners, &routes);
    }
    let acme = resolver.acme.take();
    match Failure::all(resolver.failures) {
        Some(failure) => Err(failure),
        None => Ok(Config {
            listeners,
            routes,
            upstreams,
            forwards,
            required_for_ready,
            readings: PathReadings {
                encoded_slashes: other_reading(raw.encoded_slashes),
                parameters: other_reading(raw.path_parameters),
            },
            policies: policies.into_iter().filter_map(|(name, policy)| Some((name, policy?))).collect(),
            acme,
            admin,
            access_log,
            workers,
            connections_max,
            batch_sends: raw.batch_sends.unwrap_or(true),
            server,
            source: Some(source),
            places,
        }),
    }
}

const fn other_reading(raw: RawOtherReading) -> OtherReading {
    match raw {
        RawOtherReading::Guard => OtherReading::Guard,
        RawOtherReading::Keep => OtherReading::Keep,
        RawOtherReading::Reject => OtherReading::Reject,
    }
}

fn resolve_admin(
    resolver: &mut Resolver<'_>,
    raw: &RawAdmin,
    listeners: &[ListenerConfig],
) -> Option<AdminConfig> {
    let address = match raw.address.get_ref().parse() {
        Ok(address) => resolve_listener(resolver, address),
        Err(error) => {
            resolver.refuse_with(&raw.address, error, InvalidListenAddr::HINT);
            return None;
        }
    };
    if is_listed(listeners.iter().map(ListenerConfig::address), &address) {
        resolver.refuse_with(&raw.address, format!("`{address}` is listened on already"), OWN_ADDRESS_HINT);
    }
    let is_remote = matches!(&address, ListenAddr::Tcp(address) if !address.ip().is_loopback());
    if is_remote && !raw.allow_remote {
        resolver.refuse_with(&raw.address, format!("`{address}` is not of this machine only"), REMOTE_HINT);
    }
    Some(AdminConfig { address, allow_remote: raw.allow_remote })
}

fn resolve_access_log(
    resolver: &Resolver<'_>,
    raw: RawAccessLog,
    policies: &ResolvedPolicies,
) -> AccessLogConfig {
    let format = match raw.format {
        RawFormat::Common => AccessLogFormat::Common,
        RawFormat::Combined => AccessLogFormat::Combined,
        RawFormat::Json => AccessLogFormat::Json,
    };
    let (target, span) = match raw.path {
        Some(path) if path.get_ref() != Path::new("-") => {
            (AccessLogTarget::File(resolver.beside_config(path.get_ref())), path.span())
        }
        _ => (AccessLogTarget::Stdout, 0..0),
    };
    // Whatever the route of a request is: a client may send its key to another one.
    let keys = policies.values().flatten().filter_map(PolicyConfig::key_parameter);
    let masked_parameters = keys.map(str::to_owned).collect();
    AccessLogConfig { lines: AccessLogLines { format, masked_parameters }, target, span }
}

fn resolve_server(
    resolver: &mut Resolver<'_>,
    raw: RawLimits,
    timeouts: RawTimeouts,
    trusted_proxies: TrustedProxies,
) -> thruway_server::Config {
    let thruway_server::Config {
        limits,
        pipelined_requests,
        output_bytes,
        content_window_bytes,
        discard_bytes,
        http2,
        timeouts: default_timeouts,
        ..
    } = thruway_server::Config::default();
    let most = HEAD_BYTES_MAX;
    thruway_server::Config {
        limits: Limits {
            request_target_bytes: resolver.or(
                raw.request_target_bytes,
                limits.request_target_bytes,
                16..=most,
            ),
            header_section_bytes: resolver.or(
                raw.header_section_bytes,
                limits.header_section_bytes,
                64..=most,
            ),
            field_lines: resolver.or(raw.field_lines, limits.field_lines, 1..=10_000),
            content_bytes: raw.content_bytes.unwrap_or(limits.content_bytes),
            chunk_extension_bytes: resolver.or(
                raw.chunk_extension_bytes,
                limits.chunk_extension_bytes,
                0..=most,
            ),
            trailer_section_bytes: resolver.or(
                raw.trailer_section_bytes,
                limits.trailer_section_bytes,
                2..=most,
            ),
            requests_per_connection: raw.requests_per_connection.unwrap_or(limits.requests_per_connection),
            ..limits
        },
        pipelined_requests: resolver.or(raw.pipelined_requests, pipelined_requests, 1..=10_000),
        output_bytes: resolver.or(raw.output_bytes, output_bytes, BUFFER_BYTES),
        content_window_bytes: resolver.or(raw.content_window_bytes, content_window_bytes, BUFFER_BYTES),
        discard_bytes: raw.discard_bytes.unwrap_or(discard_bytes),
        http2: Http2Limits {
            concurrent_streams: resolver.or(raw.concurrent_streams, http2.concurrent_streams, 1..=10_000),
            stream_window_bytes: resolver.or(
                raw.stream_window_bytes,
                http2.stream_window_bytes,
                1024..=(1 << 30),
            ),
            ..http2
        },
        trusted_proxies,
        timeouts: resolve_timeouts(resolver, timeouts, default_timeouts),
    }
}

fn resolve_timeouts(resolver: &mut Resolver<'_>, raw: RawTimeouts, default: Timeouts) -> Timeouts {
    let mut or = |period, default, least| resolver.or(period, Period(default), Period(least)..=PERIOD_MAX).0;
    let (some, none) = (Duration::from_millis(1), Duration::ZERO);
    Timeouts {
        header_section: or(raw.header_section, default.header_section, some),
        content: or(raw.content, default.content, some),
        content_rate_min: raw.content_rate_min.map_or(default.content_rate_min, NonZeroU64::get),
        idle: or(raw.idle, default.idle, some),
        half_closed: or(raw.half_closed, default.half_closed, none),
        write_stall: or(raw.write_stall, default.write_stall, some),
        linger: or(raw.linger, default.linger, none),
        drain: or(raw.drain, default.drain, none),
    }
}

const OWN_ADDRESS_HINT: &str =
    "requests to the admin listener are told from others by its address: give it its own";
const REMOTE_HINT: &str = "whoever reaches it may reload the config and disable servers: write `127.0.0.1:PORT` or `unix:PATH`, or, \
                           if nobody else can get there, `allow_remote = true`";

const BUFFER_BYTES: RangeInclusive<usize> = 1 << 10..=1 << 30;
