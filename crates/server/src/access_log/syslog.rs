//! Log lines as syslog messages (RFC 5424).

use std::io::Write as _;
use std::path::PathBuf;

use thruway_net::Clock;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

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

/// The constant parts of syslog messages.
#[derive(Debug)]
pub(super) struct SyslogHeader {
    priority: u8,
    /// The text between the time and the line.
    rest: String,
    has_length: bool,
}

impl SyslogHeader {
    pub(super) fn new(syslog: &Syslog) -> Self {
        let (host, app, process) = (host_name(), &syslog.app_name, std::process::id());
        Self {
            priority: syslog.facility as u8 * 8 + SEVERITY_INFO,
            rest: format!(" {host} {app} {process} access - "),
            has_length: matches!(syslog.address, SyslogAddress::Tcp(_)),
        }
    }

    /// Returns the start of the messages at the current time.
    pub(super) fn now(&self) -> String {
        let time = OffsetDateTime::from(Clock::system().time_of_day()).format(TIME).unwrap_or_default();
        format!("<{}>1 {time}{}", self.priority, self.rest)
    }

    /// Appends a message with `line`. `start` is the start of the message.
    pub(super) fn write(&self, frames: &mut Vec<u8>, start: &str, line: &[u8]) {
        if self.has_length {
            // Writing to a vector cannot fail.
            let _ = write!(frames, "{} ", start.len() + line.len());
        }
        frames.extend_from_slice(start.as_bytes());
        frames.extend_from_slice(line);
    }
}

/// Returns the name of this machine for `HOSTNAME`, or `-`.
fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let is_valid = (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid { name.into_owned() } else { "-".to_owned() }
}

const SEVERITY_INFO: u8 = 6;
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
        let start = header.now();
        let mut frames = Vec::new();
        header.write(&mut frames, &start, b"a line");
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
}
