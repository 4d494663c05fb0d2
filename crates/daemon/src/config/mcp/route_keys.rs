//! The keys `demo` and `mcp` of routes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::Action;
use crate::config::mcp::endpoints::known_endpoint;
use crate::config::mcp::settings::McpEndpoints;
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// Endpoints of the demo that a route serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum RawDemo {
    No,
    Http,
    Mcp,
}

/// The value of the key `mcp` of a route.
pub(in crate::config) enum RawMcpAction {
    /// Name of an MCP endpoint.
    Endpoint(String),
    /// `true` or `false`. In earlier versions, `true` served the MCP endpoint of the demo.
    Boolean,
}

impl RawDemo {
    /// Returns the action of a route with this value, or `None` for `false`.
    pub(in crate::config) const fn action(self) -> Option<Action> {
        match self {
            Self::No => None,
            Self::Http => Some(Action::Demo),
            Self::Mcp => Some(Action::DemoMcp),
        }
    }
}

/// Returns the action of a route with the key `mcp`. Refuses a boolean and an unknown endpoint.
pub(in crate::config) fn resolve_mcp_action(
    resolver: &mut Resolver<'_>,
    raw: &Spanned<RawMcpAction>,
    endpoints: &McpEndpoints,
) -> Option<Action> {
    match raw.get_ref() {
        RawMcpAction::Endpoint(name) => {
            known_endpoint(resolver, name, &raw.span(), endpoints).map(Action::Mcp)
        }
        RawMcpAction::Boolean => {
            resolver.refuse_with(raw, "`mcp` is the name of an endpoint", BOOLEAN_HINT);
            None
        }
    }
}

const BOOLEAN_HINT: &str = "for the MCP endpoint of the demo, write `demo = \"mcp\"`; `mcp = \"NAME\"` serves the endpoint `[mcp.endpoints.NAME]`";

impl<'de> Deserialize<'de> for RawDemo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DemoVisitor;
        impl Visitor<'_> for DemoVisitor {
            type Value = RawDemo;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or `\"mcp\"`")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<RawDemo, E> {
                Ok(if value { RawDemo::Http } else { RawDemo::No })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawDemo, E> {
                match text {
                    "mcp" => Ok(RawDemo::Mcp),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(DemoVisitor)
    }
}

impl JsonSchema for RawDemo {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Demo".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "const": "mcp" }] })
    }
}

impl<'de> Deserialize<'de> for RawMcpAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct McpActionVisitor;
        impl Visitor<'_> for McpActionVisitor {
            type Value = RawMcpAction;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an MCP endpoint")
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<RawMcpAction, E> {
                Ok(RawMcpAction::Boolean)
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<RawMcpAction, E> {
                Ok(RawMcpAction::Endpoint(name.to_owned()))
            }
        }
        deserializer.deserialize_any(McpActionVisitor)
    }
}

impl JsonSchema for RawMcpAction {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "McpAction".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
