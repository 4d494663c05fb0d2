//! The grants: a login, the client's own credentials, or an assertion about the client or its user.

use thruway_message::StatusCode;
use tokio::time::timeout;

use super::error::OAuthError;
use super::exchange::{ID_TOKEN, id_jag_form, id_jag_of};
use super::fetch::Fetch;
use super::identity::Identity;
use super::login::{AUTHORIZATION_CODE, LoginRequest, UserAgent};
use super::logins::Logins;
use super::oauth_context::OAuthContext;
use super::scopes::Scopes;
use super::server::ServerMetadata;
use super::store::StoredClient;
use super::token::{Form, TokenResponse, request_token};
use super::{Grant, IdentityProvider, OAuth};

/// The data of a token request.
pub(super) struct TokenRequest<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) oauth: &'a OAuth,
    pub(super) oauth_context: &'a OAuthContext,
    pub(super) identity: &'a Identity,
    pub(super) client: &'a StoredClient,
    pub(super) scopes: &'a Scopes,
    pub(super) logins: &'a Logins,
}

impl TokenRequest<'_> {
    /// Obtains a token with the configured grant.
    pub(super) async fn apply(&self) -> Result<TokenResponse, OAuthError> {
        let form = match &self.oauth.grant {
            Grant::Login(user_agent) => self.log_in(&**user_agent).await?,
            Grant::ClientCredentials => {
                self.demand(CLIENT_CREDENTIALS)?;
                self.with_scope(vec![("grant_type", CLIENT_CREDENTIALS.to_owned())])
            }
            Grant::Assertion(source) => {
                let assertion = source(self.oauth_context.metadata.issuer.clone()).await;
                self.bearer(assertion.map_err(|error| OAuthError::AssertionUnavailable(error.kind()))?)?
            }
            Grant::Enterprise(provider) => {
                self.demand(JWT_BEARER)?;
                self.bearer(self.exchange(provider).await?)?
            }
        };
        self.redeem(form).await
    }

    /// Sends the grant in `form` to the token endpoint and returns the token.
    async fn redeem(&self, mut form: Form) -> Result<TokenResponse, OAuthError> {
        let OAuthContext { resource, metadata, key } = self.oauth_context;
        form.push(("resource", resource.identifier.clone()));
        let response = request_token(self.fetch, metadata, self.identity, key.as_deref(), form).await?;
        let response = response.validate(key.is_some())?;
        if key.is_some() && !response.is_dpop() {
            return Err(OAuthError::TokenUnbound);
        }
        Ok(response)
    }

    /// Lets a person log in. Returns the authorization code as a grant.
    async fn log_in(&self, user_agent: &dyn UserAgent) -> Result<Form, OAuthError> {
        let metadata = &self.oauth_context.metadata;
        metadata.demand_pkce()?;
        self.demand(AUTHORIZATION_CODE)?;
        let endpoint = metadata.authorization_endpoint(self.fetch)?;
        let redirect_uri = match &self.client.redirect_uri {
            Some(uri) => uri.clone(),
            None => user_agent.redirect_uri().map_err(|error| OAuthError::LoginFailed(error.kind()))?,
        };
        let resource = &self.oauth_context.resource.identifier;
        let request = LoginRequest::new(&endpoint, &self.identity.id, &redirect_uri, resource, self.scopes)
            .at_uri_of_issuer(user_agent, &metadata.issuer);
        let redirect = {
            let _login = self.logins.begin();
            timeout(self.oauth.login_timeout, user_agent.log_in(&request.url)).await
        };
        let redirect = redirect.map_err(|_| OAuthError::LoginTimedOut)?;
        let redirect = redirect.map_err(|error| OAuthError::LoginFailed(error.kind()))?;
        request.grant(&redirect, metadata)
    }

    /// Returns an assertion about the client or its user as a grant (RFC 7523 §2.1).
    fn bearer(&self, assertion: String) -> Result<Form, OAuthError> {
        self.demand(JWT_BEARER)?;
        Ok(self.with_scope(vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)]))
    }

    /// Obtains an assertion about the user from an identity provider (RFC 8693, identity assertion JWT
    /// authorization grant).
    async fn exchange(&self, provider: &IdentityProvider) -> Result<String, OAuthError> {
        let id_token = (provider.id_token)(self.oauth_context.metadata.issuer.clone()).await;
        let id_token = id_token.map_err(|error| OAuthError::AssertionUnavailable(error.kind()))?;
        let form = self.with_scope(id_jag_form(
            &self.oauth_context.metadata.issuer,
            &self.oauth_context.resource.identifier,
            (id_token, ID_TOKEN),
        ));
        let metadata = ServerMetadata {
            issuer: provider.token_endpoint.clone(),
            token_endpoint: Some(provider.token_endpoint.clone()),
            ..ServerMetadata::default()
        };
        let client = &provider.client;
        let identity = Identity::new(client.id.clone(), client.secret.clone(), None, &metadata);
        let fetch = self.fetch.for_configured_urls();
        let response = request_token(&fetch, &metadata, &identity, None, form).await?;
        id_jag_of(response)
    }

    fn demand(&self, grant: &'static str) -> Result<(), OAuthError> {
        self.oauth_context.metadata.demand_grant(grant)
    }

    fn with_scope(&self, mut form: Form) -> Form {
        if !self.scopes.is_empty() {
            form.push(("scope", self.scopes.to_string()));
        }
        form
    }
}

/// `true` if the authorization server has reported that it does not know the client.
pub(super) fn is_client_unknown(error: &OAuthError) -> bool {
    match error {
        OAuthError::Refused { error, .. } => matches!(&**error, "invalid_client" | "unauthorized_client"),
        OAuthError::Status(_, status) => *status == StatusCode::UNAUTHORIZED,
        _ => false,
    }
}

pub(super) const CLIENT_CREDENTIALS: &str = "client_credentials";
pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
