//! Verifies access tokens with the keys that an issuer publishes at a URL.

use std::fmt;

use thruway_client::{DocumentConfig, KeptDocument};
use thruway_jwt::{InvalidJwtKeys, JwtError, JwtKeys};
use thruway_mcp_server::{AccessTokenRules, Identity, InvalidToken, VerifyToken};

/// Verifies access tokens by the same rules as [`JwtVerifier`](thruway_mcp_server::JwtVerifier), but fetches
/// the keys from a URL of the issuer. Clones of a verifier share the keys.
///
/// A new verifier fetches the keys at once. The verifier fetches the keys again after
/// [`DocumentConfig::refresh_interval`]. The issuer can shorten this interval with `Cache-Control`. If a
/// token names an unknown key, the verifier rejects the token and fetches the keys early. The time between
/// two fetches is always at least [`DocumentConfig::refresh_interval_min`]. If a fetched key set contains no
/// usable keys, the verifier discards all previous keys. If a fetch fails, the verifier keeps the previous
/// keys until they are [`DocumentConfig::age_max`] old. After that, the verifier rejects all tokens until a
/// fetch succeeds.
///
/// ```no_run
/// use thruway_client::{DocumentConfig, InvalidDocumentUrl};
/// use thruway_mcp_gateway::JwksVerifier;
/// use thruway_mcp_server::{Authorization, McpServer};
///
/// # fn main() -> Result<(), InvalidDocumentUrl> {
/// let (issuer, endpoint) = ("https://login.example", "https://mcp.example/mcp");
/// let verifier = JwksVerifier::new(issuer, endpoint, DocumentConfig::new("https://login.example/jwks.json")?);
/// let authorization = Authorization::new(endpoint, [issuer], verifier);
/// let endpoint = McpServer::new("calculator", "1.0.0").endpoint().authorize(authorization);
/// # let _ = endpoint;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JwksVerifier {
    rules: AccessTokenRules,
    keys: KeptDocument<JwtKeys>,
}

impl JwksVerifier {
    /// Returns a verifier that accepts tokens of `issuer` for `audience`, which is the URL of the MCP
    /// endpoint. `keys` contains the URL of the issuer's JSON Web Key Set. The verifier starts to fetch the
    /// keys at once.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>, keys: DocumentConfig) -> Self {
        let accept = "application/jwk-set+json, application/json".to_owned();
        let url = keys.url.as_str().to_owned();
        let keys = KeptDocument::start(DocumentConfig { accept, ..keys }, move |content| {
            let keys = JwtKeys::from_issuer(&String::from_utf8_lossy(content))?;
            if keys.is_empty() {
                tracing::warn!("the key set at `{url}` has no usable key: all tokens are refused");
            }
            Ok::<_, InvalidJwtKeys>(keys)
        });
        Self { rules: AccessTokenRules::new(issuer, audience), keys }
    }

    /// Makes the verifier accept only tokens of the type `at+jwt`, like
    /// [`JwtVerifier::at_jwt_only`](thruway_mcp_server::JwtVerifier::at_jwt_only).
    #[must_use]
    pub fn at_jwt_only(self) -> Self {
        Self { rules: self.rules.at_jwt_only(), ..self }
    }
}

impl VerifyToken for JwksVerifier {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        let verified = self.keys.read(|keys| self.rules.verify(token, keys));
        if let None | Some(Err(JwtError::UnknownKey)) = verified {
            // Start a fetch for later tokens. This function is not `async`, so it cannot wait for the new
            // keys.
            drop(self.keys.refreshed());
        }
        verified.and_then(Result::ok).ok_or(InvalidToken)
    }
}

