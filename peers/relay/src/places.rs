//! The relay's arguments: its own address and the backend's.

use std::fmt;
use std::net::SocketAddr;

/// The arguments of the program.
pub(crate) const USAGE: &str = "`--listen 127.0.0.1:8080 --backend 127.0.0.1:8081`";

/// The relay's own address and the backend's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    pub(crate) listen: SocketAddr,
    pub(crate) backend: SocketAddr,
}

/// Error in the arguments.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Unusable {
    Missing(&'static str),
    NoAddress(String),
    Repeated(&'static str),
    Unknown(String),
}

impl Places {
    /// Parses both addresses, in either order.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Unusable> {
        let (mut listen, mut backend) = (None, None);
        while let Some(name) = arguments.next() {
            let (name, place) = match name.as_str() {
                LISTEN => (LISTEN, &mut listen),
                BACKEND => (BACKEND, &mut backend),
                _ => return Err(Unusable::Unknown(name)),
            };
            let text = arguments.next().ok_or(Unusable::Missing(name))?;
            let address = text.parse().map_err(|_| Unusable::NoAddress(text))?;
            if place.replace(address).is_some() {
                return Err(Unusable::Repeated(name));
            }
        }
        let listen = listen.ok_or(Unusable::Missing(LISTEN))?;
        Ok(Self { listen, backend: backend.ok_or(Unusable::Missing(BACKEND))? })
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "`{name}` has no address"),
            Self::NoAddress(text) => write!(f, "`{}` is no `IP:PORT`", text.escape_debug()),
            Self::Repeated(name) => write!(f, "`{name}` stands there twice"),
            Self::Unknown(name) => write!(f, "`{}` is no argument", name.escape_debug()),
        }
    }
}

const LISTEN: &str = "--listen";
const BACKEND: &str = "--backend";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Places, Unusable> {
        Places::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_accepted_in_either_order() {
        let places = Places { listen: "127.0.0.1:80".parse().unwrap(), backend: "[::1]:81".parse().unwrap() };
        assert_eq!(parse("--listen 127.0.0.1:80 --backend [::1]:81"), Ok(places));
        assert_eq!(parse("--backend [::1]:81 --listen 127.0.0.1:80"), Ok(places));
    }

    #[test]
    fn invalid_arguments_are_rejected_with_the_reason() {
        for (line, message) in [
            ("", "`--listen` has no address"),
            ("--listen 127.0.0.1:80", "`--backend` has no address"),
            ("--listen 127.0.0.1:80 --backend", "`--backend` has no address"),
            ("--listen localhost", "`localhost` is no `IP:PORT`"),
            ("--listen 127.0.0.1:80 --listen 127.0.0.1:81", "`--listen` stands there twice"),
            ("127.0.0.1:80", "`127.0.0.1:80` is no argument"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), message, "{line}");
        }
    }
}
