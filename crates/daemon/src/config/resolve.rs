//! From what the file says to what is to be done.

mod acme;
mod compression;
mod listeners;
mod networks;
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

use std::fmt;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thruway_certificates::acme::Wanted;
use thruway_gateway::{OtherReading, PathReadings, PolicyConfig};
use thruway_server::{
    AccessLogFormat, AccessLogLines, AccessLogTarget, Http2Limits, InvalidListenAddr, Limits, ListenAddr,
    Timeouts, TrustedProxies,
};

use super::failure::Source;
use super::places::Places;
use super::raw::{Period, Raw, RawAccessLog, RawAdmin, RawFormat, RawLimits, RawOtherReading, RawTimeouts};
use super::spanned::Spanned;
use super::{AccessLogConfig, AdminConfig, Config, Failure, ListenerConfig, Span, is_listed};
use policies::ResolvedPolicies;
use routes::Known;
use usage::AboutRequests;

/// Resolves `raw`, which `source` says.
///
/// # Errors
/// All that is wrong, not only what comes first.
pub(super) fn resolve(raw: Raw, source: Source) -> Result<Config, Failure> {
    let mut resolver = Resolver { source: &source, failures: Vec::new(), acme: None };
    let places = Places::of(&raw);
    let workers = resolver.count(raw.workers, 1..=1024);
    let connections_max = resolver.count(raw.connections_max, 1..=10_000_000);
    let forwards = resolver.forwards(&raw.upstreams);
    let about_requests = AboutRequests::of(&raw.upstreams);
    let required = raw.upstreams.iter().filter(|(_, raw)| raw.get_ref().required_for_ready == Some(true));
    let required_for_ready = required.map(|(name, _)| name.clone()).collect();
    let upstreams = resolver.upstreams(raw.upstreams);
    let acme_span = raw.acme.as_ref().map(|acme| acme.span());
    resolver.acme = raw.acme.and_then(|acme| resolver.acme(acme));
    let listeners = resolver.listeners(raw.listeners, &upstreams);
    resolver.check_challenge(acme_span.as_ref(), &listeners);
    let admin = raw.admin.and_then(|admin| resolver.admin(&admin, &listeners));
    let asking_for_certificates = certificates::asking_for_certificates(&raw.policies);
    let policies = resolver.policies(raw.policies);
    // Streams have no routes, and neither have requests that are redirected to https.
    let needs_routes = listeners.is_empty() || listeners.iter().any(ListenerConfig::has_routes);
    resolver.check_redirects(&listeners, !raw.routes.is_empty());
    let compression = raw.compression.and_then(|compression| resolver.compression(compression));
    let known = Known { upstreams: &upstreams, policies: &policies, compression: compression.as_ref() };
    let routes = resolver.routes(raw.routes, known, needs_routes);
    let access_log = raw.access_log.map(|log| resolver.access_log(log, &policies));
    let trusted_proxies = resolver.trusted_proxies(&raw.trusted_proxies, raw.trusted_proxies_write);
    let server = resolver.server(raw.limits, raw.timeouts, trusted_proxies);
    if resolver.failures.is_empty() {
        resolver.check_usage(about_requests, &listeners, &routes);
        resolver.check_certificates(asking_for_certificates, &listeners, &routes);
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

/// Resolves the parts of one file. What is wrong is kept, and stands in for something right.
struct Resolver<'s> {
    source: &'s Source,
    failures: Vec<Failure>,
    /// From whom certificates are ordered, and those that are met on the way.
    acme: Option<Wanted>,
}

impl Resolver<'_> {
    fn admin(&mut self, raw: &RawAdmin, listeners: &[ListenerConfig]) -> Option<AdminConfig> {
        let address = match raw.address.get_ref().parse() {
            Ok(address) => self.listener(address),
            Err(error) => {
                self.refuse_with(&raw.address, error, InvalidListenAddr::HINT);
                return None;
            }
        };
        if is_listed(listeners.iter().map(ListenerConfig::address), &address) {
            self.refuse_with(&raw.address, format!("`{address}` is listened on already"), OWN_ADDRESS_HINT);
        }
        let is_remote = matches!(&address, ListenAddr::Tcp(address) if !address.ip().is_loopback());
        if is_remote && !raw.allow_remote {
            self.refuse_with(&raw.address, format!("`{address}` is not of this machine only"), REMOTE_HINT);
        }
        Some(AdminConfig { address, allow_remote: raw.allow_remote })
    }

    fn access_log(&self, raw: RawAccessLog, policies: &ResolvedPolicies) -> AccessLogConfig {
        let format = match raw.format {
            RawFormat::Common => AccessLogFormat::Common,
            RawFormat::Combined => AccessLogFormat::Combined,
            RawFormat::Json => AccessLogFormat::Json,
        };
        let (target, span) = match raw.path {
            Some(path) if path.get_ref() != Path::new("-") => {
                (AccessLogTarget::File(self.beside_config(path.get_ref())), path.span())
            }
            _ => (AccessLogTarget::Stdout, 0..0),
        };
        // Whatever the route of a request is: a client may send its key to another one.
        let keys = policies.values().flatten().filter_map(PolicyConfig::key_parameter);
        let masked_parameters = keys.map(str::to_owned).collect();
        AccessLogConfig { lines: AccessLogLines { format, masked_parameters }, target, span }
    }

    fn server(
        &mut self,
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
                request_target_bytes: self.or(
                    raw.request_target_bytes,
                    limits.request_target_bytes,
                    16..=most,
                ),
                header_section_bytes: self.or(
                    raw.header_section_bytes,
                    limits.header_section_bytes,
                    64..=most,
                ),
                field_lines: self.or(raw.field_lines, limits.field_lines, 1..=10_000),
                content_bytes: raw.content_bytes.unwrap_or(limits.content_bytes),
                chunk_extension_bytes: self.or(
                    raw.chunk_extension_bytes,
                    limits.chunk_extension_bytes,
                    0..=most,
                ),
                trailer_section_bytes: self.or(
                    raw.trailer_section_bytes,
                    limits.trailer_section_bytes,
                    2..=most,
                ),
                requests_per_connection: raw
                    .requests_per_connection
                    .unwrap_or(limits.requests_per_connection),
                ..limits
            },
            pipelined_requests: self.or(raw.pipelined_requests, pipelined_requests, 1..=10_000),
            output_bytes: self.or(raw.output_bytes, output_bytes, BUFFER_BYTES),
            content_window_bytes: self.or(raw.content_window_bytes, content_window_bytes, BUFFER_BYTES),
            discard_bytes: raw.discard_bytes.unwrap_or(discard_bytes),
            http2: Http2Limits {
                concurrent_streams: self.or(raw.concurrent_streams, http2.concurrent_streams, 1..=10_000),
                stream_window_bytes: self.or(
                    raw.stream_window_bytes,
                    http2.stream_window_bytes,
                    1024..=(1 << 30),
                ),
                ..http2
            },
            trusted_proxies,
            timeouts: self.timeouts(timeouts, default_timeouts),
        }
    }

    fn timeouts(&mut self, raw: RawTimeouts, default: Timeouts) -> Timeouts {
        let mut or = |period, default, least| self.or(period, Period(default), Period(least)..=PERIOD_MAX).0;
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

    fn or<T>(&mut self, raw: Option<Spanned<T>>, default: T, range: RangeInclusive<T>) -> T
    where
        T: PartialOrd + fmt::Display,
    {
        let Some(value) = raw else { return default };
        if !range.contains(value.get_ref()) {
            self.refuse(&value, format!("the value must be from {} to {}", range.start(), range.end()));
        }
        value.into_inner()
    }

    fn count(&mut self, raw: Option<Spanned<u64>>, range: RangeInclusive<u64>) -> Option<usize> {
        raw.and_then(|value| usize::try_from(self.or(Some(value), 0, range)).ok())
    }

    /// What has no name cannot be spoken of: in logs, metrics and towards those who operate it.
    fn check_name(&mut self, name: &str, span: &Span, what: &str) {
        if name.trim().is_empty() {
            self.refuse_at(span, format!("{what} has a name"));
        }
    }

    /// A list that says nothing is not what leaving it out is.
    fn refuse_empty<T>(&mut self, list: &Spanned<Vec<T>>, message: &str, hint: &str) {
        if list.get_ref().is_empty() {
            self.refuse_with(list, message, hint);
        }
    }

    fn refuse<T>(&mut self, at: &Spanned<T>, message: impl fmt::Display) {
        self.refuse_at(&at.span(), message);
    }

    fn refuse_with<T>(&mut self, at: &Spanned<T>, message: impl fmt::Display, hint: &str) {
        self.failures.push(self.source.failure(at.span(), message).with_hint(hint));
    }

    fn refuse_at(&mut self, span: &Span, message: impl fmt::Display) {
        self.failures.push(self.source.failure(span.clone(), message));
    }

    /// Relative paths start where the config is, wherever the command was called.
    fn beside_config(&self, path: &Path) -> PathBuf {
        self.source.path.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }
}

const OWN_ADDRESS_HINT: &str =
    "requests to the admin listener are told from others by its address: give it its own";
const REMOTE_HINT: &str = "whoever reaches it may reload the config and disable servers: write `127.0.0.1:PORT` or `unix:PATH`, or, \
                           if nobody else can get there, `allow_remote = true`";

/// 1 MiB: see `Limits::header_section_bytes` for why not more.
const HEAD_BYTES_MAX: u32 = 1 << 20;
const BUFFER_BYTES: RangeInclusive<usize> = 1 << 10..=1 << 30;
const PERIOD_MAX: Period = Period(Duration::from_hours(24));
