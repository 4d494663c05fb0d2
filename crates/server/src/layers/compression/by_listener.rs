//! Compression that depends on where a request came in.

use std::sync::Arc;

use super::Compression;
use crate::layers::Layer;
use crate::{Answer, Handler, Request};

/// How responses are compressed that go out by one listener: see [`Listener::compression`](crate::Listener::compression).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ListenerCompression {
    /// As elsewhere.
    #[default]
    AsElsewhere,
    /// They are not.
    Off,
    /// As this says.
    As(Arc<Compression>),
}

/// Compresses as the listener says that a request came by, or else as this does, if it does.
#[derive(Clone, Default, Debug)]
pub struct ByListener {
    elsewhere: Option<Arc<Compression>>,
}

impl ByListener {
    /// Compresses as `elsewhere` does where a listener does not say it.
    pub fn or_else(elsewhere: Option<Compression>) -> Self {
        Self { elsewhere: elsewhere.map(Arc::new) }
    }
}

impl Layer for ByListener {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithListeners { elsewhere: self.elsewhere, inner })
    }
}

struct WithListeners {
    elsewhere: Option<Arc<Compression>>,
    inner: Arc<dyn Handler>,
}

impl Handler for WithListeners {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let compression = match &request.connection().compression {
            ListenerCompression::AsElsewhere => self.elsewhere.as_ref(),
            ListenerCompression::Off => None,
            ListenerCompression::As(compression) => Some(compression),
        };
        match compression.cloned() {
            Some(compression) => Compression::handle(&compression, &*self.inner, request),
            None => self.inner.handle(request),
        }
    }
}

impl From<Option<Compression>> for ListenerCompression {
    /// `None` for none.
    fn from(compression: Option<Compression>) -> Self {
        compression.map_or(Self::Off, |compression| Self::As(Arc::new(compression)))
    }
}
