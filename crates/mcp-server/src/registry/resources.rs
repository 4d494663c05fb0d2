//! Resources and resource templates.

use thruway_mcp::schema::{Base64Data, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::list::{Named, RegistrationError};
use super::uri_template::{UriParameters, UriTemplate};
use crate::handlers::{AsyncInput, Call, Handler, HandlerError, IntoAnswer, NoInput, Outcome};

type ResourceHandler = Box<dyn Fn(UriParameters, &Call<'_>) -> Outcome<ResourceAnswer> + Send + Sync>;

/// The answer of a resource handler. For text and binary data, the server adds the URI and the media type
/// of the resource.
#[derive(Debug)]
pub enum ResourceAnswer {
    /// Text.
    Text(String),
    /// Binary data.
    Blob(Vec<u8>),
    /// Complete contents with URIs and media types. The server adds nothing to these contents.
    Contents(ReadResourceResult),
}

/// A resource and its handler.
pub(crate) struct ResourceEntry {
    definition: Resource,
    handler: ResourceHandler,
}

/// A resource template and its handler.
pub(crate) struct TemplateEntry {
    definition: ResourceTemplate,
    template: UriTemplate,
    handler: ResourceHandler,
}

impl ResourceEntry {
    pub(crate) fn new<I: From<UriParameters>, M>(
        definition: Resource,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Self {
        Self { definition, handler: Box::new(move |parameters, call| handler.call(parameters.into(), call)) }
    }

    pub(crate) fn read(&self, call: &Call<'_>) -> Outcome<ReadResourceResult> {
        let uri = self.definition.uri.clone();
        let outcome = (self.handler)(UriParameters::without_parameters(uri.clone()), call);
        contents(outcome, uri, self.definition.mime_type.clone())
    }
}

impl TemplateEntry {
    pub(crate) fn new<I: From<UriParameters>, M>(
        definition: ResourceTemplate,
        handler: impl Handler<I, ResourceAnswer, M>,
    ) -> Result<Self, RegistrationError> {
        let template = UriTemplate::parse(&definition.uri_template)
            .map_err(|error| RegistrationError::new(&definition.uri_template, error.to_string()))?;
        let handler: ResourceHandler =
            Box::new(move |parameters, call| handler.call(parameters.into(), call));
        Ok(Self { definition, template, handler })
    }

    pub(crate) fn matches(&self, uri: &str) -> bool {
        self.template.matches(uri).is_some()
    }

    /// Reads the resource at `uri` with the handler of the template. Returns `None` if the template does
    /// not match `uri`.
    pub(crate) fn read(&self, uri: &str, call: &Call<'_>) -> Option<Outcome<ReadResourceResult>> {
        let outcome = (self.handler)(self.template.matches(uri)?, call);
        Some(contents(outcome, uri.to_owned(), self.definition.mime_type.clone()))
    }
}

fn contents(
    outcome: Outcome<ResourceAnswer>,
    uri: String,
    mime_type: Option<String>,
) -> Outcome<ReadResourceResult> {
    outcome.map(move |answer| {
        Ok(match answer? {
            ResourceAnswer::Text(text) => ReadResourceResult::text(uri, mime_type, text),
            ResourceAnswer::Blob(bytes) => {
                ReadResourceResult::blob(uri, mime_type, Base64Data::from_bytes(&bytes))
            }
            ResourceAnswer::Contents(result) => result,
        })
    })
}

impl Named for ResourceEntry {
    const MEMBER: &'static str = "resources";
    type Definition = Resource;

    fn key(&self) -> &str {
        &self.definition.uri
    }

    fn definition(&self) -> &Resource {
        &self.definition
    }
}

impl Named for TemplateEntry {
    const MEMBER: &'static str = "resourceTemplates";
    type Definition = ResourceTemplate;

    fn key(&self) -> &str {
        &self.definition.uri_template
    }

    fn definition(&self) -> &ResourceTemplate {
        &self.definition
    }
}

/// Discards the URI parameters, because a handler with `NoInput` takes no input.
impl From<UriParameters> for NoInput {
    fn from(_: UriParameters) -> Self {
        Self {}
    }
}

impl AsyncInput for UriParameters {}

impl IntoAnswer<ResourceAnswer> for &'static str {
    fn into_answer(self) -> Result<ResourceAnswer, HandlerError> {
        Ok(ResourceAnswer::Text(self.to_owned()))
    }
}

impl IntoAnswer<ResourceAnswer> for String {
    fn into_answer(self) -> Result<ResourceAnswer, HandlerError> {
        Ok(ResourceAnswer::Text(self))
    }
}

impl IntoAnswer<ResourceAnswer> for Vec<u8> {
    fn into_answer(self) -> Result<ResourceAnswer, HandlerError> {
        Ok(ResourceAnswer::Blob(self))
    }
}

impl IntoAnswer<ResourceAnswer> for ReadResourceResult {
    fn into_answer(self) -> Result<ResourceAnswer, HandlerError> {
        Ok(ResourceAnswer::Contents(self))
    }
}

impl IntoAnswer<ResourceAnswer> for Vec<ResourceContents> {
    fn into_answer(self) -> Result<ResourceAnswer, HandlerError> {
        Ok(ResourceAnswer::Contents(ReadResourceResult { contents: self, ..ReadResourceResult::default() }))
    }
}
