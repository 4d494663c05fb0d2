//! The key `search` of MCP endpoints.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_mcp_sdk::{McpClientError, McpGateway, McpGatewayOptions, Member, ToolSearch};

use crate::config::mcp::servers::ResolvedServers;
use crate::config::mcp::settings::{McpNames, McpSearch};
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// The value of the key `search`.
#[derive(Default)]
pub(in crate::config) enum RawMcpSearch {
    #[default]
    No,
    Yes(RawMcpSearchOptions),
}

/// The tool search of an MCP endpoint. Clients get only the tools `find_tool` and `call_tool` and the pinned
/// tools. A model finds the other tools with `find_tool`, and calls them with `call_tool`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcpSearchOptions {
    /// Tools that stay in the list, by the names that clients use, such as `["github__read_issue"]`.
    /// Default: none.
    #[serde(default)]
    pub(in crate::config) pinned: Vec<Spanned<String>>,
    /// Maximum number of tools that `find_tool` returns, 1 to 100. Default: 5.
    pub(in crate::config) results_max: Option<Spanned<usize>>,
}

/// Returns the settings of the tool search, or `None` if clients get the list of all tools. Refuses pinned
/// names that no tool of the endpoint can have.
pub(in crate::config) fn resolve_search(
    resolver: &mut Resolver<'_>,
    raw: RawMcpSearch,
    servers: &[String],
    names: McpNames,
    known: &ResolvedServers,
) -> Option<McpSearch> {
    let RawMcpSearch::Yes(RawMcpSearchOptions { pinned, results_max }) = raw else { return None };
    for name in &pinned {
        if !is_possible(name.get_ref(), servers, names, known) {
            let message =
                format!("no tool of the endpoint can have the name `{}`", name.get_ref().escape_debug());
            let hint = match names {
                McpNames::Prefixed => PREFIXED_HINT,
                McpNames::Plain => PLAIN_HINT,
            };
            resolver.refuse_with(name, message, hint);
        }
    }
    let results_max = resolver.or(results_max, ToolSearch::default().results_max, 1..=RESULTS_MAX);
    Some(McpSearch { pinned: pinned.into_iter().map(Spanned::into_inner).collect(), results_max })
}

/// Asks the library, so that the check of the config and the running endpoint have the same rules.
fn is_possible(name: &str, servers: &[String], names: McpNames, known: &ResolvedServers) -> bool {
    let search = Some(ToolSearch { pinned: vec![name.to_owned()], ..ToolSearch::default() });
    let options = McpGatewayOptions { names: names.style(), search, ..McpGatewayOptions::default() };
    let mut builder = McpGateway::builder("", "").options(options);
    for server in servers {
        // The config has other errors if a server is unknown or invalid.
        let Some(Some(config)) = known.get(server) else { return true };
        let member = Member::new(server, |_| Err(McpClientError::Closed));
        builder = builder.member(member.tools(config.tools.filter()));
    }
    // Other errors have their own messages.
    !matches!(builder.check(), Err(thruway_mcp_sdk::McpGatewayError::UnknownPinned(_)))
}

impl<'de> Deserialize<'de> for RawMcpSearch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SearchVisitor;
        impl<'de> Visitor<'de> for SearchVisitor {
            type Value = RawMcpSearch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or a table with `pinned` or `results_max`")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawMcpSearch, E> {
                let defaults = RawMcpSearch::Yes(RawMcpSearchOptions::default());
                Ok(if is_wanted { defaults } else { RawMcpSearch::No })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawMcpSearch, A::Error> {
                RawMcpSearchOptions::deserialize(MapAccessDeserializer::new(table)).map(RawMcpSearch::Yes)
            }
        }
        deserializer.deserialize_any(SearchVisitor)
    }
}

impl JsonSchema for RawMcpSearch {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "McpSearch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, generator.subschema_for::<RawMcpSearchOptions>()] })
    }
}

const PREFIXED_HINT: &str =
    "write `SERVER__TOOL`: a server of the endpoint and the new name of a tool that the server does not hide";
const PLAIN_HINT: &str = "write the new name of a tool that the servers do not hide";
const RESULTS_MAX: usize = 100;
