//! The cookies of a policy, and their content: a session, or a login that has begun.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use thruway_net::{Admitted, LogLimit};
use thruway_server::Request;

use super::seal::{Purpose, Sealer};

/// The session of a user.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::policy) struct Session {
    /// The claims of the ID token that the policy uses.
    pub(super) claims: Map<String, Value>,
    /// End of the session, in seconds since the Unix epoch.
    pub(super) ends: u64,
    /// Time of the next refresh, in seconds since the Unix epoch.
    pub(super) refresh_at: u64,
    /// The token for refreshing the session. `None` if the provider sends none.
    pub(super) refresh_token: Option<String>,
}

/// A login that has begun. The provider gets only `state`, `nonce` and the digest of `verifier`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PendingLogin {
    pub(super) state: String,
    pub(super) nonce: String,
    /// The code verifier (RFC 7636 §4.1).
    pub(super) verifier: String,
    /// Path and query of the request that the client sends again after the login.
    pub(super) target: String,
    /// End of the login, in seconds since the Unix epoch.
    pub(super) ends: u64,
}

/// Names of the cookies of a policy.
#[derive(Debug)]
pub(super) struct CookieNames {
    pub(super) session: String,
    /// Names for logins that have begun. A browser can log in with several tabs at the same time. The number
    /// bounds the size of the header `Cookie`.
    pub(super) logins: [String; 4],
}

impl CookieNames {
    /// Returns the names of the cookies of the policy `policy`. The prefix `__Host-` ensures that no other
    /// host can set the cookies (RFC 6265bis §4.1.3.2).
    pub(super) fn of(policy: &str) -> Self {
        let digest = Sha256::digest(policy);
        let id = digest.iter().take(4).fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
        let name = |suffix: &str| format!("{COOKIE_PREFIX}{id}{suffix}");
        Self { session: name(""), logins: ["-0", "-1", "-2", "-3"].map(name) }
    }
}

impl Session {
    /// Returns the session in the cookies of the request, if it has not ended.
    pub(super) fn of_request(
        request: &Request<'_>,
        names: &CookieNames,
        sealer: &Sealer,
        now: u64,
    ) -> Option<Self> {
        let cookie = request.cookie(&names.session)?;
        Self::parse(&sealer.open(Purpose::Session, cookie.value())?).filter(|session| now < session.ends)
    }

    /// Returns the header `Set-Cookie` for the session. If the cookie is too large for browsers, omits the
    /// token for refreshing. Returns `None` if the cookie is too large nevertheless.
    pub(super) fn cookie(&self, names: &CookieNames, sealer: &Sealer, now: u64) -> Option<String> {
        let seconds = self.ends.saturating_sub(now);
        let cookie = |session: &Self| {
            let value = sealer.seal(Purpose::Session, &session.to_text())?;
            Some(set_cookie(&names.session, &value, seconds))
                .filter(|cookie| cookie.len() <= COOKIE_BYTES_MAX)
        };
        cookie(self).or_else(|| {
            static LIMIT: LogLimit = LogLimit::new();
            let cookie = cookie(&Self { refresh_token: None, ..self.clone() });
            if cookie.is_some()
                && let Some(Admitted { suppressed }) = LIMIT.admit()
            {
                tracing::warn!(
                    suppressed,
                    "the refresh token of the provider is too large for a cookie: the session is not refreshed"
                );
            }
            cookie
        })
    }

    fn to_text(&self) -> String {
        let Self { claims, ends, refresh_at, refresh_token } = self;
        json!({ "c": claims, "e": ends, "f": refresh_at, "r": refresh_token }).to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut content: Value = serde_json::from_str(text).ok()?;
        let Value::Object(claims) = content["c"].take() else { return None };
        Some(Self {
            claims,
            ends: content["e"].as_u64()?,
            refresh_at: content["f"].as_u64()?,
            refresh_token: content["r"].as_str().map(str::to_owned),
        })
    }
}

