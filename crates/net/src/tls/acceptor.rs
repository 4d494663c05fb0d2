//! What a listener needs for TLS.

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
use super::staples::{FileStaple, Staples};
use super::verifier::provider;

/// How TLS is spoken with clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsAcceptorConfig {
    /// The certificates, at least one. A client gets that which has the name it asks for, or a wildcard for
    /// it, or else the first.
    pub certificates: Vec<CertificateFiles>,
    /// The chains among them that need not be there yet, as they are still to be issued. As long as there is
    /// no certificate at all, handshakes are refused with an alert (`access_denied`). Default none.
    pub awaited: Vec<PathBuf>,
    /// The names, in lower case, that those will have: they are [matched](TlsAcceptor::match_of) before the
    /// certificates are there. Default none.
    pub awaited_names: Vec<String>,
    /// What ACME servers are shown that validate names. Default nothing.
    pub challenges: Option<TlsAlpnChallenges>,
    /// The lowest version. Default 1.2.
    pub min_version: TlsVersion,
    /// The protocols that are spoken, those that are preferred first (ALPN). Default `http/1.1`. A client
    /// that offers others only is refused; one that offers none is not.
    pub alpn: Vec<Vec<u8>>,
    /// Whether clients are given tickets to resume sessions with, under keys that are replaced every six
    /// hours and live for twelve. If not, sessions are kept here, up to [`sessions_max`](Self::sessions_max).
    /// Default yes.
    pub tickets: bool,
    /// Sessions that are kept for clients without tickets. Default 10 000; 0 for none. The one that was used
    /// least is forgotten.
    pub sessions_max: usize,
    /// Whether clients show certificates. Default no.
    pub client_authentication: ClientAuthentication,
}

/// Whether clients show certificates, and who is trusted to issue them: files with roots in PEM.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ClientAuthentication {
    /// They do not.
    #[default]
    Off,
    /// They may. One that cannot be verified ends the handshake.
    Optional(Vec<PathBuf>),
    /// They must.
    Required(Vec<PathBuf>),
}

/// Speaks TLS with the clients of a listener. Shared by all workers.
pub struct TlsAcceptor {
    config: TlsAcceptorConfig,
    live: ArcSwap<Live>,
    /// What issuers say of revocation, by certificates. Held while something else is made of the files.
    staples: Mutex<Staples>,
}

/// What was made of the files.
#[derive(Clone)]
pub(super) struct Live {
    server: Arc<ServerConfig>,
    names: Arc<CertificatesByName>,
    sessions: Sessions,
    /// What the files looked like before they were read.
    stamps: Stamps,
    pub(super) certificates: Vec<(PathBuf, Loaded)>,
    /// What is wrong with files in whose place those of before are kept.
    problems: Vec<CertificateError>,
}

/// A certificate that clients are shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServedCertificate {
    /// The file with its chain.
    pub path: PathBuf,
    /// What it says.
    pub contents: CertificateContents,
    /// What a file says of its revocation, if there is one.
    pub ocsp: Option<FileStaple>,
}

/// What is needed to resume sessions.
#[derive(Clone)]
struct Sessions {
    tickets: Option<Arc<dyn ProducesTickets>>,
    cache: Arc<dyn StoresServerSessions>,
}

impl TlsAcceptorConfig {
    /// The defaults, with these certificates.
    pub fn new(certificates: Vec<CertificateFiles>) -> Self {
        Self {
            certificates,
            awaited: Vec::new(),
            awaited_names: Vec::new(),
            challenges: None,
            min_version: TlsVersion::Tls12,
            alpn: vec![b"http/1.1".to_vec()],
            tickets: true,
            sessions_max: 10_000,
            client_authentication: ClientAuthentication::Off,
        }
    }

    /// The protocols that are spoken: clients that offer another one besides that of ACME get the other.
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

    fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, CertificateError> {
        let (roots, is_optional) = match self {
            Self::Off => return Ok(None),
            Self::Optional(roots) => (roots, true),
            Self::Required(roots) => (roots, false),
        };
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(read_roots(roots)?), provider());
        let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
        let refused = |error: rustls::server::VerifierBuilderError| {
            let path = roots.first().map_or(Path::new(""), PathBuf::as_path);
            problem(path, CertificateProblem::Refused(error.to_string()))
        };
        builder.build().map(Some).map_err(refused)
    }
}

