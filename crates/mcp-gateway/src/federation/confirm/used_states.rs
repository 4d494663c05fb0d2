//! The confirmations that clients have used. Each confirmation permits only one call.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use thruway_mcp::json_rpc::Error;

/// The identifiers of used states that have not expired yet, with their expiry times.
#[derive(Default, Debug)]
pub(in crate::federation) struct UsedStates(Mutex<HashMap<Box<str>, u64>>);

impl UsedStates {
    /// Marks a state as used. `expires` and `now` are in seconds since the Unix epoch.
    ///
    /// # Errors
    /// The state was used before, or there are too many used states.
    pub(super) fn take(&self, id: &str, expires: u64, now: u64) -> Result<(), Error> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(id) {
            return Err(Error::invalid_params(
                "`requestState` was used before: repeat the request without it",
            ));
        }
        if used.len() >= USED_MAX {
            used.retain(|_, expires| *expires >= now);
        }
        if used.len() >= USED_MAX {
            return Err(Error::internal("too many confirmed calls: try again later"));
        }
        used.insert(id.into(), expires);
        Ok(())
    }
}

/// Maximum number of stored identifiers. They need about 6 MiB.
const USED_MAX: usize = 50_000;

#[cfg(test)]
mod tests {
    use thruway_mcp::json_rpc::ErrorCode;

    use super::*;

    #[test]
    fn state_can_be_used_once() {
        let used = UsedStates::default();
        assert_eq!(used.take("a", 10, 5), Ok(()));
        assert_eq!(used.take("a", 10, 5).unwrap_err().code, ErrorCode::INVALID_PARAMS);
        assert_eq!(used.take("b", 10, 5), Ok(()));
    }

    #[test]
    fn number_of_used_states_is_bounded() {
        let used = UsedStates::default();
        for id in 0..USED_MAX {
            assert_eq!(used.take(&id.to_string(), 10, 5), Ok(()));
        }
        assert_eq!(used.take("next", 10, 10).unwrap_err().code, ErrorCode::INTERNAL_ERROR);
        assert_eq!(used.take("next", 20, 11), Ok(()));
        assert_eq!(used.take("next", 20, 11).unwrap_err().code, ErrorCode::INVALID_PARAMS);
    }
}
