//! Compares routes with a simple model of the rules. The model checks every route for every request.

use std::cmp::Reverse;

use thruway_testkit::Random;

use super::*;

const HOSTS: [&str; 7] = ["", "h", "a.h", "*.h", "*.a.h", "h,*.a.h", "*.h,a.h"];
const PATHS: [&str; 16] = [
    "/", "/a", "/a/b", "/$", "/a$", "/a/$", "/a/b$", "/{x}", "/{x}/b", "/a/{x}", "/{x}b", "/a{x}", "/b{x}",
    "/{*r}", "/a/{*r}", "/{x}/{y}",
];

/// A route and its source.
struct RouteSpec {
    host: &'static str,
    path: &'static str,
    requires_get: bool,
    requires_header: bool,
}

struct RequestSpec {
    host: &'static str,
    path: String,
    is_get: bool,
    has_header: bool,
}

impl RouteSpec {
    fn random(random: &mut Random) -> Self {
        let (host, path) = (*random.pick(&HOSTS), *random.pick(&PATHS));
        Self { host, path, requires_get: random.one_in(3), requires_header: random.one_in(3) }
    }

    fn route(&self) -> RouteMatch {
        let mut route = at(&format!("{}{}", self.host, self.path));
        if self.requires_get {
            route = route.methods(&["GET"]);
        }
        if self.requires_header { route.header("A", None) } else { route }
    }

    /// Returns the precedence of this route; `None` if it does not match the host and the path.
    fn rank(&self, request: &RequestSpec) -> Option<impl Ord + use<>> {
        let conditions = usize::from(self.requires_get) + usize::from(self.requires_header);
        Some((
            host_rank(self.host, request.host)?,
            path_rank(self.path, &request.compared_path())?,
            Reverse(conditions),
        ))
    }

    fn is_fulfilled(&self, request: &RequestSpec) -> bool {
        (request.is_get || !self.requires_get) && (request.has_header || !self.requires_header)
    }
}

/// Returns the precedence of the most specific of `patterns` that matches `host`.
fn host_rank(patterns: &str, host: &str) -> Option<(u8, Reverse<usize>)> {
    patterns.split(',').filter_map(|pattern| rank_of_host(pattern, host)).min()
}

fn rank_of_host(pattern: &str, host: &str) -> Option<(u8, Reverse<usize>)> {
    match pattern.strip_prefix('*') {
        Some(end) if host.len() > end.len() && host.ends_with(end) => Some((1, Reverse(end.len()))),
        Some(_) => None,
        None if pattern.is_empty() => Some((2, Reverse(0))),
        None => (pattern == host).then_some((0, Reverse(0))),
    }
}

type PathRank = (u8, Reverse<usize>, Vec<SegmentRank>);
type SegmentRank = (u8, Reverse<usize>, Reverse<usize>);

fn path_rank(pattern: &str, path: &str) -> Option<PathRank> {
    if let Some(exact) = pattern.strip_suffix('$') {
        return (exact == path).then_some((0, Reverse(0), Vec::new()));
    }
    if pattern.contains('{') {
        return Some((1, Reverse(0), segment_ranks(pattern, path)?));
    }
    let prefix = pattern.trim_end_matches('/');
    let is_below = path == prefix || path.starts_with(&format!("{prefix}/"));
    is_below.then_some((2, Reverse(prefix.len()), Vec::new()))
}

/// Returns the rank of each segment of a pattern.
fn segment_ranks(pattern: &str, path: &str) -> Option<Vec<SegmentRank>> {
    let mut ranks = Vec::new();
    let mut path_segments = path.split('/');
    for segment in pattern.split('/') {
        if segment.starts_with("{*") {
            let rest: Vec<&str> = path_segments.by_ref().collect();
            ranks.push((2, Reverse(0), Reverse(0)));
            return (!rest.join("/").is_empty()).then_some(ranks);
        }
        let path_segment = path_segments.next()?;
        ranks.push(match segment.split_once('{') {
            None if segment == path_segment => (0, Reverse(0), Reverse(0)),
            None => return None,
            Some((before, rest)) => {
                let after = rest.split_once('}').unwrap().1;
                let middle = path_segment.strip_prefix(before)?.strip_suffix(after)?;
                if middle.is_empty() {
                    return None;
                }
                (1, Reverse(before.len() + after.len()), Reverse(before.len()))
            }
        });
    }
    path_segments.next().is_none().then_some(ranks)
}

/// Returns the number of the route that takes the request.
fn expected_route(routes: &[RouteSpec], request: &RequestSpec) -> Option<usize> {
    let matching = routes.iter().enumerate().filter(|(_, route)| route.is_fulfilled(request));
    let ranked = matching.filter_map(|(index, route)| Some((route.rank(request)?, index)));
    // Of equal routes, the first one wins.
    ranked.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, index)| index)
}

impl RequestSpec {
    fn random(random: &mut Random) -> Self {
        let segments: Vec<&str> =
            (0..random.below(4)).map(|_| *random.pick(&["a", "b", "ab", "aab", ""])).collect();
        Self {
            host: *random.pick(&["h", "a.h", "b.a.h", "x"]),
            path: format!("/{}", segments.join("/")),
            is_get: random.one_in(2),
            has_header: random.one_in(2),
        }
    }

    /// Merges consecutive slashes.
    fn compared_path(&self) -> String {
        let mut segments: Vec<&str> = self.path.split('/').skip(1).collect();
        let last = segments.pop();
        segments.retain(|segment| !segment.is_empty());
        segments.extend(last);
        format!("/{}", segments.join("/"))
    }

    fn find(&self, routes: &Routes) -> Option<usize> {
        let header = if self.has_header { "A: b\r\n" } else { "" };
        let method = if self.is_get { "GET" } else { "PUT" };
        let fields = format!("Host: {}\r\n{header}", self.host);
        find(routes, &format!("{method} {}", self.path), &fields)
    }
}

#[test]
fn routes_match_the_reference_model() {
    let random = &mut Random::new(21);
    let (mut matched, mut rejected) = (0, 0);
    for _ in 0..2000 {
        let specs: Vec<RouteSpec> = (0..=random.below(8)).map(|_| RouteSpec::random(random)).collect();
        let given: Vec<RouteMatch> = specs.iter().map(RouteSpec::route).collect();
        let routes = try_routes(&given);
        for _ in 0..20 {
            let request = RequestSpec::random(random);
            let expected = expected_route(&specs, &request);
            match &routes {
                Ok(routes) => {
                    assert_eq!(
                        request.find(routes),
                        expected,
                        "{} {} {given:#?}",
                        request.host,
                        request.path
                    );
                    matched += usize::from(expected.is_some());
                }
                Err(unreachable) => {
                    let is_right = |one: &Unreachable| {
                        let is_about_host = given[one.route].host_for(request.host) == Some(&one.host);
                        !is_about_host || Some(one.route) != expected
                    };
                    assert!(unreachable.iter().all(is_right), "{given:#?}");
                    rejected += 1;
                }
            }
        }
    }
    assert!(matched > 1000 && rejected > 1000, "{matched} {rejected}: too few cases of one kind");
}
