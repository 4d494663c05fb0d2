//! Dynamic client registration (RFC 7591).

use serde::Deserialize;
use serde_json::json;

use super::error::{OAuthError, quoted};
use super::fetch::Fetch;
use super::identity::Method;
use super::scopes::Scopes;
use super::server::ServerMetadata;
use super::store::StoredClient;
use super::token::refusal;
use super::url::{HostScope, HttpUrl};

/// The response to a registration (RFC 7591 §3.2.1).
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

/// Registers a client with this name, redirect URI and scopes.
pub(super) async fn register(
    fetch: &Fetch,
    metadata: &ServerMetadata,
    name: &str,
    redirect_uri: &str,
    scopes: &Scopes,
    is_dpop: bool,
) -> Result<(StoredClient, Option<Method>), OAuthError> {
    let url = metadata.registration_endpoint.as_deref().ok_or(OAuthError::ClientNotRegistered)?;
    let url = fetch.admit(url)?;
    let mut document = json!({
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted_method(metadata).as_str(),
        // OpenID Connect Dynamic Client Registration 1.0 §2: without this member, the authorization server
        // assumes `web`.
        "application_type": application_type(redirect_uri),
    });
    if !scopes.is_empty() {
        // Some servers grant only registered scopes.
        document["scope"] = json!(scopes.to_string());
    }
    if is_dpop {
        document["dpop_bound_access_tokens"] = json!(true);
    }
    let answer = fetch.post(&url, "application/json", document.to_string(), &[]).await?;
    if !answer.status.is_success() {
        // Without a metadata document, the client has guessed this URL, so the error may mean that the
        // endpoint does not exist.
        return Err(if metadata.is_assumed { OAuthError::ServerUnknown } else { refusal(&url, &answer) });
    }
    let registered: Registered = serde_json::from_slice(&answer.content)
        .map_err(|_| OAuthError::DocumentInvalid(quoted(url.as_str())))?;
    let chosen = registered.token_endpoint_auth_method.as_deref().and_then(Method::of_name);
    let client = StoredClient {
        id: registered.client_id,
        secret: registered.client_secret,
        method: chosen.unwrap_or_default(),
        redirect_uri: Some(redirect_uri.to_owned()),
        scopes: scopes.to_string(),
    };
    Ok((client, chosen))
}

/// Returns the authentication method to register. A client on a user's machine uses no secret unless the
/// authorization server requires a secret.
fn wanted_method(metadata: &ServerMetadata) -> Method {
    let supported = metadata.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
    let supports = |method: &Method| supported.iter().any(|name| name == method.as_str());
    let wanted = [Method::None, Method::ClientSecretBasic, Method::ClientSecretPost];
    // An authorization server without this metadata may still register a client without a secret.
    wanted.into_iter().find(supports).unwrap_or(Method::None)
}

/// Returns the application type. The application is native if the redirect URI is on this machine, or uses
/// the URI scheme of an application.
fn application_type(redirect_uri: &str) -> &'static str {
    let is_web = HttpUrl::parse(redirect_uri).is_some_and(|uri| uri.reach() > HostScope::Machine);
    if is_web { "web" } else { "native" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_redirect_uri_means_native_application() {
        for uri in [
            "http://127.0.0.1:1/callback",
            "http://localhost/",
            "http://app.localhost/",
            "com.example.app:/back",
        ] {
            assert_eq!(application_type(uri), "native", "{uri}");
        }
        assert_eq!(application_type("https://app.example/back"), "web");
    }
}
