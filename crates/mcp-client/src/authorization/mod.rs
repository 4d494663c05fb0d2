//! Authorization of clients: OAuth 2.1 as the MCP specification requires it, with the extensions of the
//! specification.
//!
//! This module does not depend on MCP messages. When a server refuses an HTTP request, the module obtains a
//! token, so that the client can repeat the request.

// configuration
mod login;
mod loopback;
mod identity;
mod store;
mod error;

// responses of servers
mod url;
mod challenge;
mod fetch;
mod resource;
mod server;

// obtaining a token
mod scopes;
mod random;
mod dpop;
mod registration;
mod token;
mod logins;
mod grants;
mod exchange;
mod oauth_context;
mod token_record;

// tokens of a gateway for other servers
mod access_token;
mod token_cache;
mod token_issuer;
mod server_access;

// requests with a token
mod authorizer;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::{Client, ClientConfig, PoolConfig};

use logins::Authorizers;
use scopes::Scopes;

pub use access_token::{AccessToken, TokenFuture, TokenSource};
pub use error::OAuthError;
pub use identity::{PrivateKey, RegisteredClient};
pub use login::{LoginFuture, UserAgent};
pub use loopback::LoopbackRedirect;
pub use server_access::{ServerAccess, SubjectToken, SubjectTokenType, TokenTarget};
pub use store::{Locking, MemoryTokenStore, StoredToken, TokenLock, TokenStore};
pub use token_issuer::{TokenIssuer, TokenIssuerOptions};

pub(super) use authorizer::{Attempts, Authorizer};

/// Configures the authorization of a client: its identity, the login, and the storage of tokens.
///
/// The client discovers the authorization servers from the metadata of the MCP server, as the specification
/// requires. The client sends a token only to the origin of the MCP server. The client renews tokens before
/// they expire, and requests another token if the MCP server demands more scopes. The client obtains at
/// most three tokens for one request. If the MCP server refuses a token that was just issued, the call
/// fails.
///
/// Dropping the future of a call ends the login of the call, but not a renewal of the token. The client
/// binds tokens to a key (DPoP) if the MCP server requires this. If several clients use clones of the same
/// `OAuth` value, the clients of one MCP server share a token.
///
/// ```
/// use thruway_mcp_client::McpClient;
/// use thruway_mcp_client::oauth::{LoopbackRedirect, OAuth};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// // A person at a terminal opens the printed URL in a browser.
/// let login = OAuth::login(LoopbackRedirect::new(|url| eprintln!("to log in, open {url}")));
/// let client = McpClient::builder().oauth(login).http("https://mcp.example/mcp");
/// # }
/// ```
#[derive(Clone)]
pub struct OAuth {
    grant: Grant,
    client: Option<RegisteredClient>,
    metadata_document: Option<String>,
    name: String,
    scopes: Scopes,
    store: Arc<dyn TokenStore>,
    http: Client,
    login_timeout: Duration,
    authorizers: Authorizers,
}

/// The OAuth grant with which the client obtains tokens.
#[derive(Clone)]
enum Grant {
    /// A person logs in.
    Login(Arc<dyn UserAgent>),
    /// The client obtains a token with its own credentials.
    ClientCredentials,
    /// A third party asserts the identity of the client (RFC 7523 §2.1).
    Assertion(Source),
    /// A third party asserts the identity of the user.
    Enterprise(IdentityProvider),
}

impl Grant {
    /// Returns the key of the token store for the server at this URL. The key contains the grant, so that
    /// one grant never uses the token of another grant. The grant is the fragment of the key, because
    /// server URLs do not have a fragment.
    fn store_key(&self, server_url: &str) -> String {
        match self {
            Self::Login(_) => server_url.to_owned(),
            Self::ClientCredentials => format!("{server_url}#client_credentials"),
            Self::Assertion(_) => format!("{server_url}#workload"),
            Self::Enterprise(_) => format!("{server_url}#enterprise"),
        }
    }
}

/// Callback that returns an assertion for an issuer.
type Source = Arc<dyn Fn(String) -> Asserting + Send + Sync>;
type Asserting = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;

/// The identity provider of an enterprise. The provider decides which person may use which MCP server
/// (enterprise-managed authorization).
#[derive(Clone)]
pub struct IdentityProvider {
    token_endpoint: String,
    client: RegisteredClient,
    id_token: Source,
}

