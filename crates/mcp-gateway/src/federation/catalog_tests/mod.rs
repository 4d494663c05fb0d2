//! Tests of the catalog with in-process servers.

mod caching;
mod faults;
mod owners;
mod reserved_names;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp::Revision;
use thruway_mcp::federated::{CompiledFilter, EndpointNames, ListKind, MemberName, NameStyle, Withheld};
use thruway_mcp::json_rpc::{Error, ErrorCode, write_error, write_result};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{CacheScope, Implementation, ServerCapabilities, Tool};
use thruway_mcp_client::{McpClient, McpClientError};
use thruway_mcp_server::backend::{
    Accepted, Backend, Caller, Exchange, LegacyRequest, Listening, ModernRequest, Reply, ServerCore, Status,
    WantedNotifications,
};
use thruway_mcp_server::{McpServer, McpServerOptions};
use thruway_message::FieldLines;
use tokio::time::{Instant, sleep};

use crate::federation::catalog::{Catalog, CatalogMember, CatalogOptions};
use crate::federation::fetch::ListConnection;
use crate::federation::listing::Listing;
use crate::federation::member_lists::{ConnectionFuture, ListSource};
use crate::federation::rules::{AccessRules, Rule};

const TOOLS: ListKind = ListKind::Tools;
const WAIT: Duration = Duration::from_secs(2);

/// The answer of a scripted server to a request for a list.
enum Answer {
    Result(Value),
    Error(Error),
    /// The result comes after this time.
    Slow(Duration, Value),
    Never,
}

/// Answers the request with this number (from 1) and this cursor.
type Script = dyn Fn(usize, Option<&str>) -> Answer + Send + Sync;

/// A server that answers all requests for lists with a script.
struct ScriptedServer {
    script: Box<Script>,
    requests: AtomicUsize,
}

impl std::fmt::Debug for ScriptedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedServer").finish_non_exhaustive()
    }
}

impl Backend for ScriptedServer {
    fn capabilities(&self, _: &ServerCore, _: Revision) -> ServerCapabilities {
        serde_json::from_value(json!({
            "tools": {"listChanged": true}, "prompts": {}, "resources": {"listChanged": true},
        }))
        .unwrap()
    }

    fn check_legacy_param_headers(&self, _: FieldLines<'_>, _: &Params<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn handle_legacy(&self, _: &LegacyRequest<'_>, _: &mut Vec<u8>) -> Option<Reply> {
        None
    }

    fn handle_modern(&self, request: &ModernRequest<'_>, _: &mut Vec<u8>) -> Option<Reply> {
        ListKind::of_method(&request.request.method)?;
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = (self.script)(number, request.params.cursor.as_deref());
        let id = request.request.id.to_owned();
        let answering = async move {
            let result = match answer {
                Answer::Result(result) => Ok(result),
                Answer::Error(error) => Err(error),
                Answer::Slow(time, result) => {
                    sleep(time).await;
                    Ok(result)
                }
                Answer::Never => std::future::pending().await,
            };
            let mut output = Vec::new();
            match result {
                Ok(result) => write_result(&mut output, &(&id).into(), |output| {
                    output.extend_from_slice(result.to_string().as_bytes());
                    Ok(())
                }),
                Err(error) => write_error(&mut output, Some(&(&id).into()), &error),
            }
            (output, Status::Ok)
        };
        Some(Reply::Later(Exchange::new(answering, None)))
    }

    fn listen(&self, _: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error> {
        Ok(Listening::Now(Accepted { wanted, ..Accepted::default() }))
    }
}

/// A member of the catalog, with its connection to an in-process server.
#[derive(Debug)]
struct TestMember {
    client: McpClient,
    is_watched: bool,
    is_down: AtomicBool,
    scripted: Option<Arc<ScriptedServer>>,
}

impl ListSource for TestMember {
    fn connection(&self) -> ConnectionFuture {
        let (client, is_watched) = (self.client.clone(), self.is_watched);
        let is_down = self.is_down.load(Ordering::Relaxed);
        Box::pin(async move {
            if is_down {
                return Err(McpClientError::Closed);
            }
            let capabilities = client.discover().await?.capabilities;
            Ok(ListConnection { client, capabilities, is_watched })
        })
    }
}

impl TestMember {
    fn of(server: &McpServer, is_watched: bool, scripted: Option<Arc<ScriptedServer>>) -> Arc<Self> {
        let client = McpClient::builder().server(server);
        Arc::new(Self { client, is_watched, is_down: AtomicBool::new(false), scripted })
    }

