//! The session of a client, for handlers: state of the application, and the visibility of items.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_mcp::Revision;

use super::{ItemName, Session, Visibility};
use crate::registry::UriTemplate;

/// The session of a client. Sessions exist up to MCP revision 2025-11-25: a session begins with `initialize`,
/// and ends when the client ends it, disconnects or is idle for too long. Clones refer to the same session.
///
/// ```
/// use std::sync::Mutex;
/// use thruway_mcp_server::{Context, HandlerError, McpServer, tool};
///
/// #[derive(Default)]
/// struct Basket(Mutex<Vec<String>>);
///
/// /// Puts an item into the basket of this client.
/// #[tool]
/// async fn put(item: String, context: Context) -> Result<usize, HandlerError> {
///     let session = context.session()?;
///     let basket = session.state::<Basket>();
///     let mut items = basket.0.lock().unwrap();
///     items.push(item);
///     session.show_tool("pay");
///     Ok(items.len())
/// }
///
/// /// Pays for the items in the basket.
/// #[tool]
/// async fn pay(context: Context) -> Result<String, HandlerError> {
///     let basket = context.session()?.remove_state::<Basket>().unwrap_or_default();
///     let items = basket.0.lock().unwrap();
///     Ok(format!("paid for {} items", items.len()))
/// }
///
/// let server = McpServer::new("shop", "1.0.0").with(put {}).with(pay {}).hide_tool("pay");
/// ```
#[derive(Clone)]
pub struct ClientSession(Arc<Session>);

impl ClientSession {
    pub(crate) const fn new(session: Arc<Session>) -> Self {
        Self(session)
    }

    /// Returns the protocol revision of the session.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Returns the value of the type `T` of this session. The first call in a session creates the value. The
    /// server drops the value after the end of the session, when no handler uses it.
    pub fn state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.state_or_insert_with(T::default)
    }

    /// Returns the value of the type `T` of this session, and creates it with `create` if it does not exist.
    /// If two handlers call this method at the same time, both can call `create`, but they get the same
    /// value.
    pub fn state_or_insert_with<T: Send + Sync + 'static>(&self, create: impl FnOnce() -> T) -> Arc<T> {
        let state = self.0.application.get_or_init(Box::default);
        let found = lock(&state.values).get(&TypeId::of::<T>()).cloned();
        // `create` runs without the lock, so that it can use the session.
        let value = found.unwrap_or_else(|| {
            let created: Arc<dyn Any + Send + Sync> = Arc::new(create());
            lock(&state.values).entry(TypeId::of::<T>()).or_insert(created).clone()
        });
        value.downcast().unwrap_or_else(|_| unreachable!("the key is the type of the value"))
    }

    /// Removes the value of the type `T` from this session. Returns `None` if it does not exist.
    pub fn remove_state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let removed = lock(&self.0.application.get()?.values).remove(&TypeId::of::<T>())?;
        removed.downcast().ok()
    }

    /// Shows the tool `name` to the client of this session, also if it is
    /// [hidden](crate::McpServer::hide_tool) from others. The client gets a notification if this is a change.
    /// The name of a tool that does not exist has no effect until the server adds the tool.
    pub fn show_tool(&self, name: impl Into<String>) {
        self.set(ItemName::Tool(name.into()), true);
    }

    /// Hides the tool `name` from the client of this session. The client can no longer list and call the
    /// tool, and gets a notification if this is a change. Calls in progress continue.
    pub fn hide_tool(&self, name: impl Into<String>) {
        self.set(ItemName::Tool(name.into()), false);
    }

    /// Shows the prompt `name` to the client of this session, as [`show_tool`](Self::show_tool).
    pub fn show_prompt(&self, name: impl Into<String>) {
        self.set(ItemName::Prompt(name.into()), true);
    }

    /// Hides the prompt `name` from the client of this session, as [`hide_tool`](Self::hide_tool).
    pub fn hide_prompt(&self, name: impl Into<String>) {
        self.set(ItemName::Prompt(name.into()), false);
    }

    /// Shows a resource or a resource template to the client of this session, as
    /// [`show_tool`](Self::show_tool). `uri` is the URI or the URI template.
    pub fn show_resource(&self, uri: impl Into<String>) {
        self.set(ItemName::Resource(uri.into()), true);
    }

    /// Hides a resource or a resource template from the client of this session, as
    /// [`hide_tool`](Self::hide_tool). `uri` is the URI or the URI template. A resource stays readable if a
    /// visible template matches its URI.
    ///
    /// If this is a change, the session's subscriptions to the resource, or to resources that match the
    /// template, end. The client can subscribe again to a resource that it can still read.
    pub fn hide_resource(&self, uri: impl Into<String>) {
        let uri = uri.into();
        if self.set(ItemName::Resource(uri.clone()), false) {
            let template = UriTemplate::parse(&uri).ok();
            let is_hidden = |name: &str| {
                name == uri || template.as_ref().is_some_and(|template| template.matches(name).is_some())
            };
            self.0.subscription.remove_named(is_hidden);
        }
    }

    /// Sets the visibility of an item. Returns `true` if this is a change.
    fn set(&self, name: ItemName, is_visible: bool) -> bool {
        let state = self.0.application.get_or_init(Box::default);
        let list = name.list();
        let mut visibility = lock(&state.visibility);
        if visibility.overrides.insert(name, is_visible) == Some(is_visible) {
            return false;
        }
        visibility.version += 1;
        state.has_overrides.store(true, Ordering::Release);
        drop(visibility);
        self.0.subscription.note(list);
        true
    }

    /// Returns the version of the visibility of items, if `session` has overrides.
    pub(crate) fn visibility_version(session: &Session) -> Option<u64> {
        let state = session.application.get().filter(|state| state.has_overrides.load(Ordering::Acquire))?;
        Some(lock(&state.visibility).version)
    }

    /// Returns the visibility of items in `session`.
    pub(crate) fn visibility(session: &Session) -> Visibility {
        session.application.get().map(|state| lock(&state.visibility).clone()).unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