impl IdentityProvider {
    /// Creates an identity provider with this token endpoint. `client` is registered with the provider.
    /// `client` needs no issuer, because only this endpoint receives the secret of `client`. `id_token`
    /// returns the ID token that the provider issued at the login of the person.
    pub fn new<F>(
        token_endpoint: impl Into<String>,
        client: RegisteredClient,
        id_token: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<String>> + Send + 'static,
    {
        let id_token: Source = Arc::new(move |_| Box::pin(id_token()));
        Self { token_endpoint: token_endpoint.into(), client, id_token }
    }
}

impl OAuth {
    /// Configures a login: a person logs in with `user_agent`.
    pub fn login(user_agent: impl UserAgent) -> Self {
        Self::new(Grant::Login(Arc::new(user_agent)), None)
    }

    /// Configures the client credentials grant: the client authenticates with its own credentials. A client
    /// with a secret needs [`of_issuer`](RegisteredClient::of_issuer).
    pub fn client_credentials(client: RegisteredClient) -> Self {
        Self::new(Grant::ClientCredentials, Some(client))
    }

    /// Configures a client that is a workload. The platform of the workload confirms the identity of the
    /// client. `assertion` receives an issuer and returns a token of the platform for this issuer (RFC
    /// 7523, workload identity federation).
    pub fn workload<F>(
        client: RegisteredClient,
        assertion: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<String>> + Send + 'static,
    {
        let source: Source = Arc::new(move |issuer| Box::pin(assertion(issuer)));
        Self::new(Grant::Assertion(source), Some(client))
    }

    /// Configures enterprise-managed authorization. A person has logged in to the identity provider
    /// `provider`, which confirms this to the authorization server. `client` is registered with the
    /// authorization server.
    pub fn enterprise(client: RegisteredClient, provider: IdentityProvider) -> Self {
        Self::new(Grant::Enterprise(provider), Some(client))
    }

    fn new(grant: Grant, client: Option<RegisteredClient>) -> Self {
        Self {
            grant,
            client,
            metadata_document: None,
            name: "thruway".to_owned(),
            scopes: Scopes::default(),
            store: Arc::new(MemoryTokenStore::default()),
            http: client_without_idle_connections(),
            login_timeout: LOGIN_TIMEOUT,
            authorizers: Authorizers::default(),
        }
    }

    /// Returns a copy of the configuration that shares no tokens with clients of the previous
    /// configuration.
    fn changed(self) -> Self {
        Self { authorizers: Authorizers::default(), ..self }
    }

    /// Sets the client that is registered with the authorization server. Default: the client registers
    /// itself, if the authorization server permits registration. A client with a secret needs
    /// [`of_issuer`](RegisteredClient::of_issuer).
    #[must_use]
    pub fn client(self, client: RegisteredClient) -> Self {
        Self { client: Some(client), ..self.changed() }
    }

    /// Sets the `https` URL of the document that describes the client. Authorization servers that support
    /// client id metadata documents use this URL as the client id.
    #[must_use]
    pub fn metadata_document(self, url: impl Into<String>) -> Self {
        Self { metadata_document: Some(url.into()), ..self.changed() }
    }

    /// Sets the name with which the client registers itself. Default: the name of this library.
    #[must_use]
    pub fn client_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.changed() }
    }

    /// Requests these scopes in addition to the scopes that the server demands. If you set scopes here, the
    /// client does not request the scopes that the metadata of the server lists.
    #[must_use]
    pub fn scopes<'s>(self, scopes: impl IntoIterator<Item = &'s str>) -> Self {
        Self { scopes: Scopes::of(scopes), ..self.changed() }
    }

    /// Sets the token store. Default: tokens are kept in memory.
    #[must_use]
    pub fn store(self, store: impl TokenStore) -> Self {
        Self { store: Arc::new(store), ..self.changed() }
    }

    /// Sets the HTTP client for authorization servers, for example to trust other certificates. Do not use a
    /// client that connects every request to the same address.
    #[must_use]
    pub fn http_client(self, client: Client) -> Self {
        Self { http: client, ..self.changed() }
    }

    /// Sets the time limit of a login. The timeout of a call is suspended during a login. Default: 5 minutes.
    #[must_use]
    pub fn login_timeout(self, timeout: Duration) -> Self {
        Self { login_timeout: timeout, ..self.changed() }
    }
}

/// Returns an HTTP client that clients in several tokio runtimes can use. The HTTP client keeps no idle
/// connections, because a connection belongs to one runtime.
fn client_without_idle_connections() -> Client {
    Client::with_config(ClientConfig {
        pool: PoolConfig { idle_max: 0, ..PoolConfig::default() },
        ..ClientConfig::default()
    })
}

const LOGIN_TIMEOUT: Duration = Duration::from_mins(5);

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("client", &self.client)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityProvider")
            .field("token_endpoint", &self.token_endpoint)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