impl PendingLogin {
    /// Returns the header `Set-Cookie` for the login. Overwrites an older login if the browser has too many.
    pub(super) fn cookie(&self, slot: usize, names: &CookieNames, sealer: &Sealer) -> Option<String> {
        let Self { state, nonce, verifier, target, ends } = self;
        let text = json!({ "s": state, "n": nonce, "v": verifier, "t": target, "e": ends }).to_string();
        let value = sealer.seal(Purpose::Login, &text)?;
        Some(set_cookie(names.logins.get(slot)?, &value, LOGIN_SECONDS_MAX))
    }

    /// Returns the login with this state in the cookies of the request, and the place of its cookie. Returns
    /// `None` if the login has ended, or if another browser has begun the login.
    pub(super) fn of_request(
        request: &Request<'_>,
        state: &str,
        names: &CookieNames,
        sealer: &Sealer,
        now: u64,
    ) -> Option<(Self, usize)> {
        (0..names.logins.len()).find_map(|slot| {
            let cookie = request.cookie(&names.logins[slot])?;
            let login = Self::parse(&sealer.open(Purpose::Login, cookie.value())?)?;
            (login.state == state && now < login.ends).then_some((login, slot))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let content: Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| content[name].as_str().map(str::to_owned);
        Some(Self {
            state: text("s")?,
            nonce: text("n")?,
            verifier: text("v")?,
            target: text("t")?,
            ends: content["e"].as_u64()?,
        })
    }
}

/// Returns the place for the cookie of a new login: a free place, or the place of another login.
pub(super) fn free_slot(request: &Request<'_>, names: &CookieNames, now: u64) -> usize {
    let free = names.logins.iter().position(|name| request.cookie(name).is_none());
    free.unwrap_or_else(|| usize::try_from(now).unwrap_or_default() % names.logins.len())
}

/// Returns the header `Set-Cookie` that removes the cookie `name`.
pub(super) fn removed_cookie(name: &str) -> String {
    set_cookie(name, "", 0)
}

/// Returns a header `Set-Cookie`. With `SameSite=Lax`, browsers send the cookie when the provider redirects
/// to the gateway, but not with forms and scripts of other sites.
fn set_cookie(name: &str, value: &str, seconds: u64) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

/// Start of the names of all cookies. The gateway does not forward these cookies to upstream servers.
pub(super) const COOKIE_PREFIX: &str = "__Host-thruway-";

/// Maximum time between the start and the end of a login, in seconds.
pub(super) const LOGIN_SECONDS_MAX: u64 = 600;

/// Maximum size of a cookie with its attributes. Browsers drop larger cookies (RFC 6265 §6.1).
const COOKIE_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::seal::OidcSecrets;
    use super::*;

    #[test]
    fn cookie_of_a_session_has_a_limit() {
        let sealer = Sealer::new(&OidcSecrets::from_lines(&"s".repeat(32)).unwrap(), &[]);
        let names = CookieNames::of("a");
        let session = |claim: usize, token: usize| {
            let mut claims = Map::new();
            claims.insert("sub".to_owned(), "x".repeat(claim).into());
            Session { claims, ends: 100, refresh_at: 50, refresh_token: Some("y".repeat(token)) }
        };
        let kept = |session: &Session| {
            let cookie = session.cookie(&names, &sealer, 40)?;
            assert!(cookie.len() <= 4096 && cookie.starts_with(&names.session), "{cookie}");
            assert!(cookie.ends_with("; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Lax"), "{cookie}");
            let value = cookie.split(['=', ';']).nth(1).unwrap();
            Session::parse(&sealer.open(Purpose::Session, value).unwrap())
        };
        let small = session(10, 2000);
        assert_eq!(kept(&small), Some(small));
        let large_token = session(10, 4000);
        assert_eq!(kept(&large_token), Some(Session { refresh_token: None, ..large_token }));
        assert_eq!(kept(&session(4000, 1)), None);
    }

    #[test]
    fn policies_have_different_cookies() {
        let [one, other] = ["a", "b"].map(CookieNames::of);
        assert_ne!(one.session, other.session);
        assert!(one.logins.iter().all(|name| name.starts_with(COOKIE_PREFIX) && *name != one.session));
    }
}
