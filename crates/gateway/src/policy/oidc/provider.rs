//! The OpenID provider: its metadata, its keys, and its token endpoint.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use thruway_client::{Client, ClientConfig, ClientError, DocumentConfig, KeptDocument, Url};
use thruway_jwt::{JwtError, JwtKeys, JwtRules};
use thruway_net::Clock;

/// Metadata of a provider (OpenID Connect Discovery 1.0 §3).
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ProviderMetadata {
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) end_session_endpoint: Option<Url>,
    jwks_uri: DocumentConfig,
    /// `true` if the provider accepts the client secret only in the body of requests.
    has_secret_in_body: bool,
    /// `true` if responses contain the parameter `iss` (RFC 9207).
    pub(super) sends_issuer: bool,
}

/// The documents of a provider, and a client for its token endpoint.
#[derive(Debug)]
pub(super) struct Provider {
    issuer: String,
    discovery: DocumentConfig,
    metadata: OnceLock<KeptDocument<Arc<ProviderMetadata>>>,
    /// The key set, and the settings for fetching it.
    keys: Mutex<Option<(DocumentConfig, KeptDocument<JwtKeys>)>>,
    client: Client,
}

/// Tokens of a successful response of the token endpoint.
pub(super) struct Tokens {
    pub(super) id_token: Option<String>,
    pub(super) refresh_token: Option<String>,
}

/// Reason why a request to the provider failed.
#[derive(Debug)]
pub(super) enum ProviderError {
    /// The metadata cannot be fetched. The log has the reason.
    NoMetadata,
    /// No response arrived.
    Client(ClientError),
    /// The provider responded with this status. The text is its error code.
    Status(u16, String),
    /// The response is not a JSON object, or a member is missing. Contains the name of the member.
    NoMember(&'static str),
    /// The redirect of the provider to the gateway is invalid.
    Callback(&'static str),
    /// The ID token is invalid.
    IdToken(&'static str),
    /// The request took too long.
    TimedOut,
}

impl ProviderError {
    /// Returns `true` if the provider does not accept the code or the refresh token, or if the user has lost
    /// access (RFC 6749 §5.2).
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Status(400..=403, code) if code == "invalid_grant")
    }

    /// Returns `true` if the provider did not respond in time.
    pub(super) const fn is_unavailable(&self) -> bool {
        matches!(self, Self::NoMetadata | Self::TimedOut)
    }
}

impl Provider {
    pub(super) fn new(issuer: String, discovery: DocumentConfig) -> Self {
        let config = ClientConfig { tls: discovery.tls.clone(), ..ClientConfig::default() };
        Self {
            issuer,
            discovery,
            metadata: OnceLock::new(),
            keys: Mutex::new(None),
            client: Client::with_config(config),
        }
    }

    /// Returns `true` if the provider of `other` is the same, and its documents are fetched in the same way.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.discovery == other.discovery
    }

    fn metadata_document(&self) -> &KeptDocument<Arc<ProviderMetadata>> {
        self.metadata.get_or_init(|| {
            let (issuer, discovery) = (self.issuer.clone(), self.discovery.clone());
            KeptDocument::start(self.discovery.clone(), move |content| {
                ProviderMetadata::parse(content, &issuer, &discovery).map(Arc::new)
            })
        })
    }

    /// Returns the metadata, if it is already known.
    pub(super) fn known_metadata(&self) -> Option<Arc<ProviderMetadata>> {
        self.metadata_document().read(Arc::clone)
    }

    /// Returns the metadata. Waits for a fetch if the metadata is unknown. Fails without a fetch if the last
    /// fetch failed a short time ago.
    pub(super) async fn metadata(&self) -> Result<Arc<ProviderMetadata>, ProviderError> {
        if let Some(known) = self.known_metadata() {
            return Ok(known);
        }
        if let Some(refreshed) = self.metadata_document().refreshed() {
            refreshed.await;
        }
        self.known_metadata().ok_or(ProviderError::NoMetadata)
    }

    /// Sends `form` to the token endpoint, and returns the tokens. `client_id` and `secret` identify the
    /// gateway.
    pub(super) async fn tokens(
        &self,
        form: &[(&str, &str)],
        client_id: &str,
        secret: Option<&str>,
    ) -> Result<Tokens, ProviderError> {
        let metadata = self.metadata().await?;
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let request = self.client.post(metadata.token_endpoint.as_str()).idempotent(false);
        let request = match secret {
            Some(secret) if !metadata.has_secret_in_body => {
                // RFC 6749 §2.3.1 requires that the id and the secret are encoded like a form.
                let encoded =
                    |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let credentials = format!("{}:{}", encoded(client_id), encoded(secret));
                request.field("Authorization", format!("Basic {}", STANDARD.encode(credentials)))
            }
            Some(secret) => {
                body.append_pair("client_id", client_id).append_pair("client_secret", secret);
                request
            }
            None => {
                body.append_pair("client_id", client_id);
                request
            }
        };
        let request = request
            .field("Content-Type", "application/x-www-form-urlencoded")
            .field("Accept", "application/json")
            .content(body.finish());
        let response = request.send().await.map_err(ProviderError::Client)?;
        let status = response.status().as_u16();
        let content = response.collect(RESPONSE_BYTES_MAX).await.map_err(ProviderError::Client)?;
        let content: Value = serde_json::from_slice(&content).unwrap_or_default();
        let text = |name: &str| content[name].as_str().map(str::to_owned);
        if status != 200 {
            return Err(ProviderError::Status(status, printable(&text("error").unwrap_or_default())));
        }
        if text("access_token").is_none() {
            return Err(ProviderError::NoMember("access_token"));
        }
        Ok(Tokens { id_token: text("id_token"), refresh_token: text("refresh_token") })
    }

