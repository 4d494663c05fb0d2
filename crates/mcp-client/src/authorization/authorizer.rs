//! Adds access tokens to requests, and obtains another token when the server refuses the current token.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use arc_swap::ArcSwap;
use thruway_client::{Request, Response};
use thruway_message::StatusCode;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::challenge::Challenge;
use super::dpop::DpopKey;
use super::error::{OAuthError, quoted};
use super::fetch::Fetch;
use super::grants::{TokenRequest, is_client_unknown};
use super::login::OFFLINE_ACCESS;
use super::logins::Logins;
use super::oauth_context::{Known, OAuthContext, identity_of};
use super::random::unix_time;
use super::scopes::Scopes;
use super::server::ServerMetadata;
use super::store::{StoredClient, StoredToken};
use super::token::{TokenResponse, request_token};
use super::token_record::{RenewalLock, TokenRecord};
use super::url::{HostScope, HttpUrl};
use super::{Grant, OAuth};

/// Adds access tokens to the requests to one server, and obtains these tokens.
pub(crate) struct Authorizer {
    server_url: Box<str>,
    token_record: TokenRecord,
    /// `None` if the client must not send tokens to `server_url`.
    server: Option<HttpUrl>,
    oauth: OAuth,
    fetch: Fetch,
    sent_credentials: ArcSwap<SentCredentials>,
    /// Held while the client obtains a token, so that concurrent requests share one token.
    known: Mutex<Known>,
    /// Held during a renewal of the token. The renewal continues even if its caller stops waiting.
    renewing: Arc<Mutex<()>>,
    logins: Logins,
}

/// The credentials of a request. If the server refuses the request, the client compares these credentials
/// with the current credentials to detect a newer token.
#[derive(Debug)]
pub(crate) struct SentCredentials {
    token: Option<Arc<Token>>,
    /// `true` if the token has expired and cannot be renewed. The client no longer sends the token.
    is_over: bool,
    /// The error of the last attempt to obtain another token, if that attempt failed.
    failure: Option<OAuthError>,
}

/// An access token, its key, and its state.
struct Token {
    stored: StoredToken,
    key: Option<Arc<DpopKey>>,
    /// The nonce that the server requires in the next proof (RFC 9449 §9).
    nonce: StdMutex<Option<String>>,
    /// `true` if the client has just obtained the token with a grant. If the server refuses such a token,
    /// another token would not help.
    is_fresh: bool,
    /// `true` if the server has accepted the token.
    is_accepted: AtomicBool,
}

/// Number of times that the client repeated a request, for each reason.
#[derive(Default, Debug)]
pub(crate) struct Attempts {
    tokens: u32,
    nonces: u32,
}

/// The reason why a server refused a request.
#[derive(Debug)]
pub(crate) enum RefusalReason {
    /// The proof of possession (DPoP) must contain the nonce from the response.
    Nonce,
    /// The server requires a token, or a token other than the token in the request.
    Token(Challenge),
    /// The server requires more scopes.
    Scopes(Challenge),
}

impl Authorizer {
    /// Returns the authorizer that all clients of the server at `server_url` share.
    pub(crate) fn of(oauth: OAuth, server_url: &str) -> Arc<Self> {
        let all = oauth.authorizers.clone();
        all.get_or_create(server_url, || Self::new(oauth, server_url))
    }

    pub(crate) fn new(oauth: OAuth, server_url: &str) -> Self {
        let server = HttpUrl::parse(server_url).filter(HttpUrl::is_private);
        let token_record = TokenRecord::new(oauth.store.clone(), oauth.grant.store_key(server_url));
        let stored = server
            .as_ref()
            .and_then(|_| token_record.changed_token())
            .filter(|token| token.is_for(oauth.client.as_ref()));
        let known = Known::of(stored.as_ref(), &oauth);
        let token = stored.and_then(|stored| Token::restore(stored).ok()).map(Arc::new);
        let reach = server.as_ref().map_or(HostScope::Internet, HttpUrl::reach);
        Self {
            server_url: server_url.into(),
            token_record,
            server,
            fetch: Fetch::new(oauth.http.clone(), reach),
            oauth,
            sent_credentials: ArcSwap::from_pointee(SentCredentials { token, is_over: false, failure: None }),
            known: Mutex::new(known),
            renewing: Arc::default(),
            logins: Logins::default(),
        }
    }

