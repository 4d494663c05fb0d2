//! The key `resource` of MCP endpoints: metadata for clients that need a token (RFC 9728).

use thruway_gateway::{Conditions, HostMatch, PathMatch, PolicyConfig, RouteMatch};
use thruway_mcp_sdk::{InvalidResource, ProtectedResource};
use thruway_message::Authority;

use crate::config::mcp::settings::{McpPlaces, McpSettings};
use crate::config::policies::ResolvedPolicies;
use crate::config::resolver::Resolver;
use crate::config::usage::have_common_host;
use crate::config::values::{Span, Spanned};
use crate::config::{Action, Policies, Route};

/// Returns the URL of the resource. Refuses an invalid URL.
pub(super) fn resolve_resource(resolver: &mut Resolver<'_>, raw: Option<Spanned<String>>) -> Option<String> {
    let raw = raw?;
    match ProtectedResource::new(raw.get_ref(), [""]) {
        Ok(resource) if host_of(&resource).is_some() => Some(raw.into_inner()),
        _ => {
            resolver.refuse_with(
                &raw,
                InvalidResource::Url,
                "write the URL that clients use, such as `https://mcp.example/dev`",
            );
            None
        }
    }
}

/// Adds a route for the metadata of each endpoint with `resource`. The metadata is public: it names the
/// issuer of the tokens. Refuses an endpoint without a route that serves the resource and requires a token.
/// Call this function only if the config has no other errors.
pub(in crate::config) fn add_metadata_routes(
    resolver: &mut Resolver<'_>,
    routes: &mut Vec<Route>,
    mcp: &McpSettings,
    places: &McpPlaces,
    policies: &ResolvedPolicies,
) {
    for (endpoint, span) in &places.resources {
        let served =
            routes.iter().filter(|route| matches!(&route.action, Action::Mcp(name) if name == endpoint));
        let served: Vec<_> = served.collect();
        let configs =
            |route: &Route| route.policies.iter().filter_map(|name| policies.get(name)?.as_ref()).collect();
        let resources = served.iter().filter_map(|route| resource_of(mcp, route, configs(route)));
        let added: Vec<_> = resources
            .zip(&served)
            .map(|(resource, route)| metadata_route(resource, &route.matching, span))
            .collect();
        // Another warning reports an endpoint without a route.
        if added.is_empty() && !served.is_empty() {
            let failure = resolver.source.failure(span.clone(), NO_ROUTE);
            resolver.failures.push(failure.with_hint(NO_ROUTE_HINT));
        }
        for mut route in added {
            // A route of the config has priority.
            let RouteMatch { hosts, path, conditions, listeners } = &mut route.matching;
            hosts.retain(|host| {
                let is_taken = |other: &Route| {
                    let of_other = &other.matching.listeners;
                    (of_other.is_empty() || of_other.iter().any(|name| listeners.contains(name)))
                        && other.matching.path == *path
                        && other.matching.conditions == *conditions
                        && other.matching.hosts_or_any().contains(host)
                };
                !routes.iter().any(is_taken)
            });
            if !hosts.is_empty() {
                routes.push(route);
            }
        }
    }
}

/// Returns the protected resource that `route` serves. Returns `None` if its endpoint has no `resource`, or
/// if the route does not serve the URL, or if no policy of the route verifies tokens of a certain issuer.
/// `policies` contains the policies of the route.
fn resource_of(mcp: &McpSettings, route: &Route, policies: Vec<&PolicyConfig>) -> Option<ProtectedResource> {
    let Action::Mcp(endpoint) = &route.action else { return None };
    let url = mcp.endpoints.get(endpoint)?.resource.as_ref()?;
    let issuers = policies.into_iter().filter_map(|policy| match policy {
        PolicyConfig::Jwt(jwt) => jwt.rules.issuer.clone(),
        _ => None,
    });
    let resource = ProtectedResource::new(url, issuers).ok()?;
    let own = HostMatch::Exact(host_of(&resource)?);
    let is_host = route.matching.hosts_or_any().iter().any(|host| have_common_host(host, &own));
    let path = if resource.path().is_empty() { "/" } else { resource.path() };
    (is_host && includes_path(&route.matching.path, path)).then_some(resource)
}

/// Returns the protected resource that a route of a checked config serves, if any.
pub(crate) fn resource_of_route(
    mcp: &McpSettings,
    policies: &Policies,
    route: &Route,
) -> Option<ProtectedResource> {
    resource_of(mcp, route, route.policies.iter().filter_map(|name| policies.get(name)).collect())
}

/// Returns the host of a resource without the port, in lowercase.
pub(crate) fn host_of(resource: &ProtectedResource) -> Option<String> {
    let authority = Authority::parse(resource.authority().as_bytes()).ok()?;
    match HostMatch::parse(authority.host()) {
        Ok(HostMatch::Exact(host)) => Some(host),
        _ => None,
    }
}

/// Returns `true` if a route with the path `route` can serve `path`. The paths of a pattern are not checked.
fn includes_path(route: &PathMatch, path: &str) -> bool {
    match route {
        PathMatch::Exact(exact) => exact == path,
        PathMatch::Pattern(_) => true,
        PathMatch::Prefix(prefix) => {
            let rest = path.strip_prefix(prefix.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}

fn metadata_route(resource: ProtectedResource, of: &RouteMatch, span: &Span) -> Route {
    let path = PathMatch::Exact(resource.metadata_path());
    let (hosts, listeners) = (of.hosts_or_any().to_vec(), of.listeners.clone());
    Route {
        name: None,
        matching: RouteMatch { hosts, path, conditions: Conditions::default(), listeners },
        policies: Vec::new(),
        compression: None,
        is_compression_own: false,
        response_rules: None,
        error_pages: None,
        bandwidth: None,
        is_logged: true,
        action: Action::ResourceMetadata(resource),
        span: span.clone(),
    }
}

const NO_ROUTE: &str = "no route of this endpoint serves the URL and requires tokens of a configured issuer";
const NO_ROUTE_HINT: &str =
    "the route needs the host and the path of the URL, and a `jwt` policy with `issuer`";
