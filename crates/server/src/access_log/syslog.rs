//! Log lines as syslog messages (RFC 5424).

use std::io::Write as _;
use std::path::PathBuf;

use thruway_net::Clock;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::record::{Record, StreamRecord};

/// A syslog server, and the properties of the messages to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Syslog {
    /// Address of the server.
    pub address: SyslogAddress,
    /// Facility of the messages.
    pub facility: SyslogFacility,
    /// `APP-NAME` of the messages: 1 to 48 printable ASCII characters without spaces.
    pub app_name: String,
}

/// Address of a syslog server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyslogAddress {
    /// A Unix datagram socket, such as `/dev/log`.
    Unix(PathBuf),
    /// UDP (RFC 5426), to `HOST:PORT`.
    Udp(String),
    /// TCP with the length before each message (RFC 6587 §3.4.1), to `HOST:PORT`.
    Tcp(String),
}

/// Facility of syslog messages (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the standard")]
pub enum SyslogFacility {
    User = 1,
    Daemon = 3,
    Auth = 4,
    Authpriv = 10,
    Local0 = 16,
    Local1 = 17,
    Local2 = 18,
    Local3 = 19,
    Local4 = 20,
    Local5 = 21,
    Local6 = 22,
    #[default]
    Local7 = 23,
}

/// Severity of a syslog message (RFC 5424 §6.2.1).
///
/// A log line passes through buffers that contain only bytes. A line for a syslog server therefore begins with
/// its severity as a byte, unless its severity is `Info`. Log formats escape control characters, so no line
/// begins with such a byte itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Severity {
    Error = 3,
    Warning = 4,
    Info = 6,
}

impl Severity {
    /// Returns the severity of a request. HAProxy also logs errors with `err`, if `log-separate-errors` is set.
    pub(super) fn of_request(record: &Record<'_>) -> Self {
        match record.status.as_u16() {
            500.. => Self::Error,
            400.. => Self::Warning,
            _ if !record.is_complete => Self::Warning,
            _ => Self::Info,
        }
    }

    /// Returns the severity of a non-HTTP connection.
    pub(super) fn of_stream(record: &StreamRecord<'_>) -> Self {
        if record.is_failure() { Self::Error } else { Self::Info }
    }

    /// Appends the severity to `line`, before the text of the line.
    pub(super) fn mark(self, line: &mut Vec<u8>) {
        if self != Self::Info {
            line.push(self as u8);
        }
    }

    /// Splits a line into its severity and its text.
    fn split(line: &[u8]) -> (Self, &[u8]) {
        match line {
            [3, text @ ..] => (Self::Error, text),
            [4, text @ ..] => (Self::Warning, text),
            text => (Self::Info, text),
        }
    }
}

/// The constant parts of syslog messages.
#[derive(Debug)]
pub(super) struct SyslogHeader {
    facility: u8,
    /// The text between the time and the line.
    rest: String,
    has_length: bool,
}

impl SyslogHeader {
    pub(super) fn new(syslog: &Syslog) -> Self {
        let (host, app, process) = (host_name(), &syslog.app_name, std::process::id());
        Self {
            facility: syslog.facility as u8,
            rest: format!(" {host} {app} {process} access - "),
            has_length: matches!(syslog.address, SyslogAddress::Tcp(_)),
        }
    }

    /// Returns the part between the priority and the line, for messages at the current time.
    pub(super) fn now(&self) -> String {
        let time = OffsetDateTime::from(Clock::system().time_of_day()).format(TIME).unwrap_or_default();
        format!("1 {time}{}", self.rest)
    }

    /// Appends a message with `line`. `header` is the result of [`now`](Self::now).
    pub(super) fn write(&self, frames: &mut Vec<u8>, header: &str, line: &[u8]) {
        let (severity, text) = Severity::split(line);
        let priority = format!("<{}>", self.facility * 8 + severity as u8);
        if self.has_length {
            // Writing to a vector cannot fail.
            let _ = write!(frames, "{} ", priority.len() + header.len() + text.len());
        }
        for part in [priority.as_bytes(), header.as_bytes(), text] {
            frames.extend_from_slice(part);
        }
    }
}

/// Returns the name of this machine for `HOSTNAME`, or `-`.
fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let is_valid = (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid { name.into_owned() } else { "-".to_owned() }
}

const TIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_the_header_of_rfc_5424() {
        let address = SyslogAddress::Tcp("localhost:514".to_owned());
        let syslog = Syslog { address, facility: SyslogFacility::Local7, app_name: "thruway".to_owned() };
        let header = SyslogHeader::new(&syslog);
        let mut frames = Vec::new();
        header.write(&mut frames, &header.now(), b"a line");
        let frames = String::from_utf8(frames).unwrap();
        let (length, message) = frames.split_once(' ').unwrap();
        assert_eq!(length.parse(), Ok(message.len()));
        let parts: Vec<_> = message.splitn(8, ' ').collect();
        assert_eq!(
            (parts[0], parts[3], parts[5], parts[6], parts[7]),
            ("<190>1", "thruway", "access", "-", "a line")
        );
        assert_eq!(parts[4], std::process::id().to_string());
        assert!(OffsetDateTime::parse(parts[1], &time::format_description::well_known::Rfc3339).is_ok());
    }

    #[test]
    fn priority_contains_the_severity_of_the_line() {
        let address = SyslogAddress::Unix("/dev/log".into());
        let syslog = Syslog { address, facility: SyslogFacility::Local0, app_name: "thruway".to_owned() };
        let header = SyslogHeader::new(&syslog);
        for (severity, priority) in
            [(Severity::Error, "<131>1 "), (Severity::Warning, "<132>1 "), (Severity::Info, "<134>1 ")]
        {
            let (mut line, mut message) = (Vec::new(), Vec::new());
            severity.mark(&mut line);
            line.extend_from_slice(b"a line");
            header.write(&mut message, &header.now(), &line);
            let message = String::from_utf8(message).unwrap();
            assert!(message.starts_with(priority) && message.ends_with(" access - a line"), "{message}");
        }
    }
}