    /// Returns the time at which the last login ended, or the current time while a login is in progress.
    /// Timeouts do not include the time of a login.
    pub(crate) fn waited_until(&self) -> Option<Instant> {
        self.logins.last()
    }

    /// Returns the credentials for the next request.
    pub(crate) fn sent_credentials(&self) -> Arc<SentCredentials> {
        self.sent_credentials.load_full()
    }

    /// Adds the token to a request to `url`, if `url` has the origin of the server. Other origins never
    /// receive the token.
    pub(crate) fn sign<'c>(
        &self,
        sent_credentials: &SentCredentials,
        method: &str,
        url: &str,
        request: Request<'c>,
    ) -> Result<Request<'c>, OAuthError> {
        let (Some(token), Some(server)) = (sent_credentials.sent(), &self.server) else { return Ok(request) };
        let Some(url) = HttpUrl::parse(url).filter(|url| url.has_origin_of(server)) else {
            return Ok(request);
        };
        let access_token = &token.stored.access_token;
        let Some(key) = &token.key else {
            return Ok(request.field("Authorization", format!("Bearer {access_token}")));
        };
        let nonce = token.nonce();
        let proof = key.proof(method, &url, nonce.as_deref(), Some(access_token))?;
        Ok(request.field("Authorization", format!("DPoP {access_token}")).field("DPoP", proof))
    }

    /// Obtains new credentials after the server refused a request with the credentials `used`. The caller
    /// then repeats the request.
    pub(crate) async fn satisfy(
        self: &Arc<Self>,
        used: &Arc<SentCredentials>,
        demand: &RefusalReason,
        attempts: &mut Attempts,
    ) -> Result<(), OAuthError> {
        let is_nonce = matches!(demand, RefusalReason::Nonce);
        let count = if is_nonce { &mut attempts.nonces } else { &mut attempts.tokens };
        *count += 1;
        if *count > ATTEMPTS_MAX {
            return Err(demand.refusal());
        }
        if is_nonce { Ok(()) } else { self.replace(used, demand).await }
    }

    /// Waits until no other request obtains a token, and locks the cached data about authorization servers.
    /// Also waits for a token renewal that continues although its caller has stopped waiting.
    async fn lock_renewal(&self) -> MutexGuard<'_, Known> {
        let known = self.known.lock().await;
        drop(self.renewing.lock().await);
        known
    }

    /// Obtains a token that the server may accept. If another request has obtained or tried to obtain a token
    /// in the meantime, returns the outcome of that attempt.
    async fn replace(
        self: &Arc<Self>,
        used: &Arc<SentCredentials>,
        demand: &RefusalReason,
    ) -> Result<(), OAuthError> {
        let mut known = self.lock_renewal().await;
        let current = self.sent_credentials.load_full();
        if !Arc::ptr_eq(&current, used) {
            return current.failure.clone().map_or(Ok(()), Err);
        }
        let outcome = self.obtain(&mut known, demand).await;
        if let Err(failure) = &outcome {
            let SentCredentials { token, is_over, .. } = &*self.sent_credentials.load_full();
            let (token, is_over) = (token.clone(), *is_over);
            self.sent_credentials.store(Arc::new(SentCredentials {
                token,
                is_over,
                failure: Some(failure.clone()),
            }));
        }
        outcome
    }

    async fn obtain(self: &Arc<Self>, known: &mut Known, demand: &RefusalReason) -> Result<(), OAuthError> {
        let renewal_lock = self.token_record.lock_renewal().await;
        if self.load_changed_token() && self.meets_demand(demand) {
            return Ok(());
        }
        let used = self.sent_credentials.load_full();
        let last = used.token.as_deref();
        let insecure = || OAuthError::InsecureUrl(quoted(&self.server_url));
        let server = self.server.as_ref().ok_or_else(insecure)?;
        // A new token would have the same properties as the last token, so the server would refuse it too.
        if !demand.may_be_satisfied(used.sent()) {
            return Err(demand.refusal());
        }
        let challenge = demand.challenge();
        let last_issuer = last.map(|token| token.stored.issuer.as_str());
        let oauth_context =
            OAuthContext::discover(&self.fetch, server, challenge, &self.oauth, known, last_issuer).await?;
        let can_refresh = !used.is_over && last_issuer == Some(oauth_context.metadata.issuer.as_str());
        if let (RefusalReason::Token(_), Some(last), true) = (demand, &used.token, can_refresh) {
            let renewed = self.refresh(known, last, oauth_context.metadata.clone(), renewal_lock).await;
            // After a temporary failure of the renewal, the client does not start a login.
            if renewed.as_ref().err().is_none_or(OAuthError::is_passing) {
                return renewed;
            }
        } else {
            // A login takes too long to hold the lock of the token store.
            drop(renewal_lock);
        }
        // If the token store does not support locks, another process may have obtained a token in the
        // meantime.
        if self.load_changed_token() && self.meets_demand(demand) {
            return Ok(());
        }
        let scopes = self.scopes(challenge, &oauth_context, last);
        let (response, client) = self.apply(known, &oauth_context, &scopes).await?;
        self.keep(Token::of(response, oauth_context, client, scopes));
        Ok(())
    }

    /// Loads a token that another client or process has stored since the last access. Returns `true` if the
    /// store had such a token.
    fn load_changed_token(&self) -> bool {
        let changed_token = self.server.as_ref().and_then(|_| self.token_record.changed_token());
        let changed_token = changed_token
            .filter(|token| token.is_for(self.oauth.client.as_ref()))
            .and_then(|changed_token| Token::restore(changed_token).ok());
        changed_token.map(|token| self.put(token)).is_some()
    }

    /// `true` if the server may accept the current token, which the client has not sent yet.
    fn meets_demand(&self, demand: &RefusalReason) -> bool {
        let sent_credentials = self.sent_credentials.load();
        sent_credentials.sent().is_some_and(|token| match demand {
            RefusalReason::Scopes(_) => !demand.may_be_satisfied(Some(token)),
            RefusalReason::Nonce | RefusalReason::Token(_) => !token.ends_soon(),
        })
    }

    /// Requests a token with the configured grant. If the authorization server no longer knows the client,
    /// the client registers again.
    async fn apply(
        &self,
        known: &mut Known,
        oauth_context: &OAuthContext,
        scopes: &Scopes,
    ) -> Result<(TokenResponse, StoredClient), OAuthError> {
        let issuer = &oauth_context.metadata.issuer;
        loop {
            let before = known.registered(issuer);
            let (identity, client) = known.client(&self.fetch, oauth_context, &self.oauth, scopes).await?;
            let token_request = TokenRequest {
                fetch: &self.fetch,
                oauth: &self.oauth,
                oauth_context,
                identity: &identity,
                client: &client,
                scopes,
                logins: &self.logins,
            };
            match token_request.apply().await {
                Ok(response) => return Ok((response, client)),
                Err(error) => {
                    let is_unknown = is_client_unknown(&error);
                    // If the authorization server does not know the client, it may show an error page
                    // instead of a redirect to the client.
                    if is_unknown || error == OAuthError::LoginTimedOut {
                        known.forget(issuer);
                    }
                    // The authorization server refused a client that has just registered, so another
                    // registration would not help.
                    if !is_unknown || before.as_deref() != Some(&*client.id) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Returns the scopes to request: the scopes of the last token, the scopes that the server demands, and
    /// the configured scopes. If neither the challenge nor the configuration contains scopes, requests the
    /// scopes in the metadata of the server.
    fn scopes(&self, challenge: &Challenge, oauth_context: &OAuthContext, last: Option<&Token>) -> Scopes {
        let wanted = &self.oauth.scopes;
        let general = oauth_context.resource.scopes_supported.as_ref().filter(|_| wanted.is_empty());
        let named = challenge.scopes.as_ref().or(general).cloned().unwrap_or_default();
        let before = last.map_or_else(Scopes::default, Token::scopes);
        let mut scopes = before.union(&named).union(wanted);
        let supported = &oauth_context.metadata.scopes_supported;
        let is_login = matches!(self.oauth.grant, Grant::Login(_));
        if is_login && !scopes.is_empty() && supported.iter().any(|scope| scope == OFFLINE_ACCESS) {
            scopes.add(OFFLINE_ACCESS);
        }
        scopes
    }

    /// Renews a token that expires soon. If the renewal fails permanently, the client sends requests
    /// without a token, and the server responds with a challenge.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        sent_credentials: &Arc<SentCredentials>,
    ) -> Arc<SentCredentials> {
        let mut known = self.lock_renewal().await;
        if !Arc::ptr_eq(&self.sent_credentials.load(), sent_credentials) {
            return self.sent_credentials.load_full();
        }
        let renewal_lock = self.token_record.lock_renewal().await;
        self.load_changed_token();
        let current = self.sent_credentials.load_full();
        let Some(token) = current.token.clone().filter(|_| current.ends_soon()) else {
            return current;
        };
        let renewed = async {
            if token.stored.refresh_token.is_none() {
                return Err(OAuthError::TokenInvalid);
            }
            let issuer = &token.stored.issuer;
            // The metadata may be missing only if the URL of the issuer has no path, as in MCP revision
            // 2025-03-26.
            let is_old = HttpUrl::parse(issuer).is_some_and(|url| url.origin() == issuer);
            let metadata = ServerMetadata::discover(&self.fetch, issuer, is_old).await?;
            self.refresh(&mut known, &token, metadata, renewal_lock).await
        };
        // After a temporary failure, the client uses the token until it expires. If the token store does
        // not support locks, another process may have renewed the token.
        if renewed.await.is_err_and(|error| error.is_refusal()) && !self.load_changed_token() {
            let token = Some(token.clone());
            self.sent_credentials.store(Arc::new(SentCredentials { token, is_over: true, failure: None }));
        }
        self.sent_credentials.load_full()
    }

    /// Exchanges the refresh token for a new access token (RFC 6749 §6). The client sends the refresh token
    /// only to its issuer.
    ///
    /// Most refresh tokens are valid for one use, and the response contains the next refresh token.
    /// Therefore the renewal runs in a separate tokio task and finishes even if the caller stops waiting.
    /// The task holds the lock `renewal_lock` until it has stored the new token.
    async fn refresh(
        self: &Arc<Self>,
        known: &mut Known,
        token: &Arc<Token>,
        metadata: ServerMetadata,
        renewal_lock: RenewalLock,
    ) -> Result<(), OAuthError> {
        let issuer = metadata.issuer.clone();
        let is_renewing = self.renewing.clone().lock_owned().await;
        let (authorizer, token) = (self.clone(), token.clone());
        let renewal = tokio::spawn(async move {
            let _is_renewing = is_renewing;
            let renewed = authorizer.renewed(&token, &metadata).await;
            let outcome = renewed.map(|token| authorizer.keep(token));
            drop(renewal_lock);
            outcome
        });
        let outcome = renewal.await.unwrap_or(Err(OAuthError::TokenInvalid));
        if outcome.as_ref().is_err_and(is_client_unknown) {
            // The client registers again before the next login.
            known.forget(&issuer);
        }
        outcome
    }

    /// Requests a new token with the refresh token of `token`.
    async fn renewed(&self, token: &Token, metadata: &ServerMetadata) -> Result<Token, OAuthError> {
        let (stored, key) = (&token.stored, &token.key);
        let refresh_token = stored.refresh_token.clone().ok_or(OAuthError::TokenInvalid)?;
        let form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh_token),
            ("resource", stored.resource.clone()),
        ];
        let identity = identity_of(stored, &self.oauth, metadata);
        let response = request_token(&self.fetch, metadata, &identity, key.as_deref(), form).await?;
        let response = response.validate(key.is_some())?;
        if key.is_some() != response.is_dpop() {
            return Err(OAuthError::TokenUnbound);
        }
        Ok(Token::renewed(response, stored, key.clone()))
    }

    fn keep(&self, token: Token) {
        self.token_record.save(&token.stored);
        self.put(token);
    }

    fn put(&self, token: Token) {
        self.sent_credentials.store(Arc::new(SentCredentials {
            token: Some(Arc::new(token)),
            is_over: false,
            failure: None,
        }));
    }
}

