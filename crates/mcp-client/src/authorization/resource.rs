//! Metadata of a protected resource (RFC 9728).

use serde::Deserialize;

use super::challenge::Challenge;
use super::error::{OAuthError, quoted};
use super::fetch::Fetch;
use super::scopes::Scopes;
use super::server::null_as_default;
use super::url::HttpUrl;

/// A server that requires tokens.
#[derive(Debug)]
pub(super) struct ProtectedResource {
    /// The resource identifier in token requests (RFC 8707).
    pub(super) identifier: String,
    /// The issuers of tokens for the server. Contains at least one issuer.
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Scopes>,
    pub(super) wants_dpop: bool,
    /// `true` if the server has no metadata document.
    pub(super) is_silent: bool,
}

/// The metadata document (RFC 9728 §2).
#[derive(Deserialize)]
struct Document {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default, deserialize_with = "null_as_default")]
    dpop_bound_access_tokens_required: bool,
}

impl ProtectedResource {
    /// Fetches the metadata of the MCP server at `server`. Uses the URL in `challenge`, if any. Otherwise
    /// tries the well-known URL for the path of the server, and then the well-known URL of the origin. Treats
    /// a server without metadata as a server of MCP revision 2025-03-26.
    pub(super) async fn discover(
        fetch: &Fetch,
        server: &HttpUrl,
        challenge: &Challenge,
    ) -> Result<Self, OAuthError> {
        if let Some(url) = &challenge.resource_metadata {
            let url = fetch.admit(url)?;
            let document = fetch.document(&url).await?;
            let document = document.ok_or_else(|| OAuthError::DocumentInvalid(quoted(url.as_str())))?;
            return Self::validate(document, &url, server);
        }
        for url in places(server) {
            if let Some(document) = fetch.document(&url).await? {
                return Self::validate(document, &url, server);
            }
        }
        Ok(Self::of_its_own(server))
    }

    /// Checks that the document describes this server (RFC 9728 §3.3).
    ///
    /// The resource in the document must be the URL of the server, or a parent of this URL. A parent is
    /// valid only if the document came from the well-known URL of the parent or of the host. At a longer
    /// well-known URL, another tenant of the same host may have written the document. The URL of the server
    /// without its query counts as a parent, because the query may select a tenant.
    fn validate(document: Document, found_at: &HttpUrl, server: &HttpUrl) -> Result<Self, OAuthError> {
        let is_found_at = |resource: &HttpUrl| {
            let places = [resource.well_known(NAME), server.well_known_of_origin(NAME)];
            places.iter().any(|place| place.equals(found_at))
        };
        let is_about_server = |resource: &HttpUrl| {
            resource.covers(server) && (server.covers(resource) || is_found_at(resource))
        };
        if !HttpUrl::parse(&document.resource).as_ref().is_some_and(is_about_server) {
            return Err(OAuthError::ResourceMismatch(quoted(&document.resource)));
        }
        if document.authorization_servers.is_empty() {
            return Err(OAuthError::ServerUnknown);
        }
        let scopes = document.scopes_supported;
        Ok(Self {
            identifier: document.resource,
            authorization_servers: document.authorization_servers,
            scopes_supported: scopes.map(|scopes| Scopes::of(scopes.iter().map(String::as_str))),
            wants_dpop: document.dpop_bound_access_tokens_required,
            is_silent: false,
        })
    }

    /// Returns the data for a server of MCP revision 2025-03-26 without metadata. Such a server issues its
    /// tokens itself.
    fn of_its_own(server: &HttpUrl) -> Self {
        Self {
            identifier: server.without_query(),
            authorization_servers: vec![server.origin().to_owned()],
            scopes_supported: None,
            wants_dpop: false,
            is_silent: true,
        }
    }
}

/// Returns the possible URLs of the metadata document, in the order in which the client tries them.
fn places(server: &HttpUrl) -> Vec<HttpUrl> {
    let mut places = vec![server.well_known(NAME), server.well_known_of_origin(NAME)];
    places.dedup();
    places
}

const NAME: &str = "oauth-protected-resource";

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the client accepted a document below the well-known URL of a parent as the parent's
    /// document. A tenant of a shared host could make the client request a token for the whole host, and then
    /// receive it.
    #[test]
    fn metadata_document_must_match_the_url_it_was_found_at() {
        let is_valid = |resource: &str, found_at: &str, server: &str| {
            let document = Document {
                resource: resource.to_owned(),
                authorization_servers: vec!["https://as.example".to_owned()],
                scopes_supported: None,
                dpop_bound_access_tokens_required: false,
            };
            let [found_at, server] = [found_at, server].map(|url| HttpUrl::parse(url).unwrap());
            ProtectedResource::validate(document, &found_at, &server).is_ok()
        };
        let accepted =
            |resource: &str, found_at: &str| is_valid(resource, found_at, "https://a.example/tenant/mcp");
        let root = "https://a.example/.well-known/oauth-protected-resource";
        assert!(accepted("https://a.example/tenant/mcp", "https://a.example/tenant/anywhere"));
        assert!(accepted("https://A.example/tenant/mcp/", "https://b.example/"));
        assert!(accepted("https://a.example", root) && accepted("https://a.example/", root));
        assert!(accepted("https://a.example/tenant", &format!("{root}/tenant")));
        assert!(accepted("https://a.example/tenant", root));
        for (resource, found_at) in [
            ("https://a.example", &*format!("{root}/tenant/mcp")),
            ("https://a.example/", &format!("{root}/tenant")),
            ("https://a.example/tenant", &format!("{root}/tenant/mcp")),
            ("https://a.example", &format!("{root}/")),
            ("https://a.example", &format!("{root}?tenant")),
            ("https://a.example", "https://a.example:444/.well-known/oauth-protected-resource"),
            ("https://a.example", "http://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example", "https://a.example/tenant/anywhere"),
            ("https://a.example", "https://b.example/.well-known/oauth-protected-resource"),
            ("https://a.example/tenant", "https://a.example/tenant/.well-known/oauth-protected-resource"),
            ("https://a.example/other/mcp", root),
            ("https://b.example/tenant/mcp", root),
        ] {
            assert!(!accepted(resource, found_at), "{resource} {found_at}");
        }
        // Regression test: the check ignored queries, so a tenant selected by the query could claim the URL
        // of another one.
        let (server, tenant) = ("https://a.example/mcp", "https://a.example/mcp?tenant=1");
        for found_at in ["https://b.example/", root, &format!("{root}/mcp"), &format!("{root}/mcp?tenant=1")]
        {
            assert!(is_valid(tenant, found_at, tenant), "{found_at}");
            assert!(!is_valid("https://a.example/mcp?tenant=2", found_at, tenant), "{found_at}");
            assert!(!is_valid(tenant, found_at, server), "{found_at}");
        }
        assert!(is_valid(server, root, tenant) && is_valid(server, &format!("{root}/mcp"), tenant));
        for found_at in ["https://b.example/", &format!("{root}/mcp?tenant=1"), "https://a.example/mcp/doc"] {
            assert!(!is_valid(server, found_at, tenant), "{found_at}");
        }
    }

    #[test]
    fn metadata_is_requested_below_the_path_first() {
        let at =
            |url| places(&HttpUrl::parse(url).unwrap()).iter().map(ToString::to_string).collect::<Vec<_>>();
        let root = "https://a.example/.well-known/oauth-protected-resource";
        assert_eq!(at("https://a.example/b/mcp?c"), [format!("{root}/b/mcp"), root.to_owned()]);
        assert_eq!(at("https://a.example/"), [root]);
    }
}
