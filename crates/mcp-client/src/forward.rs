//! Requests of somebody else, sent on as they are but for what ties them to a client: the id, the progress token, and what
//! an era wants to be said.

use std::sync::Arc;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Id, write_request_with};
use thruway_mcp::members::{NoObject, append_line, append_member, append_members};
use thruway_mcp::params::{Params, meta_keys};
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLinesBuf;

use super::conversation::Waiter;
use super::deadline::{OnProgress, Progress};
use super::eras::Spoken;
use super::error::McpClientError;
use super::incoming::Answer;
use super::param_headers::ReceivedParamHeaders;
use super::party::Party;
use super::{McpClient, is_header_mismatch, may_be_again};

/// A request of somebody else.
#[derive(Debug)]
pub struct Onward {
    /// The method.
    pub method: Box<str>,
    /// The tool, prompt, resource or task that it names.
    pub name: Option<Box<str>>,
    /// The parameters as they were sent.
    pub params: Box<RawValue>,
    /// Whether there is anything in their `_meta`.
    pub has_meta: bool,
    /// The headers that mirror arguments, if the request came over HTTP in the modern era.
    pub param_headers: Option<ReceivedParamHeaders>,
    /// What the sender says of itself, if the parameters do not: in the legacy era, it was said before.
    pub sender: Option<Sender>,
    /// What a further round brings: members of the parameters.
    pub round: Vec<u8>,
    /// Who is asked and told meanwhile.
    pub party: Option<Arc<dyn Party>>,
    /// What reports of progress become.
    pub progress: Option<Arc<Progress>>,
    /// What progress is to be reported under if reports go on when the request has been answered: otherwise, its id.
    pub progress_token: Option<Box<str>>,
    /// Whether it is about what only this server process keeps in mind: it is no affair of one that is started again.
    pub is_of_process: bool,
}

/// What the sender of a request says of itself, as JSON.
#[derive(Debug)]
pub struct Sender {
    /// Its capabilities.
    pub capabilities: Box<str>,
    /// Its name and version.
    pub info: Box<str>,
    /// The lowest level of log messages that it wants.
    pub log_level: Option<&'static str>,
}

/// Lets reports of progress be forwarded.
pub fn reporting(on_progress: OnProgress) -> Arc<Progress> {
    Arc::new(Progress::new(on_progress))
}

impl McpClient {
    /// Sends a request on, and returns its result as it was sent.
    ///
    /// # Cancel safety
    /// The request is given up if the future is dropped, and the server is told.
    ///
    /// # Errors
    /// As the methods of [`McpClient`] that call the server.
    pub async fn forward(&self, onward: &Onward) -> Result<Answer, McpClientError> {
        if onward.param_headers.is_some() {
            // Apart, so that requests without such headers carry nothing of it.
            Box::pin(self.check_param_headers(onward)).await?;
        }
        let outcome = self.forward_with(onward, self.mirrored_onward(onward)?).await;
        // The tool was never listed, or has changed; it was not called.
        if is_header_mismatch(&outcome)
            && *onward.method == *methods::TOOLS_CALL
            && Box::pin(self.list_tools_anew()).await.is_ok()
        {
            self.conversation.param_headers.invalidate();
            Box::pin(self.check_param_headers(onward)).await?;
            return Box::pin(self.forward_with(onward, self.mirrored_onward(onward)?)).await;
        }
        outcome
    }

    async fn forward_with(&self, onward: &Onward, mirrored: FieldLinesBuf) -> Result<Answer, McpClientError> {
        let spoken = self.spoken().await?;
        let outcome = self.forward_once(onward, &mirrored, &spoken).await;
        let is_lost = onward.is_of_process && matches!(outcome, Err(McpClientError::Closed));
        if is_lost || !may_be_again(&outcome) {
            return outcome;
        }
        match Box::pin(self.again(&spoken, &onward.method, onward.name.as_deref(), &outcome)).await? {
            Some(spoken) => Box::pin(self.forward_once(onward, &mirrored, &spoken)).await,
            None => outcome,
        }
    }

