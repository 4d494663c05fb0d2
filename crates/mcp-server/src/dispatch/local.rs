//! The default backend, which calls the handlers of this process.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use thruway_mcp::json_rpc::{Error, ErrorCode, write_error};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{
    JsonObject, ListCapability, ResourcesCapability, ServerCapabilities, SubscribeRequestParams,
    TASKS_EXTENSION, methods,
};
use thruway_mcp::{Era, Revision, modern};
use thruway_message::FieldLines;

use super::reply::write_json_result;
use super::{Answering, Reply, Status, tasks};
use crate::ask::{BoundRequest, Rounds};
use crate::backend::{Accepted, Backend, LegacyRequest, Listening, ModernRequest, WantedNotifications};
use crate::handlers::{Call, ClientSide};
use crate::registry::Registry;
use crate::server::{Change, ServerCore};
use crate::session::{ClientSession, Session};

/// The backend with the tools, resources and prompts of this process.
#[derive(Default)]
pub(crate) struct LocalBackend {
    registry: ArcSwap<Registry>,
}

/// The registry with the visibility of one session, which is part of the state of this session.
#[derive(Default)]
struct SessionView(Mutex<Option<CachedView>>);

struct CachedView {
    /// The version of the visibility.
    version: u64,
    /// The registry from which the view was made.
    of: Arc<Registry>,
    view: Arc<Registry>,
}

impl LocalBackend {
    /// Replaces the registry with a copy that `edit` has changed. If another thread changes the registry at
    /// the same time, `edit` runs again with a new copy.
    pub(crate) fn change<R>(&self, mut edit: impl FnMut(&mut Registry) -> R) -> R {
        let mut outcome = None;
        self.registry.rcu(|registry| {
            let mut registry = Registry::clone(registry);
            outcome = Some(edit(&mut registry));
            registry
        });
        outcome.expect("`rcu` calls `edit` at least once")
    }

    /// Returns `true` if the server has tasks, or tools that can run as tasks.
    fn has_tasks(&self, core: &ServerCore) -> bool {
        let registry = self.registry.load();
        let tools = registry.tools.entries().iter().chain(registry.hidden.tools.entries());
        tools.into_iter().any(|tool| tool.task_support().is_some()) || !core.tasks.is_empty()
    }

    /// Returns the registry with the visibility of `session`. Returns `None` if the session sees the same items as
    /// clients without a session.
    fn view_of(&self, session: &Arc<Session>) -> Option<Arc<Registry>> {
        let version = ClientSession::visibility_version(session)?;
        let registry = self.registry.load_full();
        let cache = ClientSession::new(session.clone()).state::<SessionView>();
        let mut cached = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*cached
            && cached.version == version
            && Arc::ptr_eq(&cached.of, &registry)
        {
            return Some(cached.view.clone());
        }
        let visibility = ClientSession::visibility(session);
        let view = Arc::new(registry.view(&visibility));
        *cached = Some(CachedView { version: visibility.version, of: registry, view: view.clone() });
        Some(view)
    }

    fn subscribe(&self, incoming: &LegacyRequest<'_>) -> Result<(), Error> {
        let params: SubscribeRequestParams = params::parse(incoming.request.params)?;
        let session = incoming.session.ok_or_else(no_session)?;
        let change = Change::Resource(params.uri.as_str().into());
        // A handler can hide the resource at the same time: this check comes after the start of the subscription, and
        // `hide_resource` ends the subscription after it has hidden the resource.
        let is_added = session.subscription.add(change.clone());
        let (view, registry) = (self.view_of(session), self.registry.load());
        let registry = view.as_deref().unwrap_or(&registry);
        let is_known = registry.resources.find(&params.uri).is_some()
            || registry.templates.entries().iter().any(|template| template.matches(&params.uri));
        if !is_known {
            session.subscription.remove(&change);
            return Err(Error::new(ErrorCode::RESOURCE_NOT_FOUND, "there is no such resource"));
        }
        if !is_added {
            return Err(Error::invalid_params("too many subscriptions in one session"));
        }
        Ok(())
    }

    fn call_modern(&self, incoming: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        let ModernRequest { core, request, params, caller, .. } = *incoming;
        let id = &request.id;
        let registry = self.registry.load();
        if let Some(headers) = incoming.headers
            && request.method == methods::TOOLS_CALL
            && let Err(error) = check_param_headers(&registry, headers, params)
        {
            return Some(Reply::error(output, id, &error));
        }
        let rounds = match begin(incoming) {
            Ok(rounds) => rounds,
            Err(error) => return Some(Reply::error(output, id, &error)),
        };
        let call = Call::new(incoming.revision, &request.method, params, ClientSide::Modern(&rounds), caller);
        let answering = Answering::Modern { core: core.clone(), rounds: rounds.clone() };
        let reply = answering.handle(&registry, request, params, &call, output);
        reply.map(|reply| reply.counted(core, caller, request, params, output))
    }
}