impl SentCredentials {
    /// `true` if the client should renew the token before it sends the next request.
    pub(crate) fn ends_soon(&self) -> bool {
        !self.is_over && self.token.as_ref().is_some_and(|token| token.ends_soon())
    }

    /// Returns the reason why the server refused the request, or `None` if the server accepted the
    /// credentials.
    pub(crate) fn demand(&self, response: &Response) -> Option<RefusalReason> {
        demand(self.sent(), response)
    }

    /// Returns the token to send with requests, or `None` if no token is usable.
    fn sent(&self) -> Option<&Token> {
        self.token.as_deref().filter(|_| !self.is_over)
    }
}

fn demand(token: Option<&Token>, response: &Response) -> Option<RefusalReason> {
    let nonce = response.field("dpop-nonce").and_then(|nonce| nonce.as_str());
    let has_nonce = token.zip(nonce).is_some_and(|(token, nonce)| token.learn_nonce(nonce));
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            let challenge = Challenge::of(response.head().field_lines);
            let wants_nonce = has_nonce && challenge.is_error("use_dpop_nonce");
            Some(if wants_nonce { RefusalReason::Nonce } else { RefusalReason::Token(challenge) })
        }
        StatusCode::FORBIDDEN => {
            let challenge = Challenge::of(response.head().field_lines);
            challenge.is_error("insufficient_scope").then_some(RefusalReason::Scopes(challenge))
        }
        _ => {
            if let Some(token) = token {
                token.is_accepted.store(true, Ordering::Relaxed);
            }
            None
        }
    }
}

