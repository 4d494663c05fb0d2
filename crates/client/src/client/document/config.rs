//! Where a document is, and how long it is kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::tls::TlsConnector;

use crate::url::Url;

/// Where a document is, and how it is fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentConfig {
    /// Where it is.
    pub url: DocumentUrl,
    /// Time until the document is fetched again. Default 10 minutes. A server can shorten it
    /// (`Cache-Control`), not extend it.
    pub kept_for: Duration,
    /// Maximum age of a document that cannot be fetched again. An older document is not used. Default 24
    /// hours. A longer time tolerates longer failures of the server, or of the way to it. Risk: during such a
    /// failure, information that the server has withdrawn stays in use for as long. A time below `kept_for`
    /// shortens that one too.
    pub age_max: Duration,
    /// From one time that it is fetched to the next, at least, whatever is missed in it and however often it
    /// fails. Default 10 s.
    pub rest: Duration,
    /// How long it may take to fetch it. Default 10 s.
    pub within: Duration,
    /// How large it may be, in octets. Default 1 MiB.
    pub bytes_max: usize,
    /// What kind of document is asked for (`Accept`). Default any.
    pub accept: String,
    /// How TLS is spoken with the server. Default with those whom this system trusts.
    pub tls: Option<Arc<TlsConnector>>,
}

/// A URL that documents are fetched from: with `https`, or of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentUrl(String);

/// A URL that a document is not fetched from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidDocumentUrl {
    /// It begins with `http://`, and its host is not this machine: anybody on the way could say something
    /// else.
    NotSecured,
    /// It is no URL with a scheme, which is `https`, and a host.
    Syntax,
}

impl DocumentConfig {
    /// The document at `url`, with the defaults.
    ///
    /// # Errors
    /// It is not fetched from there.
    pub fn new(url: impl Into<String>) -> Result<Self, InvalidDocumentUrl> {
        let url = url.into();
        check(&url)?;
        Ok(Self {
            url: DocumentUrl(url),
            kept_for: Duration::from_mins(10),
            age_max: Duration::from_hours(24),
            rest: Duration::from_secs(10),
            within: Duration::from_secs(10),
            bytes_max: 1 << 20,
            accept: "*/*".to_owned(),
            tls: None,
        })
    }
}

impl DocumentUrl {
    /// As it was given.
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
            Self::NotSecured => "what comes by `http` from elsewhere cannot be relied upon",
            Self::Syntax => "it is no URL that begins with `https://` and names a host",
        })
    }
}

impl std::error::Error for InvalidDocumentUrl {}
