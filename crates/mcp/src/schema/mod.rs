//! What messages say: the types of the schema, under its names.
//!
//! One type serves all revisions; what a revision does not have is absent. What the modern era writes around a result
//! (`resultType`, `ttlMs`, `cacheScope`) is not part of the types: see [`ResultWriter`](crate::modern::ResultWriter).

// what everything is made of
pub mod methods;
mod meta;
mod implementation;
mod resource;
mod content;

// what servers offer
mod tools;
mod resources;
mod prompts;
mod completion;

// what servers ask
mod elicitation;
mod sampling;
mod input;

// what is said along the way
mod logging;
mod subscriptions;
mod tasks;

// what either side can do
mod capabilities;
mod initialize;

#[cfg(test)]
mod tests;

pub use crate::json_rpc::{ProgressToken, RequestId};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability, ServerCapabilities,
};
pub use completion::{
    CompleteArgument, CompleteContext, CompleteRequestParams, CompleteResult, Completion,
    CompletionReference, PromptReference, ResourceTemplateReference,
};
pub(crate) use content::content_blocks;
pub use content::{AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent};
pub use elicitation::{
    ElicitAction, ElicitRequest, ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams,
    ElicitResult, EnumOption, EnumSchemaItems, FormMode, PrimitiveSchemaDefinition, RequestedSchema,
    StringFormat,
};
pub use implementation::{Icon, IconTheme, Implementation};
pub use initialize::DiscoverResult;
pub use initialize::{
    InitializeRequestParams, InitializeResult, SetLevelRequestParams, SubscribeRequestParams,
};
pub use input::{InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses};
pub use input::{ListRootsRequest, ListRootsResult, Root};
pub use logging::{LoggingLevel, LoggingMessageNotificationParams, UnknownLoggingLevel};
pub use meta::{CacheHint, CacheScope};
pub use meta::{CancelledNotificationParams, ProgressNotificationParams};
pub use meta::{JsonObject, MetaObject, NotificationParams, PaginatedRequestParams, RequestParams};
pub use prompts::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resource::{
    Annotations, Base64Data, BlobResourceContents, InvalidBase64, Resource, ResourceContents, Role,
    TextResourceContents,
};
pub use resources::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams, ReadResourceResult,
    ResourceTemplate, ResourceUpdatedNotificationParams,
};
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