impl RefusalReason {
    fn challenge(&self) -> &Challenge {
        static NONE: Challenge =
            Challenge { is_dpop: false, error: None, scopes: None, resource_metadata: None };
        match self {
            Self::Token(challenge) | Self::Scopes(challenge) => challenge,
            Self::Nonce => &NONE,
        }
    }

    /// `true` if the server may accept a new token after it refused the token `last`.
    fn may_be_satisfied(&self, last: Option<&Token>) -> bool {
        let Some(last) = last else { return true };
        match self {
            Self::Nonce => false,
            Self::Token(_) => !last.is_fresh || last.is_accepted.load(Ordering::Relaxed),
            Self::Scopes(challenge) => {
                let wanted = challenge.scopes.clone().unwrap_or_default();
                !last.scopes().is_superset_of(&wanted)
            }
        }
    }

    const fn refusal(&self) -> OAuthError {
        match self {
            Self::Nonce | Self::Token(_) => OAuthError::TokenRejected,
            Self::Scopes(_) => OAuthError::ScopeInsufficient,
        }
    }
}

impl Token {
    fn of(
        response: TokenResponse,
        oauth_context: OAuthContext,
        client: StoredClient,
        scopes: Scopes,
    ) -> Self {
        let OAuthContext { resource, metadata, key } = oauth_context;
        let stored = StoredToken {
            issuer: metadata.issuer,
            resource: resource.identifier,
            is_dpop: key.is_some(),
            expires_at: expires_at(&response),
            scopes: granted(scopes, &response).to_string(),
            dpop_key: key.as_ref().map(|key| key.to_text()),
            client,
            access_token: response.access_token,
            refresh_token: response.refresh_token,
        };
        Self::new(stored, key, true)
    }

