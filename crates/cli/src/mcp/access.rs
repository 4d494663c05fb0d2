//! Listeners of `thruway mcp serve`, `bridge` and `federate`, and the credentials that clients need.
//!
//! A client on another machine needs a credential: a bearer token or a certificate. The checks of the `Host`
//! and `Origin` headers do not replace a credential. These checks stop only web pages in browsers, because
//! other programs can send any value in these headers.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use thruway_demo::mcp::{PATH, SSE_PATH};
use thruway_mcp_sdk::{Authorization, Identity, InvalidToken, McpEndpoint, VerifyToken};
use thruway_net::tls::{
    CertificateError, CertificateFiles, ClientAuthentication, TlsAcceptor, TlsAcceptorConfig,
};
use thruway_server::{ListenAddr, Listener, RunningServer, Server};

use crate::args::McpAccessArgs;
use crate::config::{Failure, parse_listeners};
use crate::serve::print_addresses;

/// TLS settings of the listeners, and the credentials that clients need. Clones share the settings and the
/// credentials.
#[derive(Clone)]
pub(super) struct Access {
    allows_remote: bool,
    tokens: Option<TokenList>,
    tls: Option<Arc<TlsAcceptor>>,
    requires_certificates: bool,
}

impl Access {
    /// Reads the files named in `args`.
    ///
    /// # Errors
    /// Returns an error if a file in `args` cannot be used.
    pub(super) fn of(args: &McpAccessArgs) -> Result<Self, Failure> {
        let tokens = args.token_file.as_deref().map(TokenList::read).transpose()?;
        let tls = match (&args.tls_cert, &args.tls_key) {
            (Some(chain), Some(key)) => {
                let files = CertificateFiles { chain: chain.clone(), key: key.clone(), ocsp: None };
                let client_authentication = match &args.client_ca {
                    Some(roots) => ClientAuthentication::Required(vec![roots.clone()]),
                    None => ClientAuthentication::Off,
                };
                let config =
                    TlsAcceptorConfig { client_authentication, ..TlsAcceptorConfig::new(vec![files]) };
                let acceptor = TlsAcceptor::load(config)
                    .map_err(|error| Failure::new(&error).with_hint(error.hint()))?;
                Some(Arc::new(acceptor))
            }
            _ => None,
        };
        let requires_certificates = args.client_ca.is_some();
        Ok(Self { allows_remote: args.allow_remote, tokens, tls, requires_certificates })
    }

    /// Returns a listener for each address in `addresses`.
    ///
    /// # Errors
    /// Returns an error if an address is invalid. If clients on other machines can reach an address, also
    /// returns an error if `--allow-remote` or a credential is missing.
    pub(super) fn listeners(&self, addresses: &[String]) -> Result<Vec<Listener>, Failure> {
        let addresses = parse_listeners(addresses)?;
        for address in addresses.iter().filter(|address| address.is_remote()) {
            self.check_remote(address)?;
        }
        let listener = |address| match &self.tls {
            Some(acceptor) => Listener::new(address).tls(acceptor.clone()),
            None => Listener::new(address),
        };
        Ok(addresses.into_iter().map(listener).collect())
    }

    /// Checks the options for `address`. Clients on other machines can reach this address. Returns an error
    /// if `--allow-remote` or a credential is missing. Without TLS, logs a warning, because tokens would
    /// cross the network unencrypted.
    fn check_remote(&self, address: &ListenAddr) -> Result<(), Failure> {
        let refusal = format!("cannot listen on `{address}`: clients on other machines can connect to it");
        if !self.allows_remote {
            return Err(Failure::new(format!("{refusal}, and `--allow-remote` is not set"))
                .with_hint(format!("listen on 127.0.0.1, or pass `--allow-remote` and {CREDENTIALS}")));
        }
        if self.tokens.is_none() && !self.requires_certificates {
            return Err(Failure::new(format!("{refusal} without a credential"))
                .with_hint(format!("also pass {CREDENTIALS}")));
        }
        if self.tls.is_none() {
            tracing::warn!(
                "tokens cross the network unencrypted, because `{address}` has no TLS: pass `--tls-cert` and \
                 `--tls-key`, or put a gateway with TLS in front"
            );
        }
        Ok(())
    }

    /// If `--token-file` is set, makes `endpoint` require a token.
    pub(super) fn protect(&self, endpoint: McpEndpoint) -> McpEndpoint {
        match &self.tokens {
            Some(tokens) => endpoint.authorize(Authorization::given_tokens(tokens.clone())),
            None => endpoint,
        }
    }

    /// Starts `server` with `listeners`, and prints its addresses. With TLS, also starts a thread that reloads
    /// changed certificate files.
    pub(super) fn start(&self, server: Server, listeners: Vec<Listener>) -> Result<RunningServer, Failure> {
        let server = listeners.into_iter().fold(server, Server::listen_on).start()?;
        print_addresses(&server, if self.tls.is_some() { "https" } else { "http" });
        tracing::info!(
            "the MCP endpoint is at `{PATH}`; clients with MCP revision 2024-11-05 use `{SSE_PATH}`"
        );
        if let Some(acceptor) = self.tls.clone() {
            thread::spawn(move || reload_certificates(&acceptor));
        }
        Ok(server)
    }
}

