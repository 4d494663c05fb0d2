//! Errors of the client, as errors of the store.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::error::StoreError;

/// Consequence of a failed command.
pub(super) struct Failure {
    /// The error for the caller.
    pub(super) error: StoreError,
    /// Reason to connect again, if the connection is of no use.
    pub(super) lost: Option<String>,
}

impl Failure {
    pub(super) fn of(error: &RedisError) -> Self {
        let reason = describe(error);
        if is_lost(error) {
            return Self { error: StoreError::Unavailable, lost: Some(reason) };
        }
        Self { error: classify(error, reason), lost: None }
    }
}

fn classify(error: &RedisError, reason: String) -> StoreError {
    let text = error.detail().unwrap_or_default();
    let code = error.code().unwrap_or_default();
    // Redis 6 puts the code of an error in a script into its text.
    let is = |name: &str| code == name || text.contains(name);
    if is("WRONGTYPE") || is("FORMAT") || text.contains("not an integer") {
        StoreError::UnknownFormat
    } else if is("TOOLARGE") {
        StoreError::TooLarge
    } else if code == "OOM" || text.contains("OOM command") {
        StoreError::Full
    } else {
        StoreError::Rejected(reason)
    }
}

/// Returns `true` if other commands would fail too until the store connects again.
fn is_lost(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, ReadOnly};
    match error.kind() {
        ErrorKind::Io
        | ErrorKind::Parse
        | ErrorKind::AuthenticationFailed
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::Server(ReadOnly | BusyLoading | MasterDown | ClusterDown) => true,
        _ => {
            let is_old_server = error.detail().is_some_and(|text| text.contains("READONLY"));
            error.is_unrecoverable_error() || is_old_server || error.code() == Some("NOAUTH")
        }
    }
}

/// Returns a text for logs without credentials, arguments and control characters.
pub(super) fn describe(error: &RedisError) -> String {
    let code = error.code().unwrap_or_default();
    let text = match error.detail() {
        Some(detail) => format!("{code} {detail}"),
        None if code.is_empty() => error.to_string(),
        None => code.to_owned(),
    };
    // Redis quotes the arguments of an unknown command.
    let text = text.split(", with args beginning").next().unwrap_or_default();
    let text = text.split(" script: ").next().unwrap_or_default();
    let printable = text.trim().trim_end_matches('.').chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(REASON_MAX).collect()
}

/// Maximum number of characters of a reason.
const REASON_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn reasons_contain_no_arguments() {
        let detail = "unknown command 'EVALSHA', with args beginning with: 'a secret' ".to_owned();
        let error = make_extension_error("ERR".to_owned(), Some(detail));
        assert_eq!(describe(&error), "ERR unknown command 'EVALSHA'");
    }

    #[test]
    fn codes_in_scripts_have_the_same_meaning() {
        let of = |code: &str, detail: &str| {
            Failure::of(&make_extension_error(code.to_owned(), Some(detail.to_owned()))).error
        };
        assert_eq!(of("WRONGTYPE", "Operation against a key"), StoreError::UnknownFormat);
        assert_eq!(of("ERR", "Error running script: WRONGTYPE Operation"), StoreError::UnknownFormat);
        assert_eq!(of("OOM", "command not allowed when used memory > 'maxmemory'."), StoreError::Full);
        assert_eq!(of("ERR", "Error running script: OOM command not allowed"), StoreError::Full);
        assert_eq!(of("TOOLARGE", ""), StoreError::TooLarge);
        assert!(matches!(of("NOPERM", "no permissions"), StoreError::Rejected(_)));
    }
}
