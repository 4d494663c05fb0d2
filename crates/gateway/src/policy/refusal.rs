//! Responses of policies to refused requests.

use std::time::Duration;

use thruway_server::{Response, StatusCode};

/// Reason why a policy refuses a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The policy does not allow the client's address.
    Address,
    /// Too many password checks are waiting.
    Busy,
    /// The client presented no certificate, or a certificate that the policy does not allow.
    Certificate { is_missing: bool },
    /// The limit of requests in flight is reached. This variant contains the status of the response.
    Concurrency(StatusCode),
    /// The request body is too large.
    ContentTooLarge,
    /// The credentials are missing or wrong. This variant contains the scheme and the parameters of the
    /// challenge.
    Credentials { scheme: &'static str, realm: Option<String>, parameters: &'static str, is_missing: bool },
    /// The keys for verifying tokens have not been fetched yet.
    NoKeys,
    /// The store of shared limits fails, and the policy refuses requests until it works again.
    NoStore,
    /// The quota is used up. The new window starts after the time `wait`.
    Quota { status: StatusCode, requests: u32, wait: Duration },
    /// The rate limit is reached.
    Rate { status: StatusCode, burst: u32, wait: Duration },
}

impl Refusal {
    /// Returns a short name of the reason, for logs.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Busy => "busy",
            Self::Certificate { is_missing: true } => "certificate_missing",
            Self::Certificate { is_missing: false } => "certificate_not_allowed",
            Self::Concurrency(_) => "concurrency",
            Self::ContentTooLarge => "content_too_large",
            Self::Credentials { is_missing: true, .. } => "credentials_missing",
            Self::Credentials { is_missing: false, .. } => "credentials_invalid",
            Self::NoKeys => "no_keys",
            Self::NoStore => "no_store",
            Self::Quota { .. } => "quota",
            Self::Rate { .. } => "rate",
        }
    }

    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Address | Self::Certificate { .. } => StatusCode::FORBIDDEN,
            Self::Busy | Self::NoKeys | Self::NoStore => StatusCode::SERVICE_UNAVAILABLE,
            Self::Concurrency(status) | Self::Quota { status, .. } | Self::Rate { status, .. } => *status,
            Self::ContentTooLarge => StatusCode::CONTENT_TOO_LARGE,
            Self::Credentials { .. } => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the response to the refused request. `policy` is the default realm. For CONNECT, the
    /// response requests credentials for a proxy (RFC 9110 §11.7.1). If the client needs a token, the challenge
    /// contains `metadata_url`, the URL of the metadata of the resource (RFC 9728 §5.1).
    pub(super) fn to_response(
        &self,
        policy: &str,
        is_for_tunnel: bool,
        metadata_url: Option<&str>,
    ) -> Response {
        let (status, challenge) = match self {
            Self::Credentials { .. } if is_for_tunnel => {
                (StatusCode::PROXY_AUTHENTICATION_REQUIRED, "Proxy-Authenticate")
            }
            _ => (self.status(), "WWW-Authenticate"),
        };
        let text = format!("{} {}\n", status.as_u16(), status.reason());
        // The response does not contain the name of the policy, because clients need not know the policies
        // (RFC 9209 §2.3.26). The log contains the name.
        let response = Response::text(text).with_status(status).with_field("Proxy-Status", PROXY_STATUS);
        match self {
            Self::Address | Self::Certificate { .. } | Self::ContentTooLarge => response,
            Self::Busy | Self::Concurrency(_) | Self::NoKeys | Self::NoStore => {
                response.with_field("Retry-After", "1")
            }
            Self::Credentials { scheme, realm, parameters, .. } => {
                let realm = quoted(realm.as_deref().unwrap_or(policy));
                let metadata_url = metadata_url.filter(|_| *scheme == "Bearer" && !is_for_tunnel);
                let metadata = metadata_url
                    .map(|url| format!(", resource_metadata={}", quoted(url)))
                    .unwrap_or_default();
                response.with_field(challenge, format!("{scheme} realm={realm}{parameters}{metadata}"))
            }
            Self::Rate { burst: limit, wait, .. } | Self::Quota { requests: limit, wait, .. } => {
                let seconds = wait.as_nanos().div_ceil(1_000_000_000).to_string();
                response
                    .with_field("Retry-After", &seconds)
                    .with_field("RateLimit-Limit", limit.to_string())
                    .with_field("RateLimit-Remaining", "0")
                    .with_field("RateLimit-Reset", &seconds)
            }
        }
    }
}

const PROXY_STATUS: &str = "thruway; error=http_request_denied";

/// Returns `text` as a quoted string (RFC 9110 §5.6.4).
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(refusal: &Refusal, name: &str) -> Option<String> {
        refusal
            .to_response("office", false, None)
            .field(name)
            .and_then(|value| value.as_str())
            .map(str::to_owned)
    }

    #[test]
    fn rate_limited_response_has_retry_after_and_ratelimit_headers() {
        let wait = Duration::from_millis(1_001);
        let refusal = Refusal::Rate { status: StatusCode::TOO_MANY_REQUESTS, burst: 5, wait };
        for (name, value) in [
            ("retry-after", "2"),
            ("ratelimit-reset", "2"),
            ("ratelimit-limit", "5"),
            ("ratelimit-remaining", "0"),
        ] {
            assert_eq!(field(&refusal, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(
            field(&Refusal::Concurrency(StatusCode::SERVICE_UNAVAILABLE), "retry-after").unwrap(),
            "1"
        );
    }

    #[test]
    fn challenge_quotes_and_escapes_the_realm() {
        let refusal = |realm: Option<&str>| Refusal::Credentials {
            scheme: "Basic",
            realm: realm.map(str::to_owned),
            parameters: ", charset=\"UTF-8\"",
            is_missing: true,
        };
        let challenge = |realm| field(&refusal(realm), "www-authenticate").unwrap();
        assert_eq!(challenge(Some("a \"b\" \\")), r#"Basic realm="a \"b\" \\", charset="UTF-8""#);
        assert_eq!(challenge(None), r#"Basic realm="office", charset="UTF-8""#);
    }

    #[test]
    fn only_bearer_challenge_contains_the_metadata_url() {
        for (scheme, has_url) in [("Bearer", true), ("Basic", false)] {
            let refusal = Refusal::Credentials { scheme, realm: None, parameters: "", is_missing: true };
            let challenge = |is_for_tunnel, name| {
                let response = refusal.to_response("office", is_for_tunnel, Some("https://a/m"));
                response.field(name).and_then(|value| value.as_str()).unwrap().to_owned()
            };
            let url = if has_url { ", resource_metadata=\"https://a/m\"" } else { "" };
            assert_eq!(challenge(false, "www-authenticate"), format!("{scheme} realm=\"office\"{url}"));
            assert_eq!(challenge(true, "proxy-authenticate"), format!("{scheme} realm=\"office\""));
        }
    }
}
