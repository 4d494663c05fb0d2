//! Valid and invalid messages with their expected results: one table for several tests.

// requests
mod request_line;
mod field_lines;
mod request_body;
mod chunked;
mod request_connection;

// responses
mod status_line;
mod response_body;
mod response_connection;

use thruway_http1::{Error, Limits, ResponseTo};
use thruway_testkit::transcript::Reader;

/// An input, and the expected transcript. The end of the stream follows the input.
pub(crate) struct Sample {
    /// The special property of the sample.
    pub(crate) name: &'static str,
    pub(crate) reader: Reader,
    pub(crate) limits: Limits,
    pub(crate) input: Vec<u8>,
    /// The lines of a [`Transcript`](thruway_testkit::transcript::Transcript).
    pub(crate) transcript: Vec<String>,
}

/// Returns all samples.
pub(crate) fn all() -> Vec<Sample> {
    [
        request_line::samples(),
        field_lines::samples(),
        request_body::samples(),
        chunked::samples(),
        request_connection::samples(),
        status_line::samples(),
        response_body::samples(),
        response_connection::samples(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Sample {
    fn requests(name: &'static str, input: impl Into<Vec<u8>>, transcript: &[&str]) -> Self {
        Self {
            name,
            reader: Reader::Server { declines_tunnels: true },
            limits: Limits::default(),
            input: input.into(),
            transcript: transcript.iter().map(ToString::to_string).collect(),
        }
    }

    fn responses(
        name: &'static str,
        requests: &[ResponseTo],
        input: impl Into<Vec<u8>>,
        transcript: &[&str],
    ) -> Self {
        Self {
            reader: Reader::Client(requests.iter().map(|to| (*to, false)).collect()),
            ..Self::requests(name, input, transcript)
        }
    }

    fn refused_request(name: &'static str, input: impl Into<Vec<u8>>, error: Error) -> Self {
        Self::requests(name, input, &[&refused(error)])
    }

    fn refused_response(name: &'static str, input: impl Into<Vec<u8>>, error: Error) -> Self {
        Self::responses(name, &[ResponseTo::Other], input, &[&refused(error)])
    }

    fn with(mut self, set: impl FnOnce(&mut Limits)) -> Self {
        set(&mut self.limits);
        self
    }

    fn read_by(mut self, reader: Reader) -> Self {
        self.reader = reader;
        self
    }
}

fn refused(error: Error) -> String {
    format!("refused: {error:?}")
}
