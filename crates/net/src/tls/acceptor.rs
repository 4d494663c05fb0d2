//! TLS settings and certificates of a listener.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
    UnbufferedServerConnection, WebPkiClientVerifier,
};
use rustls::{Error, ServerConfig, SupportedProtocolVersion, version};

use super::TlsVersion;
use super::certificates::{
    CertificateContents, CertificateError, CertificateFiles, CertificateProblem, Loaded, Stamps, problem,
    read_roots,
};
use super::challenges::{ALPN_ACME, TlsAlpnChallenges};
use super::names::{CertificatesByName, NameMatch};
use super::session::Session;
use super::shared_tickets::{SharedTicketKeys, SharedTicketer, TicketPurpose};
use super::staples::{FileStaple, Staples};
use super::verifier::provider;

/// TLS settings of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsAcceptorConfig {
    /// One or more certificates. A client gets the certificate with the requested host name, else a
    /// matching wildcard certificate, else the first certificate.
    pub certificates: Vec<CertificateFiles>,
    /// Paths of chain files that may be missing at first, because an ACME server issues the certificates
    /// later. While all certificates are missing, handshakes fail with the alert `access_denied`. The
    /// default is an empty list.
    pub awaited: Vec<PathBuf>,
    /// Host names of the certificates in `awaited`, in lower case. [`match_of`](TlsAcceptor::match_of)
    /// finds these names even before the certificates exist. The default is an empty list.
    pub awaited_names: Vec<String>,
    /// Challenge certificates. The listener presents these certificates when an ACME server validates a
    /// host name. The default is `None`.
    pub challenges: Option<TlsAlpnChallenges>,
    /// The lowest accepted TLS version. The default is 1.2.
    pub min_version: TlsVersion,
    /// The supported protocols (ALPN), in order of preference. The default is `http/1.1`. The server
    /// rejects clients that offer only other protocols, and accepts clients without ALPN.
    pub alpn: Vec<Vec<u8>>,
    /// `true` if the server sends tickets. With a ticket, a client can resume its session. The server
    /// replaces the ticket keys every six hours, and accepts tickets with the previous key for six more
    /// hours. If `false`, the server stores up to [`sessions_max`](Self::sessions_max) sessions in memory
    /// instead. The default is `true`.
    pub tickets: bool,
    /// Ticket keys that several servers share, so that a client can resume its session on each server. With
    /// `None`, the acceptor makes its own keys. Has no effect if `tickets` is `false`. The default is `None`.
    pub shared_tickets: Option<SharedTicketKeys>,
    /// Maximum number of sessions in memory, for clients without tickets. A full cache evicts the oldest
    /// session. With 0, the server stores no sessions. The default is 10 000.
    pub sessions_max: usize,
    /// Rule for client certificates. The default is `Off`.
    pub client_authentication: ClientAuthentication,
}

/// Rule for client certificates. The paths name PEM files with the trusted root certificates.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ClientAuthentication {
    /// The server does not request client certificates.
    #[default]
    Off,
    /// The server requests a client certificate, but accepts clients without a certificate. The handshake
    /// fails if a client certificate is invalid.
    Optional(Vec<PathBuf>),
    /// The server requires a valid client certificate.
    Required(Vec<PathBuf>),
}

/// Accepts TLS connections for a listener. All workers share the acceptor.
///
/// ```no_run
/// use std::time::Duration;
///
/// use thruway_net::tls::{CertificateFiles, TlsAcceptor, TlsAcceptorConfig, accept_tls};
/// use thruway_net::{Accepted, PooledBuffer};
///
/// # fn load() -> Result<TlsAcceptor, Box<dyn std::error::Error>> {
/// let files = CertificateFiles { chain: "www.pem".into(), key: "www.key".into(), ocsp: None };
/// let acceptor = TlsAcceptor::load(TlsAcceptorConfig::new(vec![files]))?;
/// # Ok(acceptor)
/// # }
///
/// # async fn serve(accepted: Accepted, acceptor: &TlsAcceptor) {
/// let Accepted { stream, guard, .. } = accepted;
/// let within = Duration::from_secs(10);
/// match accept_tls(stream, PooledBuffer::default(), acceptor, &guard, within).await {
///     Ok(mut stream) => println!("{:?}", stream.take_info()),
///     Err((_, error)) => println!("handshake failed: {error}"),
/// }
/// # }
/// ```
pub struct TlsAcceptor {
    config: TlsAcceptorConfig,
    live: ArcSwap<Live>,
    /// The OCSP responses, by certificate. Code that replaces `live` must hold this lock.
    staples: Mutex<Staples>,
}