impl TlsAcceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read or used.
    pub fn load(config: TlsAcceptorConfig) -> Result<Self, CertificateError> {
        let live = Live::load(&config, None, &Staples::default())?;
        Ok(Self { config, live: ArcSwap::from_pointee(live), staples: Mutex::default() })
    }

    /// Reads the files again if they have changed since. Whether they have: then handshakes from here on are
    /// done with what they say now. A certificate that cannot be read or used any more is kept as it was,
    /// whatever becomes of the others: what is wrong with it is among the [problems](Self::problems) until it
    /// can.
    ///
    /// # Errors
    /// Something else than a certificate cannot be read or used any more; nothing has changed then.
    pub fn refresh(&self) -> Result<bool, CertificateError> {
        let staples = self.staples();
        let before = self.live.load_full();
        let are_same = before.stamps.again() == before.stamps;
        // What cannot be read may be read again though no file has changed.
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

    /// What is wrong with certificates in whose place those of before are kept, or none.
    pub fn problems(&self) -> Vec<CertificateError> {
        self.live.load().problems.clone()
    }

    /// Gives clients `staples` with the certificates that there are.
    fn give(&self, staples: &Staples) {
        let live = self.live.load();
        let mut server = ServerConfig::clone(&live.server);
        let names = Arc::new(by_name(&self.config, &live.certificates, staples));
        server.cert_resolver = names.clone();
        self.live.store(Arc::new(Live { server: Arc::new(server), names, ..Live::clone(&live) }));
    }

    /// The certificates that are not valid at `now`.
    pub fn invalid_at(&self, now: SystemTime) -> Vec<CertificateError> {
        let live = self.live.load();
        let invalid =
            |(path, loaded): &(PathBuf, Loaded)| Some(problem(path, loaded.validity.problem_at(now)?));
        live.certificates.iter().filter_map(invalid).collect()
    }

    /// The certificates that clients are shown, as they were read last.
    pub fn served(&self) -> Vec<ServedCertificate> {
        let live = self.live.load();
        let served = |(path, loaded): &(PathBuf, Loaded)| ServedCertificate {
            path: path.clone(),
            contents: loaded.contents(),
            ocsp: self.file_staple(path, loaded),
        };
        live.certificates.iter().map(served).collect()
    }

    /// Whether there is a certificate for the host of this name, which is in lower case, or will be.
    pub fn match_of(&self, name: &str) -> Option<NameMatch> {
        let is_awaited = self.config.awaited_names.iter().any(|awaited| awaited == name);
        self.live.load().names.match_of(name).max(is_awaited.then_some(NameMatch::Exact))
    }

    /// Gives clients `response` with `certificate`, in DER: what its issuer says of its revocation (an OCSP
    /// response in DER), unless a file says that. `None` to give them nothing any more.
    pub fn staple(&self, certificate: &[u8], response: Option<&[u8]>) {
        let mut staples = self.staples();
        if !staples.set_fetched(certificate, response) {
            return;
        }
        let live = self.live.load();
        // Those of certificates that were replaced.
        staples.retain(|certificate| live.certificates.iter().any(|(_, loaded)| loaded.is_of(certificate)));
        self.give(&staples);
    }

    /// Has clients not be given these responses any more, each with its certificate, in DER, which are from
    /// [files](FileStaple); and all others again. Whoever knows what such a response must be says here which
    /// are none.
    pub fn withhold(&self, responses: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        let mut staples = self.staples();
        if staples.set_withheld(responses.into_iter().collect()) {
            self.give(&staples);
        }
    }

    /// What clients are given with the certificate in this file, if it is not from a file too.
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

    /// How it was made.
    pub const fn config(&self) -> &TlsAcceptorConfig {
        &self.config
    }

    /// A connection that waits for its client.
    pub(super) fn session(&self) -> Result<Session, Error> {
        let server = UnbufferedServerConnection::new(self.live.load().server.clone())?;
        Ok(Session::Server(Box::new(server)))
    }
}

impl Live {
    /// Reads the files. Sessions are kept if there is something to keep them from.
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
        let verifier = config.client_authentication.verifier()?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(config.min_version))
            .map_err(|error| refused(config, &error))?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let names = Arc::new(by_name(config, &certificates, staples));
        let mut server = builder.with_cert_resolver(names.clone());
        // Whom the roots of before have let in, those of now may not: sessions would let them in without
        // asking.
        let kept = before.filter(|_| config.client_authentication == ClientAuthentication::Off);
        let sessions = match kept {
            Some(before) => before.sessions.clone(),
            None => Sessions::new(config).map_err(|error| refused(config, &error))?,
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
    fn new(config: &TlsAcceptorConfig) -> Result<Self, Error> {
        let tickets = if config.tickets { Some(Ticketer::new()?) } else { None };
        let cache: Arc<dyn StoresServerSessions> = match config.sessions_max {
            0 => Arc::new(NoServerSessionStorage {}),
            sessions => ServerSessionMemoryCache::new(sessions),
        };
        Ok(Self { tickets, cache })
    }
}

/// Which of `certificates` a client gets, with what is said of it.
fn by_name(
    config: &TlsAcceptorConfig,
    certificates: &[(PathBuf, Loaded)],
    staples: &Staples,
) -> CertificatesByName {
    let named = certificates.iter().map(|(_, loaded)| (loaded.names.clone(), loaded.stapled_with(staples)));
    CertificatesByName::new(named, config.challenges.clone())
}

/// What there was `before` of a certificate that cannot be used now, for `error`, which is noted. One that is
/// issued by itself may not be there yet.
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

/// That nothing of the files is wrong, but what is to be made of them cannot be.
fn refused(config: &TlsAcceptorConfig, error: &Error) -> CertificateError {
    let path = config.paths().next().unwrap_or_else(|| Path::new(""));
    problem(path, CertificateProblem::Refused(error.to_string()))
}

/// The versions from `min` on.
pub(super) fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    match min {
        TlsVersion::Tls12 => &VERSIONS,
        TlsVersion::Tls13 => &VERSIONS[..1],
    }
}

static VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Those that were made of the same are the same.
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
