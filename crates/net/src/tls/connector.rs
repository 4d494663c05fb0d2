//! The TLS settings for connections to servers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, RootCertStore, SupportedProtocolVersion};

use super::TlsVersion;
use super::acceptor::versions;
use super::certificates::{
    CertificateError, CertificateFiles, CertificateProblem, Stamps, problem, read_roots,
};
use super::session::Session;
use super::tickets::Sessions;
use super::verifier::{Unverified, classical_provider, provider};

/// The TLS settings for connections to servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsConnectorConfig {
    /// The trusted root certificates. The default is the trust store of the operating system.
    pub roots: Roots,
    /// `true` if server certificates are verified. The default is `true`. Without verification, an attacker
    /// on the network path can read and change all traffic.
    pub verify: bool,
    /// The client certificate for servers that request a certificate. The default is `None`.
    pub client_certificate: Option<CertificateFiles>,
    /// The offered protocols (ALPN), in order of preference. The default is `http/1.1`.
    pub alpn: Vec<Vec<u8>>,
    /// The lowest TLS version that the client offers. The default is 1.2.
    pub min_version: TlsVersion,
    /// The highest TLS version that the client offers. The default is 1.3.
    pub max_version: TlsVersion,
    /// `true` if the client prefers a post-quantum key exchange. If `false`, the client offers only
    /// classical key exchanges. The default is `true`.
    pub post_quantum: bool,
    /// `true` if connections resume earlier sessions. Resumption makes handshakes cheaper for the client
    /// and the server. The default is `true`.
    pub resume: bool,
    /// Maximum number of stored tickets for each server. Each ticket resumes one TLS 1.3 connection. The
    /// default is 8. Increase this number if many connections to one server open at the same time.
    pub tickets_max: usize,
}

/// Source of the trusted root certificates.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Roots {
    /// The trust store of the operating system. If the environment variable `SSL_CERT_FILE` or
    /// `SSL_CERT_DIR` is set, the certificates at these paths replace the trust store.
    #[default]
    System,
    /// Only the certificates in the PEM files with these paths.
    Files(Vec<PathBuf>),
    /// The trust store of the operating system, and the certificates in the PEM files with these paths.
    SystemAnd(Vec<PathBuf>),
}

impl Default for TlsConnectorConfig {
    fn default() -> Self {
        Self {
            roots: Roots::System,
            verify: true,
            client_certificate: None,
            alpn: vec![b"http/1.1".to_vec()],
            min_version: TlsVersion::Tls12,
            max_version: TlsVersion::Tls13,
            post_quantum: true,
            resume: true,
            tickets_max: 8,
        }
    }
}

/// Two connectors are equal if their settings are equal.
impl PartialEq for TlsConnector {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl Eq for TlsConnector {}

/// Opens TLS connections to servers, and stores sessions for resumption. All threads share the connector.
///
/// ```no_run
/// use thruway_net::Stream;
/// use thruway_net::tls::{TlsConnector, TlsServerName, TlsStream, connect_tls};
///
/// # async fn example(stream: Stream) -> Result<TlsStream, Box<dyn std::error::Error>> {
/// let connector = TlsConnector::system()?;
/// let name = TlsServerName::new("www.example")?;
/// let stream = connect_tls(stream, &connector, &name, None).await?;
/// # Ok(stream)
/// # }
/// ```
pub struct TlsConnector {
    config: TlsConnectorConfig,
    live: ArcSwap<Live>,
}

/// State that was loaded from the certificate files.
struct Live {
    client: Arc<ClientConfig>,
    stamps: Stamps,
}

/// Server name that the certificate of the server must contain: a host name or an IP address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TlsServerName(ServerName<'static>);

/// Error: a text is not a server name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidServerName;

impl TlsServerName {
    /// Parses a server name: a host name, or an IP address with or without brackets.
    ///
    /// # Errors
    /// The text is neither a host name nor an IP address.
    pub fn new(name: &str) -> Result<Self, InvalidServerName> {
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        ServerName::try_from(name.to_owned()).map(Self).map_err(|_| InvalidServerName)
    }
}

impl TlsConnector {
    /// Reads the certificate files and creates a connector.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn load(config: TlsConnectorConfig) -> Result<Self, CertificateError> {
        let live = Live::load(&config)?;
        Ok(Self { config, live: ArcSwap::from_pointee(live) })
    }

