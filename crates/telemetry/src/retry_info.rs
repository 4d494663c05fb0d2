//! The time after which a gRPC server permits a retry: `google.rpc.RetryInfo` in the details of a status.

use std::time::Duration;

use crate::protobuf::{Field, read_field};

/// Returns the delay in a `google.rpc.Status` with a `RetryInfo`. `details` is the decoded value of the trailer
/// `grpc-status-details-bin`. Returns `None` without a valid `RetryInfo`.
pub fn retry_delay(details: &[u8]) -> Option<Duration> {
    let retry_info = fields(details).filter(|(number, _)| *number == DETAILS).find_map(|(_, detail)| {
        let Field::Bytes(any) = detail else { return None };
        let is_retry_info = bytes_of(any, TYPE_URL)?.ends_with(b"/google.rpc.RetryInfo");
        bytes_of(any, VALUE).filter(|_| is_retry_info)
    })?;
    let delay = bytes_of(retry_info, RETRY_DELAY)?;
    let number = |wanted| {
        fields(delay).find_map(|(number, field)| match field {
            Field::Integer(value) if number == wanted => Some(value),
            _ => None,
        })
    };
    let nanos =
        u32::try_from(number(NANOS).unwrap_or_default()).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    // Negative times are large numbers in this encoding.
    let seconds = number(SECONDS).unwrap_or_default();
    i64::try_from(seconds).is_ok().then(|| Duration::new(seconds, nanos))
}

fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let (number, field, rest) = read_field(message)?;
        message = rest;
        Some((number, field))
    })
}

fn bytes_of(message: &[u8], wanted: u64) -> Option<&[u8]> {
    fields(message).find_map(|(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    })
}

/// `google.rpc.Status.details`.
const DETAILS: u64 = 3;

/// `google.protobuf.Any.type_url`.
const TYPE_URL: u64 = 1;

/// `google.protobuf.Any.value`.
const VALUE: u64 = 2;

/// `google.rpc.RetryInfo.retry_delay`.
const RETRY_DELAY: u64 = 1;

/// `google.protobuf.Duration.seconds`.
const SECONDS: u64 = 1;

/// `google.protobuf.Duration.nanos`.
const NANOS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{write_bytes, write_message, write_varint};

    fn write_integer(output: &mut Vec<u8>, field: u64, value: u64) {
        write_varint(output, field << 3);
        write_varint(output, value);
    }

    /// Returns a status with a detail of the type `name`.
    fn status(name: &str, seconds: u64, nanos: u64) -> Vec<u8> {
        let mut status = Vec::new();
        write_integer(&mut status, 1, 8);
        write_bytes(&mut status, 2, b"full");
        for name in ["google.rpc.ErrorInfo", name] {
            write_message(&mut status, 3, |any| {
                write_bytes(any, 1, format!("type.googleapis.com/{name}").as_bytes());
                write_message(any, 2, |info| {
                    write_message(info, 1, |delay| {
                        write_integer(delay, 1, seconds);
                        write_integer(delay, 2, nanos);
                    });
                });
            });
        }
        status
    }

    #[test]
    fn delay_of_retry_info_is_found_among_other_details() {
        let name = "google.rpc.RetryInfo";
        assert_eq!(retry_delay(&status(name, 7, 500_000_000)), Some(Duration::from_millis(7500)));
        assert_eq!(retry_delay(&status(name, 0, 0)), Some(Duration::ZERO));
        for (other, seconds, nanos) in
            [("google.rpc.Help", 7, 0), (name, 7, 1_000_000_000), (name, u64::MAX, 0), (name, 7, u64::MAX)]
        {
            assert_eq!(retry_delay(&status(other, seconds, nanos)), None);
        }
    }

    #[test]
    fn malformed_status_has_no_delay() {
        let whole = status("google.rpc.RetryInfo", 7, 1);
        for length in 0..whole.len() {
            assert_eq!(retry_delay(&whole[..length]), None, "{length}");
        }
        assert_eq!(retry_delay(b"<html>"), None);
    }
}