    async fn forward_once(
        &self,
        onward: &Onward,
        mirrored: &FieldLinesBuf,
        spoken: &Spoken,
    ) -> Result<Answer, McpClientError> {
        let id = self.conversation.next_id();
        let mut octets = Vec::with_capacity(onward.params.get().len() + ENVELOPE_BYTES);
        write_request_with(&mut octets, &Id::Integer(id), &onward.method, |output| {
            onward.write_params(output, id, spoken.revision())
        })
        .map_err(|NoObject| McpClientError::ArgumentsInvalid)?;
        let outgoing = spoken.outgoing(octets, &onward.method, onward.name.as_deref(), mirrored)?;
        let waiter = Waiter {
            patience: self.options.patience,
            progress: onward.progress.clone(),
            queue: None,
            party: onward.party.clone(),
            is_forwarded: true,
            cancels: spoken.era() == Era::Legacy || self.conversation.binding.has_common_stream(),
        };
        Ok(self.conversation.exchange(id, outgoing, waiter).await?.answer.into_raw())
    }

    /// The headers that mirror arguments.
    fn mirrored_onward(&self, onward: &Onward) -> Result<FieldLinesBuf, McpClientError> {
        let tools = &self.conversation.tools;
        let Some(tool) = onward.name.as_deref().filter(|tool| tools.are_mirrored(tool)) else {
            return Ok(FieldLinesBuf::new());
        };
        let params = Params::parse(Some(&onward.params)).unwrap_or_default();
        params.arguments.map_or_else(|| Ok(FieldLinesBuf::new()), |arguments| tools.mirrored(tool, arguments))
    }
}

impl Onward {
    /// Writes the parameters for a server that speaks `revision`, as request `id`.
    fn write_params(&self, output: &mut Vec<u8>, id: i64, revision: Revision) -> Result<(), NoObject> {
        let is_to_be_said = revision.era() == Era::Modern && self.sender.is_some();
        if !self.has_meta && !is_to_be_said && self.round.is_empty() {
            append_line(output, self.params.get());
            return Ok(());
        }
        output.push(b'{');
        let mut meta = None;
        append_members(output, &self.params, |name, value| match name {
            "_meta" => {
                meta = Some(value);
                false
            }
            // A client of the legacy era has no rounds: its members would be those of another client.
            "inputResponses" | "requestState" => self.round.is_empty() && self.sender.is_none(),
            _ => true,
        })?;
        self.append_meta(output, meta, id, revision)?;
        if !self.round.is_empty() {
            if output.last() != Some(&b'{') {
                output.push(b',');
            }
            output.extend_from_slice(&self.round);
        }
        output.push(b'}');
        Ok(())
    }

    fn append_meta(
        &self,
        output: &mut Vec<u8>,
        meta: Option<&RawValue>,
        id: i64,
        revision: Revision,
    ) -> Result<(), NoObject> {
        let mut members = vec![b'{'];
        let mut has_token = false;
        if let Some(meta) = meta {
            let is_modern = revision.era() == Era::Modern;
            append_members(&mut members, meta, |name, _| match name {
                meta_keys::PROGRESS_TOKEN => {
                    has_token = true;
                    false
                }
                meta_keys::PROTOCOL_VERSION
                | meta_keys::CLIENT_CAPABILITIES
                | meta_keys::CLIENT_INFO
                | meta_keys::LOG_LEVEL => is_modern && self.sender.is_none(),
                _ => true,
            })?;
        }
        if let Some(sender) = self.sender.as_ref().filter(|_| revision.era() == Era::Modern) {
            sender.append(&mut members, revision);
        }
        if let Some(token) = self.progress_token.as_ref().filter(|_| has_token) {
            append_member(&mut members, meta_keys::PROGRESS_TOKEN, &format!("\"{token}\""));
        } else if has_token && self.progress.is_some() {
            append_member(&mut members, meta_keys::PROGRESS_TOKEN, &id.to_string());
        }
        if members.len() > 1 {
            members.push(b'}');
            // It was put together from JSON.
            append_member(output, "_meta", &String::from_utf8(members).unwrap_or_default());
        }
        Ok(())
    }
}

impl Sender {
    fn append(&self, meta: &mut Vec<u8>, revision: Revision) {
        append_member(meta, meta_keys::PROTOCOL_VERSION, &format!("\"{revision}\""));
        append_member(meta, meta_keys::CLIENT_CAPABILITIES, &self.capabilities);
        append_member(meta, meta_keys::CLIENT_INFO, &self.info);
        if let Some(level) = self.log_level {
            append_member(meta, meta_keys::LOG_LEVEL, &format!("\"{level}\""));
        }
    }
}

/// Room for what stands around parameters.
const ENVELOPE_BYTES: usize = 256;
