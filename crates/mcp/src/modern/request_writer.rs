//! What the modern era writes around the parameters of a request.

use alloc::vec::Vec;

use serde::Serialize;

use super::append_members;
use crate::json_rpc::Id;
use crate::params::meta_keys;
use crate::schema::{ClientCapabilities, Implementation, InputResponses, LoggingLevel, MetaObject};
use crate::{Revision, json_rpc};

/// Writes requests with what each must say about its client.
#[derive(Clone, Debug)]
pub struct RequestWriter {
    /// The members of `_meta` that every request has.
    meta: Vec<u8>,
}

/// What is said about one request, besides what every request says.
#[derive(Clone, Copy, Default, Debug)]
pub struct SaidOfRequest<'a> {
    /// Whether progress is to be reported, under the id of the request.
    pub wants_progress: bool,
    /// From which level on log messages are wanted.
    pub log_level: Option<LoggingLevel>,
    /// Other members of `_meta`, such as the trace context.
    pub meta: Option<&'a MetaObject>,
}

/// What a further round of a request brings: answers, and what the server gave the client to bring back.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// The answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// What is brought back as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<alloc::string::String>,
}

impl RequestWriter {
    /// For the requests of one client.
    ///
    /// # Errors
    /// What the client says of itself cannot be written as JSON.
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

    /// Appends a request. `params` is what the method's type has besides `_meta`.
    ///
    /// # Errors
    /// The parameters cannot be written as a JSON object.
    pub fn write(
        &self,
        output: &mut Vec<u8>,
        id: &Id<'_>,
        method: &str,
        params: &impl Serialize,
        said: SaidOfRequest<'_>,
        round: &Round,
    ) -> Result<(), json_rpc::Error> {
        json_rpc::write_request_start(output, id, method);
        output.extend_from_slice(br#"{"_meta":{"#);
        output.extend_from_slice(&self.meta);
        if let Some(level) = said.log_level {
            output.push(b',');
            // Two names.
            let _ = write_member(output, meta_keys::LOG_LEVEL, &level);
        }
        if said.wants_progress {
            output.push(b',');
            let _ = write_member(output, meta_keys::PROGRESS_TOKEN, id);
        }
        if let Some(meta) = said.meta {
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
