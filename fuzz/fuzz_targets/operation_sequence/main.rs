//! Operations on a client or server connection, in any order: the state of the connection must agree with a
//! model.
#![no_main]

mod client;
mod server;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input {
    Server { limits: SmallLimits, operations: Vec<server::Operation> },
    Client { limits: SmallLimits, operations: Vec<client::Operation> },
}

/// Limits that are so small that inputs often exceed them.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct SmallLimits {
    content_bytes: u8,
    interim_responses: u8,
    requests_per_connection: u8,
}

impl From<SmallLimits> for thruway_http1::Limits {
    fn from(small: SmallLimits) -> Self {
        Self {
            content_bytes: small.content_bytes.into(),
            interim_responses: small.interim_responses.into(),
            requests_per_connection: small.requests_per_connection.into(),
            ..Self::default()
        }
    }
}

fuzz_target!(|input: Input| {
    match input {
        Input::Server { limits, operations } => {
            let whole = server::run(limits.into(), &operations, usize::MAX);
            assert_eq!(whole, server::run(limits.into(), &operations, 1), "{operations:?}");
        }
        Input::Client { limits, operations } => {
            let whole = client::run(limits.into(), &operations, usize::MAX);
            assert_eq!(whole, client::run(limits.into(), &operations, 1), "{operations:?}");
        }
    }
});
