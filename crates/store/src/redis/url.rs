//! URLs of stores.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Address of a store.
///
/// | URL | servers |
/// |---|---|
/// | `redis://HOST:PORT/DATABASE` | one server |
/// | `redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE` | the current master that Sentinel reports |
/// | `redis+cluster://HOST:PORT,HOST:PORT` | a Redis Cluster |
///
/// `rediss` instead of `redis` uses TLS. `valkey` and `valkeys` have the same meaning. The default port is 6379,
/// and 26379 for Sentinel. The database is 0 by default. The URL contains no credentials, so it may be printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreUrl {
    /// The kind of servers.
    pub layout: StoreLayout,
    /// `true` for connections with TLS.
    pub is_tls: bool,
    /// Hosts and ports.
    pub hosts: Vec<(String, u16)>,
    /// Number of the database. Always zero for a cluster.
    pub database: u32,
}

/// The kind of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreLayout {
    /// One server.
    Single,
    /// The master with this name. The hosts are those of Sentinel.
    Sentinel(String),
    /// A Redis Cluster. The hosts are some of its nodes.
    Cluster,
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(StoreUrlError::Scheme)?;
        let (name, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_tls = match name {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(StoreUrlError::Scheme),
        };
        if rest.contains('@') {
            return Err(StoreUrlError::Credentials);
        }
        if rest.contains(['?', '#']) {
            return Err(StoreUrlError::Parameters);
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let default_port = if kind == "sentinel" { 26379 } else { 6379 };
        let hosts: Vec<_> =
            hosts.split(',').map(|host| parse_host(host, default_port)).collect::<Result<_, _>>()?;
        let (layout, database) = match kind {
            "" if hosts.len() > 1 => return Err(StoreUrlError::ManyHosts),
            "" => (StoreLayout::Single, path),
            "sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(StoreUrlError::Master);
                }
                (StoreLayout::Sentinel(master.to_owned()), database)
            }
            "cluster" => (StoreLayout::Cluster, path),
            _ => return Err(StoreUrlError::Scheme),
        };
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| StoreUrlError::Database)?,
        };
        if layout == StoreLayout::Cluster && database != 0 {
            return Err(StoreUrlError::Database);
        }
        Ok(Self { layout, is_tls, hosts, database })
    }
}

impl StoreUrl {
    /// Returns `single`, `sentinel` or `cluster`.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.layout {
            StoreLayout::Single => "single",
            StoreLayout::Sentinel(_) => "sentinel",
            StoreLayout::Cluster => "cluster",
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, kind) = (if self.is_tls { "rediss" } else { "redis" }, self.kind());
        match self.layout {
            StoreLayout::Single => write!(f, "{name}://")?,
            _ => write!(f, "{name}+{kind}://")?,
        }
        for (at, (host, port)) in self.hosts.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if host.contains(':') {
                write!(f, "{comma}[{host}]:{port}")?;
            } else {
                write!(f, "{comma}{host}:{port}")?;
            }
        }
        if let StoreLayout::Sentinel(master) = &self.layout {
            write!(f, "/{master}")?;
        }
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

/// Parses `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn parse_host(text: &str, default_port: u16) -> Result<(String, u16), StoreUrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(StoreUrlError::Host)?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.contains([' ', '%']) {
        return Err(StoreUrlError::Host);
    }
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(StoreUrlError::Host)?,
    };
    Ok((host.to_owned(), port))
}

/// A URL of a store is not correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// The scheme is unknown.
    Scheme,
    /// The URL contains a user or a password.
    Credentials,
    /// The URL contains parameters.
    Parameters,
    /// A host or a port is missing or not correct.
    Host,
    /// The URL of a single server has several hosts.
    ManyHosts,
    /// The URL of Sentinel has no name of a master.
    Master,
    /// The database is no number, or a cluster has a database.
    Database,
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => {
                "the URL must begin with `redis://`, `rediss://`, `redis+sentinel://`, `rediss+sentinel://`, \
                 `redis+cluster://` or `rediss+cluster://`"
            }
            Self::Credentials => "the URL must not contain a user or a password",
            Self::Parameters => "the URL must not contain parameters",
            Self::Host => "the URL must contain hosts such as `redis.example:6379`, separated by commas",
            Self::ManyHosts => {
                "the URL of a single server has several hosts: use `redis+cluster://` or `redis+sentinel://`"
            }
            Self::Master => "the name of the master is missing, as in `redis+sentinel://HOST:26379/mymaster`",
            Self::Database => "the database must be a number, and a cluster has only the database 0",
        })
    }
}

impl Error for StoreUrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_the_same_meaning_when_they_are_printed() {
        for (text, printed) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("rediss://[::1]:7000/3", "rediss://[::1]:7000/3"),
            ("valkeys+cluster://a,b:7001/", "rediss+cluster://a:6379,b:7001"),
            ("redis+sentinel://a,b:1/main/2", "redis+sentinel://a:26379,b:1/main/2"),
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), printed);
            assert_eq!(printed.parse(), Ok(url));
        }
    }

    #[test]
    fn wrong_urls_are_explained() {
        for (text, error) in [
            ("localhost:6379", StoreUrlError::Scheme),
            ("http://localhost", StoreUrlError::Scheme),
            ("redis+other://localhost", StoreUrlError::Scheme),
            ("redis://user:secret@localhost", StoreUrlError::Credentials),
            ("redis://localhost?timeout=1", StoreUrlError::Parameters),
            ("redis://localhost:0", StoreUrlError::Host),
            ("redis://:6379", StoreUrlError::Host),
            ("redis://localhost:x", StoreUrlError::Host),
            ("redis://[::1", StoreUrlError::Host),
            ("redis://a,b", StoreUrlError::ManyHosts),
            ("redis+sentinel://a", StoreUrlError::Master),
            ("redis://a/main", StoreUrlError::Database),
            ("redis+cluster://a/1", StoreUrlError::Database),
        ] {
            assert_eq!(text.parse::<StoreUrl>(), Err(error), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
