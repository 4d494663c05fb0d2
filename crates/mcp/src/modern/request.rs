//! Requests of the modern era: their required metadata and their encoding.

use alloc::format;
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::json;
use thruway_message::FieldLines;

use super::headers::check_version_header;
use super::result::append_members;
use crate::json_rpc::{self, Error, ErrorCode, Id};
use crate::params::{RequestMeta, meta_keys};
use crate::revision::{Era, Revision};
use crate::schema::{ClientCapabilities, Implementation, InputResponses, LoggingLevel, MetaObject};

/// Checks the required members of `_meta`, and returns the revision of the request. `headers` are the headers
/// of the POST if the request arrived over HTTP. If `_meta` and the header name different revisions, returns
/// [`ErrorCode::HEADER_MISMATCH`], even if one of the revisions is unknown.
///
/// # Errors
/// The function makes these checks in this order. [`ErrorCode::INVALID_PARAMS`] if a member is missing.
/// [`ErrorCode::HEADER_MISMATCH`] if the header `MCP-Protocol-Version` differs from `_meta`.
/// [`ErrorCode::UNSUPPORTED_PROTOCOL_VERSION`] if the revision is unknown or belongs to the legacy era.
pub fn check_meta(meta: &RequestMeta<'_>, headers: Option<FieldLines<'_>>) -> Result<Revision, Error> {
    let missing = |member: &str| Error::invalid_params(format!("`_meta` must have `{member}`"));
    let Some(requested) = &meta.protocol_version else {
        return Err(missing(meta_keys::PROTOCOL_VERSION));
    };
    if meta.client_capabilities.is_none() {
        return Err(missing(meta_keys::CLIENT_CAPABILITIES));
    }
    if let Some(headers) = headers {
        check_version_header(headers, requested)?;
    }
    let revision = requested.parse().ok().filter(|revision: &Revision| revision.era() == Era::Modern);
    revision.ok_or_else(|| unsupported_version(requested))
}

/// Returns the error for an unsupported revision. The error lists the supported revisions.
pub fn unsupported_version(requested: &str) -> Error {
    let supported = Revision::ALL.map(Revision::as_str);
    Error::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version")
        .with_data(json!({"supported": supported, "requested": requested}))
}

/// Returns the client's capabilities.
///
/// # Errors
/// [`ErrorCode::INVALID_PARAMS`] if the capabilities are malformed.
pub fn client_capabilities(meta: &RequestMeta<'_>) -> Result<ClientCapabilities, Error> {
    let raw = meta.client_capabilities.map_or("{}", |raw| raw.get());
    serde_json::from_str(raw)
        .map_err(|error| Error::invalid_params(format!("the client's capabilities are invalid: {error}")))
}

/// Returns the error for a request that needs the capabilities `required`. The client lacks at least one of
/// these capabilities.
pub fn missing_capability(required: &ClientCapabilities) -> Error {
    Error::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, "the client lacks a required capability")
        .with_data(json!({"requiredCapabilities": required}))
}

/// Writes the requests of one client. Every modern request must contain metadata: the revision, and the
/// capabilities, name and version of the client.
#[derive(Clone, Debug)]
pub struct RequestWriter {
    /// The members of `_meta` that all requests have, as JSON text.
    meta: Vec<u8>,
}

/// Metadata that differs between the requests of a client.
#[derive(Clone, Copy, Default, Debug)]
pub struct RequestOptions<'a> {
    /// `true` if the server should report progress. The id of the request is then also the progress
    /// token.
    pub wants_progress: bool,
    /// The lowest severity of log messages that the client wants.
    pub log_level: Option<LoggingLevel>,
    /// Other members of `_meta`, such as the trace context.
    pub meta: Option<&'a MetaObject>,
}

/// The parameters that a client adds when it sends a request again: the answers to the server's elicitation,
/// sampling and roots requests, and the state that the server returned.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// The answers to the server's elicitation, sampling and roots requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that the server returned, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<alloc::string::String>,
}

impl RequestWriter {
    /// Returns a writer for the requests of one client.
    ///
    /// # Errors
    /// The client's capabilities, name or version cannot be written as JSON.
    pub fn new(
        revision: Revision,
        capabilities: &ClientCapabilities,
        client_info: &Implementation,
    ) -> Result<Self, serde_json::Error> {
        let mut meta = Vec::new();
        write_member(&mut meta, meta_keys::PROTOCOL_VERSION, &revision.as_str())?;
        meta.push(b',');
        write_member(&mut meta, meta_keys::CLIENT_CAPABILITIES, capabilities)?;
        meta.push(b',');
        write_member(&mut meta, meta_keys::CLIENT_INFO, client_info)?;
        Ok(Self { meta })
    }

    /// Appends a request. `params` are the parameters of the method without `_meta`.
    ///
    /// # Errors
    /// The parameters cannot be written as a JSON object.
    pub fn write(
        &self,
        output: &mut Vec<u8>,
        id: &Id<'_>,
        method: &str,
        params: &impl Serialize,
        options: RequestOptions<'_>,
        round: &Round,
    ) -> Result<(), Error> {
        json_rpc::write_request_start(output, id, method);
        output.extend_from_slice(br#"{"_meta":{"#);
        output.extend_from_slice(&self.meta);
        if let Some(level) = options.log_level {
            output.push(b',');
            // This cannot fail, because a log level is plain data.
            let _ = write_member(output, meta_keys::LOG_LEVEL, &level);
        }
        if options.wants_progress {
            output.push(b',');
            let _ = write_member(output, meta_keys::PROGRESS_TOKEN, id);
        }
        if let Some(meta) = options.meta {
            append_members(output, meta)?;
        }
        output.push(b'}');
        append_members(output, params)?;
        append_members(output, round)?;
        output.extend_from_slice(b"}}");
        Ok(())
    }
}

fn write_member(output: &mut Vec<u8>, name: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *output, name)?;
    output.push(b':');
    serde_json::to_writer(output, value)
}
