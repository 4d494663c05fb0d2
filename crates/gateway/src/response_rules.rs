//! Changes to the headers of all responses of a route or of a listener: files, fixed responses, redirects,
//! forwarded responses, and the error responses of policies and of the gateway. The rules of a listener are a part of
//! its settings.

use std::fmt;
use std::sync::Arc;

use thruway_server::layers::MediaType;
use thruway_server::{Answer, Handler, Request, Response};

use crate::{ErrorPages, FieldRewrite, StatusRange};

/// Settings of a listener for the handlers of the gateway. Pass them to
/// [`Listener::handler_settings`](thruway_server::Listener::handler_settings).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ListenerSettings {
    /// Name of the listener, to which routes refer. `None` if no route refers to it.
    pub name: Option<String>,
    /// Changes to the headers of all responses. `None` if there are no changes.
    pub response_rules: Option<Arc<ResponseRules>>,
    /// Pages for the error responses of routes without pages of their own, and for requests without a route.
    /// `None` if there are no pages.
    pub error_pages: Option<Arc<ErrorPages>>,
}

impl ListenerSettings {
    /// Returns a handler that replaces the error responses of `handler` by the pages of the listener that has
    /// accepted the connection.
    pub fn wrap_error_pages(handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithPagesOfListener { handler })
    }

    /// Replaces the body of an error response without a route by the page of the listener.
    #[cold]
    pub(crate) fn apply_error_pages(request: &Request<'_>, response: Response) -> Response {
        match Self::error_pages_of(request) {
            Some(pages) => pages.apply(response),
            None => response,
        }
    }

    fn error_pages_of<'r>(request: &'r Request<'_>) -> Option<&'r Arc<ErrorPages>> {
        Self::of(request)?.error_pages.as_ref()
    }

    /// Returns the settings of the listener that has accepted the connection of `request`.
    pub(crate) fn of<'r>(request: &'r Request<'_>) -> Option<&'r Self> {
        request.connection().handler_settings.as_ref()?.downcast_ref()
    }
}

/// A handler that replaces the error responses of another handler by the pages of the listener.
struct WithPagesOfListener {
    handler: Arc<dyn Handler>,
}

impl Handler for WithPagesOfListener {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Some(pages) = ListenerSettings::error_pages_of(request).cloned() else {
            return self.handler.handle(request);
        };
        self.handler.handle(request).map(move |response| pages.apply(response))
    }
}

/// Changes to the headers of some responses.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ResponseRule {
    /// The changes. The placeholder `{request_id}` is not available, because only forwarded requests have an id.
    pub fields: FieldRewrite,
    /// Statuses of the responses to change. Empty for all statuses.
    pub statuses: Vec<StatusRange>,
    /// Types of the responses to change, as in `Content-Type`. Empty for all responses.
    pub types: Vec<MediaType>,
}

/// Rules that change the headers of responses, in this order.
///
/// The rules of a listener are part of its [`ListenerSettings`]. The rules of the listener apply before the rules of the
/// route, so the route takes precedence.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ResponseRules(Vec<ResponseRule>);

/// A handler that applies the rules of the listener and of a route to the responses of another handler.
struct WithResponseRules {
    rules: Option<Arc<ResponseRules>>,
    handler: Arc<dyn Handler>,
}

/// Rules, and the values of their headers for one request. Placeholders are filled before the handler runs,
/// because the request no longer exists when a later response arrives.
struct FilledRules {
    rules: Arc<ResponseRules>,
    values: Vec<String>,
}

impl ResponseRules {
    /// Creates the rules.
    pub const fn new(rules: Vec<ResponseRule>) -> Self {
        Self(rules)
    }

    /// Returns a handler that applies the rules of the listener, and then `rules`, to the responses of
    /// `handler`.
    pub fn wrap(rules: Option<Arc<Self>>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithResponseRules { rules, handler })
    }

    /// Applies the rules of the listener to a response without a route.
    #[cold]
    pub(crate) fn apply_of_listener(request: &Request<'_>, response: &mut Response) {
        if let Some(rules) = Self::of_listener(request) {
            FilledRules::new(rules, request).apply(response);
        }
    }

    /// Returns the rules of the listener that has accepted the connection of `request`.
    fn of_listener(request: &Request<'_>) -> Option<Arc<Self>> {
        ListenerSettings::of(request)?.response_rules.clone()
    }
}

impl ResponseRule {
    /// Returns `true` if the rule applies to `response`.
    fn includes(&self, response: &Response) -> bool {
        let has_status = || self.statuses.iter().any(|range| range.contains(response.status()));
        let has_type = || {
            let content_type = response.field("content-type");
            content_type.is_some_and(|found| {
                self.types.iter().any(|media_type| media_type.includes_content_type(found.as_bytes()))
            })
        };
        (self.statuses.is_empty() || has_status()) && (self.types.is_empty() || has_type())
    }
}

impl FilledRules {
    fn new(rules: Arc<ResponseRules>, request: &Request<'_>) -> Self {
        let mut values = Vec::new();
        rules.0.iter().for_each(|rule| rule.fields.fill_values(request, &mut values));
        Self { rules, values }
    }

    fn apply(&self, response: &mut Response) {
        let mut values = &self.values[..];
        for rule in &self.rules.0 {
            let (filled, rest) = values.split_at(rule.fields.filled_count());
            values = rest;
            if rule.includes(response) {
                rule.fields.apply(response, filled);
            }
        }
    }
}

impl Handler for WithResponseRules {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let of_listener = ResponseRules::of_listener(request).map(|rules| FilledRules::new(rules, request));
        let of_route = self.rules.clone().map(|rules| FilledRules::new(rules, request));
        let answer = self.handler.handle(request);
        if of_listener.is_none() && of_route.is_none() {
            return answer;
        }
        answer.map(move |mut response| {
            of_listener.iter().chain(&of_route).for_each(|rules| rules.apply(&mut response));
            response
        })
    }
}

/// Writes the changes as text, separated by commas.
impl fmt::Display for ResponseRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, rule) in self.0.iter().enumerate() {
            write!(f, "{}{}", if place == 0 { "" } else { ", " }, rule.fields)?;
        }
        Ok(())
    }
}
