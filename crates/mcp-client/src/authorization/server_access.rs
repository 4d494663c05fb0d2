//! The tokens with which a gateway uses one MCP server: its own token, and a token for each caller.

use std::fmt;
use std::sync::Arc;

use super::access_token::{AccessToken, TokenKey};
use super::error::OAuthError;
use super::exchange::{self, access_token_form, id_jag_form, id_jag_of, is_access_token};
use super::grants::{CLIENT_CREDENTIALS, JWT_BEARER};
use super::token::{Form, TokenResponse};
use super::token_issuer::TokenIssuer;

/// The tokens with which a gateway uses one MCP server.
#[derive(Clone, Debug)]
pub struct ServerAccess {
    grant: AccessGrant,
    /// Issues the tokens for the server.
    issuer: TokenIssuer,
    target: Arc<TokenTarget>,
}

#[derive(Clone, Debug)]
enum AccessGrant {
    /// All callers share the gateway's own token.
    ClientCredentials,
    /// The issuer exchanges the token of a caller (RFC 8693).
    Exchange(SubjectTokenType),
    /// This identity provider exchanges the token of a caller for an assertion to the issuer (identity
    /// assertion JWT authorization grant).
    Enterprise(TokenIssuer, SubjectTokenType),
}

/// The MCP server for which a token is requested.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TokenTarget {
    /// The URL of the server (RFC 8707). Requests for tokens contain it as `resource`.
    pub resource: Option<String>,
    /// The logical name of the server (RFC 8693 §2.1). Requests for tokens contain it as `audience`. Not
    /// used for enterprise-managed authorization.
    pub audience: Option<String>,
    /// The requested scopes, separated by spaces.
    pub scope: Option<String>,
}

/// The type of the callers' tokens (RFC 8693 §3).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SubjectTokenType {
    /// Access tokens.
    #[default]
    AccessToken,
    /// ID tokens of OpenID Connect.
    IdToken,
    /// JSON Web Tokens of another kind.
    Jwt,
}

/// The token of a caller, which a [`ServerAccess`] exchanges for another token. The debug output does not
/// contain the token.
#[derive(Clone)]
pub struct SubjectToken(Arc<str>);

impl ServerAccess {
    /// The gateway obtains one token for all callers with its own credentials (RFC 6749 §4.4).
    pub fn client_credentials(issuer: TokenIssuer, target: TokenTarget) -> Self {
        Self { grant: AccessGrant::ClientCredentials, issuer, target: Arc::new(target) }
    }

    /// The issuer exchanges the token of each caller for a token for the server (RFC 8693).
    pub fn exchange(issuer: TokenIssuer, target: TokenTarget, subject: SubjectTokenType) -> Self {
        Self { grant: AccessGrant::Exchange(subject), issuer, target: Arc::new(target) }
    }

    /// The identity provider `provider` exchanges the token of each caller for an assertion. With this
    /// assertion, the gateway obtains a token from `authorization_server`, the authorization server of the
    /// MCP server (enterprise-managed authorization).
    pub fn enterprise(
        provider: TokenIssuer,
        authorization_server: TokenIssuer,
        target: TokenTarget,
        subject: SubjectTokenType,
    ) -> Self {
        let (grant, target) = (AccessGrant::Enterprise(provider, subject), Arc::new(target));
        Self { grant, issuer: authorization_server, target }
    }

    /// Returns `true` if each caller has its own token.
    pub const fn is_per_caller(&self) -> bool {
        !matches!(self.grant, AccessGrant::ClientCredentials)
    }

    /// Returns the names of the authorization servers, for the log.
    pub fn issuers(&self) -> String {
        match &self.grant {
            AccessGrant::Enterprise(provider, _) => format!("{}, {}", provider.name(), self.issuer.name()),
            _ => self.issuer.name().to_owned(),
        }
    }

    /// Returns the gateway's own token. The gateway uses this token for requests that belong to no caller.
    ///
    /// # Errors
    /// The issuer is unavailable, or issues no token.
    pub async fn own_token(&self) -> Result<AccessToken, OAuthError> {
        let (key, access) = (self.own_key(), self.clone());
        let request = async move {
            let form = access.with_target(vec![("grant_type", CLIENT_CREDENTIALS.to_owned())]);
            access.issuer.request(form).await?.validate(false)
        };
        self.issuer.cache().get(key, request).await
    }

