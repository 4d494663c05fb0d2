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
mod input;

// what is said along the way
mod logging;
mod progress;
mod subscriptions;
mod tasks;

// what either side can do
mod capabilities;
mod discover;
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
pub(crate) use content::content_blocks;
pub use content::{
    Annotations, AudioContent, Base64Data, BlobResourceContents, ContentBlock, EmbeddedResource,
    ImageContent, InvalidBase64, ResourceContents, ResourceLink, Role, TextContent, TextResourceContents,
};
pub use discover::DiscoverResult;
pub use elicitation::{
    ElicitAction, ElicitRequest, ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams,
    ElicitResult, EnumOption, EnumSchemaItems, FormMode, PrimitiveSchemaDefinition, RequestedSchema,
    StringFormat,
};
pub use id::{ProgressToken, RequestId};
pub use implementation::{Icon, IconTheme, Implementation};
pub use initialize::{
    InitializeRequestParams, InitializeResult, SetLevelRequestParams, SubscribeRequestParams,
};
pub use input::{InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses};
pub use logging::{LoggingLevel, LoggingMessageNotificationParams, UnknownLoggingLevel};
pub use meta::{JsonObject, MetaObject, NotificationParams, PaginatedRequestParams, RequestParams};
pub use progress::{CancelledNotificationParams, ProgressNotificationParams};
pub use prompts::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams, ReadResourceResult,
    Resource, ResourceTemplate, ResourceUpdatedNotificationParams,
};
pub use roots::{ListRootsRequest, ListRootsResult, Root};
pub use sampling::{
    CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ModelHint, ModelPreferences,
    OneOrMany, SamplingMessage, SamplingMessageContentBlock, ToolChoice, ToolChoiceMode, ToolResultContent,
    ToolUseContent,
};
pub use subscriptions::{
    SubscriptionFilter, SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
};
pub use tasks::{
    CancelledTask, CompletedTask, CreateTaskResult, DetailedTask, FailedTask, GetTaskResult,
    InputRequiredTask, TASKS_EXTENSION, Task, TaskStatus, TaskStatusNotificationParams,
    TaskSubscriptionAcknowledgedNotifications, TaskSubscriptionNotifications, WorkingTask,
};
pub use tools::{
    CallToolRequestParams, CallToolResult, ListToolsResult, StructuredContent, TaskSupport, Tool,
    ToolAnnotations, ToolExecution, ToolResultMeta,
};
