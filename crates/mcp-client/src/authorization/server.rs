//! Metadata of an authorization server (RFC 8414, OpenID Connect Discovery 1.0).

use serde::{Deserialize, Deserializer};

use super::error::{OAuthError, quoted};
use super::fetch::Fetch;
use super::url::HttpUrl;

/// The metadata of an authorization server (RFC 8414 §2). Contains only the parts that the client uses.
#[derive(Clone, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct ServerMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) scopes_supported: Vec<String>,
    pub(super) grant_types_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) client_id_metadata_document_supported: bool,
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// `true` if the server has no metadata document, so that the client assumes these values.
    #[serde(skip)]
    pub(super) is_assumed: bool,
}

impl ServerMetadata {
    /// Fetches the metadata of the authorization server `issuer`. If `is_old` is set, the metadata may be
    /// missing.
    pub(super) async fn discover(fetch: &Fetch, issuer: &str, is_old: bool) -> Result<Self, OAuthError> {
        let url = fetch.admit(issuer)?;
        for place in places(&url) {
            let Some(metadata) = fetch.document::<Self>(&place).await? else { continue };
            // The comparison of the issuers is byte by byte (RFC 8414 §3.3).
            if metadata.issuer != issuer {
                return Err(OAuthError::IssuerMismatch(quoted(issuer)));
            }
            return Ok(metadata);
        }
        if is_old {
            Ok(Self::without_document(&url))
        } else {
            Err(OAuthError::DocumentInvalid(quoted(issuer)))
        }
    }

    /// Returns the metadata to assume for an authorization server of MCP revision 2025-03-26 without a
    /// metadata document. The endpoints of such a server have fixed paths.
    fn without_document(issuer: &HttpUrl) -> Self {
        let at = |path| Some(issuer.at(path).to_string());
        Self {
            issuer: issuer.origin().to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            // MCP revision 2025-03-26 requires all servers to support PKCE.
            code_challenge_methods_supported: vec![S256.to_owned()],
            is_assumed: true,
            ..Self::default()
        }
    }

    pub(super) fn token_endpoint(&self, fetch: &Fetch) -> Result<HttpUrl, OAuthError> {
        self.endpoint(fetch, self.token_endpoint.as_deref())
    }

    pub(super) fn authorization_endpoint(&self, fetch: &Fetch) -> Result<HttpUrl, OAuthError> {
        self.endpoint(fetch, self.authorization_endpoint.as_deref())
    }

    fn endpoint(&self, fetch: &Fetch, url: Option<&str>) -> Result<HttpUrl, OAuthError> {
        fetch.admit(url.ok_or_else(|| OAuthError::DocumentInvalid(quoted(&self.issuer)))?)
    }

    /// Fails unless the authorization server declares support for PKCE with `S256`.
    pub(super) fn demand_pkce(&self) -> Result<(), OAuthError> {
        let is_supported = self.code_challenge_methods_supported.iter().any(|method| method == S256);
        is_supported.then_some(()).ok_or(OAuthError::PkceNotSupported)
    }

    /// Fails if the authorization server lists its supported grants, but `grant` is not in the list. A
    /// server without a list may support any grant.
    pub(super) fn demand_grant(&self, grant: &'static str) -> Result<(), OAuthError> {
        match &self.grant_types_supported {
            Some(grants) if grants.iter().all(|one| one != grant) => {
                Err(OAuthError::GrantNotSupported(grant))
            }
            _ => Ok(()),
        }
    }

    /// `true` if the authorization server can bind a token to a key of this client. `None` if the metadata
    /// do not contain this information.
    pub(super) fn supports_dpop(&self) -> Option<bool> {
        let algorithms = self.dpop_signing_alg_values_supported.as_ref()?;
        Some(algorithms.iter().any(|algorithm| algorithm == "ES256"))
    }
}

/// Parses `null` as the default, because some servers write `null` for missing values.
pub(super) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Returns the possible URLs of the metadata document, in the order in which the client tries them (MCP
/// revision 2026-07-28, section authorization server metadata discovery).
fn places(issuer: &HttpUrl) -> Vec<HttpUrl> {
    let mut places =
        vec![issuer.well_known(OAUTH), issuer.well_known(OPENID), issuer.well_known_below(OPENID)];
    places.dedup();
    places
}

const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// The code challenge method of RFC 7636 §4.3.
const S256: &str = "S256";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_urls_are_in_the_order_of_the_specification() {
        let at =
            |url| places(&HttpUrl::parse(url).unwrap()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            at("https://a.example/tenant1"),
            [
                "https://a.example/.well-known/oauth-authorization-server/tenant1",
                "https://a.example/.well-known/openid-configuration/tenant1",
                "https://a.example/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            at("https://a.example"),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn missing_pkce_and_unlisted_grant_type_are_errors() {
        let empty = ServerMetadata::default();
        assert_eq!(empty.demand_pkce(), Err(OAuthError::PkceNotSupported));
        let plain =
            ServerMetadata { code_challenge_methods_supported: vec!["plain".into()], ..Default::default() };
        assert_eq!(plain.demand_pkce(), Err(OAuthError::PkceNotSupported));
        assert_eq!((empty.demand_grant("x"), empty.supports_dpop()), (Ok(()), None));
        let other = ServerMetadata { grant_types_supported: Some(vec!["y".into()]), ..Default::default() };
        assert_eq!(other.demand_grant("x"), Err(OAuthError::GrantNotSupported("x")));
    }
}