impl fmt::Debug for JwksVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksVerifier").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use serde_json::{Value, json};
    use thruway_net::Clock;
    use thruway_server::{Response, Server, StatusCode};
    use thruway_testkit::JwtIssuer;

    use super::*;

    const ISSUER: &str = "https://login.example";
    const RESOURCE: &str = "https://mcp.example/mcp";

    fn claims() -> Value {
        let expires = Clock::system().time_of_day() + Duration::from_mins(10);
        let expires = expires.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs();
        json!({"iss": ISSUER, "aud": RESOURCE, "sub": "ada", "exp": expires})
    }

    /// Waits until `condition` is true. Panics with `failure` after 20 seconds, longer than any machine needs.
    fn wait_until(failure: &str, condition: impl Fn() -> bool) {
        let end = Clock::system().now_exact() + Duration::from_secs(20);
        while !condition() {
            assert!(Clock::system().now_exact() < end, "{failure}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn verifier_follows_keys_that_the_issuer_publishes() {
        let (one, two) = (JwtIssuer::new("one"), JwtIssuer::new("two"));
        let keys = Arc::new(Mutex::new(one.keys()));
        let fetches = Arc::new(AtomicUsize::new(0));
        let (shown, count) = (keys.clone(), fetches.clone());
        let answer = move || {
            count.fetch_add(1, Ordering::SeqCst);
            Response::text(shown.lock().unwrap().clone())
        };
        let server = Server::new(answer).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        let url = format!("http://{}/jwks", server.addresses()[0]);
        let interval = Duration::from_millis(1);
        let document = DocumentConfig { refresh_interval_min: interval, ..DocumentConfig::new(url).unwrap() };
        let verifier = JwksVerifier::new(ISSUER, RESOURCE, document);
        let is_valid = |issuer: &JwtIssuer| verifier.verify(&issuer.token(&claims())).is_ok();
        wait_until("the verifier should load the keys", || is_valid(&one));
        assert!(!is_valid(&two));
        *keys.lock().unwrap() = two.keys();
        wait_until("the verifier should load the new keys", || is_valid(&two));
        assert!(!is_valid(&one), "the verifier should reject withdrawn keys");
        // A response that is not a key set keeps the previous keys.
        *keys.lock().unwrap() = "none".to_owned();
        let before = fetches.load(Ordering::SeqCst);
        wait_until("the verifier should fetch the keys again", || {
            !is_valid(&one) && fetches.load(Ordering::SeqCst) > before + 1
        });
        assert!(is_valid(&two));
        // Regression test: an empty set counted as an error too, so withdrawn keys stayed valid.
        *keys.lock().unwrap() = r#"{"keys":[]}"#.to_owned();
        wait_until("the verifier should reject the withdrawn keys", || !is_valid(&one) && !is_valid(&two));
    }

    /// Regression test: fetched keys stayed valid while fetches failed. A thief of a withdrawn key only had
    /// to block the connection from the verifier to its issuer.
    #[test]
    fn keys_expire_if_they_cannot_be_fetched_again() {
        let issuer = JwtIssuer::new("one");
        let is_up = Arc::new(AtomicBool::new(true));
        let (shown, keys) = (is_up.clone(), issuer.keys());
        let answer = move || {
            let is_up = shown.load(Ordering::SeqCst);
            if is_up { Response::text(keys.clone()) } else { Response::new(StatusCode::SERVICE_UNAVAILABLE) }
        };
        let server = Server::new(answer).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        let url = format!("http://{}/jwks", server.addresses()[0]);
        let (interval, age_max) = (Duration::from_millis(1), Duration::from_millis(100));
        let document =
            DocumentConfig { refresh_interval_min: interval, age_max, ..DocumentConfig::new(url).unwrap() };
        let verifier = JwksVerifier::new(ISSUER, RESOURCE, document);
        let token = issuer.token(&claims());
        wait_until("the verifier should load the keys", || verifier.verify(&token).is_ok());
        is_up.store(false, Ordering::SeqCst);
        wait_until("the verifier should drop old keys", || verifier.verify(&token).is_err());
        is_up.store(true, Ordering::SeqCst);
        wait_until("the verifier should load the keys again", || verifier.verify(&token).is_ok());
    }
}