/// State that was loaded from the certificate files.
#[derive(Clone)]
pub(super) struct Live {
    server: Arc<ServerConfig>,
    names: Arc<CertificatesByName>,
    sessions: Sessions,
    /// Attributes of the files, recorded before the files were read. A comparison with later attributes
    /// shows if a file has changed.
    stamps: Stamps,
    pub(super) certificates: Vec<(PathBuf, Loaded)>,
    /// Errors of certificates that could not be reloaded. The previous versions of these certificates stay
    /// in use.
    problems: Vec<CertificateError>,
}

/// A certificate that a listener presents to clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedCertificate {
    /// The path of the chain file.
    pub path: PathBuf,
    /// The contents of the certificate.
    pub contents: CertificateContents,
    /// The OCSP response from a file, if any.
    pub ocsp: Option<FileStaple>,
}

/// State for session resumption.
#[derive(Clone)]
struct Sessions {
    tickets: Option<Arc<dyn ProducesTickets>>,
    cache: Arc<dyn StoresServerSessions>,
}

impl TlsAcceptorConfig {
    /// Returns the default settings with the certificates `certificates`.
    pub fn new(certificates: Vec<CertificateFiles>) -> Self {
        Self {
            certificates,
            awaited: Vec::new(),
            awaited_names: Vec::new(),
            challenges: None,
            min_version: TlsVersion::Tls12,
            alpn: vec![b"http/1.1".to_vec()],
            tickets: true,
            shared_tickets: None,
            sessions_max: 10_000,
            client_authentication: ClientAuthentication::Off,
        }
    }

    /// Returns the supported ALPN protocols, including [`ALPN_ACME`] if `challenges` is set.
    fn alpn_protocols(&self) -> Vec<Vec<u8>> {
        let of_acme = self.challenges.as_ref().map(|_| ALPN_ACME.to_vec());
        self.alpn.iter().cloned().chain(of_acme).collect()
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let roots = self.client_authentication.roots().iter().map(|path| &**path);
        self.certificates.iter().flat_map(CertificateFiles::paths).chain(roots)
    }
}

impl ClientAuthentication {
    fn roots(&self) -> &[PathBuf] {
        match self {
            Self::Off => &[],
            Self::Optional(roots) | Self::Required(roots) => roots,
        }
    }

    /// Returns the verifier of client certificates, and the purpose of the tickets for clients that passed
    /// this verifier.
    fn verifier(&self) -> Result<(Option<Arc<dyn ClientCertVerifier>>, TicketPurpose), CertificateError> {
        let (roots, is_optional) = match self {
            Self::Off => return Ok((None, TicketPurpose::without_client_certificates())),
            Self::Optional(roots) => (roots, true),
            Self::Required(roots) => (roots, false),
        };
        let trusted = read_roots(roots)?;
        let purpose = TicketPurpose::with_client_certificates(&trusted, is_optional);
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), provider());
        let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
        let refused = |error: rustls::server::VerifierBuilderError| {
            let path = roots.first().map_or(Path::new(""), PathBuf::as_path);
            problem(path, CertificateProblem::Refused(error.to_string()))
        };
        builder.build().map(|verifier| (Some(verifier), purpose)).map_err(refused)
    }
}