    /// Returns the connector with the default settings. All callers share this connector. The first call
    /// creates the connector.
    ///
    /// # Errors
    /// The TLS library rejects the default settings. In practice, this error does not occur.
    pub fn system() -> Result<Arc<Self>, CertificateError> {
        static SYSTEM: OnceLock<Arc<TlsConnector>> = OnceLock::new();
        if let Some(system) = SYSTEM.get() {
            return Ok(system.clone());
        }
        let system = Arc::new(Self::load(TlsConnectorConfig::default())?);
        Ok(SYSTEM.get_or_init(|| system).clone())
    }

    /// Reloads the files if they have changed. Returns `true` if the files were reloaded. New connections
    /// then use the new files, and do not resume earlier sessions.
    ///
    /// # Errors
    /// A file cannot be read or used. The connector then does not change.
    pub fn refresh(&self) -> Result<bool, CertificateError> {
        let before = self.live.load_full();
        if before.stamps.again() == before.stamps {
            return Ok(false);
        }
        self.live.store(Arc::new(Live::load(&self.config)?));
        Ok(true)
    }

    /// Returns the settings of this connector.
    pub const fn config(&self) -> &TlsConnectorConfig {
        &self.config
    }

    /// Creates the TLS state of a new connection. The connection offers `protocols`, or the protocols in
    /// the settings if `protocols` is `None`.
    pub(super) fn session(
        &self,
        server_name: &TlsServerName,
        protocols: Option<&[&[u8]]>,
    ) -> Result<Session, Error> {
        let client = self.live.load().client.clone();
        let protocols = match protocols {
            None => client.alpn_protocols.clone(),
            Some(protocols) => protocols.iter().map(|name| name.to_vec()).collect(),
        };
        let client = UnbufferedClientConnection::new_with_alpn(client, server_name.0.clone(), protocols)?;
        Ok(Session::Client(Box::new(client)))
    }
}

impl Live {
    fn load(config: &TlsConnectorConfig) -> Result<Self, CertificateError> {
        let files = match &config.roots {
            Roots::System => &[][..],
            Roots::Files(files) | Roots::SystemAnd(files) => files,
        };
        let of_client = config.client_certificate.iter().flat_map(CertificateFiles::paths);
        let stamps = Stamps::of(files.iter().map(|path| &**path).chain(of_client));
        let refused = |error: Error| {
            let path = config.client_certificate.as_ref().map_or(Path::new(""), |files| &files.chain);
            problem(path, CertificateProblem::Refused(error.to_string()))
        };
        let algorithms = if config.post_quantum { provider() } else { classical_provider() };
        let builder = ClientConfig::builder_with_provider(algorithms)
            .with_protocol_versions(versions_up_to(config.min_version, config.max_version))
            .map_err(refused)?;
        let builder = if config.verify {
            builder.with_root_certificates(roots(&config.roots)?)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified))
        };
        let mut client = match &config.client_certificate {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let certified = files.load(&provider())?.certified;
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)))
            }
        };
        client.alpn_protocols.clone_from(&config.alpn);
        client.resumption = if config.resume {
            Resumption::store(Arc::new(Sessions::new(SESSIONS_MAX, config.tickets_max)))
        } else {
            Resumption::disabled()
        };
        Ok(Self { client: Arc::new(client), stamps })
    }
}

/// Returns the TLS versions from `min` to `max`. The result is empty if `max` is lower than `min`.
fn versions_up_to(min: TlsVersion, max: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    match max {
        TlsVersion::Tls13 => versions(min),
        TlsVersion::Tls12 => versions(min).get(1..).unwrap_or_default(),
    }
}

fn roots(roots: &Roots) -> Result<Arc<RootCertStore>, CertificateError> {
    Ok(match roots {
        Roots::System => system_roots(),
        Roots::Files(files) => Arc::new(read_roots(files)?),
        Roots::SystemAnd(files) => {
            let mut all = RootCertStore::clone(&system_roots());
            all.roots.extend(read_roots(files)?.roots);
            Arc::new(all)
        }
    })
}

/// Returns the trust store of the operating system. Only the first call reads the trust store. If the trust
/// store is empty, all server certificates are rejected.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "cannot read a root certificate from the system's trust store");
        }
        let mut roots = RootCertStore::empty();
        let (_, ignored) = roots.add_parsable_certificates(found.certs);
        tracing::debug!(trusted = roots.len(), ignored, "loaded the system's trust store");
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").field("config", &self.config).finish_non_exhaustive()
    }
}

impl fmt::Display for TlsServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_str())
    }
}

impl InvalidServerName {
    /// Hint that shows the operator the valid forms of a server name.
    pub const HINT: &str = "write a host name as in the server's certificate, or an IP address";
}

impl fmt::Display for InvalidServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a valid server name")
    }
}

impl std::error::Error for InvalidServerName {}

/// Maximum number of servers with stored sessions.
const SESSIONS_MAX: usize = 256;
