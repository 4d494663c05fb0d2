//! Arguments and results of operations.

use std::time::Duration;

use bytes::Bytes;

/// Takes tokens from a bucket that all gateways share. All callers with the same key must use the same `rate`,
/// `per` and `burst`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenRequest {
    /// Number of tokens that the bucket gets in each period `per`. Must not be zero.
    pub rate: u64,
    /// Length of the period. Must not be zero.
    pub per: Duration,
    /// Maximum number of tokens in the bucket. A new bucket is full.
    pub burst: u64,
    /// Number of tokens to take, at most. Zero only returns tokens.
    pub wanted: u64,
    /// Tokens of earlier grants that the caller returns first.
    pub returned: u64,
    /// Tokens that the caller has already used without a grant. The store removes them before the grant, even if
    /// the bucket does not contain them. The bucket then has debt, at most ten times `burst`.
    pub spent: u64,
}

/// Result of [`Store::take_tokens`](crate::Store::take_tokens).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenGrant {
    /// Number of tokens that the caller may use, at most the wanted number.
    pub granted: u64,
    /// Number of whole tokens that remain in the bucket.
    pub left: u64,
    /// Time until the bucket contains a token again. Zero if it contains one now.
    pub next_after: Duration,
}

/// Adds to a counter, as for a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddRequest {
    /// Amount to add. If it does not fit below `max`, the store adds the part that fits.
    pub amount: u64,
    /// Maximum of the counter, at most 2^53.
    pub max: u64,
    /// Lifetime of the counter. It begins with the first addition, and later additions do not change it.
    pub ttl: Duration,
}

/// Result of [`Store::add`](crate::Store::add).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Added {
    /// The amount that the store added.
    pub added: u64,
    /// The new value of the counter.
    pub total: u64,
}

/// Requests a part of a shared capacity, such as the number of concurrent requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseRequest<'a> {
    /// Name of the gateway that gets the part.
    pub owner: &'a str,
    /// Number of slots that the owner wants to have in total, with the slots that it already has.
    pub wanted: u64,
    /// Number of slots of all owners together. All callers with the same key must use the same number.
    pub max: u64,
    /// Time after which the owner loses its slots if it does not repeat the request.
    pub ttl: Duration,
}

/// Result of [`Store::lease`](crate::Store::lease).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseGrant {
    /// Number of slots that the owner has now, in total.
    pub granted: u64,
    /// Number of slots that all owners have now.
    pub total: u64,
    /// Number of owners with slots.
    pub owners: u64,
}

/// Number of an acquired lock. Each acquisition of a lock has a higher number than the acquisitions before it.
/// [`Store::set_fenced`](crate::Store::set_fenced) rejects writers with an older number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence(pub u64);

/// Entries of a log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LogPage {
    /// Positions and contents, in order. The position of the last entry is the argument for the next page.
    pub entries: Vec<(u64, Bytes)>,
    /// `true` if no entry is missing between the requested position and the first entry of this page. `false`
    /// also if the log has expired.
    pub is_complete: bool,
}

/// Maximum number of bytes of a value.
pub(crate) const VALUE_MAX: usize = 1 << 20;

/// Maximum number of bytes of the entries or members that one operation returns. A larger reply could exceed the limit
/// for the replies of Redis.
pub(crate) const PAGE_BYTES_MAX: usize = 6 << 20;
