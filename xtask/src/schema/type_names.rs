//! Maps names of the schema to our types.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::schema::{self, methods};

/// Reads JSON as one of our types, and writes it back.
pub(super) type Rewrite = fn(&str) -> serde_json::Result<String>;

fn through<T: DeserializeOwned + Serialize>(text: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(text)?)
}

/// Maps a name of the schema to one of our types. The first list has types with the same name as in the
/// schema. The second list has the other names, each with its type.
macro_rules! types {
    ($name:expr; $($same:ident),*; $($($other:literal)|+ => $type:ident,)*) => {
        match $name {
            $(stringify!($same) => Some(through::<schema::$same> as Rewrite),)*
            $($($other)|+ => Some(through::<schema::$type> as Rewrite),)*
            _ => None,
        }
    };
}

/// Returns the function that reads a value, a result or parameters with this name, and writes it back.
pub(super) fn value(type_name: &str) -> Option<Rewrite> {
    types! { type_name;
        Annotations, BlobResourceContents, CallToolRequestParams, CallToolResult,
        CancelledNotificationParams, ClientCapabilities, CompleteRequestParams, CompleteResult,
        CreateMessageRequestParams, CreateMessageResult, CreateTaskResult, DiscoverResult,
        ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, GetPromptRequestParams,
        GetPromptResult, GetTaskResult, Icon, Implementation, InitializeRequestParams, InitializeResult,
        InputRequests, InputRequiredResult, InputResponse, InputResponses, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListRootsResult, ListToolsResult, LoggingLevel,
        LoggingMessageNotificationParams, ModelHint, ModelPreferences, NotificationParams,
        PaginatedRequestParams, ProgressNotificationParams, ProgressToken, Prompt, PromptArgument,
        ReadResourceRequestParams, ReadResourceResult, RequestId, RequestParams, Resource, ResourceTemplate,
        ResourceUpdatedNotificationParams, Role, Root, SamplingMessage, ServerCapabilities,
        SetLevelRequestParams, SubscriptionFilter, SubscriptionsAcknowledgedNotificationParams,
        SubscriptionsListenRequestParams, SubscriptionsListenResult, Task, TaskStatus, TextResourceContents,
        Tool, ToolAnnotations, ToolChoice, ToolExecution;
        "ContentBlock" | "TextContent" | "ImageContent" | "AudioContent" | "ResourceLink"
            | "EmbeddedResource" => ContentBlock,
        "SamplingMessageContentBlock" | "ToolUseContent" | "ToolResultContent" => SamplingMessageContentBlock,
        "PromptReference" | "ResourceReference" | "ResourceTemplateReference" => CompletionReference,
        "CancelledTask" | "CompletedTask" | "DetailedTask" | "FailedTask" | "InputRequiredTask"
            | "WorkingTask" => DetailedTask,
        "TaskSubscriptionNotifications" | "TaskSubscriptionAcknowledgedNotifications"
            => TaskSubscriptionNotifications,
        "PrimitiveSchemaDefinition" | "EnumSchema" | "LegacyTitledEnumSchema" | "BooleanSchema"
            | "NumberSchema" | "StringSchema" | "TitledMultiSelectEnumSchema"
            | "TitledSingleSelectEnumSchema" | "UntitledMultiSelectEnumSchema"
            | "UntitledSingleSelectEnumSchema" => PrimitiveSchemaDefinition,
        // In the schema, these requests are parts of a result, so they have no envelope.
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" | "InputRequest" => InputRequest,
        "CancelTaskResult" | "EmptyResult" | "UpdateTaskResult" => JsonObject,
        "SubscribeRequestParams" | "UnsubscribeRequestParams" => SubscribeRequestParams,
        "TaskStatusNotificationParams" => GetTaskResult,
    }
}

/// Matches the name of a message, and returns its method and the type of its parameters.
macro_rules! messages {
    ($name:expr; $($message:literal => $method:ident, $type:ident;)*) => {
        match $name {
            $($message => Some((methods::$method, through::<schema::$type> as Rewrite)),)*
            _ => None,
        }
    };
}

