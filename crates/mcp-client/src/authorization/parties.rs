//! Who is asked for a token, by whom, and for which server.

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

/// The server, its authorization server, and the key that the token is to be bound to.
pub(super) struct Parties {
    pub(super) resource: ProtectedResource,
    pub(super) metadata: ServerMetadata,
    pub(super) key: Option<Arc<DpopKey>>,
}

/// What is known of authorization servers from before.
#[derive(Default, Debug)]
pub(super) struct Known {
    /// The clients that have registered themselves, by issuer: what one issuer knows is no other's business.
    clients: HashMap<String, StoredClient>,
    /// The issuer that knows the client that was registered by hand.
    issuer: Option<String>,
}

impl Known {
    /// What is known from a token that was kept.
    pub(super) fn of(token: Option<&StoredToken>, oauth: &OAuth) -> Self {
        let mut known = Self::default();
        if let Some(token) = token {
            match &oauth.client {
                Some(_) => known.issuer = Some(token.issuer.clone()),
                // Who describes itself is not registered.
                None if oauth.metadata_document.as_deref() == Some(&*token.client.id) => {}
                None => _ = known.clients.insert(token.issuer.clone(), token.client.clone()),
            }
        }
        known
    }

    /// The id that the issuer has registered.
    pub(super) fn registered(&self, issuer: &str) -> Option<String> {
        self.clients.get(issuer).map(|client| client.id.clone())
    }

    /// The issuer does not know the client any more.
    pub(super) fn forget(&mut self, issuer: &str) {
        self.clients.remove(issuer);
    }

    /// Which of the issuers that the server names is asked. Who is registered with one does not go to others.
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

    /// Who the client is to the authorization server.
    pub(super) async fn client(
        &mut self,
        fetch: &Fetch,
        parties: &Parties,
        oauth: &OAuth,
        scopes: &Scopes,
    ) -> Result<(Identity, StoredClient), OAuthError> {
        let metadata = &parties.metadata;
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
        let is_bound = parties.key.is_some();
        let registered = register(fetch, metadata, &oauth.name, &own_uri, scopes, is_bound).await;
        let (client, chosen) = match registered {
            // The server may accept only certain redirect URIs.
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

impl Parties {
    /// Finds out whom the server at `server` wants to be asked.
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

/// Who the client of a stored token is.
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

/// Secrets of clients that were registered by hand are not written down here.
fn stored(identity: &Identity, redirect_uri: Option<String>) -> StoredClient {
    StoredClient {
        id: identity.id.clone(),
        secret: None,
        method: Method::None,
        redirect_uri,
        scopes: String::new(),
    }
}
