//! Authorization of clients: OAuth 2.1 as the specification of MCP wants it, with its extensions.
//!
//! Nothing here knows MCP: a request that a server refuses for want of a token is sent again with one.

// what users write
mod login;
mod loopback;
mod identity;
mod store;
mod error;

// what servers say
mod url;
mod challenge;
mod fetch;
mod resource;
mod server;

// from there to a token
mod scopes;
mod random;
mod dpop;
mod registration;
mod token;
mod logins;
mod grants;
mod parties;
mod kept;

// and with it
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
pub use login::{LoggingIn, UserAgent};
pub use loopback::LoopbackRedirect;
pub use store::{Locking, MemoryTokenStore, StoredToken, TokenLock, TokenStore};

pub(super) use authorizer::{Attempts, Authorizer};

/// How a client gets tokens for its server: who it is, who logs in, and where tokens are kept.
///
/// Whose tokens the server takes is found out as the specification says: it names its authorization servers,
/// and these what they support. A token is sent to the URL of the client and to no other. Tokens are renewed
/// before they end, and extended when the server wants further scopes; each request may cost three of them at
/// most. A token that the server does not take, fresh as it is, is not replaced by another. Who drops the
/// future of a call ends a login, but not a renewal. Where the server wants it, tokens are bound to a key
/// (DPoP). Clients that have clones of the same value share their token.
///
/// ```
/// use thruway_mcp_client::McpClient;
/// use thruway_mcp_client::oauth::{LoopbackRedirect, OAuth};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// // A person at a terminal, who opens what is printed in a browser.
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

/// What tokens are given for.
#[derive(Clone)]
enum Grant {
    /// A person logs in.
    Login(Arc<dyn UserAgent>),
    /// The client is asked for nothing but who it is.
    ClientCredentials,
    /// Somebody else says who the client is (RFC 7523 §2.1).
    Assertion(Source),
    /// Somebody else says who uses it.
    Enterprise(IdentityProvider),
}

impl Grant {
    /// Under what a token for the server at this URL is kept: what one grant gives is not to be had by
    /// another. No server has a fragment in its URL.
    fn store_key(&self, server_url: &str) -> String {
        match self {
            Self::Login(_) => server_url.to_owned(),
            Self::ClientCredentials => format!("{server_url}#client_credentials"),
            Self::Assertion(_) => format!("{server_url}#workload"),
            Self::Enterprise(_) => format!("{server_url}#enterprise"),
        }
    }
}

/// Makes an assertion for an issuer.
type Source = Arc<dyn Fn(String) -> Asserting + Send + Sync>;
type Asserting = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;

/// The identity provider of an enterprise, which decides who may use which server (enterprise-managed
/// authorization).
#[derive(Clone)]
pub struct IdentityProvider {
    token_endpoint: String,
    client: RegisteredClient,
    id_token: Source,
}

impl IdentityProvider {
    /// Returns the identity provider with this token endpoint. It knows `client`, which needs no issuer: the
    /// endpoint alone receives its secret. `id_token` returns the ID token that the provider issued when the
    /// person logged in.
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
    /// A person logs in by `user_agent`.
    pub fn login(user_agent: impl UserAgent) -> Self {
        Self::new(Grant::Login(Arc::new(user_agent)), None)
    }

    /// The client acts for itself (client credentials). A client with a secret needs
    /// [`of_issuer`](RegisteredClient::of_issuer).
    pub fn client_credentials(client: RegisteredClient) -> Self {
        Self::new(Grant::ClientCredentials, Some(client))
    }

    /// The client is a workload whose platform says who it is: `assertion` gives a token of the platform for
    /// the issuer that it is called with (RFC 7523, workload identity federation).
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

    /// A person has logged in to an identity provider, which says so to the authorization server that knows
    /// `client`.
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
            // Clients of several runtimes may ask by it, and a connection belongs to one.
            http: Client::with_config(ClientConfig {
                pool: PoolConfig { idle_max: 0, ..PoolConfig::default() },
                ..ClientConfig::default()
            }),
            login_timeout: LOGIN_TIMEOUT,
            authorizers: Authorizers::default(),
        }
    }

    /// The same, to be changed: what it gets is not for clients of what it was.
    fn changed(self) -> Self {
        Self { authorizers: Authorizers::default(), ..self }
    }

    /// Sets the client, if it has been registered. Otherwise it registers itself where that is possible. A
    /// client with a secret needs [`of_issuer`](RegisteredClient::of_issuer).
    #[must_use]
    pub fn client(self, client: RegisteredClient) -> Self {
        Self { client: Some(client), ..self.changed() }
    }

    /// The URL of `https` where the client describes itself, which is then its id for authorization servers
    /// that support it (client id metadata document).
    #[must_use]
    pub fn metadata_document(self, url: impl Into<String>) -> Self {
        Self { metadata_document: Some(url.into()), ..self.changed() }
    }

    /// What the client is called when it registers itself. Default: this library.
    #[must_use]
    pub fn client_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.changed() }
    }

    /// Asks for these scopes besides those that the server wants. If it does not say which it wants, these
    /// are all.
    #[must_use]
    pub fn scopes<'s>(self, scopes: impl IntoIterator<Item = &'s str>) -> Self {
        Self { scopes: Scopes::of(scopes), ..self.changed() }
    }

    /// Keeps tokens elsewhere than in memory.
    #[must_use]
    pub fn store(self, store: impl TokenStore) -> Self {
        Self { store: Arc::new(store), ..self.changed() }
    }

    /// Asks authorization servers by `client`, which may trust other certificates for instance. It must not
    /// be one that connects to the same place whatever it is asked.
    #[must_use]
    pub fn http_client(self, client: Client) -> Self {
        Self { http: client, ..self.changed() }
    }

    /// How long a person may take to log in; the time of a call does not run meanwhile. Default: 5 minutes.
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
