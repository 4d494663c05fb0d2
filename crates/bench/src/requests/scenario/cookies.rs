//! The cookies of a virtual user (RFC 6265). All requests go to one server, so a cookie has no domain.

use std::time::Duration;

/// The cookies of a virtual user.
#[derive(Clone, Debug, Default)]
pub(super) struct Cookies(Vec<Cookie>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    /// `true` if the user sends the cookie only over TLS.
    is_secure: bool,
    /// Time at which the cookie expires, on the clock of the load.
    expires: Option<Duration>,
}

impl Cookies {
    /// Removes all cookies.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Stores the cookie of a `Set-Cookie` header. `target` is the path of the request, `now` the time on the
    /// clock of the load, and `date` the number of seconds since 1970. Ignores an invalid cookie, a cookie above
    /// the size limit, and new cookies above the number limit.
    pub(super) fn set(&mut self, header: &str, target: &str, now: Duration, date: Duration) {
        let Some(cookie) = Cookie::parse(header, target, now, date) else { return };
        let is_same = |known: &Cookie| (&known.name, &known.path) == (&cookie.name, &cookie.path);
        let is_expired = cookie.expires.is_some_and(|expires| expires <= now);
        let known = self.0.iter().position(is_same);
        match known {
            Some(index) if is_expired => drop(self.0.remove(index)),
            Some(index) => self.0[index] = cookie,
            None if is_expired || self.0.len() >= COOKIES_MAX => {}
            None => self.0.push(cookie),
        }
    }

    /// Appends the `Cookie` line for a request to `target`. Appends nothing if no cookie matches.
    pub(super) fn write(&self, target: &str, is_secured: bool, now: Duration, output: &mut String) {
        let path = path_of(target);
        let sent = self.0.iter().filter(|cookie| {
            let is_current = cookie.expires.is_none_or(|expires| now < expires);
            is_current && (is_secured || !cookie.is_secure) && cookie.matches(path)
        });
        let mut before = COOKIE_LINE;
        for cookie in sent {
            for part in [before, &cookie.name, "=", &cookie.value] {
                output.push_str(part);
            }
            before = "; ";
        }
        if before == "; " {
            output.push_str("\r\n");
        }
    }
}

impl Cookie {
    /// Parses the value of a `Set-Cookie` header (RFC 6265 §5.2).
    fn parse(header: &str, target: &str, now: Duration, date: Duration) -> Option<Self> {
        let mut parts = header.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.len() + value.len() > COOKIE_BYTES_MAX {
            return None;
        }
        let (mut path, mut is_secure) = (None, false);
        let (mut max_age, mut expires) = (None, None);
        for attribute in parts {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "path" if value.starts_with('/') => path = Some(value.to_owned()),
                "secure" => is_secure = true,
                "max-age" => max_age = lifetime(value).or(max_age),
                "expires" => expires = remaining(value, date).or(expires),
                _ => {}
            }
        }
        // `Max-Age` has precedence over `Expires` (RFC 6265 §5.3).
        let lifetime = max_age.or(expires);
        Some(Self {
            name: name.to_owned(),
            value: value.to_owned(),
            path: path.unwrap_or_else(|| default_path(target)),
            is_secure,
            expires: lifetime.map(|lifetime| now.saturating_add(lifetime)),
        })
    }

    /// Returns `true` if the path of the cookie contains `path` (RFC 6265 §5.1.4).
    fn matches(&self, path: &str) -> bool {
        path.strip_prefix(&*self.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/'))
    }
}

/// Parses `Max-Age`. A negative number means that the cookie has expired.
fn lifetime(seconds: &str) -> Option<Duration> {
    match seconds.strip_prefix('-') {
        Some(digits) => digits.parse::<u64>().ok().map(|_| Duration::ZERO),
        None => seconds.parse().ok().map(Duration::from_secs),
    }
}

/// Returns the time from `date` to the HTTP date `text`, or zero if it has passed.
fn remaining(text: &str, date: Duration) -> Option<Duration> {
    let expires = httpdate::parse_http_date(text).ok()?;
    let since_1970 = expires.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since_1970.saturating_sub(date))
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// Returns the default path of a cookie: the directory of the request (RFC 6265 §5.1.4).
fn default_path(target: &str) -> String {
    match path_of(target).rsplit_once('/') {
        Some((directory, _)) if !directory.is_empty() => directory.to_owned(),
        _ => "/".to_owned(),
    }
}

/// The beginning of the line with the cookies.
pub(super) const COOKIE_LINE: &str = "Cookie: ";

/// Maximum number of cookies of a user, as RFC 6265 §6.1 requires for one domain.
const COOKIES_MAX: usize = 50;

/// Maximum size of a cookie: name and value, as RFC 6265 §6.1 requires.
const COOKIE_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    /// 2026-01-01, which is 20,454 days after 1970-01-01.
    const DATE: Duration = Duration::from_hours(24 * 20_454);

    fn sent(cookies: &Cookies, target: &str, is_secured: bool, now: Duration) -> String {
        let mut line = String::new();
        cookies.write(target, is_secured, now, &mut line);
        line
    }

    fn of(headers: &[&str]) -> Cookies {
        let mut cookies = Cookies::default();
        for header in headers {
            cookies.set(header, "/a/login?next=/b/c", NOW, DATE);
        }
        cookies
    }

    #[test]
    fn cookies_are_sent_to_their_paths_only() {
        let cookies = of(&["one=1; Path=/", "two = 2", "three=3; path=/other", "four=4; Secure; Path=/"]);
        assert_eq!(sent(&cookies, "/a/b?c", false, NOW), "Cookie: one=1; two=2\r\n");
        assert_eq!(sent(&cookies, "/ab", false, NOW), "Cookie: one=1\r\n");
        assert_eq!(sent(&cookies, "/other/", true, NOW), "Cookie: one=1; three=3; four=4\r\n");
        assert_eq!(sent(&Cookies::default(), "/", true, NOW), "");
    }

    #[test]
    fn newer_cookie_replaces_and_expired_cookie_disappears() {
        let mut cookies =
            of(&["a=1", "a=2", "b=1; Max-Age=10", "c=1; Expires=Wed, 31 Dec 2025 00:00:00 GMT"]);
        assert_eq!(sent(&cookies, "/a/x", false, NOW), "Cookie: a=2; b=1\r\n");
        assert_eq!(sent(&cookies, "/a/x", false, NOW + Duration::from_secs(10)), "Cookie: a=2\r\n");
        cookies.set("a=; Max-Age=-1", "/a/login", NOW, DATE);
        assert_eq!(sent(&cookies, "/a/x", false, NOW), "Cookie: b=1\r\n");
        let later = of(&["d=1; Expires=Thu, 01 Jan 2026 00:01:00 GMT; Max-Age=abc"]);
        assert_eq!(sent(&later, "/a/", false, NOW + Duration::from_secs(59)), "Cookie: d=1\r\n");
        assert_eq!(sent(&later, "/a/", false, NOW + Duration::from_mins(1)), "");
    }

    #[test]
    fn hostile_cookies_need_bounded_memory() {
        let mut cookies = Cookies::default();
        for number in 0..1000 {
            cookies.set(&format!("c{number}=1"), "/", NOW, DATE);
        }
        cookies.set(&format!("large={}", "x".repeat(5000)), "/", NOW, DATE);
        cookies.set("c1=new; Max-Age=99999999999999999999", "/", NOW, DATE);
        cookies.set("no-value", "/", NOW, DATE);
        assert_eq!(cookies.0.len(), COOKIES_MAX);
        assert!(sent(&cookies, "/", false, NOW).contains("c1=new"));
    }
}
