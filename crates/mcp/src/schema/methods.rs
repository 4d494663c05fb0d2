//! The names of methods and notifications.

macro_rules! names {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: &str = $text;)*
    };
}

// Each line contains a constant, the name of a method or notification, and the documentation of the
// constant.
names! {
    INITIALIZE = "initialize", "Begins a session (up to MCP revision 2025-11-25).";
    PING = "ping", "Checks that the peer responds (up to MCP revision 2025-11-25).";
    SERVER_DISCOVER = "server/discover", "Returns the capabilities of a server (MCP revision 2026-07-28).";
    TOOLS_LIST = "tools/list", "Lists the tools.";
    TOOLS_CALL = "tools/call", "Calls a tool.";
    RESOURCES_LIST = "resources/list", "Lists the resources.";
    RESOURCES_TEMPLATES_LIST = "resources/templates/list", "Lists the resource templates.";
    RESOURCES_READ = "resources/read", "Reads a resource.";
    RESOURCES_SUBSCRIBE = "resources/subscribe", "Subscribes to changes of a resource (up to MCP revision 2025-11-25).";
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe", "Ends a subscription to a resource (up to MCP revision 2025-11-25).";
    PROMPTS_LIST = "prompts/list", "Lists the prompts.";
    PROMPTS_GET = "prompts/get", "Returns the messages of a prompt.";
    COMPLETION_COMPLETE = "completion/complete", "Suggests values for an argument.";
    LOGGING_SET_LEVEL = "logging/setLevel", "Sets the lowest severity of log messages that the client wants (up to MCP revision 2025-11-25).";
    SUBSCRIPTIONS_LISTEN = "subscriptions/listen", "Opens a subscription to notifications (MCP revision 2026-07-28).";
    TASKS_GET = "tasks/get", "Returns the state of a task.";
    TASKS_LIST = "tasks/list", "Lists the tasks (MCP revision 2025-11-25).";
    TASKS_RESULT = "tasks/result", "Waits for the end of a task and returns its result (MCP revision 2025-11-25).";
    TASKS_UPDATE = "tasks/update", "Sends the answers to the elicitation, sampling and roots requests of a task (tasks extension).";
    TASKS_CANCEL = "tasks/cancel", "Cancels a task.";
    SAMPLING_CREATE_MESSAGE = "sampling/createMessage", "Lets the client's language model generate text (sampling).";
    ROOTS_LIST = "roots/list", "Asks the client for its working directories (roots).";
    ELICITATION_CREATE = "elicitation/create", "Asks the user a question (elicitation).";
    NOTIFICATIONS_INITIALIZED = "notifications/initialized", "Reports that the client is ready (up to MCP revision 2025-11-25).";
    NOTIFICATIONS_CANCELLED = "notifications/cancelled", "Cancels a request.";
    NOTIFICATIONS_PROGRESS = "notifications/progress", "Reports the progress of a request.";
    NOTIFICATIONS_MESSAGE = "notifications/message", "Carries a log message.";
    NOTIFICATIONS_TOOLS_LIST_CHANGED = "notifications/tools/list_changed", "Reports a change of the list of tools.";
    NOTIFICATIONS_PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed", "Reports a change of the list of prompts.";
    NOTIFICATIONS_RESOURCES_LIST_CHANGED = "notifications/resources/list_changed", "Reports a change of the list of resources.";
    NOTIFICATIONS_RESOURCES_UPDATED = "notifications/resources/updated", "Reports a change of a resource.";
    NOTIFICATIONS_ROOTS_LIST_CHANGED = "notifications/roots/list_changed", "Reports a change of the working directories (up to MCP revision 2025-11-25).";
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED = "notifications/subscriptions/acknowledged", "Lists the notifications that the server accepted for a subscription (MCP revision 2026-07-28).";
    NOTIFICATIONS_TASKS = "notifications/tasks", "Reports the state of a task (tasks extension).";
    NOTIFICATIONS_TASKS_STATUS = "notifications/tasks/status", "Reports the state of a task (MCP revision 2025-11-25).";
    NOTIFICATIONS_ELICITATION_COMPLETE = "notifications/elicitation/complete", "Reports that the user has answered a question on a web page (MCP revision 2025-11-25).";
}
