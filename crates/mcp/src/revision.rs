//! The revisions of the protocol and their features.

use core::fmt;
use core::str::FromStr;

/// A revision of the protocol. Its name is a date. A later revision compares as greater than an earlier
/// revision.
///
/// ```
/// use thruway_mcp::{Era, Revision};
///
/// let revision: Revision = "2025-06-18".parse()?;
/// assert!(revision < Revision::LATEST && revision.has_elicitation());
/// assert_eq!(revision.era(), Era::Legacy);
/// # Ok::<_, thruway_mcp::UnknownRevision>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Revision {
    /// MCP revision 2024-11-05, the first revision.
    R20241105,
    /// MCP revision 2025-03-26: adds Streamable HTTP, batches, audio and annotations of tools.
    R20250326,
    /// MCP revision 2025-06-18: adds structured output, elicitation and resource links, and removes batches.
    R20250618,
    /// MCP revision 2025-11-25: adds icons, elicitation by URL and tasks.
    R20251125,
    /// MCP revision 2026-07-28: replaces sessions with independent requests, and adds multi round-trip
    /// requests and subscriptions.
    R20260728,
}

/// The two generations of protocol revisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// MCP revisions up to 2025-11-25: a client begins a session with a handshake.
    Legacy,
    /// MCP revisions since 2026-07-28: requests are independent, without sessions.
    Modern,
}

/// Error: the text is not the name of a known revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownRevision;

impl Revision {
    /// All revisions, from the latest to the oldest.
    pub const ALL: [Self; 5] =
        [Self::R20260728, Self::R20251125, Self::R20250618, Self::R20250326, Self::R20241105];

    /// The latest revision.
    pub const LATEST: Self = Self::R20260728;

    /// The latest revision of the legacy era. The server answers `initialize` with this revision if the
    /// client requests an unknown revision.
    pub const LATEST_LEGACY: Self = Self::R20251125;

    /// Returns the name of the revision, such as `2026-07-28`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::R20241105 => "2024-11-05",
            Self::R20250326 => "2025-03-26",
            Self::R20250618 => "2025-06-18",
            Self::R20251125 => "2025-11-25",
            Self::R20260728 => "2026-07-28",
        }
    }

    /// Returns the era that the revision belongs to.
    pub const fn era(self) -> Era {
        match self {
            Self::R20260728 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Returns `true` if a client may send several messages as one array.
    pub fn has_batches(self) -> bool {
        self == Self::R20250326
    }

    /// Returns `true` if the revision defines audio content.
    pub fn has_audio(self) -> bool {
        self >= Self::R20250326
    }

    /// Returns `true` if the revision defines structured results of tools, and links to resources in
    /// content.
    pub fn has_structured_output(self) -> bool {
        self >= Self::R20250618
    }

    /// Returns `true` if a server may ask the user for input.
    pub fn has_elicitation(self) -> bool {
        self >= Self::R20250618
    }

    /// Returns `true` if event streams begin with an empty event. Clients use the id of that event to
    /// resume the stream.
    pub fn primes_event_streams(self) -> bool {
        self == Self::R20251125
    }
}

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(name: &str) -> Result<Self, UnknownRevision> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name).ok_or(UnknownRevision)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for UnknownRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown protocol revision")
    }
}

impl core::error::Error for UnknownRevision {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn revision_parses_from_its_date() {
        for revision in Revision::ALL {
            assert_eq!(revision.as_str().parse(), Ok(revision));
            assert_eq!(revision.to_string(), revision.as_str());
        }
        for name in ["", "2026-07-28 ", "2026-7-28", "2024-10-07", "draft", "DRAFT-2026-v1"] {
            assert_eq!(name.parse::<Revision>(), Err(UnknownRevision), "{name:?}");
        }
    }

    #[test]
    fn revisions_are_sorted_from_latest_to_oldest() {
        assert!(Revision::ALL.is_sorted_by(|one, next| one > next));
        assert_eq!(Revision::ALL[0], Revision::LATEST);
        assert!(Revision::ALL.is_sorted_by_key(|revision| core::cmp::Reverse(revision.as_str())));
        let latest_legacy = Revision::ALL.into_iter().find(|revision| revision.era() == Era::Legacy);
        assert_eq!(latest_legacy, Some(Revision::LATEST_LEGACY));
    }

    #[test]
    fn revision_features_match_the_specification() {
        let support = |has: fn(Revision) -> bool| Revision::ALL.map(has);
        assert_eq!(support(Revision::has_batches), [false, false, false, true, false]);
        assert_eq!(support(Revision::has_audio), [true, true, true, true, false]);
        assert_eq!(support(Revision::has_structured_output), [true, true, true, false, false]);
        assert_eq!(support(Revision::has_elicitation), [true, true, true, false, false]);
        assert_eq!(support(Revision::primes_event_streams), [false, true, false, false, false]);
    }
}
