//! Errors of operations.

use std::error::Error;
use std::fmt;

/// Reason why an operation failed. After [`Timeout`](Self::Timeout), the store may still perform the operation.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to the store. The operation was not sent.
    Unavailable,
    /// The store did not respond in time.
    Timeout,
    /// Too many operations wait for the store. The operation was not sent.
    Busy,
    /// The store has no memory left for this operation.
    Full,
    /// The key, the value or the number of members is above its maximum.
    TooLarge,
    /// The key contains a value that this version does not understand.
    UnknownFormat,
    /// The store rejected the operation. The text contains no credentials and no values.
    Rejected(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable => f.write_str("there is no connection to the shared store"),
            Self::Timeout => f.write_str("the shared store did not respond in time"),
            Self::Busy => f.write_str("too many operations wait for the shared store"),
            Self::Full => f.write_str("the shared store has no memory left"),
            Self::TooLarge => f.write_str("the value is too large for the shared store"),
            Self::UnknownFormat => f.write_str("the value in the shared store has an unknown format"),
            Self::Rejected(reason) => write!(f, "the shared store rejected an operation: {reason}"),
        }
    }
}

impl Error for StoreError {}
