//! Reasons why a load cannot be planned, with hints.

use std::borrow::Cow;
use std::fmt;
use std::io;

use thruway_net::tls::{CertificateError, InvalidServerName};

use crate::requests::{InvalidDigest, InvalidLoadUrl, InvalidRequest, InvalidRequestsFile, Origin};
use crate::run::RunError;

/// Reason why a load cannot be planned.
#[derive(Debug)]
pub enum PlanError {
    /// The name of the host resolves to no address.
    AddressMissing(String),
    /// The list of addresses to connect to is empty.
    AddressesMissing,
    /// The certificate authorities cannot be loaded.
    Certificates(CertificateError),
    /// The connections need more file descriptors than this process may open.
    Descriptors {
        /// Number of connections of the load.
        connections: u32,
        /// Number of file descriptors that the load needs.
        needed: u64,
        /// Limit of open file descriptors of this process.
        limit: u64,
    },
    /// A line in a file of requests contains an invalid digest.
    Digest(InvalidDigest),
    /// The load would take more than a year.
    Duration {
        /// Number of requests of the load.
        requests: u64,
        /// Number of requests per second.
        rate: f64,
    },
    /// A file or the standard input cannot be read.
    Read(String, io::Error),
    /// A request cannot be built from the options.
    Request(InvalidRequest),
    /// A file of requests has an invalid line.
    RequestsFile(String, InvalidRequestsFile),
    /// The server cannot be reached.
    Run(RunError),
    /// The host name of the server cannot be resolved.
    Resolve(String, io::Error),
    /// TLS cannot use the host of the URL, because the host is neither a valid DNS name nor an IP address.
    ServerName(InvalidServerName),
    /// The URLs name two different servers.
    Servers(Origin, Origin),
    /// The stages contradict another option.
    Stages(&'static str),
    /// TLS options are set, but no URL begins with `https`.
    TlsUnused,
    /// A scenario cannot use a pipeline.
    UserPipeline,
    /// A URL is invalid.
    Url(String, InvalidLoadUrl),
    /// No URL is given.
    UrlMissing,
    /// The weight of this URL is not between 1 and 1000.
    Weight(String),
    /// There are more workers than connections.
    Workers {
        /// Number of workers.
        workers: u16,
        /// Number of connections.
        connections: u32,
    },
}

impl PlanError {
    /// Returns the hint that `thruway bench` prints below the error, if there is one.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Descriptors { needed, .. } => {
                let hint =
                    format!("increase the limit with `ulimit -n {needed}`, or use fewer connections (`-c`)");
                return Some(hint.into());
            }
            Self::Certificates(error) => error.hint(),
            Self::Duration { .. } => "use a higher `--rate`, or fewer `--requests`",
            Self::Request(error) => return error.hint().map(Cow::from),
            Self::RequestsFile(..) => InvalidRequestsFile::HINT,
            Self::Resolve(..) => "check the spelling of the name",
            Self::Run(error) => return error.hint().map(Cow::from),
            Self::ServerName(_) => InvalidServerName::HINT,
            Self::Servers(..) => "use `thruway bench compare` for several servers",
            Self::Stages(_) => "use a rate such as `--stages 30s:100`, and make the first stage the warm-up",
            Self::TlsUnused => "begin the URL with `https://`",
            Self::Url(_, error) => error.hint(),
            Self::Workers { .. } => {
                "each worker needs a connection: use fewer `--workers`, or more `--connections`"
            }
            Self::AddressMissing(_)
            | Self::AddressesMissing
            | Self::Digest(_)
            | Self::Read(..)
            | Self::UrlMissing
            | Self::UserPipeline
            | Self::Weight(_) => return None,
        };
        Some(hint.into())
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressMissing(host) => write!(f, "`{host}` has no address"),
            Self::AddressesMissing => f.write_str("there is no address"),
            Self::Certificates(error) => error.fmt(f),
            Self::Descriptors { connections, needed, limit } => write!(
                f,
                "{connections} connections need {needed} file descriptors, but the limit of this process is {limit}"
            ),
            Self::Digest(error) => error.fmt(f),
            Self::Duration { requests, rate } => {
                write!(f, "{requests} requests at {rate} per second take more than a year")
            }
            Self::Read(name, error) => write!(f, "cannot read {name}: {error}"),
            Self::Request(error) => error.fmt(f),
            Self::RequestsFile(file, error) => write!(f, "`{file}`, {error}"),
            Self::Run(error) => error.fmt(f),
            Self::Resolve(host, error) => write!(f, "cannot resolve `{host}`: {error}"),
            Self::ServerName(error) => error.fmt(f),
            Self::Servers(one, other) => write!(f, "`{one}` and `{other}` are different servers"),
            Self::Stages(error) => f.write_str(error),
            Self::TlsUnused => f.write_str("no URL uses TLS"),
            Self::Url(text, error) => write!(f, "invalid URL `{}`: {error}", text.escape_debug()),
            Self::UserPipeline => {
                f.write_str("a virtual user sends one request at a time, so `--pipeline` has no use")
            }
            Self::UrlMissing => f.write_str("there is no URL"),
            Self::Weight(url) => write!(f, "the weight of `{url}` must be from 1 to 1000"),
            Self::Workers { workers, connections } => {
                write!(f, "{workers} workers cannot share {connections} connections")
            }
        }
    }
}

impl std::error::Error for PlanError {}
