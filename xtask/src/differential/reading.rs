//! The reading of a case by any parser, and the difference between two readings.

use std::fmt;

/// The messages that were read, and the reason why no more were.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) messages: Vec<Message>,
    /// The parser's own words for what is wrong.
    pub(super) refusal: Option<String>,
}

/// A message with a complete head.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Message {
    /// The parts of the start line.
    pub(super) start_line: [String; 3],
    pub(super) fields: Vec<(String, String)>,
    pub(super) content: Vec<u8>,
    pub(super) trailers: Vec<(String, String)>,
    pub(super) is_complete: bool,
}

/// The difference of our reading from theirs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Difference {
    /// We refuse what they accept.
    Stricter,
    /// We accept what they refuse.
    Laxer,
    /// Both accept, or refuse, and read something else.
    Otherwise,
}

impl Difference {
    #[cfg(test)]
    pub(super) const ALL: [Self; 3] = [Self::Stricter, Self::Laxer, Self::Otherwise];

    /// Returns its name in the list of expected differences.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stricter => "stricter",
            Self::Laxer => "laxer",
            Self::Otherwise => "otherwise",
        }
    }

    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Stricter => "refused by us, accepted by them",
            Self::Laxer => "accepted by us, refused by them",
            Self::Otherwise => "read differently",
        }
    }
}

impl Reading {
    pub(super) const fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns the difference of `ours` from this reading, which is theirs.
    pub(super) fn difference(&self, ours: &Self) -> Option<Difference> {
        match (self.is_refused(), ours.is_refused()) {
            (false, true) => Some(Difference::Stricter),
            (true, false) => Some(Difference::Laxer),
            // Parsers may report different parts of a broken message.
            (true, true) => (self.complete() != ours.complete()).then_some(Difference::Otherwise),
            (false, false) => (self.messages != ours.messages).then_some(Difference::Otherwise),
        }
    }

    fn complete(&self) -> Vec<&Message> {
        self.messages.iter().filter(|message| message.is_complete).collect()
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in &self.messages {
            write!(f, "{} {:?}", message.start_line.join(" "), message.fields)?;
            write!(f, " \"{}\" {:?}", message.content.escape_ascii(), message.trailers)?;
            f.write_str(if message.is_complete { "; " } else { " …; " })?;
        }
        match &self.refusal {
            Some(refusal) => write!(f, "refused: {refusal}"),
            None => f.write_str("accepted"),
        }
    }
}
