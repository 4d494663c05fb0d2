//! Implements `thruway check --explain`, which shows the route that handles a request.

use std::fmt::Write as _;

use thruway_gateway::{
    Candidate, HostMatch, ListenerRoutes, PathMatch, RouteMatch, RoutesOfListener, Unfulfilled,
    normalized_path,
};
use thruway_http1::{HeadIndex, Limits, ServerConnection, parse_request_target};
use thruway_message::{Method, RequestHead};

use crate::config::{Config, Failure};

/// Explains which route handles a request. `request` is a method and a URI, and each of `headers` has the
/// form `Name: value`.
pub(crate) fn explain_request(
    config: &Config,
    routes: &ListenerRoutes,
    request: &str,
    headers: &[String],
) -> Result<String, Failure> {
    let bytes = bytes(request, headers)?;
    let mut index = HeadIndex::with_capacity(headers.len() + 1);
    let parsed = ServerConnection::new(Limits::default()).handle_input(bytes.as_bytes(), &mut index);
    match parsed {
        Ok((Some(_), used)) => {
            Ok(explanations(config, routes, &index.request_head(&bytes.as_bytes()[..used])))
        }
        Ok((None, _)) => Err(unusable("the request is not complete")),
        Err(error) => Err(unusable(&error.to_string())),
    }
}

/// Returns the text of the request in HTTP/1.1.
fn bytes(request: &str, headers: &[String]) -> Result<String, Failure> {
    if [request].into_iter().chain(headers.iter().map(String::as_str)).any(|text| text.contains(['\r', '\n']))
    {
        return Err(unusable("the method, the URI or a header contains a line break"));
    }
    let (method, target) = request.split_once(' ').unwrap_or(("GET", request));
    let names_host =
        |header: &String| header.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"));
    let mut bytes = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(names_host) {
        // This function ignores an invalid method or target, because the parser of the whole request
        // reports the error.
        let method = Method::from_token(method.as_bytes()).unwrap_or(Method::Get);
        let target = parse_request_target(method, target.as_bytes()).ok();
        let authority = target.and_then(|target| target.authority()).unwrap_or_default();
        let _ = write!(bytes, "Host: {authority}\r\n");
    }
    for header in headers {
        let _ = write!(bytes, "{header}\r\n");
    }
    bytes.push_str("\r\n");
    Ok(bytes)
}

fn unusable(reason: &str) -> Failure {
    Failure::new(format!("cannot explain the request: {reason}")).with_hint(
        "write `--explain \"GET http://example.com/path\"`, and `-H \"Name: value\"` for each header",
    )
}

/// Explains the request for each listener that a route names, and for all other listeners.
fn explanations(config: &Config, routes: &ListenerRoutes, head: &RequestHead<'_>) -> String {
    let is_named =
        |name: Option<&str>| routes.tables().any(|table| table.name.is_some() && table.name == name);
    let mut listeners = config.listeners.iter().filter(|listener| listener.has_routes());
    let has_others = listeners.any(|listener| !is_named(listener.name.as_deref()));
    let mut texts = Vec::new();
    for table in routes.tables() {
        let explanation = explanation(config, table, head);
        texts.push(match table.name {
            Some(name) => format!("on the listener `{name}`:\n{explanation}"),
            None if texts.is_empty() => explanation,
            None if has_others => format!("on all other listeners:\n{explanation}"),
            None => continue,
        });
    }
    texts.join("\n")
}

fn explanation(config: &Config, of: RoutesOfListener<'_>, head: &RequestHead<'_>) -> String {
    let RoutesOfListener { routes, places, .. } = of;
    let candidates = routes.candidates(head);
    let selected =
        routes.find(head).and_then(|selected| candidates.iter().position(|other| other.route == selected));
    let mut text = format!("{} {}: ", head.method, head.target);
    // Writing to a string cannot fail.
    let _ = match selected {
        Some(place) => writeln!(text, "{}", config.routes[places[candidates[place].route]].action),
        None => writeln!(text, "answered {}", routes.refuse(head).status()),
    };
    push_path(&mut text, head.target.path());
    if selected.is_none() && routes.unclear(head).is_none() {
        let _ = writeln!(text, "\n{}", reason(config, places, head, &candidates));
    }
    if let Some(unclear) = routes.unclear(head) {
        let _ = writeln!(text, "\n{unclear}");
    }
    if let Some(place) = selected {
        push_policies(&mut text, config, places[candidates[place].route]);
    }
    if !candidates.is_empty() {
        text.push_str("\nroutes for the host and path of the request, in the order of their evaluation:\n");
    }
    for (place, candidate) in candidates.iter().enumerate() {
        let fate = match (candidate.unfulfilled, selected) {
            (Some(reason), _) => format!("skipped, because {reason}"),
            (None, Some(selected)) if selected == place => "takes the request".to_owned(),
            (None, None) => "would match, if the path of the request were unambiguous".to_owned(),
            (None, _) => "would match, but an earlier route takes the request".to_owned(),
        };
        push_candidate(&mut text, config, head, places[candidate.route], &fate);
    }
    text
}

