//! The names of methods and notifications.

macro_rules! names {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: &str = $text;)*
    };
}

// A table: each name with its description.
names! {
    INITIALIZE = "initialize", "Begins a session (up to 2025-11-25).";
    PING = "ping", "Is there anybody? (up to 2025-11-25)";
    SERVER_DISCOVER = "server/discover", "What a server is and can do (2026-07-28).";
    TOOLS_LIST = "tools/list", "Which tools there are.";
    TOOLS_CALL = "tools/call", "Calls a tool.";
    RESOURCES_LIST = "resources/list", "Which resources there are.";
    RESOURCES_TEMPLATES_LIST = "resources/templates/list", "Which templates of resources there are.";
    RESOURCES_READ = "resources/read", "Reads a resource.";
    RESOURCES_SUBSCRIBE = "resources/subscribe", "Wants to know when a resource changes (up to 2025-11-25).";
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe", "Wants to know no longer (up to 2025-11-25).";
    PROMPTS_LIST = "prompts/list", "Which prompts there are.";
    PROMPTS_GET = "prompts/get", "Gets a prompt.";
    COMPLETION_COMPLETE = "completion/complete", "Completes an argument.";
    LOGGING_SET_LEVEL = "logging/setLevel", "From which level on log messages are wanted (up to 2025-11-25).";
    SUBSCRIPTIONS_LISTEN = "subscriptions/listen", "Opens a subscription (2026-07-28).";
    TASKS_GET = "tasks/get", "How a task stands.";
    TASKS_LIST = "tasks/list", "Which tasks there are (2025-11-25).";
    TASKS_RESULT = "tasks/result", "What a task comes to: waits for its end (2025-11-25).";
    TASKS_UPDATE = "tasks/update", "Answers what a task asked (tasks extension).";
    TASKS_CANCEL = "tasks/cancel", "Gives a task up.";
    SAMPLING_CREATE_MESSAGE = "sampling/createMessage", "Asks the client's model.";
    ROOTS_LIST = "roots/list", "Asks which directories the client works in.";
    ELICITATION_CREATE = "elicitation/create", "Asks the user.";
    NOTIFICATIONS_INITIALIZED = "notifications/initialized", "The client is ready (up to 2025-11-25).";
    NOTIFICATIONS_CANCELLED = "notifications/cancelled", "A request is given up.";
    NOTIFICATIONS_PROGRESS = "notifications/progress", "How far a request is.";
    NOTIFICATIONS_MESSAGE = "notifications/message", "A log message.";
    NOTIFICATIONS_TOOLS_LIST_CHANGED = "notifications/tools/list_changed", "There are other tools now.";
    NOTIFICATIONS_PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed", "There are other prompts now.";
    NOTIFICATIONS_RESOURCES_LIST_CHANGED = "notifications/resources/list_changed", "There are other resources now.";
    NOTIFICATIONS_RESOURCES_UPDATED = "notifications/resources/updated", "A resource has changed.";
    NOTIFICATIONS_ROOTS_LIST_CHANGED = "notifications/roots/list_changed", "There are other roots now (up to 2025-11-25).";
    NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED = "notifications/subscriptions/acknowledged", "What a subscription will be told (2026-07-28).";
    NOTIFICATIONS_TASKS = "notifications/tasks", "How a task stands (tasks extension).";
    NOTIFICATIONS_TASKS_STATUS = "notifications/tasks/status", "How a task stands (2025-11-25).";
    NOTIFICATIONS_ELICITATION_COMPLETE = "notifications/elicitation/complete", "The user has done what a page asked (2025-11-25).";
}
