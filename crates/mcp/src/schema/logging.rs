//! Log messages.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MetaObject;

/// Severity of a log message (RFC 5424). Later variants are more severe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggingLevel {
    /// Details for debugging.
    Debug,
    /// Normal events.
    Info,
    /// Normal but significant events.
    Notice,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
    /// A critical error.
    Critical,
    /// An error that needs action at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// Error: the text is not the name of a log level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownLoggingLevel;

/// A log message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoggingMessageNotificationParams {
    /// The severity.
    pub level: LoggingLevel,
    /// The name of the logger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The message: any JSON value.
    pub data: Value,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

impl LoggingLevel {
    /// All levels, from the least severe to the most severe.
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

    /// Returns the name of the level in lower case.
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
        f.write_str("unknown log level")
    }
}

impl core::error::Error for UnknownLoggingLevel {}