    /// Creates the token from the response to a renewal of `before`.
    fn renewed(response: TokenResponse, before: &StoredToken, key: Option<Arc<DpopKey>>) -> Self {
        let stored = StoredToken {
            expires_at: expires_at(&response),
            scopes: granted(Scopes::parse(&before.scopes), &response).to_string(),
            access_token: response.access_token,
            // If the response has no refresh token, the previous refresh token remains valid.
            refresh_token: response.refresh_token.or_else(|| before.refresh_token.clone()),
            ..before.clone()
        };
        Self::new(stored, key, false)
    }

    fn restore(stored: StoredToken) -> Result<Self, OAuthError> {
        let key = stored.dpop_key.as_deref().map(DpopKey::restore).transpose()?;
        if stored.is_dpop != key.is_some() {
            return Err(OAuthError::KeyInvalid);
        }
        Ok(Self::new(stored, key.map(Arc::new), false))
    }

    const fn new(stored: StoredToken, key: Option<Arc<DpopKey>>, is_fresh: bool) -> Self {
        Self { stored, key, nonce: StdMutex::new(None), is_fresh, is_accepted: AtomicBool::new(false) }
    }

    fn ends_soon(&self) -> bool {
        let can_refresh = self.stored.refresh_token.is_some();
        let soon = unix_time() + if can_refresh { SOON_SECONDS } else { 0 };
        self.stored.expires_at.is_some_and(|end| end <= soon)
    }

