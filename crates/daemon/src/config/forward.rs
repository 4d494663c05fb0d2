//! The action of routes that forward requests to upstreams.

use std::fmt;

use thruway_gateway::{ForwardTimeouts, HashBy, MirrorConfig, Rewrite};

/// The settings of a route that forwards requests: upstreams, changes, mirror and timeouts.
pub(crate) struct ForwardAction {
    pub(crate) to: ForwardTo,
    pub(crate) rewrite: Rewrite,
    pub(crate) mirror: Option<MirrorAction>,
    pub(crate) timeouts: ForwardTimeouts,
    /// Maximum length of request bodies that are read before a server is selected. `None` if bodies are forwarded as
    /// they arrive.
    pub(crate) request_buffer_bytes_max: Option<usize>,
}

pub(crate) enum ForwardTo {
    /// The upstream with this name.
    Upstream(String),
    /// Several upstreams, each with its name and weight.
    Split { sides: Vec<(String, u32)>, by: Option<SplitBy> },
}

/// Key that selects the upstream. Requests with the same value of the key go to the same upstream.
pub(crate) struct SplitBy {
    pub(crate) key: HashBy,
    /// Text of the key in the config.
    pub(crate) text: String,
}

/// A mirror, which sends copies of requests to the upstream with this name.
pub(crate) struct MirrorAction {
    pub(crate) upstream: String,
    pub(crate) config: MirrorConfig,
    /// Names of the headers that Thruway removes from copies.
    pub(crate) removed: Vec<String>,
}

impl fmt::Display for ForwardAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.to, self.rewrite)?;
        if let Some(bytes) = self.request_buffer_bytes_max {
            write!(f, ", bodies of up to {bytes} bytes read first")?;
        }
        match &self.mirror {
            Some(mirror) => write!(f, ", {mirror}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ForwardTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sides, by) = match self {
            Self::Upstream(name) => return write!(f, "forwarded to {name}"),
            Self::Split { sides, by } => (sides, by),
        };
        let total: u64 = sides.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let shown: Vec<_> =
            sides.iter().map(|(name, weight)| format!("{weight} of {total} to {name}")).collect();
        write!(f, "forwarded: {}", shown.join(", "))?;
        match by {
            Some(by) => write!(f, ", by {}", by.text),
            None => Ok(()),
        }
    }
}

impl fmt::Display for MirrorAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = f64::from(self.config.share_millionths) / 10_000.0;
        write!(f, "{percent}% mirrored to {}", self.upstream)?;
        match &self.removed[..] {
            [] => Ok(()),
            removed => write!(f, " without {}", removed.join(", ")),
        }
    }
}
