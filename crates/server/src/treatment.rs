//! What is done with requests of a listener before they come to the handler of the server.

use std::sync::Arc;

use crate::redirects::to_https;
use crate::{Answer, Handler, Listener, Request, Response};

/// Answers some requests before redirects and routes: what must be found at its place, whatever else a listener is for.
pub trait AnswerFirst: Send + Sync + 'static {
    /// The answer; `None` to leave the request to the others.
    fn answer(&self, request: &Request<'_>) -> Option<Response>;
}

/// What is done with requests of a listener.
#[derive(Clone)]
pub(crate) struct Treatment {
    redirect_to_https: Option<u16>,
    first: Option<Arc<dyn AnswerFirst>>,
}

impl Treatment {
    /// What `listener` wants; `None` if its requests simply come to the handler.
    pub(crate) fn of(listener: &Listener) -> Option<Self> {
        let redirect_to_https = listener.redirect_to_https.filter(|_| listener.tls.is_none());
        let first = listener.first.clone();
        (redirect_to_https.is_some() || first.is_some()).then_some(Self { redirect_to_https, first })
    }

    /// Whether it is what `listener` wants.
    pub(crate) fn is_of(&self, listener: &Listener) -> bool {
        let is_same_first = match (&self.first, &listener.first) {
            (Some(ours), Some(other)) => Arc::ptr_eq(ours, other),
            (ours, other) => ours.is_none() && other.is_none(),
        };
        is_same_first
            && self.redirect_to_https == listener.redirect_to_https.filter(|_| listener.tls.is_none())
    }

    /// `handler`, to which come the requests that are left.
    pub(crate) fn before(&self, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        let handler = self.redirect_to_https.map_or(handler, to_https);
        match self.first.clone() {
            Some(first) => Arc::new(First { first, next: handler }),
            None => handler,
        }
    }
}

struct First {
    first: Arc<dyn AnswerFirst>,
    next: Arc<dyn Handler>,
}

impl Handler for First {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.first.answer(request).map_or_else(|| self.next.handle(request), Answer::Now)
    }
}