    fn scripted(
        is_watched: bool,
        script: impl Fn(usize, Option<&str>) -> Answer + Send + Sync + 'static,
    ) -> Arc<Self> {
        let backend = Arc::new(ScriptedServer { script: Box::new(script), requests: AtomicUsize::new(0) });
        let info = Implementation::new("scripted", "1");
        let server = McpServer::with_backend(info, McpServerOptions::default(), backend.clone());
        Self::of(&server, is_watched, Some(backend))
    }

    /// A member whose list never changes.
    fn with(names: &'static [&'static str]) -> Arc<Self> {
        Self::scripted(true, |_, _| Answer::Result(page(names)))
    }

    fn requests(&self) -> usize {
        self.scripted.as_ref().map_or(0, |scripted| scripted.requests.load(Ordering::Relaxed))
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }
}

/// A page with an item for each name. The items fit all kinds of lists.
fn page(names: &[impl AsRef<str>]) -> Value {
    let items = names.iter().map(AsRef::as_ref).map(
        |name| json!({"name": name, "uri": name, "uriTemplate": name, "inputSchema": {"type": "object"}}),
    );
    let items: Vec<_> = items.collect();
    json!({
        "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
        "tools": items, "prompts": items, "resources": items, "resourceTemplates": items,
    })
}

fn page_with(names: &[impl AsRef<str>], members: Value) -> Value {
    let mut page = page(names);
    let Value::Object(members) = members else { panic!("not an object") };
    page.as_object_mut().unwrap().extend(members);
    page
}

/// A catalog with the members `a`, `b` and so on.
struct TestCatalog {
    catalog: Catalog,
    changes: Arc<Mutex<Vec<ListKind>>>,
}

impl TestCatalog {
    fn new(style: NameStyle, preferred: &[usize], members: &[Arc<TestMember>]) -> Self {
        Self::with_required(style, preferred, members, false)
    }

    fn with_required(
        style: NameStyle,
        preferred: &[usize],
        members: &[Arc<TestMember>],
        is_required: bool,
    ) -> Self {
        Self::with_filter(style, preferred, members, is_required, &CompiledFilter::default())
    }

    /// Creates a catalog in which `filter` applies to all members except the first.
    fn with_filter(
        style: NameStyle,
        preferred: &[usize],
        members: &[Arc<TestMember>],
        is_required: bool,
        filter: &CompiledFilter,
    ) -> Self {
        let names = ["a", "b", "c"].iter().take(members.len()).enumerate().map(|(member, name)| {
            let filter = if member == 0 { CompiledFilter::default() } else { filter.clone() };
            (MemberName::try_from(*name).unwrap(), filter)
        });
        let names = Arc::new(EndpointNames::new(style, names, preferred));
        let members = members.iter().map(|member| CatalogMember { source: member.clone(), is_required });
        let options = CatalogOptions {
            list_wait: WAIT,
            list_ttl_max: Duration::from_mins(5),
            page_entries: 100,
            client_info: Implementation::new("gateway", "1"),
        };
        let changes = Arc::<Mutex<Vec<ListKind>>>::default();
        let on_change = {
            let changes = changes.clone();
            move |kind| changes.lock().unwrap().push(kind)
        };
        Self { catalog: Catalog::new(names, members.collect(), options, on_change), changes }
    }

    fn single(member: &Arc<TestMember>) -> Self {
        Self::prefixed(std::slice::from_ref(member))
    }

    fn prefixed(members: &[Arc<TestMember>]) -> Self {
        Self::new(NameStyle::Prefixed, &[], members)
    }

    async fn tools(&self) -> Listing {
        self.catalog.list(TOOLS, Revision::LATEST, None).await.unwrap()
    }

    async fn names(&self) -> Vec<String> {
        self.tools().await.entries().map(|entry| entry.key.to_string()).collect()
    }

    async fn owner(&self, public: &str) -> Option<usize> {
        self.catalog.owner_of_name(TOOLS, public).await.map(|(member, _)| member)
    }

    async fn missing(&self) -> Vec<String> {
        self.tools().await.missing.iter().map(ToString::to_string).collect()
    }

    fn changes(&self) -> Vec<ListKind> {
        std::mem::take(&mut self.changes.lock().unwrap())
    }

    fn withheld(&self) -> Vec<(usize, Box<str>, Withheld)> {
        let withheld = self.catalog.withheld().into_iter().filter(|(kind, _)| *kind == TOOLS);
        withheld.map(|(_, item)| (item.member, item.own, item.reason)).collect()
    }
}

fn written(listing: &Listing, cursor: Option<&str>) -> Result<Value, Error> {
    let server = McpServer::new("gateway", "1");
    let mut output = Vec::new();
    listing.write_page(&mut output, server.core().results(), cursor)?;
    Ok(serde_json::from_slice(&output).unwrap())
}
