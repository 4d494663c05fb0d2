//! What every request of the modern era must say about itself.

use alloc::format;

use serde_json::json;

use crate::json_rpc::{Error, ErrorCode};
use crate::params::RequestMeta;
use crate::schema::ClientCapabilities;
use crate::{Era, Revision};

/// Checks the members of `_meta` that every request must have, and returns the revision it is in.
///
/// # Errors
/// [`ErrorCode::INVALID_PARAMS`] if one is missing; [`ErrorCode::UNSUPPORTED_PROTOCOL_VERSION`] for a revision that is
/// unknown or of the other era.
pub fn check_meta(meta: &RequestMeta<'_>) -> Result<Revision, Error> {
    let missing = |member: &str| Error::invalid_params(format!("`_meta` must have `{member}`"));
    let Some(requested) = &meta.protocol_version else {
        return Err(missing(crate::params::meta_keys::PROTOCOL_VERSION));
    };
    let Some(revision) = requested.parse().ok().filter(|revision: &Revision| revision.era() == Era::Modern)
    else {
        return Err(unsupported_version(requested));
    };
    if meta.client_capabilities.is_none() {
        return Err(missing(crate::params::meta_keys::CLIENT_CAPABILITIES));
    }
    Ok(revision)
}

/// The error for a revision that is not spoken, which names those that are.
pub fn unsupported_version(requested: &str) -> Error {
    let supported = Revision::ALL.map(Revision::as_str);
    Error::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version")
        .with_data(json!({"supported": supported, "requested": requested}))
}

/// What the client can do.
///
/// # Errors
/// [`ErrorCode::INVALID_PARAMS`]: what it says of it is malformed.
pub fn client_capabilities(meta: &RequestMeta<'_>) -> Result<ClientCapabilities, Error> {
    let raw = meta.client_capabilities.map_or("{}", |raw| raw.get());
    serde_json::from_str(raw)
        .map_err(|error| Error::invalid_params(format!("the capabilities are invalid: {error}")))
}

/// The error for a request that cannot be answered without `required`.
pub fn missing_capability(required: &ClientCapabilities) -> Error {
    Error::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, "the client lacks a capability that is needed")
        .with_data(json!({"requiredCapabilities": required}))
}