/// Returns the method of a request or notification, and the function that reads its parameters and writes
/// them back.
pub(super) fn message(type_name: &str) -> Option<(&'static str, Rewrite)> {
    messages! { type_name;
        "CallToolRequest" => TOOLS_CALL, CallToolRequestParams;
        "CancelTaskRequest" => TASKS_CANCEL, JsonObject;
        "CreateMessageRequest" => SAMPLING_CREATE_MESSAGE, CreateMessageRequestParams;
        "ElicitRequest" => ELICITATION_CREATE, ElicitRequestParams;
        "GetTaskRequest" => TASKS_GET, JsonObject;
        "InitializeRequest" => INITIALIZE, InitializeRequestParams;
        "ListRootsRequest" => ROOTS_LIST, RequestParams;
        "PingRequest" => PING, RequestParams;
        "SetLevelRequest" => LOGGING_SET_LEVEL, SetLevelRequestParams;
        "SubscribeRequest" => RESOURCES_SUBSCRIBE, SubscribeRequestParams;
        "UnsubscribeRequest" => RESOURCES_UNSUBSCRIBE, SubscribeRequestParams;
        "UpdateTaskRequest" => TASKS_UPDATE, JsonObject;
        "CompleteRequest" => COMPLETION_COMPLETE, CompleteRequestParams;
        "DiscoverRequest" => SERVER_DISCOVER, RequestParams;
        "GetPromptRequest" => PROMPTS_GET, GetPromptRequestParams;
        "ListPromptsRequest" => PROMPTS_LIST, PaginatedRequestParams;
        "ListResourcesRequest" => RESOURCES_LIST, PaginatedRequestParams;
        "ListResourceTemplatesRequest" => RESOURCES_TEMPLATES_LIST, PaginatedRequestParams;
        "ListToolsRequest" => TOOLS_LIST, PaginatedRequestParams;
        "ReadResourceRequest" => RESOURCES_READ, ReadResourceRequestParams;
        "SubscriptionsListenRequest" => SUBSCRIPTIONS_LISTEN, SubscriptionsListenRequestParams;
        "CancelledNotification" => NOTIFICATIONS_CANCELLED, CancelledNotificationParams;
        "ElicitationCompleteNotification" => NOTIFICATIONS_ELICITATION_COMPLETE, JsonObject;
        "InitializedNotification" => NOTIFICATIONS_INITIALIZED, NotificationParams;
        "RootsListChangedNotification" => NOTIFICATIONS_ROOTS_LIST_CHANGED, NotificationParams;
        "TaskStatusNotification" => NOTIFICATIONS_TASKS, GetTaskResult;
        "LoggingMessageNotification" => NOTIFICATIONS_MESSAGE, LoggingMessageNotificationParams;
        "ProgressNotification" => NOTIFICATIONS_PROGRESS, ProgressNotificationParams;
        "PromptListChangedNotification" => NOTIFICATIONS_PROMPTS_LIST_CHANGED, NotificationParams;
        "ResourceListChangedNotification" => NOTIFICATIONS_RESOURCES_LIST_CHANGED, NotificationParams;
        "ResourceUpdatedNotification" => NOTIFICATIONS_RESOURCES_UPDATED, ResourceUpdatedNotificationParams;
        "SubscriptionsAcknowledgedNotification"
            => NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, SubscriptionsAcknowledgedNotificationParams;
        "ToolListChangedNotification" => NOTIFICATIONS_TOOLS_LIST_CHANGED, NotificationParams;
    }
}

/// Returns the code of an error.
pub(super) fn error(type_name: &str) -> Option<ErrorCode> {
    Some(match type_name {
        "HeaderMismatchError" => ErrorCode::HEADER_MISMATCH,
        "InternalError" => ErrorCode::INTERNAL_ERROR,
        "InvalidParamsError" => ErrorCode::INVALID_PARAMS,
        "InvalidRequestError" => ErrorCode::INVALID_REQUEST,
        "MethodNotFoundError" => ErrorCode::METHOD_NOT_FOUND,
        "MissingRequiredClientCapabilityError" => ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        "ParseError" => ErrorCode::PARSE_ERROR,
        "UnsupportedProtocolVersionError" => ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        _ => return None,
    })
}
