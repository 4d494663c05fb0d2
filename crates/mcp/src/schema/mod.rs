//! What messages say: the types of the schema, under its names.
//!
//! One type serves all revisions; what a revision does not have is absent. What the modern era writes around a result
//! (`resultType`, `ttlMs`, `cacheScope`) is not part of the types: see [`ResultWriter`](crate::modern::ResultWriter).

// what everything is made of
pub mod methods;
mod id;
mod meta;
mod implementation;
mod content;

// what servers offer
mod tools;
mod resources;
mod prompts;
mod completion;

// what servers ask
mod elicitation;
mod sampling;
mod roots;

// what is said along the way
mod logging;
mod progress;
mod subscriptions;

// what either side can do
mod capabilities;
mod initialize;
mod caching;

#[cfg(test)]
mod tests;

pub use caching::{CacheHint, CacheScope};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability, ServerCapabilities,
};
pub use completion::{
    CompleteArgument, CompleteContext, CompleteRequestParams, CompleteResult, Completion,
    CompletionReference, PromptReference, ResourceTemplateReference,
};
pub use content::{
    Annotations, AudioContent, Base64Data, BlobResourceContents, ContentBlock, EmbeddedResource,
    ImageContent, InvalidBase64, ResourceContents, ResourceLink, Role, TextContent, TextResourceContents,
};
pub use elicitation::{
    ElicitAction, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, EnumOption, EnumSchemaItems,
    PrimitiveSchemaDefinition, RequestedSchema, StringFormat,
};
pub use id::{ProgressToken, RequestId};
pub use implementation::{Icon, IconTheme, Implementation};
pub use initialize::{
    InitializeRequestParams, InitializeResult, SetLevelRequestParams, SubscribeRequestParams,
};
pub use logging::{LoggingLevel, LoggingMessageNotificationParams, UnknownLoggingLevel};
pub use meta::{JsonObject, MetaObject};
pub use progress::{CancelledNotificationParams, ProgressNotificationParams};
pub use prompts::{GetPromptResult, Prompt, PromptArgument, PromptMessage};
pub use resources::{ReadResourceResult, Resource, ResourceTemplate};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessageRequestParams, CreateMessageResult, ModelHint, ModelPreferences, OneOrMany, SamplingMessage,
    SamplingMessageContentBlock, ToolChoice, ToolChoiceMode, ToolResultContent, ToolUseContent,
};
pub use subscriptions::{SubscriptionFilter, SubscriptionsListenRequestParams};
pub use tools::{CallToolResult, StructuredContent, TaskSupport, Tool, ToolAnnotations, ToolExecution};
