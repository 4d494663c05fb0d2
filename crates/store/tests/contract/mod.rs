//! Tests that each store must pass. A test program passes a macro to [`with_all!`].

pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod values;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thruway_store::StoreKey;

/// Calls the macro `$each` with all functions of the contract.
macro_rules! with_all {
    ($each:ident $arguments:tt) => {
        $each! { $arguments
            values: a_value_expires, a_value_is_set_once, removed_values_are_gone, members_expire_separately,
                sets_have_a_maximum, large_values_are_refused,
                large_logs_and_sets_are_not_returned_at_once, other_kinds_of_values_are_refused,
                a_log_keeps_the_newest_entries, readers_of_a_log_notice_missing_entries,
                subscribers_receive_messages_of_their_channel;
            limits: a_bucket_grants_its_burst_and_then_its_rate, returned_tokens_are_granted_again, spent_tokens_become_debt_of_the_bucket,
                many_callers_get_no_more_than_the_bucket, a_bucket_reports_the_time_to_the_next_token,
                a_counter_stops_at_its_maximum, a_counter_expires_from_its_first_addition,
                owners_share_slots, an_owner_without_renewal_loses_its_slots;
            locks: only_one_owner_has_a_lock, a_lock_expires_and_its_number_is_too_old,
                a_renewed_lock_lasts_longer, older_writers_are_refused;
        }
    };
}
pub(crate) use with_all;

/// Returns a key that no other test uses.
pub(crate) fn key(kind: &'static str) -> StoreKey {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    StoreKey::new(kind, &format!("{}-{number}", std::process::id()))
}

pub(crate) fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
