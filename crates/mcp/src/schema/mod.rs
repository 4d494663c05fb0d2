//! What messages say: the types of the schema, under its names.
//!
//! One type serves all revisions; what a revision does not have is absent. What the modern era writes around a result
//! (`resultType`, `ttlMs`, `cacheScope`) is not part of the types: see [`ResultWriter`](crate::modern::ResultWriter).

// what everything is made of
pub mod methods;
mod meta;
mod implementation;
mod content;

// what servers offer
mod tools;
mod tool_calls;
mod resources;
mod prompts;
mod completion;

// what servers ask
mod elicitation;
mod sampling;
mod input;

// what is said along the way
mod logging;
mod notifications;
mod tasks;

// what either side can do
mod capabilities;
mod handshake;

#[cfg(test)]
mod tests;

pub use crate::json_rpc::RequestId;
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
    ImageContent, InvalidBase64, Resource, ResourceContents, ResourceLink, Role, TextContent,
    TextResourceContents,
};
pub use elicitation::{
    ElicitAction, ElicitRequest, ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams,
    ElicitResult, EnumOption, EnumSchemaItems, FormMode, PrimitiveSchemaDefinition, RequestedSchema,
    StringFormat,
};
pub use handshake::{
    DiscoverResult, InitializeRequestParams, InitializeResult, SetLevelRequestParams, SubscribeRequestParams,
};
pub use implementation::{Icon, IconTheme, Implementation};
pub use input::{
    InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses, ListRootsRequest,
    ListRootsResult, Root,
};
pub use logging::{LoggingLevel, LoggingMessageNotificationParams, UnknownLoggingLevel};
pub use meta::{
    CacheHint, CacheScope, JsonObject, MetaObject, NotificationParams, PaginatedRequestParams, ProgressToken,
    RequestParams,
};
pub use notifications::{
    CancelledNotificationParams, ProgressNotificationParams, SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenRequestParams, SubscriptionsListenResult,
};
pub use prompts::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
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
pub use tasks::{
    CancelledTask, CompletedTask, CreateTaskResult, DetailedTask, FailedTask, GetTaskResult,
    InputRequiredTask, TASKS_EXTENSION, Task, TaskStatus, TaskStatusNotificationParams,
    TaskSubscriptionAcknowledgedNotifications, TaskSubscriptionNotifications, WorkingTask,
};
pub use tool_calls::{CallToolRequestParams, CallToolResult, ToolResultMeta};
pub use tools::{ListToolsResult, StructuredContent, TaskSupport, Tool, ToolAnnotations, ToolExecution};
