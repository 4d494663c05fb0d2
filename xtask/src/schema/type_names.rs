//! The names of the schema, and our types for them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::schema::{
    Annotations, BlobResourceContents, CallToolRequestParams, CallToolResult, CancelledNotificationParams,
    ClientCapabilities, CompleteRequestParams, CompleteResult, CompletionReference, ContentBlock,
    CreateMessageRequestParams, CreateMessageResult, CreateTaskResult, DetailedTask, DiscoverResult,
    ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult,
    GetPromptRequestParams, GetPromptResult, GetTaskResult, Icon, Implementation, InitializeRequestParams,
    InitializeResult, InputRequest, InputRequests, InputRequiredResult, InputResponse, InputResponses,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListRootsResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParams, ModelHint, ModelPreferences,
    NotificationParams, PaginatedRequestParams, PrimitiveSchemaDefinition, ProgressNotificationParams,
    ProgressToken, Prompt, PromptArgument, ReadResourceRequestParams, ReadResourceResult, RequestId,
    RequestParams, Resource, ResourceTemplate, ResourceUpdatedNotificationParams, Role, Root,
    SamplingMessage, SamplingMessageContentBlock, ServerCapabilities, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams, SubscriptionsListenResult, Task, TaskStatus,
    TaskSubscriptionNotifications, TextResourceContents, Tool, ToolAnnotations, ToolChoice, ToolExecution,
    methods,
};

/// How what has a name of the schema is read, and written back.
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
    /// How what the schema calls `type_name` is read, if it is known here.
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

fn part(type_name: &str) -> Option<Rewrite> {
    Some(match type_name {
        "ContentBlock" | "TextContent" | "ImageContent" | "AudioContent" | "ResourceLink"
        | "EmbeddedResource" => through::<ContentBlock>,
        "SamplingMessageContentBlock" | "ToolUseContent" | "ToolResultContent" => {
            through::<SamplingMessageContentBlock>
        }
        "BlobResourceContents" => through::<BlobResourceContents>,
        "TextResourceContents" => through::<TextResourceContents>,
        "Annotations" => through::<Annotations>,
        "Icon" => through::<Icon>,
        "Implementation" => through::<Implementation>,
        "LoggingLevel" => through::<LoggingLevel>,
        "ModelHint" => through::<ModelHint>,
        "ProgressToken" => through::<ProgressToken>,
        "Prompt" => through::<Prompt>,
        "PromptArgument" => through::<PromptArgument>,
        "PromptReference" | "ResourceReference" | "ResourceTemplateReference" => {
            through::<CompletionReference>
        }
        "RequestId" => through::<RequestId>,
        "ResourceTemplate" => through::<ResourceTemplate>,
        "Role" => through::<Role>,
        "SubscriptionFilter" => through::<SubscriptionFilter>,
        "Task" => through::<Task>,
        "TaskStatus" => through::<TaskStatus>,
        "CancelledTask" | "CompletedTask" | "DetailedTask" | "FailedTask" | "InputRequiredTask"
        | "WorkingTask" => through::<DetailedTask>,
        "TaskSubscriptionNotifications" | "TaskSubscriptionAcknowledgedNotifications" => {
            through::<TaskSubscriptionNotifications>
        }
        "ToolAnnotations" => through::<ToolAnnotations>,
        "ToolChoice" => through::<ToolChoice>,
        "ToolExecution" => through::<ToolExecution>,
        "Resource" => through::<Resource>,
        "Root" => through::<Root>,
        "Tool" => through::<Tool>,
        "ClientCapabilities" => through::<ClientCapabilities>,
        "ServerCapabilities" => through::<ServerCapabilities>,
        "ModelPreferences" => through::<ModelPreferences>,
        "SamplingMessage" => through::<SamplingMessage>,
        "PrimitiveSchemaDefinition"
        | "EnumSchema"
        | "LegacyTitledEnumSchema"
        | "BooleanSchema"
        | "NumberSchema"
        | "StringSchema"
        | "TitledMultiSelectEnumSchema"
        | "TitledSingleSelectEnumSchema"
        | "UntitledMultiSelectEnumSchema"
        | "UntitledSingleSelectEnumSchema" => through::<PrimitiveSchemaDefinition>,
        // Without an envelope: they are parts of a result.
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" | "InputRequest" => {
            through::<InputRequest>
        }
        "InputRequests" => through::<InputRequests>,
        "InputResponse" => through::<InputResponse>,
        "InputResponses" => through::<InputResponses>,
        _ => return None,
    })
}

