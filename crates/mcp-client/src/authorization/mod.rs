//! Authorization of clients: OAuth 2.1 as the MCP specification requires it, with its extensions.
//!
//! This module is independent of MCP messages. It repeats a request that a server refused for lack of a
//! token.

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

// steps to a token
mod scopes;
mod random;
mod dpop;
mod registration;
mod token;
mod logins;
mod grants;
mod oauth_context;
mod token_record;

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

pub use error::OAuthError;
pub use identity::{PrivateKey, RegisteredClient};
pub use login::{LoginFuture, UserAgent};
pub use loopback::LoopbackRedirect;
pub use store::{Locking, MemoryTokenStore, StoredToken, TokenLock, TokenStore};

pub(super) use authorizer::{Attempts, Authorizer};

/// Configures the authorization of a client: its identity, the login, and the storage of tokens.
///
/// The client discovers the authorization servers from the metadata of the server, as the specification
/// requires. It sends a token only to the origin of its own URL. It renews tokens before they expire, and
/// requests another token if the server demands more scopes. Each request obtains at most three tokens. If
/// the server refuses a fresh token, the call fails.
///
/// Dropping the future of a call ends a login but not a renewal. The client binds tokens to a key (DPoP) if
/// the server requires this. Clients with clones of the same value share their token.
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

/// The grant that tokens are obtained with.
#[derive(Clone)]
enum Grant {
    /// A person logs in.
    Login(Arc<dyn UserAgent>),
    /// The client authenticates itself.
    ClientCredentials,
    /// A third party asserts the identity of the client (RFC 7523 §2.1).
    Assertion(Source),
    /// A third party asserts the identity of the user.
    Enterprise(IdentityProvider),
}

impl Grant {
    /// Returns the key in the store for the server at this URL. The key depends on the grant, so that one
    /// grant never uses the token of another. It is appended as a fragment, which server URLs do not have.
    fn store_key(&self, server_url: &str) -> String {
        match self {
            Self::Login(_) => server_url.to_owned(),
            Self::ClientCredentials => format!("{server_url}#client_credentials"),
            Self::Assertion(_) => format!("{server_url}#workload"),
            Self::Enterprise(_) => format!("{server_url}#enterprise"),
        }
    }
}

/// Creates an assertion for an issuer.
type Source = Arc<dyn Fn(String) -> Asserting + Send + Sync>;
type Asserting = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;

/// The identity provider of an enterprise. It decides which person may use which server (enterprise-managed
/// authorization).
#[derive(Clone)]
pub struct IdentityProvider {
    token_endpoint: String,
    client: RegisteredClient,
    id_token: Source,
}

impl IdentityProvider {
    /// Returns the identity provider with this token endpoint. It knows `client`, which needs no issuer,
    /// because only this endpoint receives its secret. `id_token` returns the ID token that the provider
    /// issued at the login of the person.
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
    /// A person logs in with `user_agent`.
    pub fn login(user_agent: impl UserAgent) -> Self {
        Self::new(Grant::Login(Arc::new(user_agent)), None)
    }

    /// The client authenticates itself (client credentials). A client with a secret needs
    /// [`of_issuer`](RegisteredClient::of_issuer).
    pub fn client_credentials(client: RegisteredClient) -> Self {
        Self::new(Grant::ClientCredentials, Some(client))
    }

    /// The client is a workload, and its platform asserts its identity. `assertion` receives an issuer and
    /// returns a token of the platform for it (RFC 7523, workload identity federation).
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

    /// A person has logged in to an identity provider, which asserts this to the authorization server that
    /// knows `client`.
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
            // Clients in several runtimes may use it, and a connection belongs to one runtime.
            http: Client::with_config(ClientConfig {
                pool: PoolConfig { idle_max: 0, ..PoolConfig::default() },
                ..ClientConfig::default()
            }),
            login_timeout: LOGIN_TIMEOUT,
            authorizers: Authorizers::default(),
        }
    }

    /// Returns the configuration for a change. It shares no tokens with clients of the previous
    /// configuration.
    fn changed(self) -> Self {
        Self { authorizers: Authorizers::default(), ..self }
    }

    /// Sets the registered client. Default: the client registers itself if the authorization server permits
    /// this. A client with a secret needs [`of_issuer`](RegisteredClient::of_issuer).
    #[must_use]
    pub fn client(self, client: RegisteredClient) -> Self {
        Self { client: Some(client), ..self.changed() }
    }

    /// Sets the `https` URL of the document that describes the client. Authorization servers with support for
    /// it use the URL as the client id (client id metadata document).
    #[must_use]
    pub fn metadata_document(self, url: impl Into<String>) -> Self {
        Self { metadata_document: Some(url.into()), ..self.changed() }
    }

    /// Sets the name for the registration of the client. Default: the name of this library.
    #[must_use]
    pub fn client_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.changed() }
    }

    /// Requests these scopes in addition to the scopes that the server demands. If scopes are set here, the
    /// general scopes in the metadata of the server are not requested.
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
