//! The names of the schema, and our types for them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::schema::{self, methods};

/// The way to read a type of the schema, and to write it back.
pub(super) enum Form {
    /// An error of this code, without an envelope.
    Error(ErrorCode),
    /// A response that is an error of this code.
    ErrorResponse(ErrorCode),
    /// A notification, with the type of its parameters.
    Notification(&'static str, Rewrite),
    /// A request, with the type of its parameters.
    Request(&'static str, Rewrite),
    /// A response with a result of a type.
    Response(Rewrite),
    /// A value of a type.
    Value(Rewrite),
}

/// Reads JSON as one of our types, and writes that as JSON.
pub(super) type Rewrite = fn(&str) -> serde_json::Result<String>;

fn through<T: DeserializeOwned + Serialize>(text: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<T>(text)?)
}

impl Form {
    /// Returns the form of a type of the schema, if we have one.
    pub(super) fn of(type_name: &str) -> Option<Self> {
        part(type_name)
            .or_else(|| result(type_name))
            .or_else(|| params(type_name))
            .map(Self::Value)
            .or_else(|| request(type_name))
            .or_else(|| notification(type_name))
            .or_else(|| error(type_name))
            .or_else(|| type_name.strip_suffix("Response").and_then(result).map(Self::Response))
    }
}

/// Matches a name of the schema: names of our own types as they are, then other names, each with its type.
macro_rules! types {
    ($name:expr; $($same:ident),*; $($($other:literal)|+ => $type:ident,)*) => {
        match $name {
            $(stringify!($same) => Some(through::<schema::$same> as Rewrite),)*
            $($($other)|+ => Some(through::<schema::$type> as Rewrite),)*
            _ => None,
        }
    };
}

fn part(type_name: &str) -> Option<Rewrite> {
    types! { type_name;
        Annotations, BlobResourceContents, ClientCapabilities, Icon, Implementation, InputRequests,
        InputResponse, InputResponses, LoggingLevel, ModelHint, ModelPreferences, ProgressToken, Prompt,
        PromptArgument, RequestId, Resource, ResourceTemplate, Role, Root, SamplingMessage,
        ServerCapabilities, SubscriptionFilter, Task, TaskStatus, TextResourceContents, Tool,
        ToolAnnotations, ToolChoice, ToolExecution;
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
        // They have no envelope because they are parts of a result.
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" | "InputRequest" => InputRequest,
    }
}

fn result(type_name: &str) -> Option<Rewrite> {
    types! { type_name;
        CallToolResult, CompleteResult, CreateMessageResult, CreateTaskResult, DiscoverResult, ElicitResult,
        GetPromptResult, GetTaskResult, InitializeResult, InputRequiredResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListRootsResult, ListToolsResult,
        ReadResourceResult, SubscriptionsListenResult;
        "CancelTaskResult" | "EmptyResult" | "UpdateTaskResult" => JsonObject,
    }
}

fn params(type_name: &str) -> Option<Rewrite> {
    types! { type_name;
        CallToolRequestParams, CancelledNotificationParams, CompleteRequestParams,
        CreateMessageRequestParams, ElicitRequestFormParams, ElicitRequestURLParams, GetPromptRequestParams,
        InitializeRequestParams, LoggingMessageNotificationParams, NotificationParams,
        PaginatedRequestParams, ProgressNotificationParams, ReadResourceRequestParams, RequestParams,
        ResourceUpdatedNotificationParams, SetLevelRequestParams,
        SubscriptionsAcknowledgedNotificationParams, SubscriptionsListenRequestParams;
        "SubscribeRequestParams" | "UnsubscribeRequestParams" => SubscribeRequestParams,
        "TaskStatusNotificationParams" => GetTaskResult,
    }
}

/// Matches the name of a message: each has its method and the type of its parameters.
macro_rules! messages {
    ($form:path, $name:expr; $($message:literal => $method:ident, $type:ident;)*) => {
        match $name {
            $($message => Some($form(methods::$method, through::<schema::$type>)),)*
            _ => None,
        }
    };
}

pub(super) fn request(type_name: &str) -> Option<Form> {
    messages! { Form::Request, type_name;
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
    }
}

pub(super) fn notification(type_name: &str) -> Option<Form> {
    messages! { Form::Notification, type_name;
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

fn error(type_name: &str) -> Option<Form> {
    Some(match type_name {
        "HeaderMismatchError" => Form::ErrorResponse(ErrorCode::HEADER_MISMATCH),
        "InternalError" => Form::Error(ErrorCode::INTERNAL_ERROR),
        "InvalidParamsError" => Form::Error(ErrorCode::INVALID_PARAMS),
        "InvalidRequestError" => Form::Error(ErrorCode::INVALID_REQUEST),
        "MethodNotFoundError" => Form::Error(ErrorCode::METHOD_NOT_FOUND),
        "MissingRequiredClientCapabilityError" => {
            Form::ErrorResponse(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY)
        }
        "ParseError" => Form::Error(ErrorCode::PARSE_ERROR),
        "UnsupportedProtocolVersionError" => Form::ErrorResponse(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION),
        _ => return None,
    })
}