fn result(type_name: &str) -> Option<Rewrite> {
    Some(match type_name {
        "CallToolResult" => through::<CallToolResult>,
        "CancelTaskResult" | "EmptyResult" | "UpdateTaskResult" => through::<JsonObject>,
        "CompleteResult" => through::<CompleteResult>,
        "CreateTaskResult" => through::<CreateTaskResult>,
        "GetTaskResult" => through::<GetTaskResult>,
        "InitializeResult" => through::<InitializeResult>,
        "CreateMessageResult" => through::<CreateMessageResult>,
        "DiscoverResult" => through::<DiscoverResult>,
        "ElicitResult" => through::<ElicitResult>,
        "GetPromptResult" => through::<GetPromptResult>,
        "InputRequiredResult" => through::<InputRequiredResult>,
        "ListPromptsResult" => through::<ListPromptsResult>,
        "ListResourcesResult" => through::<ListResourcesResult>,
        "ListResourceTemplatesResult" => through::<ListResourceTemplatesResult>,
        "ListRootsResult" => through::<ListRootsResult>,
        "ListToolsResult" => through::<ListToolsResult>,
        "ReadResourceResult" => through::<ReadResourceResult>,
        "SubscriptionsListenResult" => through::<SubscriptionsListenResult>,
        _ => return None,
    })
}

fn params(type_name: &str) -> Option<Rewrite> {
    Some(match type_name {
        "CallToolRequestParams" => through::<CallToolRequestParams>,
        "CancelledNotificationParams" => through::<CancelledNotificationParams>,
        "CompleteRequestParams" => through::<CompleteRequestParams>,
        "CreateMessageRequestParams" => through::<CreateMessageRequestParams>,
        "ElicitRequestFormParams" => through::<ElicitRequestFormParams>,
        "ElicitRequestURLParams" => through::<ElicitRequestURLParams>,
        "GetPromptRequestParams" => through::<GetPromptRequestParams>,
        "InitializeRequestParams" => through::<InitializeRequestParams>,
        "LoggingMessageNotificationParams" => through::<LoggingMessageNotificationParams>,
        "NotificationParams" => through::<NotificationParams>,
        "RequestParams" => through::<RequestParams>,
        "SetLevelRequestParams" => through::<SetLevelRequestParams>,
        "SubscribeRequestParams" | "UnsubscribeRequestParams" => through::<SubscribeRequestParams>,
        "SubscriptionsAcknowledgedNotificationParams" => {
            through::<SubscriptionsAcknowledgedNotificationParams>
        }
        "SubscriptionsListenRequestParams" => through::<SubscriptionsListenRequestParams>,
        "TaskStatusNotificationParams" => through::<GetTaskResult>,
        "PaginatedRequestParams" => through::<PaginatedRequestParams>,
        "ProgressNotificationParams" => through::<ProgressNotificationParams>,
        "ReadResourceRequestParams" => through::<ReadResourceRequestParams>,
        "ResourceUpdatedNotificationParams" => through::<ResourceUpdatedNotificationParams>,
        _ => return None,
    })
}

