//! Tests of timeouts of upstreams and routes.

use std::time::Duration;

use thruway_client::{Config as ExchangeConfig, PoolConfig, Timeouts};
use thruway_gateway::{ForwardTimeouts, UpstreamConfig};

use super::*;

/// Resolves a route with the keys `route` to an upstream with the keys `upstream`.
fn config(route: &str, upstream: &str) -> Result<Config, String> {
    let text = format!(
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\n{route}\n\
         [upstreams.a]\nservers = [\"127.0.0.1:1\"]\n{upstream}\n"
    );
    resolved(&text).map_err(|failure| failure.to_string())
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn upstream_timeouts_limits_and_pool_settings_are_applied() {
    let keys = "response_header_timeout = \"1s\"\nbody_idle_timeout = \"2s\"\nevent_stream_idle_timeout = \"3s\"\n\
                write_stall_timeout = \"4s\"\ntotal_timeout = \"5s\"\nresponse_header_bytes = 6000\n\
                response_headers = 7\npool = { per_server_max = 0, connections_max = 9, idle_timeout = \"10s\" }";
    let config = config("upstream = \"a\"", keys).unwrap().upstreams.remove("a").unwrap();
    let UpstreamConfig { exchange, event_stream_idle, pool, .. } = config;
    let ExchangeConfig { limits, timeouts } = exchange;
    let expected = Timeouts {
        head: seconds(1),
        content_idle: seconds(2),
        write_stall: seconds(4),
        total: Some(seconds(5)),
        ..Timeouts::default()
    };
    assert_eq!((timeouts, event_stream_idle), (expected, seconds(3)));
    assert_eq!((limits.header_section_bytes, limits.field_lines), (6_000, 7));
    assert_eq!(limits.content_bytes, u64::MAX, "the body size is not limited");
    assert_eq!(pool, PoolConfig { idle_per_address_max: 0, idle_max: 9, idle: seconds(10) });
}

#[test]
fn route_timeouts_override_upstream_timeouts() {
    let keys = "upstream = \"a\"\nresponse_header_timeout = \"1s\"\nbody_idle_timeout = \"2s\"\n\
                event_stream_idle_timeout = \"3s\"\ntotal_timeout = \"4s\"";
    let config = config(keys, "").unwrap();
    let Action::Forward(action) = &config.routes[0].action else { panic!("the action does not forward") };
    let [head, content_idle, event_stream_idle, total] = [1, 2, 3, 4].map(|n| Some(seconds(n)));
    let expected = ForwardTimeouts { head, content_idle, event_stream_idle, total };
    assert_eq!(action.timeouts, expected);
}

#[test]
fn invalid_timeouts_and_limits_are_errors() {
    for (route, upstream, message) in [
        ("demo = true\nresponse_header_timeout = \"1s\"", "", "this key requires `split` or `upstream`"),
        ("demo = true\ntotal_timeout = \"1s\"", "", "this key requires `split` or `upstream`"),
        ("upstream = \"a\"\nresponse_header_timeout = \"0s\"", "", "the value must be from 1ms to 24h"),
        ("upstream = \"a\"", "total_timeout = \"25h\"", "the value must be from 1ms to 24h"),
        ("upstream = \"a\"", "body_idle_timeout = 5", "durations need a unit: `\"5s\"`"),
        ("upstream = \"a\"", "response_header_bytes = 63", "the value must be from 64 to 1048576"),
        ("upstream = \"a\"", "pool.idle = \"1s\"", "unknown key `idle`"),
    ] {
        let failure = config(route, upstream).err().unwrap();
        assert!(failure.contains(message), "{failure}");
    }
    let only_streams = "[[listeners]]\naddress = \"127.0.0.1:1\"\ntcp = \"a\"\n\
                        [upstreams.a]\nservers = [\"127.0.0.1:1\"]\ntotal_timeout = \"1s\"\n";
    let failure = resolved(only_streams).err().unwrap().to_string();
    assert!(failure.contains("`total_timeout` applies to HTTP requests"), "{failure}");
}