    fn scopes(&self) -> Scopes {
        Scopes::parse(&self.stored.scopes)
    }

    fn nonce(&self) -> Option<String> {
        self.nonce.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores the nonce for the next proof. Returns `false` if the token has no key.
    fn learn_nonce(&self, nonce: &str) -> bool {
        if self.key.is_some() {
            *self.nonce.lock().unwrap_or_else(PoisonError::into_inner) = Some(nonce.to_owned());
        }
        self.key.is_some()
    }
}

fn expires_at(response: &TokenResponse) -> Option<u64> {
    // A lifetime of zero counts as unknown.
    let seconds = response.expires_in().filter(|seconds| *seconds > 0);
    seconds.map(|seconds| unix_time().saturating_add(seconds))
}

fn granted(scopes: Scopes, response: &TokenResponse) -> Scopes {
    scopes.union(&response.scope.as_deref().map(Scopes::parse).unwrap_or_default())
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("oauth", &self.oauth).finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stored.fmt(f)
    }
}

/// Maximum number of times that the client obtains another token for one request.
const ATTEMPTS_MAX: u32 = 3;

/// Remaining lifetime in seconds below which the client renews a token, because the token could expire
/// before it reaches the server.
const SOON_SECONDS: u64 = 10;

#[cfg(test)]
mod tests {
    use thruway_client::Client;

    use super::super::{LoopbackRedirect, MemoryTokenStore, TokenStore as _};
    use super::*;

    #[test]
    fn token_is_sent_only_to_its_server() {
        let stored = serde_json::json!({
            "issuer": "https://as.example", "resource": "https://mcp.example/mcp", "access_token": "confidential",
            "is_dpop": false, "expires_at": null, "refresh_token": null, "scopes": "", "dpop_key": null,
            "client": {"id": "id", "secret": null, "method": "none", "redirect_uri": null, "scopes": ""},
        });
        let store = MemoryTokenStore::default();
        store.save("https://mcp.example/mcp", &serde_json::from_value(stored).unwrap());
        let oauth = OAuth::login(LoopbackRedirect::new(|_| {})).store(store);
        let authorizer = Authorizer::new(oauth, "https://mcp.example/mcp");
        let client = Client::new();
        let is_sent_to = |url: &str| {
            let request =
                authorizer.sign(&authorizer.sent_credentials(), "GET", url, client.get(url)).unwrap();
            format!("{request:?}").contains("confidential")
        };
        assert!(is_sent_to("https://mcp.example/mcp") && is_sent_to("https://MCP.example:443/messages?id=1"));
        for url in
            ["http://mcp.example/mcp", "https://evil.example/mcp", "https://mcp.example:444/mcp", "/mcp"]
        {
            assert!(!is_sent_to(url), "{url}");
        }
    }
}