impl Backend for LocalBackend {
    /// Returns the capabilities for the kinds of items that the server has or may add later (tools,
    /// resources, prompts).
    fn capabilities(&self, core: &ServerCore, revision: Revision) -> ServerCapabilities {
        let registry = self.registry.load();
        let options = &core.options;
        let hidden = &registry.hidden;
        let has_resources = !registry.resources.is_empty()
            || !registry.templates.is_empty()
            || !hidden.resources.is_empty()
            || !hidden.templates.is_empty();
        let has_completions = !registry.completions.is_empty();
        let has_tools = !registry.tools.is_empty() || !hidden.tools.is_empty() || options.may_add_tools;
        let has_prompts =
            !registry.prompts.is_empty() || !hidden.prompts.is_empty() || options.may_add_prompts;
        let list = ListCapability { list_changed: Some(true) };
        let resources = ResourcesCapability { subscribe: Some(true), list_changed: Some(true) };
        let mut capabilities = ServerCapabilities {
            tools: has_tools.then_some(list),
            resources: (has_resources || options.may_add_resources).then_some(resources),
            prompts: has_prompts.then_some(list),
            completions: has_completions.then(JsonObject::new),
            logging: Some(JsonObject::new()),
            ..ServerCapabilities::default()
        };
        if revision.era() == Era::Modern && self.has_tasks(core) {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION.into(), JsonObject::new().into());
        }
        capabilities
    }

    fn check_legacy_param_headers(&self, headers: FieldLines<'_>, params: &Params<'_>) -> Result<(), Error> {
        let registry = self.registry.load();
        let find = |name| registry.tools.find(name).or_else(|| registry.hidden.tools.find(name));
        match params.name.as_deref().and_then(find) {
            Some(tool) if !tool.param_headers().is_empty() => {
                modern::check_present_param_headers(headers, tool.param_headers(), &arguments(params)?)
            }
            _ => Ok(()),
        }
    }

    fn handle_legacy(&self, incoming: &LegacyRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        let LegacyRequest { core, session, revision, request, params, caller } = *incoming;
        let outcome = match &*request.method {
            methods::RESOURCES_SUBSCRIBE => self.subscribe(incoming),
            methods::RESOURCES_UNSUBSCRIBE => unsubscribe(incoming),
            _ => {
                let client = session.map_or(ClientSide::Unknown, ClientSide::Legacy);
                let call = Call::new(revision, &request.method, params, client, caller);
                let answering = Answering::Legacy { core: core.clone(), revision };
                let view = session.and_then(|session| self.view_of(session));
                let registry = self.registry.load();
                let registry = view.as_deref().unwrap_or(&registry);
                return answering.handle(registry, request, params, &call, output);
            }
        };
        match outcome {
            Ok(()) => write_json_result(output, &request.id, &Value::Object(Map::new())),
            Err(error) => write_error(output, Some(&request.id), &error),
        }
        Some(Reply::Now(Status::Ok))
    }

    fn handle_modern(&self, incoming: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        match &*incoming.request.method {
            methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL => {
                self.has_tasks(incoming.core).then(|| tasks::handle_request(incoming, output))
            }
            _ => self.call_modern(incoming, output),
        }
    }

    /// Accepts the subscription, except for tasks of other callers.
    fn listen(
        &self,
        incoming: &ModernRequest<'_>,
        mut wanted: WantedNotifications,
    ) -> Result<Listening, Error> {
        let task_ids = &mut wanted.tasks.task_ids;
        let tasks =
            if task_ids.is_empty() { None } else { incoming.core.tasks.subscribe(task_ids, incoming.caller) };
        Ok(Listening::Now(Accepted { wanted, tasks, ..Accepted::default() }))
    }
}

fn unsubscribe(incoming: &LegacyRequest<'_>) -> Result<(), Error> {
    let params: SubscribeRequestParams = params::parse(incoming.request.params)?;
    let session: &Arc<Session> = incoming.session.ok_or_else(no_session)?;
    session.subscription.remove(&Change::Resource(params.uri.into()));
    Ok(())
}

fn no_session() -> Error {
    Error::new(ErrorCode::INVALID_REQUEST, "cannot subscribe: the request has no session")
}

fn check_param_headers(
    registry: &Registry,
    headers: FieldLines<'_>,
    params: &Params<'_>,
) -> Result<(), Error> {
    let Some(tool) = params.name.as_deref().and_then(|name| registry.tools.find(name)) else { return Ok(()) };
    if tool.param_headers().is_empty() {
        return Ok(());
    }
    modern::check_param_headers(headers, tool.param_headers(), &arguments(params)?)
}

/// Returns the client's answers from earlier rounds. Returns no answers if handlers of this method cannot ask
/// questions.
fn begin(incoming: &ModernRequest<'_>) -> Result<Arc<Rounds>, Error> {
    let ModernRequest { core, request, params, caller, .. } = *incoming;
    let method = &*request.method;
    let may_ask = matches!(method, methods::TOOLS_CALL | methods::PROMPTS_GET | methods::RESOURCES_READ);
    if !may_ask {
        return Ok(Arc::default());
    }
    Rounds::resume(params, &core.state_key, || BoundRequest::new(caller, method, params)).map(Arc::new)
}

/// Returns the arguments as a JSON value, so that they can be compared with headers. Rejects arguments that
/// are nested too deeply or contain too large numbers. The handler's input type may ignore such values, but
/// the server cannot compare them with headers.
fn arguments(params: &Params<'_>) -> Result<Value, Error> {
    let Some(raw) = params.arguments else { return Ok(Value::Null) };
    let unreadable = |_| {
        Error::invalid_params(
            "cannot compare `arguments` with their headers: the nesting is too deep or a \
             number is too large",
        )
    };
    serde_json::from_str(raw.get()).map_err(unreadable)
}

impl fmt::Debug for LocalBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBackend").finish_non_exhaustive()
    }
}
