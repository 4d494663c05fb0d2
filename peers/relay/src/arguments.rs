//! Command-line arguments of the relay.

use std::fmt;
use std::net::SocketAddr;

/// Usage hint of the program.
pub(crate) const USAGE: &str = "`--listen 127.0.0.1:8080 --backend 127.0.0.1:8081`";

/// Addresses of the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arguments {
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    /// Address of the backend.
    pub(crate) backend: SocketAddr,
}

/// Error in the arguments.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum ArgumentError {
    Missing(&'static str),
    InvalidAddress(String),
    Repeated(&'static str),
    Unknown(String),
}

impl Arguments {
    /// Parses both addresses, in either order.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, ArgumentError> {
        let (mut listen, mut backend) = (None, None);
        while let Some(name) = arguments.next() {
            let (name, slot) = match name.as_str() {
                LISTEN => (LISTEN, &mut listen),
                BACKEND => (BACKEND, &mut backend),
                _ => return Err(ArgumentError::Unknown(name)),
            };
            let text = arguments.next().ok_or(ArgumentError::Missing(name))?;
            let address = text.parse().map_err(|_| ArgumentError::InvalidAddress(text))?;
            if slot.replace(address).is_some() {
                return Err(ArgumentError::Repeated(name));
            }
        }
        let listen = listen.ok_or(ArgumentError::Missing(LISTEN))?;
        Ok(Self { listen, backend: backend.ok_or(ArgumentError::Missing(BACKEND))? })
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "`{name} IP:PORT` is missing"),
            Self::InvalidAddress(text) => {
                write!(f, "`{}` is not an address of the form `IP:PORT`", text.escape_debug())
            }
            Self::Repeated(name) => write!(f, "`{name}` is given twice"),
            Self::Unknown(name) => write!(f, "unknown argument `{}`", name.escape_debug()),
        }
    }
}

const LISTEN: &str = "--listen";
const BACKEND: &str = "--backend";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, ArgumentError> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_accepted_in_either_order() {
        let arguments =
            Arguments { listen: "127.0.0.1:80".parse().unwrap(), backend: "[::1]:81".parse().unwrap() };
        assert_eq!(parse("--listen 127.0.0.1:80 --backend [::1]:81"), Ok(arguments));
        assert_eq!(parse("--backend [::1]:81 --listen 127.0.0.1:80"), Ok(arguments));
    }

    #[test]
    fn invalid_arguments_are_rejected_with_the_reason() {
        for (line, message) in [
            ("", "`--listen IP:PORT` is missing"),
            ("--listen 127.0.0.1:80", "`--backend IP:PORT` is missing"),
            ("--listen 127.0.0.1:80 --backend", "`--backend IP:PORT` is missing"),
            ("--listen localhost", "`localhost` is not an address of the form `IP:PORT`"),
            ("--listen 127.0.0.1:80 --listen 127.0.0.1:81", "`--listen` is given twice"),
            ("127.0.0.1:80", "unknown argument `127.0.0.1:80`"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), message, "{line}");
        }
    }
}
