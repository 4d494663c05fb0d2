//! Log lines of non-HTTP connections.

use std::io::Write as _;

use super::format::{AccessLogFormat, AccessLogLines, write_client};
use super::json;
use super::timestamps::Timestamps;
use super::variable::Recorded;
use crate::record::StreamRecord;

impl AccessLogLines {
    /// Appends the log line for `record` to `line`.
    pub(super) fn write_stream(
        &self,
        line: &mut Vec<u8>,
        record: &StreamRecord<'_>,
        timestamps: &mut Timestamps,
    ) {
        timestamps.renew(record.time);
        match &self.format {
            AccessLogFormat::Common => write_common(line, record, timestamps, ""),
            AccessLogFormat::Combined => write_common(line, record, timestamps, " \"-\" \"-\""),
            AccessLogFormat::Json => json::write_stream(line, record, &timestamps.rfc3339),
            other => other.write_variables(line, &self.source(Recorded::Stream(record), timestamps)),
        }
    }
}

/// Writes `host - - [time] "TCP upstream/server end" - bytes`. The line has the same form as the line of a
/// request, so programs that read access logs can parse it.
fn write_common(line: &mut Vec<u8>, record: &StreamRecord<'_>, timestamps: &Timestamps, rest: &str) {
    write_client(line, record.connection.client);
    let StreamRecord { upstream, end, sent_bytes, .. } = record;
    let (time, server) = (&timestamps.common, record.server.unwrap_or("-"));
    // Writing to a vector cannot fail.
    let _ = writeln!(line, " - - [{time}] \"TCP {upstream}/{server} {end}\" - {sent_bytes}{rest}");
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use thruway_net::ClientAddr;

    use super::*;
    use crate::connection_info::ConnectionInfo;

    fn line(format: AccessLogFormat) -> String {
        let client = ClientAddr::Tcp("192.0.2.1:5000".parse().unwrap());
        let record = StreamRecord {
            connection: &ConnectionInfo {
                client,
                peer: thruway_net::Peer::Unix { is_own_process: false },
                listener: 0,
                destination: None,
                tls: None,
                compression: <_>::default(),
                handler_settings: None,
            },
            time: SystemTime::UNIX_EPOCH,
            upstream: "db",
            server: Some("192.0.2.2:5432"),
            retries: 1,
            connect: Some(Duration::from_micros(7)),
            received_bytes: 3,
            sent_bytes: 4,
            duration: Duration::from_millis(5),
            end: "completed",
        };
        let mut line = Vec::new();
        AccessLogLines::from(format).write_stream(&mut line, &record, &mut Timestamps::default());
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn stream_is_logged_in_common_and_combined_format() {
        let start = "192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] \"TCP db/192.0.2.2:5432 completed\" - 4";
        assert_eq!(line(AccessLogFormat::Common), format!("{start}\n"));
        assert_eq!(line(AccessLogFormat::Combined), format!("{start} \"-\" \"-\"\n"));
    }

    #[test]
    fn stream_is_logged_in_json_with_all_fields() {
        let json: serde_json::Value = serde_json::from_str(&line(AccessLogFormat::Json)).unwrap();
        let expected = serde_json::json!({
            "timestamp": "1970-01-01T00:00:00Z", "client.address": "192.0.2.1", "client.port": 5000,
            "upstream": "db", "upstream_server": "192.0.2.2:5432", "retries": 1, "connect_us": 7, "received_bytes": 3, "sent_bytes": 4,
            "duration_us": 5000, "end": "completed",
        });
        assert_eq!(json, expected);
    }
}
