//! Discovery of the authorization server of an MCP server, and registration of the client with it.

use std::collections::HashMap;
use std::sync::Arc;

use super::challenge::Challenge;
use super::dpop::DpopKey;
use super::error::{OAuthError, quoted};
use super::fetch::Fetch;
use super::identity::{Identity, Method, Secret};
use super::registration::register;
use super::resource::ProtectedResource;
use super::scopes::Scopes;
use super::server::ServerMetadata;
use super::store::{StoredClient, StoredToken};
use super::url::HttpUrl;
use super::{Grant, OAuth};

/// The metadata of an MCP server and of its authorization server, and the key if tokens must be bound to a
/// key.
pub(super) struct OAuthContext {
    pub(super) resource: ProtectedResource,
    pub(super) metadata: ServerMetadata,
    pub(super) key: Option<Arc<DpopKey>>,
}

/// Cached data about authorization servers.
#[derive(Default, Debug)]
pub(super) struct Known {
    /// The registrations of this client, by issuer. An issuer must not receive the client data of another
    /// issuer.
    clients: HashMap<String, StoredClient>,
    /// The issuer of the configured client.
    issuer: Option<String>,
}

impl Known {
    /// Restores the data from a stored token.
    pub(super) fn of(token: Option<&StoredToken>, oauth: &OAuth) -> Self {
        let mut known = Self::default();
        if let Some(token) = token {
            match &oauth.client {
                Some(_) => known.issuer = Some(token.issuer.clone()),
                // A client with a metadata document is not registered.
                None if oauth.metadata_document.as_deref() == Some(&*token.client.id) => {}
                None => _ = known.clients.insert(token.issuer.clone(), token.client.clone()),
            }
        }
        known
    }

    /// Returns the client id that `issuer` assigned to this client, if the client has registered with
    /// `issuer`.
    pub(super) fn registered(&self, issuer: &str) -> Option<String> {
        self.clients.get(issuer).map(|client| client.id.clone())
    }

    /// Removes the registration with an issuer that no longer knows the client.
    pub(super) fn forget(&mut self, issuer: &str) {
        self.clients.remove(issuer);
    }

    /// Chooses one of the issuers that the MCP server names. A client that is registered with one issuer
    /// does not use other issuers.
    fn choose(&mut self, named: &[String], oauth: &OAuth, last: Option<&str>) -> Result<String, OAuthError> {
        let is_named = |issuer: &&str| named.iter().any(|one| one == issuer);
        let first = || named.first().map(String::as_str).ok_or(OAuthError::ServerUnknown);
        let Some(client) = &oauth.client else {
            return last.filter(is_named).map_or_else(first, Ok).map(str::to_owned);
        };
        if client.needs_issuer() {
            return Err(OAuthError::IssuerRequired(quoted(first()?)));
        }
        let issuer = match client.issuer.as_deref().or(self.issuer.as_deref()) {
            Some(issuer) if is_named(&issuer) => issuer.to_owned(),
            Some(_) => return Err(OAuthError::IssuerForeign(quoted(first()?))),
            None => first()?.to_owned(),
        };
        self.issuer = Some(issuer.clone());
        Ok(issuer)
    }

    /// Returns the identity of the client at the authorization server. Registers the client if necessary.
    pub(super) async fn client(
        &mut self,
        fetch: &Fetch,
        oauth_context: &OAuthContext,
        oauth: &OAuth,
        scopes: &Scopes,
    ) -> Result<(Identity, StoredClient), OAuthError> {
        let metadata = &oauth_context.metadata;
        if let Some(client) = &oauth.client {
            let identity = Identity::new(client.id.clone(), client.secret.clone(), None, metadata);
            let stored = stored(&identity, None);
            return Ok((identity, stored));
        }
        let Grant::Login(user_agent) = &oauth.grant else { return Err(OAuthError::ClientNotRegistered) };
        let redirect_uri =
            user_agent.redirect_uri().map_err(|error| OAuthError::LoginFailed(error.kind()))?;
        if let Some(url) =
            oauth.metadata_document.as_ref().filter(|_| metadata.client_id_metadata_document_supported)
        {
            let identity = Identity::new(url.clone(), Secret::None, None, metadata);
            let stored = stored(&identity, Some(redirect_uri));
            return Ok((identity, stored));
        }
        let own_uri = if metadata.authorization_response_iss_parameter_supported {
            redirect_uri.clone()
        } else {
            let uri = user_agent.redirect_uri_for(&metadata.issuer);
            uri.map_err(|error| OAuthError::LoginFailed(error.kind()))?
        };
        let is_enough = |client: &&StoredClient| {
            client.redirect_uri.as_ref() == Some(&own_uri)
                && Scopes::parse(&client.scopes).is_superset_of(scopes)
        };
        if let Some(client) = self.clients.get(&metadata.issuer).filter(is_enough) {
            return Ok((identity(client), client.clone()));
        }
        let is_bound = oauth_context.key.is_some();
        let registered = register(fetch, metadata, &oauth.name, &own_uri, scopes, is_bound).await;
        let (client, chosen) = match registered {
            // The authorization server may accept only certain redirect URIs, so the client tries the
            // redirect URI that all issuers share.
            Err(error) if own_uri != redirect_uri && !error.is_passing() => {
                register(fetch, metadata, &oauth.name, &redirect_uri, scopes, is_bound).await?
            }
            registered => registered?,
        };
        let secret = client.secret.clone().map_or(Secret::None, Secret::Text);
        let identity = Identity::new(client.id.clone(), secret, chosen, metadata);
        let client = StoredClient { method: identity.method, ..client };
        self.clients.insert(metadata.issuer.clone(), client.clone());
        Ok((identity, client))
    }
}

impl OAuthContext {
    /// Discovers the authorization server of the MCP server at `server`.
    pub(super) async fn discover(
        fetch: &Fetch,
        server: &HttpUrl,
        challenge: &Challenge,
        oauth: &OAuth,
        known: &mut Known,
        last_issuer: Option<&str>,
    ) -> Result<Self, OAuthError> {
        let resource = ProtectedResource::discover(fetch, server, challenge).await?;
        let issuer = known.choose(&resource.authorization_servers, oauth, last_issuer)?;
        let metadata = ServerMetadata::discover(fetch, &issuer, resource.is_silent).await?;
        let is_bound = match metadata.supports_dpop() {
            Some(false) if resource.wants_dpop => return Err(OAuthError::TokenUnbound),
            Some(false) => false,
            Some(true) | None => challenge.is_dpop || resource.wants_dpop,
        };
        let key = if is_bound { Some(Arc::new(DpopKey::generate()?)) } else { None };
        Ok(Self { resource, metadata, key })
    }
}

/// Returns the identity of the client that obtained a stored token.
pub(super) fn identity_of(token: &StoredToken, oauth: &OAuth, metadata: &ServerMetadata) -> Identity {
    match oauth.client.as_ref().filter(|client| client.id == token.client.id) {
        Some(client) => Identity::new(client.id.clone(), client.secret.clone(), None, metadata),
        None => identity(&token.client),
    }
}

fn identity(client: &StoredClient) -> Identity {
    let secret = client.secret.clone().map_or(Secret::None, Secret::Text);
    Identity { id: client.id.clone(), secret, method: client.method }
}

/// Returns the data to store about a client that did not register itself. The token store must not contain
/// the secret of a configured client.
fn stored(identity: &Identity, redirect_uri: Option<String>) -> StoredClient {
    StoredClient {
        id: identity.id.clone(),
        secret: None,
        method: Method::None,
        redirect_uri,
        scopes: String::new(),
    }
}
