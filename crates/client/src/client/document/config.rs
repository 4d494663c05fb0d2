//! The URL of a document, and its fetch intervals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::tls::TlsConnector;

use crate::url::Url;

/// The URL of a document, and the settings for fetching it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentConfig {
    /// The URL of the document.
    pub url: DocumentUrl,
    /// Time until the document is fetched again. The default is 10 minutes. A server can shorten this
    /// time with `Cache-Control`, but cannot extend it.
    pub refresh_interval: Duration,
    /// Maximum age of a document whose fetches fail. An older document is not used. The default is 24 hours.
    /// A longer time tolerates longer failures of the server or the network. Risk: during such a failure,
    /// callers still use information that the server has withdrawn. If this time is shorter than
    /// `refresh_interval`, it also limits `refresh_interval`.
    pub age_max: Duration,
    /// Minimum interval between two fetches, even after failures and when callers request a fetch. The
    /// default is 10 s.
    pub refresh_interval_min: Duration,
    /// Maximum duration of a fetch. The default is 10 s.
    pub fetch_timeout: Duration,
    /// Maximum size of the document in bytes. The default is 1 MiB.
    pub bytes_max: usize,
    /// The accepted media types (`Accept`). The default accepts any media type.
    pub accept: String,
    /// The TLS settings. With the default `None`, the client uses the system's trust store.
    pub tls: Option<Arc<TlsConnector>>,
}

/// The URL of a document. Either the scheme is `https`, or the host is this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentUrl(String);

/// The reason that a URL cannot be used for a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidDocumentUrl {
    /// The scheme of the URL is `http`, and the host is not this machine. An attacker on the network path
    /// could change the document.
    NotSecured,
    /// The text is not a valid `https` or `http` URL.
    Syntax,
}

impl DocumentConfig {
    /// Returns settings with this `url`. All other settings have their defaults.
    ///
    /// # Errors
    /// Returns an error if `url` is invalid, or if an attacker could change the document on the network
    /// path.
    pub fn new(url: impl Into<String>) -> Result<Self, InvalidDocumentUrl> {
        let url = url.into();
        check(&url)?;
        Ok(Self {
            url: DocumentUrl(url),
            refresh_interval: Duration::from_mins(10),
            age_max: Duration::from_hours(24),
            refresh_interval_min: Duration::from_secs(10),
            fetch_timeout: Duration::from_secs(10),
            bytes_max: 1 << 20,
            accept: "*/*".to_owned(),
            tls: None,
        })
    }
}

impl DocumentUrl {
    /// Returns the text of the URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(url: &str) -> Result<(), InvalidDocumentUrl> {
    let url = Url::for_request(url).map_err(|_| InvalidDocumentUrl::Syntax)?;
    if url.is_protected() { Ok(()) } else { Err(InvalidDocumentUrl::NotSecured) }
}

impl fmt::Display for InvalidDocumentUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSecured => {
                "`http` is allowed only for hosts on this machine, because an attacker on the network path could \
                 change the document; use `https`"
            }
            Self::Syntax => "not a URL that begins with `https://` (or `http://`, for a host on this machine) and has a host",
        })
    }
}

impl std::error::Error for InvalidDocumentUrl {}