    /// Returns the token for the caller with the token `subject`.
    ///
    /// # Errors
    /// An authorization server is unavailable, or issues no token for this caller.
    pub async fn token_for(&self, subject: &SubjectToken) -> Result<AccessToken, OAuthError> {
        match &self.grant {
            AccessGrant::ClientCredentials => self.own_token().await,
            AccessGrant::Exchange(token_type) => self.exchanged(subject, *token_type).await,
            AccessGrant::Enterprise(provider, token_type) => {
                self.asserted(provider, subject, *token_type).await
            }
        }
    }

    /// Returns the token for the caller with the token `subject`, if it is in the cache. Sends no request. Callers
    /// that share the gateway's own token have no `subject`.
    pub fn cached_token(&self, subject: Option<&SubjectToken>) -> Option<AccessToken> {
        let key = match subject {
            Some(subject) => self.key_of(subject),
            None => self.own_key(),
        };
        self.issuer.cache().fresh(&key)
    }

    /// Removes a token from the cache, because the server has refused it.
    pub fn reject(&self, token: &AccessToken) {
        self.issuer.cache().forget(token);
    }

    async fn exchanged(
        &self,
        subject: &SubjectToken,
        token_type: SubjectTokenType,
    ) -> Result<AccessToken, OAuthError> {
        let (key, access) = (self.key_of(subject), self.clone());
        let subject = subject.clone();
        let request = async move {
            let form = access.with_target(access_token_form(subject.of_type(token_type)));
            let response = access.issuer.request(form).await?.validate(false)?;
            is_access_token(&response).then_some(response).ok_or(OAuthError::TokenInvalid)
        };
        self.issuer.cache().get(key, request).await
    }

    async fn asserted(
        &self,
        provider: &TokenIssuer,
        subject: &SubjectToken,
        token_type: SubjectTokenType,
    ) -> Result<AccessToken, OAuthError> {
        let key = self.key_of(subject);
        let (access, provider, subject) = (self.clone(), provider.clone(), subject.clone());
        let request = async move { access.redeem(&provider, subject.of_type(token_type)).await };
        self.issuer.cache().get(key, request).await
    }

    /// Obtains an assertion from the identity provider, and redeems it at the authorization server.
    async fn redeem(
        &self,
        provider: &TokenIssuer,
        subject: exchange::Subject,
    ) -> Result<TokenResponse, OAuthError> {
        let resource = self.target.resource.as_deref().unwrap_or_default();
        let form = self.with_scope(id_jag_form(self.issuer.issuer(), resource, subject));
        let assertion = id_jag_of(provider.request(form).await?)?;
        let mut form = vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)];
        form.push(("resource", resource.to_owned()));
        self.issuer.request(self.with_scope(form)).await?.validate(false)
    }

    fn with_target(&self, mut form: Form) -> Form {
        let TokenTarget { resource, audience, .. } = &*self.target;
        form.extend(resource.clone().map(|resource| ("resource", resource)));
        form.extend(audience.clone().map(|audience| ("audience", audience)));
        self.with_scope(form)
    }

    fn with_scope(&self, mut form: Form) -> Form {
        form.extend(self.target.scope.clone().map(|scope| ("scope", scope)));
        form
    }

    fn own_key(&self) -> TokenKey {
        self.key("own", "")
    }

    /// Returns the key of the token for the caller with the token `subject`.
    fn key_of(&self, subject: &SubjectToken) -> TokenKey {
        match &self.grant {
            AccessGrant::ClientCredentials => self.own_key(),
            AccessGrant::Exchange(_) => self.key("exchange", &subject.0),
            AccessGrant::Enterprise(provider, _) => self.key(provider.token_endpoint(), &subject.0),
        }
    }

    /// Returns the key of a token in the cache. `grant` and `subject` are the parts that differ between the
    /// requests for tokens for one server.
    fn key(&self, grant: &str, subject: &str) -> TokenKey {
        let TokenTarget { resource, audience, scope } = &*self.target;
        let target = [resource, audience, scope].map(|part| part.as_deref().unwrap_or_default());
        TokenKey::of([grant, subject].into_iter().chain(target))
    }
}

impl SubjectTokenType {
    const fn urn(self) -> &'static str {
        match self {
            Self::AccessToken => exchange::ACCESS_TOKEN,
            Self::IdToken => exchange::ID_TOKEN,
            Self::Jwt => exchange::JWT,
        }
    }
}

impl SubjectToken {
    /// Wraps the token of a caller. The token must be verified.
    pub fn new(token: impl Into<Arc<str>>) -> Self {
        Self(token.into())
    }

    fn of_type(&self, token_type: SubjectTokenType) -> exchange::Subject {
        (self.0.to_string(), token_type.urn())
    }
}

impl fmt::Debug for SubjectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
