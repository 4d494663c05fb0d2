//! The tools of a document, and their settings.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use thruway_client::{Client, Destination, Url};
use thruway_mcp::schema::CallToolResult;
use thruway_mcp_server::{McpServer, Offer, RegistrationError};
use thruway_message::{FieldLinesBuf, mask_userinfo};
use tokio::time::timeout;

use crate::OpenApiError;
use crate::document::{Document, shown};
use crate::operation::{ApiCall, ApiOperation, NAME_BYTES_MAX};
use crate::reply::result;

type Filter = dyn Fn(&ApiOperation<'_>) -> bool + Send + Sync;

/// The tools for the operations of an OpenAPI document. [`McpServer::with`] adds them to a server.
///
/// ```
/// use std::time::Duration;
/// use thruway_mcp_openapi::{OpenApiError, OpenApiTools};
/// use thruway_mcp_server::McpServer;
///
/// # fn main() -> Result<(), OpenApiError> {
/// let document = r#"{
///     "openapi": "3.1.0",
///     "info": {"title": "Pets", "version": "1"},
///     "paths": {"/pets/{id}": {"get": {
///         "operationId": "get_pet",
///         "summary": "Returns a pet.",
///         "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]
///     }}}
/// }"#;
/// let tools = OpenApiTools::from_json(document)?
///     .base_url("https://api.example/v1")?
///     .header("Authorization", "Bearer 2YotnFZFEjr1zCsicMWpAA")?
///     .timeout(Duration::from_secs(10))
///     .filter(|operation| operation.method() == "GET");
/// let server = McpServer::new("pets", "1.0.0").with(tools);
/// # Ok(())
/// # }
/// ```
///
/// # Tools
/// The name of a tool is the `operationId`, or the method and the path, with `_` in place of unusual
/// characters. Each parameter of the path, of the query and of the headers is an argument, and a JSON body is
/// the argument `body`. A tool whose call fails returns the status and the text of the API, so that a model
/// can correct its next call.
///
/// # Security
/// All callers of the server use the same headers, and thus the same permissions at the API. Require
/// [authorization](thruway_mcp_server::McpEndpoint::authorize) from the callers, or exclude operations with
/// [`filter`](Self::filter).
#[must_use]
pub struct OpenApiTools {
    document: Document,
    base_url: Option<Url>,
    headers: FieldLinesBuf,
    header_names: Vec<String>,
    timeout: Duration,
    response_bytes_max: usize,
    client: Client,
    filters: Vec<Box<Filter>>,
}

/// The part of the settings that all tools share.
struct Api {
    /// The origin and the path of the base URL, without a slash at the end.
    base_url: String,
    headers: FieldLinesBuf,
    timeout: Duration,
    response_bytes_max: usize,
    client: Client,
}

impl OpenApiTools {
    /// Reads an OpenAPI document of version 3.0 or 3.1. Reads only the outline; [`McpServer::with`] reads the
    /// operations.
    ///
    /// # Errors
    /// Returns an error if `document` is not such a document, or is larger than 16 MiB.
    pub fn from_json(document: &str) -> Result<Self, OpenApiError> {
        Ok(Self {
            document: Document::parse(document)?,
            base_url: None,
            headers: FieldLinesBuf::new(),
            header_names: Vec::new(),
            timeout: Duration::from_secs(30),
            response_bytes_max: 1 << 20,
            client: Client::new(),
            filters: Vec::new(),
        })
    }

    /// Sets the URL before the paths of the document. Default: the first URL in `servers`, which must then be
    /// absolute and without variables. There is no default if the requests have a [`header`](Self::header).
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, or has a query. The error does not contain credentials.
    pub fn base_url(mut self, url: &str) -> Result<Self, OpenApiError> {
        self.base_url = Some(base_url(url)?);
        Ok(self)
    }

    /// Adds a header to all requests, for example `Authorization`. The tools have no arguments for this
    /// header. Requires [`base_url`](Self::base_url), so that the document does not choose the server that gets
    /// the header.
    ///
    /// # Errors
    /// Returns an error if the name or the value is invalid. The error does not contain the value.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, OpenApiError> {
        let invalid = |reason: String| OpenApiError::Header(format!("`{}`: {reason}", shown(name)));
        if ["host", "content-length", "transfer-encoding", "content-type"]
            .iter()
            .any(|ours| name.eq_ignore_ascii_case(ours))
        {
            return Err(invalid("the client writes this header".to_owned()));
        }
        self.headers.append(name, value).map_err(|error| invalid(error.to_string()))?;
        self.header_names.push(name.to_owned());
        Ok(self)
    }

    /// Sets the maximum duration of a call, including the time to connect. Default: 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of the body of a response, in bytes. Default: 1 MiB. A call with a larger
    /// response fails.
    pub fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Sets the HTTP client, for example one with other TLS settings. Default: a client that trusts the root
    /// certificates of the system.
    pub fn http_client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// Excludes the operations for which `is_included` returns `false`. An operation must pass all filters.
    pub fn filter(mut self, is_included: impl Fn(&ApiOperation<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Box::new(is_included));
        self
    }

    /// Adds the tools to `server`, and returns their names in the order of the document.
    ///
    /// # Errors
    /// Returns an error if an operation cannot become a tool, or if there is no base URL. Also returns an error
    /// for more than 2,000 operations, or more than 64 MiB of schemas for their arguments. The server then has
    /// none of the tools.
    pub fn add_to(self, server: &McpServer) -> Result<Vec<String>, OpenApiError> {
        let url = match self.base_url {
            Some(url) => url,
            None if !self.header_names.is_empty() => {
                let reason = "set the base URL, because the headers may be secret";
                return Err(OpenApiError::BaseUrl(reason.to_owned()));
            }
            None => base_url(self.document.root["servers"][0]["url"].as_str().ok_or_else(|| {
                OpenApiError::BaseUrl("the document has no `servers`: set the base URL".to_owned())
            })?)?,
        };
        let mut operations = ApiOperation::all(&self.document)?;
        operations.retain(|operation| self.filters.iter().all(|is_included| is_included(operation)));
        let too_many = |what: &str| {
            let reason = format!("it has {what}: exclude operations with a filter");
            OpenApiError::Document(reason)
        };
        if operations.len() > OPERATIONS_MAX {
            return Err(too_many(&format!("more than {OPERATIONS_MAX} operations")));
        }
        let mut names = BTreeSet::new();
        let mut tools = Vec::new();
        let mut schema_bytes = 0;
        for operation in &operations {
            let name = unique(&operation.tool_name(), &mut names);
            let (tool, call) = operation.tool(&self.document, name, &self.header_names)?;
            schema_bytes += serde_json::to_string(&tool.input_schema).map_or(0, |schema| schema.len());
            if schema_bytes > SCHEMAS_BYTES_MAX {
                let size = SCHEMAS_BYTES_MAX >> 20;
                return Err(too_many(&format!("more than {size} MiB of schemas for arguments")));
            }
            tools.push((operation, (tool, call)));
        }
        let api = Arc::new(Api {
            base_url: url.as_str().trim_end_matches('/').to_owned(),
            headers: self.headers,
            timeout: self.timeout,
            response_bytes_max: self.response_bytes_max,
            client: self.client,
        });
        let mut added = Vec::new();
        for (operation, (tool, call)) in tools {
            let (api, call, name) = (api.clone(), Arc::new(call), tool.name.clone());
            let handler = move |arguments: Map<String, Value>| {
                let (api, call) = (api.clone(), call.clone());
                async move { api.call(&call, arguments).await }
            };
            server.add_tool(tool, handler).map_err(|error| operation.error(error.to_string()))?;
            added.push(name);
        }
        Ok(added)
    }
}

