//! Compares routes with a simple model of the rules, which checks every route for every request.

use std::cmp::Reverse;

use thruway_testkit::Random;

use super::*;

const HOSTS: [&str; 5] = ["", "h", "a.h", "*.h", "*.a.h"];
const PATHS: [&str; 16] = [
    "/", "/a", "/a/b", "/$", "/a$", "/a/$", "/a/b$", "/{x}", "/{x}/b", "/a/{x}", "/{x}b", "/a{x}", "/b{x}",
    "/{*r}", "/a/{*r}", "/{x}/{y}",
];

/// A route and its source.
struct Told {
    host: &'static str,
    path: &'static str,
    asks_for_get: bool,
    asks_for_header: bool,
}

struct Asked {
    host: &'static str,
    path: String,
    is_get: bool,
    has_header: bool,
}

impl Told {
    fn random(random: &mut Random) -> Self {
        let (host, path) = (*random.pick(&HOSTS), *random.pick(&PATHS));
        Self { host, path, asks_for_get: random.one_in(3), asks_for_header: random.one_in(3) }
    }

    fn route(&self) -> RouteMatch {
        let mut route = at(&format!("{}{}", self.host, self.path));
        if self.asks_for_get {
            route = route.methods(&["GET"]);
        }
        if self.asks_for_header { route.header("A", None) } else { route }
    }

    /// Returns the precedence of this route; `None` if it does not match the host and the path.
    fn rank(&self, asked: &Asked) -> Option<impl Ord + use<>> {
        let conditions = usize::from(self.asks_for_get) + usize::from(self.asks_for_header);
        Some((
            host_rank(self.host, asked.host)?,
            path_rank(self.path, &asked.compared_path())?,
            Reverse(conditions),
        ))
    }

    fn is_fulfilled(&self, asked: &Asked) -> bool {
        (asked.is_get || !self.asks_for_get) && (asked.has_header || !self.asks_for_header)
    }
}

fn host_rank(told: &str, asked: &str) -> Option<(u8, Reverse<usize>)> {
    match told.strip_prefix('*') {
        Some(end) if asked.len() > end.len() && asked.ends_with(end) => Some((1, Reverse(end.len()))),
        Some(_) => None,
        None if told.is_empty() => Some((2, Reverse(0))),
        None => (told == asked).then_some((0, Reverse(0))),
    }
}

type PathRank = (u8, Reverse<usize>, Vec<SegmentRank>);
type SegmentRank = (u8, Reverse<usize>, Reverse<usize>);

fn path_rank(told: &str, asked: &str) -> Option<PathRank> {
    if let Some(path) = told.strip_suffix('$') {
        return (path == asked).then_some((0, Reverse(0), Vec::new()));
    }
    if told.contains('{') {
        return Some((1, Reverse(0), segment_ranks(told, asked)?));
    }
    let prefix = told.trim_end_matches('/');
    let is_below = asked == prefix || asked.starts_with(&format!("{prefix}/"));
    is_below.then_some((2, Reverse(prefix.len()), Vec::new()))
}

/// Returns the rank of each segment of a pattern.
fn segment_ranks(told: &str, asked: &str) -> Option<Vec<SegmentRank>> {
    let mut ranks = Vec::new();
    let mut asked = asked.split('/');
    for segment in told.split('/') {
        if segment.starts_with("{*") {
            let rest: Vec<&str> = asked.by_ref().collect();
            ranks.push((2, Reverse(0), Reverse(0)));
            return (!rest.join("/").is_empty()).then_some(ranks);
        }
        let asked = asked.next()?;
        ranks.push(match segment.split_once('{') {
            None if segment == asked => (0, Reverse(0), Reverse(0)),
            None => return None,
            Some((before, rest)) => {
                let after = rest.split_once('}').unwrap().1;
                let middle = asked.strip_prefix(before)?.strip_suffix(after)?;
                if middle.is_empty() {
                    return None;
                }
                (1, Reverse(before.len() + after.len()), Reverse(before.len()))
            }
        });
    }
    asked.next().is_none().then_some(ranks)
}

/// Returns the number of the route that takes the request.
fn read(told: &[Told], asked: &Asked) -> Option<usize> {
    let fits = told.iter().enumerate().filter(|(_, route)| route.is_fulfilled(asked));
    let ranked = fits.filter_map(|(place, route)| Some((route.rank(asked)?, place)));
    // Of equal routes, the first one wins.
    ranked.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, place)| place)
}

impl Asked {
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
fn routes_are_found_as_their_rules_are_read() {
    let random = &mut Random::new(21);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..2000 {
        let told: Vec<Told> = (0..=random.below(8)).map(|_| Told::random(random)).collect();
        let given: Vec<RouteMatch> = told.iter().map(Told::route).collect();
        let routes = try_routes(&given);
        for _ in 0..20 {
            let asked = Asked::random(random);
            let expected = read(&told, &asked);
            match &routes {
                Ok(routes) => {
                    assert_eq!(asked.find(routes), expected, "{} {} {given:#?}", asked.host, asked.path);
                    taken += usize::from(expected.is_some());
                }
                Err(unreachable) => {
                    assert!(unreachable.iter().all(|one| Some(one.route) != expected), "{given:#?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} {refused}: both were tried");
}