    /// Verifies an ID token (OpenID Connect Core 1.0 §3.1.3.7), and returns its claims.
    pub(super) async fn verify(
        &self,
        token: &str,
        client_id: &str,
        clock: &Clock,
    ) -> Result<Map<String, Value>, ProviderError> {
        let metadata = self.metadata().await?;
        let rules = JwtRules {
            issuer: Some(self.issuer.clone()),
            audience: vec![client_id.to_owned()],
            required_claims: vec!["iat".to_owned(), "sub".to_owned()],
            ..JwtRules::default()
        };
        let document = self.key_document(&metadata.jwks_uri);
        let look = |keys: &JwtKeys| rules.verify(token.as_bytes(), keys, since_epoch(clock));
        let mut outcome = document.read(look);
        if matches!(outcome, None | Some(Err(JwtError::UnknownKey))) {
            if let Some(refreshed) = document.refreshed() {
                refreshed.await;
            }
            outcome = document.read(look);
        }
        let claims = match outcome {
            None => return Err(ProviderError::NoMetadata),
            Some(Err(JwtError::UnknownKey)) => {
                return Err(ProviderError::IdToken("it names a key that is not in the key set"));
            }
            Some(Err(JwtError::Invalid)) => {
                return Err(ProviderError::IdToken(
                    "its signature, issuer, audience or time is wrong, or a claim is missing",
                ));
            }
            Some(Ok(claims)) => claims,
        };
        let has_other_party = claims.get("azp").is_some_and(|party| party != client_id);
        if has_other_party {
            return Err(ProviderError::IdToken("the provider made it for another client"));
        }
        Ok(claims)
    }

    /// Returns the document with the keys at the URL in `config`.
    fn key_document(&self, config: &DocumentConfig) -> KeptDocument<JwtKeys> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match &*keys {
            Some((known, document)) if known == config => document.clone(),
            _ => {
                let read = |content: &[u8]| JwtKeys::from_issuer(&String::from_utf8_lossy(content));
                let document = KeptDocument::start(config.clone(), read);
                *keys = Some((config.clone(), document.clone()));
                document
            }
        }
    }
}

impl ProviderMetadata {
    /// Parses the metadata of the provider `issuer`. `discovery` has the settings for fetching its keys.
    ///
    /// # Errors
    /// A member is missing, or an attacker on the network path could change the responses of an endpoint.
    fn parse(content: &[u8], issuer: &str, discovery: &DocumentConfig) -> Result<Self, String> {
        let content: Value =
            serde_json::from_slice(content).map_err(|_| "the metadata is not JSON".to_owned())?;
        if content["issuer"].as_str() != Some(issuer) {
            return Err(format!("the metadata is not of the issuer `{issuer}`"));
        }
        let endpoint = |name: &str| {
            let url = content[name].as_str().ok_or_else(|| format!("the metadata has no `{name}`"))?;
            let url = Url::for_request(url).map_err(|_| format!("`{name}` of the metadata is not a URL"))?;
            if url.is_protected() { Ok(url) } else { Err(format!("`{name}` of the metadata has no TLS")) }
        };
        let jwks_uri = endpoint("jwks_uri")?;
        let jwks_uri =
            DocumentConfig::new(jwks_uri.as_str()).map_err(|error| format!("`jwks_uri` is {error}"))?;
        let methods = content["token_endpoint_auth_methods_supported"].as_array();
        let supports = |method: &str| methods.is_some_and(|methods| methods.iter().any(|own| own == method));
        let end_session = !content["end_session_endpoint"].is_null();
        Ok(Self {
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            end_session_endpoint: end_session.then(|| endpoint("end_session_endpoint")).transpose()?,
            jwks_uri: DocumentConfig { url: jwks_uri.url, ..discovery.clone() },
            has_secret_in_body: supports("client_secret_post") && !supports("client_secret_basic"),
            sends_issuer: content["authorization_response_iss_parameter_supported"] == true,
        })
    }
}

/// Returns the time since the Unix epoch.
pub(super) fn since_epoch(clock: &Clock) -> Duration {
    clock.time_of_day().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns the first characters of a code of the provider that are safe in logs and in responses.
pub(super) fn printable(code: &str) -> String {
    code.chars().filter(char::is_ascii_graphic).take(64).collect()
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMetadata => f.write_str("the metadata or the keys of the provider cannot be fetched"),
            Self::Client(error) => write!(f, "the token endpoint cannot be reached: {error}"),
            Self::Status(status, code) if code.is_empty() => {
                write!(f, "the token endpoint responded with status {status}")
            }
            Self::Status(status, code) => {
                write!(f, "the token endpoint responded with status {status} and the error `{code}`")
            }
            Self::NoMember(name) => write!(f, "the response of the token endpoint has no `{name}`"),
            Self::Callback(reason) => write!(f, "the redirect of the provider is invalid: {reason}"),
            Self::IdToken(reason) => write!(f, "the ID token is invalid: {reason}"),
            Self::TimedOut => f.write_str("the provider did not respond in time"),
        }
    }
}

/// Maximum size of a response of the token endpoint, in bytes.
const RESPONSE_BYTES_MAX: usize = 256 << 10;
