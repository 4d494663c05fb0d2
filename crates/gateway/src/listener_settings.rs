//! Settings of a listener that the handlers of the gateway use.

use std::sync::Arc;

use thruway_server::Request;

use crate::ResponseRules;

/// Settings of a listener for the handlers of the gateway. Pass them to
/// [`Listener::handler_settings`](thruway_server::Listener::handler_settings).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ListenerSettings {
    /// Name of the listener, to which routes refer. `None` if no route refers to it.
    pub name: Option<String>,
    /// Changes to the headers of all responses. `None` if there are no changes.
    pub response_rules: Option<Arc<ResponseRules>>,
}

impl ListenerSettings {
    /// Returns the settings of the listener that has accepted the connection of `request`.
    pub(crate) fn of<'r>(request: &'r Request<'_>) -> Option<&'r Self> {
        request.connection().handler_settings.as_ref()?.downcast_ref()
    }
}