/// Returns the reason if no route handles the request. `places` are the routes of the listener.
fn reason(config: &Config, places: &[usize], head: &RequestHead<'_>, candidates: &[Candidate<'_>]) -> String {
    let methods: Vec<_> =
        candidates.iter().filter_map(allowed_methods).flatten().map(String::as_str).collect();
    if !methods.is_empty() {
        return format!(
            "only the method does not match: the routes for this request allow {}",
            methods.join(", ")
        );
    }
    if !candidates.is_empty() {
        return "routes match the host and the path, but the request does not meet their other conditions"
            .to_owned();
    }
    let host = head.authority().map(|authority| authority.host()).unwrap_or_default();
    let routes: Vec<_> = places.iter().map(|place| &config.routes[*place]).collect();
    let of_host: Vec<_> = routes.iter().filter(|route| route.matching.host_for(host).is_some()).collect();
    if of_host.is_empty() {
        let mut hosts: Vec<_> =
            routes.iter().flat_map(|route| route.matching.hosts_or_any()).map(HostMatch::to_string).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let host = if host.is_empty() { "no host".to_owned() } else { format!("the host `{host}`") };
        return format!("no route matches {host}; the hosts of the routes: {}", shortened(&hosts));
    }
    let path = normalized_path(head.target.path()).unwrap_or_default();
    if let Some(near) = of_host.iter().find_map(|route| near_path(&route.matching.path, &path)) {
        return near;
    }
    let mut paths: Vec<_> = of_host.iter().map(|route| shown_path(&route.matching.path)).collect();
    paths.sort_unstable();
    paths.dedup();
    format!(
        "no route for this host matches the path `{path}`; the paths of its routes: {}",
        shortened(&paths)
    )
}

/// Returns the methods of a route if only the method of the request does not match.
const fn allowed_methods<'r>(candidate: &Candidate<'r>) -> Option<&'r [String]> {
    match candidate.unfulfilled {
        Some(Unfulfilled::Methods(methods)) => Some(methods),
        _ => None,
    }
}

/// Returns a reason if `path` differs from the path of a route only in its case or in a slash at the end.
fn near_path(route: &PathMatch, path: &str) -> Option<String> {
    let own = route.as_str();
    if own.eq_ignore_ascii_case(path) {
        return Some(format!("the case of the path matters: a route has the path `{own}`, not `{path}`"));
    }
    let is_near =
        matches!(route, PathMatch::Exact(_)) && own.trim_end_matches('/') == path.trim_end_matches('/');
    is_near.then(|| format!("`path_exact` matches only `{own}`, not `{path}`: the slash at the end matters"))
}

fn shown_path(path: &PathMatch) -> String {
    match path {
        PathMatch::Prefix(path) => format!("{path} and below"),
        PathMatch::Exact(path) => path.clone(),
        PathMatch::Pattern(pattern) => pattern.as_str().to_owned(),
    }
}

/// Returns the first texts of a list.
fn shortened(texts: &[String]) -> String {
    let shown = texts.iter().take(SHOWN_MAX).map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Maximum number of hosts or paths in a reason.
const SHOWN_MAX: usize = 10;

/// Thruway compares routes with the normalized path. If this path differs from the path of the request, adds
/// it to `text`.
fn push_path(text: &mut String, path: &str) {
    if let Ok(normal) = normalized_path(path)
        && normal != path
    {
        let _ = writeln!(
            text,
            "\nThruway compares routes with `{normal}`, but forwards the path of the request without changes"
        );
    }
}

/// Adds the policies of the route to `text`, but not their decisions, because these depend on the client.
fn push_policies(text: &mut String, config: &Config, route: usize) {
    let policies = &config.routes[route].policies;
    if !policies.is_empty() {
        text.push_str("\npolicies of this route, in the order of their evaluation:\n");
    }
    for name in policies {
        let _ = writeln!(text, "  {name}: {}", config.policies[name]);
    }
}

fn push_candidate(text: &mut String, config: &Config, head: &RequestHead<'_>, route: usize, fate: &str) {
    let route = &config.routes[route];
    let (place, rank) = (config.place(&route.span), rank(&route.matching, head));
    let name = route.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let _ = write!(text, "  {place}: {name}{}\n    {rank}: {fate}\n", route.matching);
}

/// Describes why a route comes before or after other routes: its host, its path and its number of conditions.
fn rank(matching: &RouteMatch, head: &RequestHead<'_>) -> String {
    let host = head.authority().and_then(|authority| matching.host_for(authority.host()));
    let host = match host {
        None | Some(HostMatch::Any) => "any host".to_owned(),
        Some(HostMatch::Below(host)) => format!("hosts below {host}"),
        Some(HostMatch::Exact(_)) => "this host".to_owned(),
    };
    let path = match &matching.path {
        PathMatch::Exact(_) => "this path".to_owned(),
        PathMatch::Pattern(_) => "a pattern".to_owned(),
        PathMatch::Prefix(path) => match path.trim_end_matches('/').len() {
            0 => "any path".to_owned(),
            length => format!("a prefix of {length} bytes"),
        },
    };
    match matching.condition_count() {
        0 => format!("{host}, {path}"),
        1 => format!("{host}, {path}, one condition"),
        count => format!("{host}, {path}, {count} conditions"),
    }
}