/// Reloads changed certificate files, until the process ends.
fn reload_certificates(acceptor: &TlsAcceptor) {
    let mut reported: Option<CertificateError> = None;
    loop {
        thread::sleep(RELOAD_INTERVAL);
        match acceptor.refresh() {
            Ok(true) => tracing::info!("certificates reloaded"),
            Ok(false) => {}
            Err(error) if reported.as_ref() == Some(&error) => {}
            Err(error) => {
                tracing::error!(
                    "cannot use the changed certificates, keeping the previous certificates: {error}"
                );
                reported = Some(error);
            }
        }
    }
}

/// SHA-256 digests of the tokens in a token file. A check takes the same time for all tokens, so its duration
/// reveals nothing about valid tokens.
#[derive(Clone)]
struct TokenList {
    digests: Arc<[[u8; 32]]>,
}

impl TokenList {
    /// Reads a file with one token per line. Ignores empty lines and lines that begin with `#`.
    fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failure = |reason: String| {
            Failure::new(format!("cannot use the token file `{shown}`: {reason}")).with_hint(TOKEN_HINT)
        };
        let mut text = Vec::new();
        let mut file = File::open(path).map_err(|error| failure(error.to_string()))?;
        let mode = file.metadata().map_err(|error| failure(error.to_string()))?.permissions().mode();
        let read = file.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| failure(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(failure(format!("the file has more than {FILE_BYTES_MAX} bytes")));
        }
        let digests = digests(&text).map_err(failure)?;
        if mode & 0o077 != 0 {
            tracing::warn!(
                "other users may be able to read the token file `{shown}` (mode {:04o}): run `chmod 600` on it",
                mode & 0o7777
            );
        }
        Ok(Self { digests: digests.into() })
    }
}

/// Returns the digests of the tokens in `text`, the content of a token file. An error message contains the
/// number of the invalid line, but not its text, because the text may be a secret.
fn digests(text: &[u8]) -> Result<Vec<[u8; 32]>, String> {
    let mut digests = Vec::new();
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let token = line.trim_ascii();
        if token.is_empty() || token.starts_with(b"#") {
            continue;
        }
        if !is_token(token) {
            return Err(format!("line {number} is not a bearer token (RFC 6750 §2.1)"));
        }
        if token.len() < TOKEN_BYTES_MIN {
            return Err(format!("the token in line {number} is shorter than {TOKEN_BYTES_MIN} characters"));
        }
        digests.push(Sha256::digest(token).into());
    }
    if digests.is_empty() { Err("the file has no tokens".to_owned()) } else { Ok(digests) }
}

/// Returns `true` if `text` has the syntax of a bearer token: `b64token` in RFC 6750 §2.1.
fn is_token(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    end > 0 && text[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte))
}

impl VerifyToken for TokenList {
    /// Verifies `token`. Each valid token has its own identity, so that clients with different tokens cannot
    /// use each other's sessions and tasks.
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let is_known =
            self.digests.iter().fold(Choice::from(0), |is_known, known| is_known | known.ct_eq(&digest));
        if !bool::from(is_known) {
            return Err(InvalidToken);
        }
        let subject = digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        Ok(Identity { issuer: ISSUER.to_owned(), subject, ..Identity::default() })
    }
}

const CREDENTIALS: &str =
    "a credential: `--token-file FILE`, or `--client-ca FILE` with `--tls-cert` and `--tls-key`";
const TOKEN_HINT: &str = "write one token per line, such as the output of `openssl rand -base64 32`";

/// Value of [`Identity::issuer`] for clients with a token from the token file.
const ISSUER: &str = "token-file";

/// Minimum length of a token in characters. Shorter tokens are easy to guess.
const TOKEN_BYTES_MIN: usize = 16;

/// Maximum size of a token file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Time between two checks for changed certificate files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> TokenList {
        TokenList { digests: digests(text.as_bytes()).unwrap().into() }
    }

    #[test]
    fn each_token_in_the_token_file_identifies_its_own_caller() {
        let list = list("# for the office\r\n\nabcdefghijklmnop\r\n  0123456789-._~+/==  \n");
        let caller = |token: &str| list.verify(token).map(|identity| identity.subject);
        assert!(caller("abcdefghijklmnop").is_ok() && caller("0123456789-._~+/==").is_ok());
        assert_ne!(caller("abcdefghijklmnop"), caller("0123456789-._~+/=="));
        for unknown in
            ["", "#", "# for the office", "abcdefghijklmno", "abcdefghijklmnopq", "ABCDEFGHIJKLMNOP"]
        {
            assert_eq!(caller(unknown), Err(InvalidToken), "{unknown}");
        }
    }

    #[test]
    fn invalid_token_file_error_does_not_show_tokens() {
        for (text, expected) in [
            ("", "the file has no tokens"),
            ("# only a comment\n\n", "the file has no tokens"),
            ("abcdefghijklmnop\nsecret\n", "the token in line 2 is shorter than 16 characters"),
            ("secret secret secret\n", "line 1 is not a bearer token (RFC 6750 §2.1)"),
            ("secretsecretsecr\u{e9}t\n", "line 1 is not a bearer token (RFC 6750 §2.1)"),
            ("=================\n", "line 1 is not a bearer token (RFC 6750 §2.1)"),
        ] {
            assert_eq!(digests(text.as_bytes()), Err(expected.to_owned()), "{text}");
        }
    }
}