impl TlsAcceptor {
    /// Reads the certificate files and creates an acceptor.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn load(config: TlsAcceptorConfig) -> Result<Self, CertificateError> {
        let live = Live::load(&config, None, &Staples::default())?;
        Ok(Self { config, live: ArcSwap::from_pointee(live), staples: Mutex::default() })
    }

    /// Reloads the files if they have changed. Returns `true` if the state of the acceptor has changed. If
    /// a certificate cannot be read or used, its previous version stays in use, and the other certificates
    /// are reloaded. [`problems`](Self::problems) then returns the error until the certificate is usable
    /// again.
    ///
    /// # Errors
    /// A file with root certificates cannot be read or used. The acceptor then does not change.
    pub fn refresh(&self) -> Result<bool, CertificateError> {
        let staples = self.staples();
        let before = self.live.load_full();
        let are_same = before.stamps.again() == before.stamps;
        // Retries files with errors even if their attributes are the same: a file may become readable
        // without a change of its attributes.
        if are_same && before.problems.is_empty() {
            return Ok(false);
        }
        let live = Live::load(&self.config, Some(&before), &staples)?;
        if are_same && live.problems == before.problems {
            return Ok(false);
        }
        self.live.store(Arc::new(live));
        Ok(true)
    }

    /// Returns the errors of certificates that could not be reloaded. The previous versions of these
    /// certificates stay in use.
    pub fn problems(&self) -> Vec<CertificateError> {
        self.live.load().problems.clone()
    }

    /// Sends the OCSP responses in `staples` with the current certificates from now on.
    fn give(&self, staples: &Staples) {
        let live = self.live.load();
        let mut server = ServerConfig::clone(&live.server);
        let names = Arc::new(by_name(&self.config, &live.certificates, staples));
        server.cert_resolver = names.clone();
        self.live.store(Arc::new(Live { server: Arc::new(server), names, ..Live::clone(&live) }));
    }

    /// Returns an error for each certificate that is not valid at `now`.
    pub fn invalid_at(&self, now: SystemTime) -> Vec<CertificateError> {
        let live = self.live.load();
        let invalid =
            |(path, loaded): &(PathBuf, Loaded)| Some(problem(path, loaded.validity.problem_at(now)?));
        live.certificates.iter().filter_map(invalid).collect()
    }

    /// Returns the certificates that the listener presents to clients.
    pub fn served(&self) -> Vec<ServedCertificate> {
        let live = self.live.load();
        let served = |(path, loaded): &(PathBuf, Loaded)| ServedCertificate {
            path: path.clone(),
            contents: loaded.contents(),
            ocsp: self.file_staple(path, loaded),
        };
        live.certificates.iter().map(served).collect()
    }

    /// Returns the kind of match between the host name `name` and the certificates. Also considers
    /// certificates that an ACME server has not issued yet. `name` must be in lower case.
    pub fn match_of(&self, name: &str) -> Option<NameMatch> {
        let is_awaited = self.config.awaited_names.iter().any(|awaited| awaited == name);
        self.live.load().names.match_of(name).max(is_awaited.then_some(NameMatch::Exact))
    }

    /// Sends the OCSP response `response` to clients together with `certificate`. A response from a file
    /// has priority. `certificate` and `response` are in DER. `None` removes the response.
    pub fn staple(&self, certificate: &[u8], response: Option<&[u8]>) {
        let mut staples = self.staples();
        if !staples.set_fetched(certificate, response) {
            return;
        }
        let live = self.live.load();
        // Removes the responses for certificates that are no longer in use.
        staples.retain(|certificate| live.certificates.iter().any(|(_, loaded)| loaded.is_of(certificate)));
        self.give(&staples);
    }

    /// Stops sending the OCSP responses in `responses`. These responses were [read from files](FileStaple),
    /// and the caller has found that these responses are invalid. Each entry is a certificate and its
    /// response, both in DER. If a response from a file is not in `responses`, the acceptor sends that
    /// response again.
    pub fn withhold(&self, responses: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        let mut staples = self.staples();
        if staples.set_withheld(responses.into_iter().collect()) {
            self.give(&staples);
        }
    }

    /// Returns the fetched OCSP response for the certificate in the file `chain`, if any.
    pub fn stapled(&self, chain: &Path) -> Option<Vec<u8>> {
        let staples = self.staples();
        let live = self.live.load();
        let (_, loaded) = live.certificates.iter().find(|(path, _)| path == chain)?;
        staples.fetched_for(|certificate| loaded.is_of(certificate))
    }

    fn staples(&self) -> MutexGuard<'_, Staples> {
        self.staples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file_staple(&self, chain: &Path, loaded: &Loaded) -> Option<FileStaple> {
        let files = self.config().certificates.iter().find(|files| files.chain == chain)?;
        Some(FileStaple { path: files.ocsp.clone()?, response: loaded.certified.ocsp.clone()? })
    }

    /// Returns the settings of this acceptor.
    pub const fn config(&self) -> &TlsAcceptorConfig {
        &self.config
    }

    /// Creates the TLS state of a new connection.
    pub(super) fn session(&self) -> Result<Session, Error> {
        let server = UnbufferedServerConnection::new(self.live.load().server.clone())?;
        Ok(Session::Server(Box::new(server)))
    }
}