/// Adds the tools to the server, as [`OpenApiTools::add_to`].
impl Offer for OpenApiTools {
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError> {
        match self.add_to(server) {
            Ok(_) => Ok(()),
            Err(error) => Err(RegistrationError::new("OpenAPI document", error.to_string())),
        }
    }
}

impl Api {
    /// Sends the request of a call. All failures become results with an error, which the model can read.
    async fn call(&self, call: &ApiCall, arguments: Map<String, Value>) -> CallToolResult {
        let request = match call.request(arguments) {
            Ok(request) => request,
            Err(reason) => return CallToolResult::error(format!("invalid arguments: {reason}")),
        };
        let failed = |reason: String| CallToolResult::error(format!("cannot call the API: {reason}"));
        let destination = match Destination::parse(&format!("{}{}", self.base_url, request.target)) {
            Ok(destination) => destination,
            Err(error) => return failed(error.to_string()),
        };
        let mut sent = self.client.request_to(call.method, &destination);
        for (name, value) in &request.headers {
            sent = sent.field(name, value);
        }
        if !self.headers.has_any(&["accept"]) {
            sent = sent.field("Accept", "application/json, */*;q=0.5");
        }
        if let Some((media_type, content)) = request.body {
            sent = sent.field("Content-Type", media_type).content(content);
        }
        let answer = async {
            match sent.field_lines(&self.headers).send().await {
                Ok(response) => result(response, self.response_bytes_max).await,
                Err(error) => failed(error.to_string()),
            }
        };
        let late = |_| failed(format!("it did not answer within {:?}", self.timeout));
        timeout(self.timeout, answer).await.unwrap_or_else(late)
    }
}

fn base_url(text: &str) -> Result<Url, OpenApiError> {
    let invalid = |reason: &str| OpenApiError::BaseUrl(format!("`{}` {reason}", shown(&masked(text))));
    if text.contains('{') {
        return Err(invalid("has variables: set the base URL"));
    }
    let url = Url::for_request(text).map_err(|_| invalid("is not an absolute URL: set the base URL"))?;
    if url.query().is_some() || text.contains('#') {
        return Err(invalid("has a query or a fragment"));
    }
    Ok(url)
}

/// Masks the userinfo and the query of a URL, which may be invalid.
fn masked(url: &str) -> String {
    let mut masked = mask_userinfo(url).into_owned();
    if masked == url
        && let Some((_, rest)) = url.rsplit_once('@')
    {
        // A URL without a scheme, or with unusual characters, can also contain a password.
        masked = format!("***@{rest}");
    }
    match masked.split_once('?') {
        Some((before, _)) => format!("{before}?***"),
        None => masked,
    }
}

/// Returns `name`, with a number if another tool has this name.
fn unique(name: &str, names: &mut BTreeSet<String>) -> String {
    let mut unique = name.to_owned();
    let mut number = 1;
    while !names.insert(unique.clone()) {
        number += 1;
        let suffix = format!("_{number}");
        unique = format!("{}{suffix}", &name[..name.len().min(NAME_BYTES_MAX - suffix.len())]);
    }
    unique
}

impl fmt::Debug for OpenApiTools {
    /// Omits the values of the headers, because they can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiTools")
            .field("base_url", &self.base_url)
            .field("header_names", &self.header_names)
            .finish_non_exhaustive()
    }
}

/// Maximum number of operations that become tools.
const OPERATIONS_MAX: usize = 2000;

/// Maximum size of the schemas of all tools together.
const SCHEMAS_BYTES_MAX: usize = 64 << 20;
