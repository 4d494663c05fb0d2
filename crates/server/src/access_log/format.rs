//! Lines of an access log.

use std::io::Write as _;
use std::sync::Arc;

use thruway_message::{RequestHead, RequestTarget};
use thruway_net::{ClientAddr, IpText};

use super::client_text::write_escaped;
use super::conventions::{ECS, OTEL};
use super::json;
use super::masking::masked;
use super::members::{AccessLogMembers, write_format};
use super::sample::AccessLogSample;
use super::template::AccessLogTemplate;
use super::timestamps::Timestamps;
use super::variable::{Recorded, Source};
use crate::record::Record;

/// Format of the lines of an access log. Times are in UTC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessLogFormat {
    /// The common log format of NCSA and Apache.
    Common,
    /// The common format with `Referer` and `User-Agent`.
    Combined,
    /// One JSON object per line.
    Json,
    /// One JSON object per line, with the names of the OpenTelemetry semantic conventions.
    Otel,
    /// One JSON object per line, with the names of the Elastic Common Schema (ECS).
    Ecs,
    /// One JSON object per line, with chosen members.
    Members(AccessLogMembers),
    /// Text with variables.
    Template(AccessLogTemplate),
}

/// Settings for the lines of an access log. The log contains the secrets in URLs unless `masked_parameters`
/// names their query parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessLogLines {
    /// Format of the lines.
    pub format: AccessLogFormat,
    /// Names of query parameters with secret values, such as API keys. The log contains `***` in place of
    /// these values, both in request targets and in `Referer`. Names are compared after percent-decoding and
    /// without regard to case. Default: none.
    pub masked_parameters: Arc<[String]>,
    /// Selection of the requests in the log. Default: `None`, the log contains all requests.
    pub sample: Option<AccessLogSample>,
}

impl From<AccessLogFormat> for AccessLogLines {
    fn from(format: AccessLogFormat) -> Self {
        Self { format, masked_parameters: Arc::default(), sample: None }
    }
}

impl AccessLogLines {
    /// Appends the log line for `record` to `line`.
    pub(super) fn write(&self, line: &mut Vec<u8>, record: &Record<'_>, timestamps: &mut Timestamps) {
        timestamps.renew(record.time);
        match &self.format {
            AccessLogFormat::Common => {
                self.write_common(line, record, timestamps);
                line.push(b'\n');
            }
            AccessLogFormat::Combined => {
                self.write_common(line, record, timestamps);
                for name in ["referer", "user-agent"] {
                    line.extend_from_slice(b" \"");
                    let value = record.head.and_then(|head| head.field(name));
                    let value = value.map_or(&b"-"[..], |value| value.as_bytes());
                    write_escaped(line, &masked(value, &self.masked_parameters));
                    line.push(b'"');
                }
                line.push(b'\n');
            }
            AccessLogFormat::Json => {
                json::write_request(line, record, &self.masked_parameters, &timestamps.rfc3339);
            }
            other => other.write_variables(line, &self.source(Recorded::Request(record), timestamps)),
        }
    }

    pub(super) fn source<'a>(&'a self, of: Recorded<'a>, timestamps: &'a Timestamps) -> Source<'a> {
        Source { of, timestamps, masked_parameters: &self.masked_parameters }
    }

    /// Writes `host - user [time] "request line" status bytes`.
    fn write_common(&self, line: &mut Vec<u8>, record: &Record<'_>, timestamps: &Timestamps) {
        write_client(line, record.client);
        line.extend_from_slice(b" - ");
        write_user(line, record.user);
        // Writing to a vector cannot fail.
        let _ = write!(line, " [{}] \"", timestamps.common);
        match &record.head {
            Some(head) => self.write_request_line(line, head),
            None => line.push(b'-'),
        }
        let _ = write!(line, "\" {} {}", record.status, record.content_bytes);
    }

    fn write_request_line(&self, line: &mut Vec<u8>, head: &RequestHead<'_>) {
        write_escaped(line, head.method.as_str().as_bytes());
        line.push(b' ');
        match head.target {
            RequestTarget::Origin(target) => {
                write_escaped(line, &masked(target.as_bytes(), &self.masked_parameters));
            }
            target => write_escaped(line, &masked(target.to_string().as_bytes(), &self.masked_parameters)),
        }
        line.push(b' ');
        line.extend_from_slice(head.version.as_str().as_bytes());
    }
}

