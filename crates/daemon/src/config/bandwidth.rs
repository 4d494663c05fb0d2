//! The key `bandwidth` of routes: the rate of response bodies.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::layers::Bandwidth;

use super::resolver::Resolver;
use super::values::Spanned;

/// The rate at which Thruway sends the body of each response.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBandwidth {
    /// Maximum number of bytes per second of each response, 1024 to 1000000000000. Responses of the same client do not
    /// share the rate. Combine this key with a `concurrency` policy to limit a client.
    bytes_per_second: Spanned<u64>,
    /// Number of bytes at the start of each body that Thruway sends without a limit, 0 to 1000000000000. Default: 0.
    after_bytes: Option<Spanned<u64>>,
}

pub(super) fn resolve_bandwidth(resolver: &mut Resolver<'_>, raw: RawBandwidth) -> Bandwidth {
    let RawBandwidth { bytes_per_second, after_bytes } = raw;
    let min = Bandwidth::BYTES_PER_SECOND_MIN;
    let bytes_per_second = resolver.or(Some(bytes_per_second), min, min..=BYTES_MAX);
    Bandwidth::new(bytes_per_second).after(resolver.or(after_bytes, 0, 0..=BYTES_MAX))
}

const BYTES_MAX: u64 = 1_000_000_000_000;