impl Live {
    /// Reads the files. `before` is the previous state. Keeps the stored sessions of `before` if the server
    /// does not request client certificates.
    fn load(
        config: &TlsAcceptorConfig,
        before: Option<&Self>,
        staples: &Staples,
    ) -> Result<Self, CertificateError> {
        let stamps = Stamps::of(config.paths());
        let provider = provider();
        let (mut certificates, mut problems) = (Vec::new(), Vec::new());
        for files in &config.certificates {
            let loaded = match files.load(&provider) {
                Ok(loaded) => Some(loaded),
                Err(error) => kept_of(before, config, files, error, &mut problems)?,
            };
            certificates.extend(loaded.map(|loaded| (files.chain.clone(), loaded)));
        }
        let (verifier, purpose) = config.client_authentication.verifier()?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(config.min_version))
            .map_err(|error| refused(config, &error))?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let names = Arc::new(by_name(config, &certificates, staples));
        let mut server = builder.with_cert_resolver(names.clone());
        // Discards sessions if the server requests client certificates. The new roots may reject a
        // certificate that the old roots accepted, but a resumed session would skip the check.
        let kept = before.filter(|_| config.client_authentication == ClientAuthentication::Off);
        let sessions = match kept {
            Some(before) => before.sessions.clone(),
            None => Sessions::new(config, purpose).map_err(|error| refused(config, &error))?,
        };
        server.alpn_protocols = config.alpn_protocols();
        server.session_storage = sessions.cache.clone();
        if let Some(tickets) = &sessions.tickets {
            server.ticketer = tickets.clone();
        }
        Ok(Self { server: Arc::new(server), names, sessions, stamps, certificates, problems })
    }
}

impl Sessions {
    fn new(config: &TlsAcceptorConfig, purpose: TicketPurpose) -> Result<Self, Error> {
        let tickets: Option<Arc<dyn ProducesTickets>> = match &config.shared_tickets {
            _ if !config.tickets => None,
            Some(keys) => Some(Arc::new(SharedTicketer::new(keys.clone(), purpose))),
            None => Some(Ticketer::new()?),
        };
        let cache: Arc<dyn StoresServerSessions> = match config.sessions_max {
            0 => Arc::new(NoServerSessionStorage {}),
            sessions => ServerSessionMemoryCache::new(sessions),
        };
        Ok(Self { tickets, cache })
    }
}

/// Returns a table of `certificates` by host name. The table contains each certificate together with its
/// OCSP response.
fn by_name(
    config: &TlsAcceptorConfig,
    certificates: &[(PathBuf, Loaded)],
    staples: &Staples,
) -> CertificatesByName {
    let named = certificates.iter().map(|(_, loaded)| (loaded.names.clone(), loaded.stapled_with(staples)));
    CertificatesByName::new(named, config.challenges.clone())
}

/// Returns the previous version of a certificate whose files cannot be used, and adds `error` to
/// `problems`. If there is no previous version, returns `None` for a certificate that an ACME server will
/// issue later, and `error` for all other certificates.
fn kept_of(
    before: Option<&Live>,
    config: &TlsAcceptorConfig,
    files: &CertificateFiles,
    error: CertificateError,
    problems: &mut Vec<CertificateError>,
) -> Result<Option<Loaded>, CertificateError> {
    let mut certificates = before.iter().flat_map(|before| &before.certificates);
    let kept = certificates.find(|(path, _)| *path == files.chain).map(|(_, loaded)| loaded.clone());
    let is_awaited = config.awaited.contains(&files.chain);
    if kept.is_none() && !is_awaited {
        return Err(error);
    }
    if !is_awaited || error.path.exists() {
        problems.push(error);
    }
    Ok(kept)
}

/// Returns the error for settings that rustls rejects although each file is valid.
fn refused(config: &TlsAcceptorConfig, error: &Error) -> CertificateError {
    let path = config.paths().next().unwrap_or_else(|| Path::new(""));
    problem(path, CertificateProblem::Refused(error.to_string()))
}

/// Returns the supported TLS versions, starting at `min`.
pub(super) fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    match min {
        TlsVersion::Tls12 => &VERSIONS,
        TlsVersion::Tls13 => &VERSIONS[..1],
    }
}

static VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Two acceptors are equal if their settings are equal.
impl PartialEq for TlsAcceptor {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl Eq for TlsAcceptor {}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor").field("config", &self.config).finish_non_exhaustive()
    }
}
