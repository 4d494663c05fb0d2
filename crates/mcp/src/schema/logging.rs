//! Log messages.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MetaObject;

/// How much a log message matters (RFC 5424). Later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggingLevel {
    /// For whoever looks for a fault.
    Debug,
    /// As expected.
    Info,
    /// As expected, and worth a note.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
    /// Something is badly wrong.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

/// The text is not the name of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownLoggingLevel;

/// A log message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoggingMessageNotificationParams {
    /// How much it matters.
    pub level: LoggingLevel,
    /// Who logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What there is to say.
    pub data: Value,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

impl LoggingLevel {
    /// All levels, the least first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl FromStr for LoggingLevel {
    type Err = UnknownLoggingLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLoggingLevel> {
        Self::ALL.into_iter().find(|level| level.as_str() == name).ok_or(UnknownLoggingLevel)
    }
}

impl fmt::Display for UnknownLoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a level of log messages")
    }
}

impl core::error::Error for UnknownLoggingLevel {}