impl AccessLogFormat {
    /// Appends a line in one of the formats with variables.
    pub(super) fn write_variables(&self, line: &mut Vec<u8>, source: &Source<'_>) {
        match self {
            Self::Ecs => write_format(line, &ECS, source),
            Self::Members(members) => members.write(line, source),
            Self::Template(template) => template.write(line, source),
            Self::Otel | Self::Common | Self::Combined | Self::Json => write_format(line, &OTEL, source),
        }
    }
}

/// Writes the user name, or `-` if it is unknown. Escapes spaces in the name, because a space would end the
/// column.
fn write_user(line: &mut Vec<u8>, user: Option<&str>) {
    let name = user.filter(|name| !name.is_empty()).unwrap_or("-");
    for (place, word) in name.split(' ').enumerate() {
        if place > 0 {
            line.extend_from_slice(b"\\x20");
        }
        write_escaped(line, word.as_bytes());
    }
}

pub(super) fn write_client(line: &mut Vec<u8>, client: ClientAddr) {
    match client {
        ClientAddr::Tcp(address) => line.extend_from_slice(IpText::from(address.ip()).as_bytes()),
        ClientAddr::Unix => line.extend_from_slice(b"unix:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_info::ConnectionInfo;
    use std::time::{Duration, SystemTime};
    use thruway_message::{FieldLineSpan, FieldLines, Method, OriginForm, StatusCode, Version};

    const BYTES: &[u8] = b"User-Agent: a\"b\\c\xff\x09d";
    const SPANS: [FieldLineSpan; 1] =
        [FieldLineSpan { name_start: 0, name_end: 10, value_start: 12, value_end: 20 }];

    fn line(format: AccessLogFormat, has_head: bool) -> String {
        let connection = ConnectionInfo {
            client: ClientAddr::Tcp("[::1]:5000".parse().unwrap()),
            peer: thruway_net::Peer::Unix { is_own_process: false },
            listener: 0,
            destination: None,
            tls: None,
            compression: <_>::default(),
            handler_settings: None,
        };
        let head = RequestHead {
            method: Method::Get,
            target: RequestTarget::Origin(OriginForm::new("/a\"b?c")),
            version: Version::Http11,
            field_lines: FieldLines::from_parsed(BYTES, &SPANS),
        };
        let record = Record {
            connection: &connection,
            client: connection.client,
            scheme: "http",
            head: has_head.then_some(head),
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(951_786_061_500),
            status: StatusCode::NOT_FOUND,
            content_bytes: 12,
            received_bytes: None,
            duration: Duration::from_micros(345),
            forwarded: None,
            refused: None,
            user: None,
            route: Some("a"),
            trace: None,
            is_complete: true,
            is_cut_off: false,
            is_logged: true,
        };
        let mut line = Vec::new();
        AccessLogLines::from(format).write(&mut line, &record, &mut Timestamps::default());
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn user_name_is_escaped_into_one_column() {
        let column = |user| {
            let mut line = Vec::new();
            write_user(&mut line, user);
            String::from_utf8(line).unwrap()
        };
        assert_eq!([None, Some(""), Some("bob")].map(column), ["-", "-", "bob"]);
        assert_eq!(column(Some("bob [a] \"\\\n")), "bob\\x20[a]\\x20\\\"\\\\\\x0a");
    }

    #[test]
    fn common_format_matches_apache() {
        let expected = "::1 - - [29/Feb/2000:01:01:01 +0000] \"GET /a\\\"b?c HTTP/1.1\" 404 12\n";
        assert_eq!(line(AccessLogFormat::Common, true), expected);
        assert!(line(AccessLogFormat::Common, false).ends_with("\"-\" 404 12\n"));
    }

    #[test]
    fn combined_format_escapes_client_text() {
        assert!(
            line(AccessLogFormat::Combined, true).ends_with("404 12 \"-\" \"a\\\"b\\\\c\\xff\\x09d\"\n"),
            "{}",
            line(AccessLogFormat::Combined, true)
        );
    }

    #[test]
    fn json_format_writes_one_object_per_line() {
        let text = line(AccessLogFormat::Json, true);
        assert_eq!(text.matches('\n').count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["timestamp"], "2000-02-29T01:01:01Z");
        assert_eq!((&json["client.address"], &json["client.port"]), (&"::1".into(), &5000.into()));
        assert_eq!((&json["url.path"], &json["url.query"]), (&"/a\"b".into(), &"c".into()));
        assert_eq!(
            (&json["http.response.status_code"], &json["http.response.body.size"]),
            (&404.into(), &12.into())
        );
        assert_eq!((&json["duration_us"], &json["complete"]), (&345.into(), &true.into()));
        assert_eq!(json["http.route"], "a");
        assert_eq!(json["user_agent.original"], "a\"b\\c\u{fffd}\u{fffd}d");
    }
}