pub(super) fn request(type_name: &str) -> Option<Form> {
    let (method, rewrite): (_, Rewrite) = match type_name {
        "CallToolRequest" => (methods::TOOLS_CALL, through::<CallToolRequestParams>),
        "CancelTaskRequest" => (methods::TASKS_CANCEL, through::<JsonObject>),
        "CreateMessageRequest" => (methods::SAMPLING_CREATE_MESSAGE, through::<CreateMessageRequestParams>),
        "ElicitRequest" => (methods::ELICITATION_CREATE, through::<ElicitRequestParams>),
        "GetTaskRequest" => (methods::TASKS_GET, through::<JsonObject>),
        "InitializeRequest" => (methods::INITIALIZE, through::<InitializeRequestParams>),
        "ListRootsRequest" => (methods::ROOTS_LIST, through::<RequestParams>),
        "PingRequest" => (methods::PING, through::<RequestParams>),
        "SetLevelRequest" => (methods::LOGGING_SET_LEVEL, through::<SetLevelRequestParams>),
        "SubscribeRequest" => (methods::RESOURCES_SUBSCRIBE, through::<SubscribeRequestParams>),
        "UnsubscribeRequest" => (methods::RESOURCES_UNSUBSCRIBE, through::<SubscribeRequestParams>),
        "UpdateTaskRequest" => (methods::TASKS_UPDATE, through::<JsonObject>),
        "CompleteRequest" => (methods::COMPLETION_COMPLETE, through::<CompleteRequestParams>),
        "DiscoverRequest" => (methods::SERVER_DISCOVER, through::<RequestParams>),
        "GetPromptRequest" => (methods::PROMPTS_GET, through::<GetPromptRequestParams>),
        "ListPromptsRequest" => (methods::PROMPTS_LIST, through::<PaginatedRequestParams>),
        "ListResourcesRequest" => (methods::RESOURCES_LIST, through::<PaginatedRequestParams>),
        "ListResourceTemplatesRequest" => {
            (methods::RESOURCES_TEMPLATES_LIST, through::<PaginatedRequestParams>)
        }
        "ListToolsRequest" => (methods::TOOLS_LIST, through::<PaginatedRequestParams>),
        "ReadResourceRequest" => (methods::RESOURCES_READ, through::<ReadResourceRequestParams>),
        "SubscriptionsListenRequest" => {
            (methods::SUBSCRIPTIONS_LISTEN, through::<SubscriptionsListenRequestParams>)
        }
        _ => return None,
    };
    Some(Form::Request(method, rewrite))
}

pub(super) fn notification(type_name: &str) -> Option<Form> {
    let (method, rewrite): (_, Rewrite) = match type_name {
        "CancelledNotification" => (methods::NOTIFICATIONS_CANCELLED, through::<CancelledNotificationParams>),
        "ElicitationCompleteNotification" => {
            (methods::NOTIFICATIONS_ELICITATION_COMPLETE, through::<JsonObject>)
        }
        "InitializedNotification" => (methods::NOTIFICATIONS_INITIALIZED, through::<NotificationParams>),
        "RootsListChangedNotification" => {
            (methods::NOTIFICATIONS_ROOTS_LIST_CHANGED, through::<NotificationParams>)
        }
        "TaskStatusNotification" => (methods::NOTIFICATIONS_TASKS, through::<GetTaskResult>),
        "LoggingMessageNotification" => {
            (methods::NOTIFICATIONS_MESSAGE, through::<LoggingMessageNotificationParams>)
        }
        "ProgressNotification" => (methods::NOTIFICATIONS_PROGRESS, through::<ProgressNotificationParams>),
        "PromptListChangedNotification" => {
            (methods::NOTIFICATIONS_PROMPTS_LIST_CHANGED, through::<NotificationParams>)
        }
        "ResourceListChangedNotification" => {
            (methods::NOTIFICATIONS_RESOURCES_LIST_CHANGED, through::<NotificationParams>)
        }
        "ResourceUpdatedNotification" => {
            (methods::NOTIFICATIONS_RESOURCES_UPDATED, through::<ResourceUpdatedNotificationParams>)
        }
        "SubscriptionsAcknowledgedNotification" => (
            methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED,
            through::<SubscriptionsAcknowledgedNotificationParams>,
        ),
        "ToolListChangedNotification" => {
            (methods::NOTIFICATIONS_TOOLS_LIST_CHANGED, through::<NotificationParams>)
        }
        _ => return None,
    };
    Some(Form::Notification(method, rewrite))
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
