//! What connections to servers need for TLS.

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

/// How TLS is spoken with servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsConnectorConfig {
    /// Who is trusted to say who a server is. Default those whom this system trusts.
    pub roots: Roots,
    /// Whether servers are asked who they are. Without, anybody on the way can read and change everything.
    /// Default yes.
    pub verify: bool,
    /// The certificate that is shown to servers that ask for one. Default none.
    pub client_certificate: Option<CertificateFiles>,
    /// The protocols that are offered, those that are preferred first (ALPN). Default `http/1.1`.
    pub alpn: Vec<Vec<u8>>,
    /// The lowest version. Default 1.2.
    pub min_version: TlsVersion,
    /// The highest version. Default 1.3.
    pub max_version: TlsVersion,
    /// Whether a key exchange that withstands quantum computers is offered first. Default yes.
    pub post_quantum: bool,
    /// Whether connections resume sessions of earlier ones, which spares both sides most of a handshake.
    /// Default yes.
    pub resume: bool,
    /// Tickets that are kept for each server, each of which resumes one connection of TLS 1.3. Default 8;
    /// more for those who open more connections at the same time.
    pub tickets_max: usize,
}

/// Who is trusted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Roots {
    /// Those whom this system trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    #[default]
    System,
    /// Those in these files, in PEM.
    Files(Vec<PathBuf>),
    /// Those whom this system trusts, and those in these files.
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

/// Those that were made of the same are the same.
impl PartialEq for TlsConnector {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl Eq for TlsConnector {}

/// Speaks TLS with servers, and remembers sessions to resume. Shared by all threads.
pub struct TlsConnector {
    config: TlsConnectorConfig,
    live: ArcSwap<Live>,
}

/// What was made of the files.
struct Live {
    client: Arc<ClientConfig>,
    stamps: Stamps,
}

/// The name of a server, as its certificate must have it: of a host, or an IP address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TlsServerName(ServerName<'static>);

/// Text that is no name of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidServerName;

impl TlsServerName {
    /// The server `name`: a host or an IP address, with or without brackets.
    ///
    /// # Errors
    /// It is neither.
    pub fn new(name: &str) -> Result<Self, InvalidServerName> {
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        ServerName::try_from(name.to_owned()).map(Self).map_err(|_| InvalidServerName)
    }
}

impl TlsConnector {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read or used.
    pub fn load(config: TlsConnectorConfig) -> Result<Self, CertificateError> {
        let live = Live::load(&config)?;
        Ok(Self { config, live: ArcSwap::from_pointee(live) })
    }

    /// One for all, with the defaults: made when it is needed first.
    ///
    /// # Errors
    /// There is no version of TLS to speak, which cannot be.
    pub fn system() -> Result<Arc<Self>, CertificateError> {
        static SYSTEM: OnceLock<Arc<TlsConnector>> = OnceLock::new();
        if let Some(system) = SYSTEM.get() {
            return Ok(system.clone());
        }
        let system = Arc::new(Self::load(TlsConnectorConfig::default())?);
        Ok(SYSTEM.get_or_init(|| system).clone())
    }

    /// Reads the files again if they have changed since. Whether they have: then connections from here on are
    /// made with what they say now, and none resumes a session of before.
    ///
    /// # Errors
    /// One of them cannot be read or used any more; nothing has changed then.
    pub fn refresh(&self) -> Result<bool, CertificateError> {
        let before = self.live.load_full();
        if before.stamps.again() == before.stamps {
            return Ok(false);
        }
        self.live.store(Arc::new(Live::load(&self.config)?));
        Ok(true)
    }

    /// How it was made.
    pub const fn config(&self) -> &TlsConnectorConfig {
        &self.config
    }

    /// A connection that is about to greet its server, and offers `protocols`, or those of the config.
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

/// None if `max` is lower than `min`.
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

/// Whom this system trusts, read once. Where that is nobody, no server can be verified.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "certificates that this system trusts cannot be read");
        }
        let mut roots = RootCertStore::empty();
        let (_, ignored) = roots.add_parsable_certificates(found.certs);
        tracing::debug!(trusted = roots.len(), ignored, "read whom this system trusts");
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
    /// What to write instead.
    pub const HINT: &str = "the name of a server is that of a host, as in its certificate, or an IP address";
}

impl fmt::Display for InvalidServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not the name of a server")
    }
}

impl std::error::Error for InvalidServerName {}

/// Servers whose sessions are remembered.
const SESSIONS_MAX: usize = 256;
