//! Requests of somebody else, sent on as they are but for what ties them to a client: the id, the progress
//! token, and what an era wants to be said.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{ErrorCode, Id, write_request_with};
use thruway_mcp::members::{NoObject, append_line, append_member, append_members};
use thruway_mcp::params::{Params, meta_keys};
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLinesBuf;
use thruway_net::{Admitted, LogLimit};
use tokio::time::timeout;

use super::client::{McpClient, is_header_mismatch, may_be_again};
use super::conversation::Waiter;
use super::deadline::{OnProgress, Progress};
use super::eras::Spoken;
use super::error::McpClientError;
use super::handlers::ServerNotification;
use super::param_headers::{Listed, Page, ReceivedParamHeaders};
use super::party::Party;
use super::reading::Answer;

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
    /// What progress is to be reported under if reports go on when the request has been answered: otherwise,
    /// its id.
    pub progress_token: Option<Box<str>>,
    /// Whether it is about what only this server process keeps in mind: it is no affair of one that is
    /// started again.
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
    /// Compares the headers `Mcp-Param-*` of a request with its arguments, as the server of the tool must
    /// (2026-07-28, server validation of headers). A header that is missing is refused too, so the tools have
    /// to be listed even for a request without such headers, unless none of its arguments can be mirrored.
    /// Does nothing for a request that did not come over HTTP in the modern era.
    ///
    /// # Errors
    /// A header is missing or contradicts its argument, or there is one and the tools cannot be listed.
    pub async fn check_param_headers(&self, onward: &Onward) -> Result<(), McpClientError> {
        let (Some(received), Some(tool)) = (&onward.param_headers, &onward.name) else { return Ok(()) };
        let listed = match self.known_param_headers() {
            Some(listed) => listed,
            None if received.is_empty() && !onward.may_be_mirrored() => return Ok(()),
            None => match self.param_headers_of_tools().await {
                Ok(listed) => listed,
                // The server has never listed its tools, so its clients cannot know that it wants headers.
                Err(error) if received.is_empty() => {
                    note_unlisted(&error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
        };
        let Err(error) = listed.check(tool, received, &onward.params) else { return Ok(()) };
        if listed.at.elapsed() < RELIST_PAUSE {
            return Err(McpClientError::Server(error));
        }
        // The tool may have changed without a notification.
        match self.list_param_headers(Some(&listed)).await {
            Ok(listed) => listed.check(tool, received, &onward.params).map_err(McpClientError::Server),
            Err(unlisted) => {
                note_unlisted(&unlisted);
                Err(McpClientError::Server(error))
            }
        }
    }

    /// Returns the last list of tools, unless it is too old; also if it is too old but being replaced.
    fn known_param_headers(&self) -> Option<Arc<Listed>> {
        let known = &self.conversation.param_headers;
        let listed = known.listed.load_full()?;
        (listed.at.elapsed() < LIST_AGE_MAX || known.listing.try_lock().is_err()).then_some(listed)
    }

    /// Lists the tools. If that fails, returns the last list that there was.
    async fn param_headers_of_tools(&self) -> Result<Arc<Listed>, McpClientError> {
        let known = &self.conversation.param_headers;
        let outdated = known.listed.load_full();
        let listed = self.list_param_headers(outdated.as_ref()).await;
        listed.or_else(|error| {
            let last = known.last.load_full().ok_or_else(|| error.clone())?;
            note_unlisted(&error);
            Ok(last)
        })
    }

    /// Lists the tools, unless another call has done so since `outdated` was listed.
    async fn list_param_headers(
        &self,
        outdated: Option<&Arc<Listed>>,
    ) -> Result<Arc<Listed>, McpClientError> {
        let known = &self.conversation.param_headers;
        let listing = async {
            let _guard = known.listing.lock().await;
            let is_outdated = |listed: &Arc<Listed>| outdated.is_some_and(|old| Arc::ptr_eq(old, listed));
            if let Some(listed) = known.listed.load_full().filter(|listed| !is_outdated(listed)) {
                return Ok(listed);
            }
            if outdated.is_some() {
                self.conversation.cache.forget(&ServerNotification::ToolsListChanged);
            }
            let invalidations = known.invalidations.load(Ordering::Acquire);
            let tools = self.list(methods::TOOLS_LIST, |page: Page| (page.tools, page.next_cursor)).await;
            let tools = match tools {
                // A server without a list has announced no headers.
                Err(McpClientError::Server(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Vec::new(),
                tools => tools?,
            };
            let listed = Arc::new(Listed::of(tools));
            known.last.store(Some(listed.clone()));
            if known.invalidations.load(Ordering::Acquire) == invalidations {
                known.listed.store(Some(listed.clone()));
            }
            Ok(listed)
        };
        timeout(self.options.patience.timeout, listing).await.map_err(|_| McpClientError::TimedOut)?
    }

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

impl Onward {
    /// Returns `true` if a header may mirror an argument: a string, a number or a boolean that is reachable
    /// through objects (2026-07-28, `x-mcp-header`).
    fn may_be_mirrored(&self) -> bool {
        fn has_primitive(value: &Value) -> bool {
            match value {
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
                Value::Object(members) => members.values().any(has_primitive),
                Value::Null | Value::Array(_) => false,
            }
        }
        let params = Params::parse(Some(&self.params)).unwrap_or_default();
        let Some(arguments) = params.arguments else { return false };
        // Arguments that cannot be read as a value may have anything in them.
        serde_json::from_str(arguments.get()).map_or(true, |arguments: Value| has_primitive(&arguments))
    }
}

fn note_unlisted(error: &McpClientError) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::warn!(
            suppressed,
            "cannot list the tools of the server to compare headers `Mcp-Param-*`: {error}"
        );
    }
}

/// Minimum time between two lists because of headers that do not match: a client must not cause a list by
/// each request.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// Time after which the tools are listed again, for servers that change them without a notification.
const LIST_AGE_MAX: Duration = Duration::from_mins(5);
