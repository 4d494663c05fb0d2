//! The section `mcp`: MCP servers, and endpoints that offer the tools of several MCP servers.

mod auth;
mod endpoints;
mod issuers;
mod limits;
mod patterns;
pub(crate) mod resource;
pub(in crate::config) mod route_keys;
mod search;
mod rules;
mod servers;
pub(crate) mod settings;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::Upstreams;
use crate::config::mcp::endpoints::{RawMcpEndpoint, resolve_endpoints};
use crate::config::mcp::issuers::{RawMcpIssuer, resolve_issuers};
use crate::config::mcp::rules::places_of_rules;
use crate::config::mcp::servers::{RawMcpServer, resolve_servers};
use crate::config::mcp::settings::{McpPlaces, McpSettings};
use crate::config::resolver::Resolver;
use crate::config::values::{Span, Spanned};

/// MCP servers, and endpoints that offer the tools of several MCP servers.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawMcp {
    /// MCP servers by name. A name has 1 to 24 characters: lowercase letters, digits and `-`.
    #[serde(default)]
    pub(in crate::config) servers: BTreeMap<Spanned<String>, Spanned<RawMcpServer>>,
    /// Authorization servers by name, for `auth` of MCP servers.
    #[serde(default)]
    pub(in crate::config) issuers: BTreeMap<Spanned<String>, Spanned<RawMcpIssuer>>,
    /// Endpoints by name. A route with `mcp = "NAME"` serves the endpoint.
    #[serde(default)]
    pub(in crate::config) endpoints: BTreeMap<Spanned<String>, Spanned<RawMcpEndpoint>>,
}

/// Returns the positions of MCP servers and endpoints in the file.
pub(in crate::config) fn places_of_mcp(raw: &RawMcp) -> McpPlaces {
    let place = |(name, span): (&Spanned<String>, Span)| (name.get_ref().clone(), span);
    let rules = |(name, raw): (&Spanned<String>, &Spanned<RawMcpEndpoint>)| {
        (name.get_ref().clone(), places_of_rules(&raw.get_ref().rules))
    };
    let resource = |(name, raw): (&Spanned<String>, &Spanned<RawMcpEndpoint>)| {
        Some((name.get_ref().clone(), raw.get_ref().resource.as_ref()?.span()))
    };
    McpPlaces {
        servers: raw.servers.iter().map(|(name, raw)| place((name, raw.span()))).collect(),
        issuers: raw.issuers.iter().map(|(name, raw)| place((name, raw.span()))).collect(),
        endpoints: raw.endpoints.iter().map(|(name, raw)| place((name, raw.span()))).collect(),
        rules: raw.endpoints.iter().map(rules).collect(),
        resources: raw.endpoints.iter().filter_map(resource).collect(),
    }
}

pub(in crate::config) fn resolve_mcp(
    resolver: &mut Resolver<'_>,
    raw: RawMcp,
    upstreams: &Upstreams,
) -> McpSettings {
    let issuers = resolve_issuers(resolver, raw.issuers);
    let servers = resolve_servers(resolver, raw.servers, upstreams, &issuers);
    let endpoints = resolve_endpoints(resolver, raw.endpoints, &servers);
    let servers = servers.into_iter().filter_map(|(name, server)| Some((name, server?))).collect();
    McpSettings { servers, endpoints }
}
